"""Names, times, sizes and costs as people read them, and titles that are made automatically."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from clew.core.text import columns, cut, strip_controls
from clew.core.usage import Usage

NAME_COLUMNS: Final = 40

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = {"s": _SECOND, "m": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}
# Patterns are compiled when they are first used: a list of sessions needs none of them.
_DURATION: Final = r"(?i)\s*([0-9]{1,9})\s*([smhdw])\s*"
_NANO: Final = 1_000_000_000

TITLE_COLUMNS: Final = 50
TITLE_INSTRUCTION: Final = (
    "Name this conversation. Answer with a title of at most six words, in the language of the "
    "conversation, on one line, without quotes and without a full stop. Nothing else."
)

_MARKS: Final = r"""(?x)
    ^\s* (?: \#{1,6}\s+ | >+\s* | [-*+]\s+ | \d{1,3}[.)]\s+ | ```\w*\s* | /\w+\s+(?=\S) )+
"""
_LINK: Final = r"!?\[([^\]\[]*)\]\([^()\s]*\)"
_EMPHASIS: Final = r"(\*\*|__|~~|`+)(?=\S)(.+?)(?<=\S)\1"
_SPACES: Final = r"\s+"
_LABEL: Final = r"(?i)^(?:title|titel|titre|título)\s*[:\uff1a]\s*"
_QUOTES: Final = "\"'`\u201c\u201d\u201e\u2018\u2019«»「」*_#"


def recent_name(
    title: str | None, short_summary: str | None, preview: str | None, session_id: str
) -> str:
    """Name a session for a list: its title, else its summary, else how it began, else its id."""
    for text in (title, short_summary, preview):
        # Far more than a name needs, since stripping may remove most of it.
        for line in strip_controls((text or "")[:4096]).split("\n"):
            words = " ".join(line.split())
            if words:
                return cut(words, NAME_COLUMNS)
    return f"(no messages) {session_id[:8]}"


def time_ago(at_ms: int, now_ms: int, tz: tzinfo) -> str:
    """How long ago something was; after six days, its date. The future is "just now"."""
    age = now_ms - at_ms
    if age < _MINUTE:
        return "just now"
    if age < _HOUR:
        return f"{age // _MINUTE}m ago"
    if age < _DAY:
        return f"{age // _HOUR}h ago"
    if age < 7 * _DAY:
        return f"{age // _DAY}d ago"
    return datetime.fromtimestamp(at_ms / 1000, tz).date().isoformat()


def format_count(n: int) -> str:
    return f"{n:,}"


def format_tokens(n: int, *, estimated: bool) -> str:
    """A count of tokens; `~` before one that no provider has counted."""
    return f"{'~' if estimated else ''}{format_count(n)}"


def counted(n: int, noun: str) -> str:
    """Say how many: `1 session`, `1,234 sessions`."""
    return f"{format_count(n)} {noun}{'' if n == 1 else 's'}"


def format_bytes(n: int) -> str:
    """Format a size in binary units: `512 B`, `1.5 KB`, `50 MB`."""
    size, unit = float(n), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if round(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def format_cost(nano: int | None, *, estimated: bool = False) -> str:
    """Format nano-dollars: cents from a dollar on, four decimals below it.

    `~` before a cost that was computed from estimated tokens.
    """
    if nano is None:
        return "cost unknown"
    if nano == 0:
        return "$0.00"
    if nano < _NANO // 10_000:
        return "<$0.0001"
    dollars = round(nano / _NANO, 4)
    exact = f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"
    return f"~{exact}" if estimated else exact


def parse_duration(text: str) -> int:
    """Read `45s`, `30m`, `12h`, `90d` or `2w` as milliseconds."""
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise ValueError(
            f"{text[:40]!r} is not a duration. Write a number and a unit: 45s, 30m, 12h, 90d or 2w."
        )
    return int(match[1]) * _UNITS[match[2].lower()]


class Title(msgspec.Struct, frozen=True):
    """A title that a model wrote, or None, and the usage of that request."""

    text: str | None
    usage: Usage = Usage()


def title_from_prompt(text: str) -> str | None:
    """The first prompt's first line with words, cut at a word; None if there is none."""
    for line in strip_controls(text).split("\n"):
        said = _plain(line)
        if any(character.isalnum() for character in said):
            return _cut_at_word(said)
    return None


def clean_title(text: str) -> str | None:
    """A title as a model wrote it, without quotes and prefixes; None if nothing is left."""
    for line in strip_controls(text).split("\n"):
        said = re.sub(_LABEL, "", _plain(line).strip(_QUOTES + " "))
        said = said.strip(_QUOTES + " ").rstrip(".。").strip(_QUOTES + " ")
        if any(character.isalnum() for character in said):
            return _cut_at_word(said)
    return None


def _plain(line: str) -> str:
    said = re.sub(_MARKS, "", line)
    said = re.sub(_LINK, r"\1", said)
    said = re.sub(_EMPHASIS, r"\2", said)
    return re.sub(_SPACES, " ", said).strip()


def _cut_at_word(text: str) -> str:
    if columns(text) <= TITLE_COLUMNS:
        return text
    short = cut(text, TITLE_COLUMNS)
    head, space, _ = short.removesuffix("…").rpartition(" ")
    # Drop the broken word, unless that would leave next to nothing (one long word, or a script
    # that writes without spaces).
    whole = text[len(short) - 1 : len(short)].isspace()
    if whole or not space or columns(head) < TITLE_COLUMNS // 2:
        return short
    return head.rstrip(" ,;:-") + "…"
