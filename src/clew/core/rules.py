"""The rules about tools that hold in a session, and where each of them comes from.

What a rule says, and what it decides about a call, is known in `agent.tools.rules`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from clew.core.session import Session
from clew.core.text import strip_controls

ALLOWED: Final = "allow"
"""In a session's metadata: the rules of the answers "yes, in this session"."""

HERE: Final = "this session"

PLAN: Final = "plan mode, except for reading and notes"
ALL: Final = "*"

Effect = Literal["allow", "deny"]


class HeldRule(msgspec.Struct, frozen=True):
    """A rule. `source` says where it can be changed: a file, a variable, or the session."""

    effect: Effect
    rule: str
    source: str


def hold(effect: Effect, rules: Iterable[str], source: str) -> tuple[HeldRule, ...]:
    """Rules that come from one source."""
    return tuple(HeldRule(effect, each, source) for each in rules)


def list_held(session: Session | None, configured: Iterable[HeldRule]) -> tuple[HeldRule, ...]:
    """All rules that hold in a session: those that deny first, since they win."""
    kept = None if session is None else session.metadata.get(ALLOWED)
    own = [each for each in kept if isinstance(each, str)] if isinstance(kept, list) else []
    plan = [ALL] if session is not None and session.mode == "plan" else []
    held = (*hold("deny", plan, PLAN), *configured, *hold("allow", own, HERE))
    return tuple(sorted(held, key=lambda each: each.effect != "deny"))


def word_rule(held: HeldRule) -> str:
    """A rule on one line: `allow shell:git log, from /home/ada/.config/clew/config.toml`."""
    return strip_controls(f"{held.effect} {held.rule}, from {held.source}", keep_newlines=False)


def word_revoked(rules: Iterable[str]) -> str:
    """Say which rules of a session no longer hold, because a file has added to it."""
    shown = strip_controls(", ".join(rules), keep_newlines=False)
    return (
        f"The file added to the session, so what was allowed there is asked about again: {shown}."
    )
