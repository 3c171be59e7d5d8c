"""Trimming old tool results, so that a long thread leaves room for what comes.

In memory only, on the way to the model: the store keeps every result whole, and the model can look
again. A pure function of what is sent, so that a resumed conversation is trimmed as one that never
stopped. What people and the model said is never touched; which messages are sent at all is decided
in `thread` and `compaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from clew.core.estimate import estimate_text, estimate_thread
from clew.core.message import Message

CLEARED: Final = "[Old tool result content cleared]"

TRIM_FROM: Final = 0.3
CLEAR_FROM: Final = 0.5
"""Shares of the window that the estimated context has to pass."""

LONG: Final = 4_000
HEAD: Final = 1_500
TAIL: Final = 1_500
"""Characters: what a long result is, and what is left of it."""

WORTH_CLEARING: Final = 50_000
"""Characters that must be there to go, or clearing does not begin."""

RECENT: Final = 3
"""Newest answers of the model; results from the first of them on are left alone."""

CLEAR_STEP: Final = 0.05
"""Clearing goes below its mark by up to this share of the window.

What is cleared then stays the same for many requests, and the provider's cache of them is good.
"""


class Pruning(msgspec.Struct, frozen=True, kw_only=True):
    """Whether results are trimmed, and of which tools: patterns of names, all if `allow` is empty.

    What `deny` names is never trimmed, whatever `allow` says.
    """

    mode: Literal["auto", "off"] = "auto"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def is_about(self, tool: str | None) -> bool:
        """Whether results of this tool may be trimmed."""
        name = (tool or "").lower()
        if any(fnmatchcase(name, pattern.lower()) for pattern in self.deny):
            return False
        return not self.allow or any(fnmatchcase(name, each.lower()) for each in self.allow)


def prune(
    messages: Sequence[Message],
    *,
    window: int | None,
    overhead: int = 0,
    rules: Pruning | None = None,
) -> tuple[Message, ...]:
    """The messages, with old tool results shortened where the context is getting full.

    `window` is the model's, None if unknown: then nothing is done. `overhead` are the tokens of
    the system prompt and the tools. Both marks are about the estimate of the whole, never about a
    provider's count: that one would fall with the first trimming, and undo it.
    """
    thread = tuple(messages)
    rules = rules or Pruning()
    if rules.mode == "off" or not window:
        return thread
    total = overhead + estimate_thread(thread)
    if total <= TRIM_FROM * window:
        return thread
    old = _find_old(thread, rules)
    thread = _change(thread, [place for place in old if len(thread[place].content) > LONG], trim)
    total = overhead + estimate_thread(thread)
    return _change(thread, _choose_cleared(thread, old, total, window), _clear)


def trim(text: str) -> str:
    """The beginning and the end of a result, and how long it was."""
    note = f"[… {len(text):,} characters; only the first {HEAD:,} and last {TAIL:,} are shown …]"
    return f"{text[:HEAD]}\n{note}\n{text[-TAIL:]}"


def _find_old(thread: Sequence[Message], rules: Pruning) -> list[int]:
    """Where the results are that may be touched."""
    answers = [place for place, each in enumerate(thread) if each.role == "assistant"]
    if len(answers) < RECENT:
        return []
    return [
        place
        for place, each in enumerate(thread[: answers[-RECENT]])
        if each.role == "tool" and not _has_files(each) and rules.is_about(each.tool_name)
    ]


def _choose_cleared(
    thread: Sequence[Message], old: Sequence[int], total: int, window: int
) -> list[int]:
    """Which results go altogether: the oldest, until the context is below its mark."""
    over = total - CLEAR_FROM * window
    left = [place for place in old if len(thread[place].content) > len(CLEARED)]
    if over < 0 or sum(len(thread[place].content) for place in left) < WORTH_CLEARING:
        return []
    step = max(1.0, CLEAR_STEP * window)
    aim = (over // step + 1) * step
    chosen: list[int] = []
    for place in left:
        if aim <= 0:
            break
        aim -= estimate_text(thread[place].content) - estimate_text(CLEARED)
        chosen.append(place)
    return chosen


def _change(
    thread: tuple[Message, ...], places: Sequence[int], make: Callable[[str], str]
) -> tuple[Message, ...]:
    if not places:
        return thread
    changed = list(thread)
    for place in places:
        content = make(thread[place].content)
        changed[place] = msgspec.structs.replace(thread[place], content=content)
    return tuple(changed)


def _clear(_: str) -> str:
    return CLEARED


def _has_files(message: Message) -> bool:
    return any("blob" in part for part in message.parts)
