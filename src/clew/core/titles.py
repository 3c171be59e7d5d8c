"""Automatic titles: from a model's answer, or from the first prompt.

Pure. The runtime decides whether a session needs a title; `agent.titles` asks the model.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from clew.core.text import columns, cut, strip_controls
from clew.core.usage import Usage

TITLE_COLUMNS: Final = 50
TITLE_INSTRUCTION: Final = (
    "Name this conversation. Answer with a title of at most six words, in the language of the "
    "conversation, on one line, without quotes and without a full stop. Nothing else."
)

_MARKS: Final = re.compile(
    r"""^\s* (?: \#{1,6}\s+ | >+\s* | [-*+]\s+ | \d{1,3}[.)]\s+ | ```\w*\s* | /\w+\s+(?=\S) )+""",
    re.VERBOSE,
)
_LINK: Final = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*\)")
_EMPHASIS: Final = re.compile(r"(\*\*|__|~~|`+)(?=\S)(.+?)(?<=\S)\1")
_SPACES: Final = re.compile(r"\s+")
_LABEL: Final = re.compile(r"^(?:title|titel|titre|título)\s*[:\uff1a]\s*", re.IGNORECASE)
_QUOTES: Final = "\"'`\u201c\u201d\u201e\u2018\u2019«»「」*_#"


class Title(msgspec.Struct, frozen=True):
    """A model's title, None if it had none, and the usage of asking."""

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
        said = _LABEL.sub("", _plain(line).strip(_QUOTES + " "))
        said = said.strip(_QUOTES + " ").rstrip(".。").strip(_QUOTES + " ")
        if any(character.isalnum() for character in said):
            return _cut_at_word(said)
    return None


def _plain(line: str) -> str:
    said = _MARKS.sub("", line)
    said = _LINK.sub(r"\1", said)
    said = _EMPHASIS.sub(r"\2", said)
    return _SPACES.sub(" ", said).strip()


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
