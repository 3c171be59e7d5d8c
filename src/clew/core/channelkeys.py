"""Keys of channels, spelled and read: `agent:main:telegram:group:-100:topic:7`.

Spelling only. Two different conversations never get one spelling; what a key leads to, and which
key a message gets, is decided elsewhere (`core.routing`).
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

PeerKind = Literal["dm", "group", "channel"]
KeyKind = Literal["main", "dm", "group", "channel", "cron", "hook", "node", "subagent"]

CASED: Final = ("matrix", "signal")
"""Channels whose ids differ by case."""

LONGEST_WORD: Final = 64

_WORD: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MARKER: Final = re.compile(r"(?:\A|(?<=:))t(?=(?:opic|hread)(?::|\Z))")
_ESCAPE: Final = re.compile(r"%(?=74|25)")
_SUFFIX: Final = re.compile(r"(?P<base>.*?)(?::(?P<mark>topic|thread):(?P<id>.+))?", re.DOTALL)
_KEY: Final = re.compile(r"agent:(?P<agent>[a-z0-9][a-z0-9_-]{0,63}):(?P<rest>.+)", re.DOTALL)
_PEERED: Final = re.compile(
    r"(?P<channel>[a-z0-9][a-z0-9_-]{0,63}):"
    r"(?:(?P<account>%?[a-z0-9][a-z0-9_-]{0,63}):(?=dm:))?"
    r"(?P<kind>dm|group|channel):(?P<id>.+)",
    re.DOTALL,
)
_BARE: Final = re.compile(r"(?P<kind>dm|cron|hook|subagent):(?P<id>.+)", re.DOTALL)
_RESERVED: Final = ("dm", "group", "channel")


class ChannelKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key of the gateway, taken apart."""

    agent: str
    kind: KeyKind = "main"
    id: str = "main"
    channel: str | None = None
    account: str | None = None
    topic: str | None = None
    thread: str | None = None


def normalise_word(text: str) -> str:
    """An agent's, account's or channel's id: small letters, digits, `_` and `-`; may be empty."""
    word = text.strip().lower()
    if _WORD.fullmatch(word):
        return word
    return re.sub(r"[^a-z0-9_-]+", "-", word).strip("-_")[:LONGEST_WORD].rstrip("-_")


def normalise_id(text: str, channel: str | None = None) -> str:
    """A platform's id, trimmed; case counts only where the platform says so."""
    trimmed = text.strip()
    return trimmed if channel in CASED else trimmed.lower()


def format_key(key: ChannelKey) -> str:
    """The key as a text."""
    identity = _spell(key.id)
    match key.kind:
        case "main":
            rest = identity
        case "node":
            rest = f"node-{identity}"
        case "cron" | "hook" | "subagent":
            rest = f"{key.kind}:{identity}"
        case _:
            account = key.account and f"{_spell_account(key.account)}:"
            rest = f"{key.channel}:{account or ''}" if key.channel else ""
            rest += f"{key.kind}:{identity}"
    if key.topic is not None:
        rest += f":topic:{key.topic}"
    elif key.thread is not None:
        rest += f":thread:{key.thread}"
    return f"agent:{key.agent}:{rest}"


def parse_key(text: str) -> ChannelKey | None:
    """Take a key apart; None for those of directories and other surfaces."""
    whole = _KEY.fullmatch(text)
    if whole is None:
        return None
    suffix = _SUFFIX.fullmatch(whole["rest"])
    if suffix is None or not suffix["base"]:
        return None
    mark, rest = suffix["mark"], suffix["base"]
    topic = suffix["id"] if mark == "topic" else None
    thread = suffix["id"] if mark == "thread" else None
    agent = whole["agent"]
    if peered := _PEERED.fullmatch(rest):
        account = peered["account"]
        return ChannelKey(
            agent,
            peered["kind"],  # type: ignore[arg-type]
            _read(peered["id"]),
            peered["channel"],
            account.removeprefix("%") if account else None,
            topic,
            thread,
        )
    if bare := _BARE.fullmatch(rest):
        return ChannelKey(agent, bare["kind"], _read(bare["id"]), None, None, topic, thread)  # type: ignore[arg-type]
    if rest.startswith("node-") and rest != "node-":
        return ChannelKey(
            agent, "node", _read(rest.removeprefix("node-")), None, None, topic, thread
        )
    return (
        None if ":" in rest else ChannelKey(agent, "main", _read(rest), None, None, topic, thread)
    )


def complete_key(text: str, *, agent: str = "main", channel: str | None = None) -> str:
    """A key as a request may name it: `cron:backup`, `group:-100` and their like get an agent."""
    key = text.strip()
    if key.startswith(("cron:", "hook:", "node-", "subagent:")):
        return f"agent:{agent}:{key}"
    if key.startswith("group:"):
        identity = re.sub(r"\A(?:group:)+", "", key)
        return format_key(
            ChannelKey(agent, "group", normalise_id(identity, channel), channel or "unknown")
        )
    return key


def _spell_account(account: str) -> str:
    """An account that is called like a kind of peer must not be taken for one."""
    return f"%{account}" if account in _RESERVED else account


def _spell(identity: str) -> str:
    """An id in which no topic or thread can be read."""
    return _MARKER.sub("%74", _ESCAPE.sub("%25", identity))


def _read(spelled: str) -> str:
    return re.sub("%74|%25", lambda match: "t" if match[0] == "%74" else "%", spelled)
