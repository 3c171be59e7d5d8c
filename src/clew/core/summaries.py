"""What a summary of a thread is made of: its sections, the words that ask for it, its parsing.

Pure text. A model's answer is never trusted to be in shape: what it left out is taken from the
summary before, and a goal is never lost. Who is asked, and for how much at once, is decided in
`agent.compaction`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from clew.core.estimate import estimate_text
from clew.core.message import Message
from clew.core.text import cut, strip_controls

SECTIONS: Final = (
    "Goal",
    "Key files",
    "Decisions",
    "Errors and fixes",
    "User preferences",
    "Open work",
)
SHORT_COLUMNS: Final = 80
GOAL_CHARACTERS: Final = 600
"""What of the first thing that was said stands in for a goal that nobody named."""

SUMMARY_INSTRUCTION: Final = """\
You write the summary that takes the place of the older part of a conversation between a user and
an assistant. The assistant will go on from your summary alone, so keep what it needs: exact names,
paths, commands, numbers and error messages. Do not answer the conversation, and do not call tools.

Write in the language of the conversation. Begin with one line "Summary: " of at most twelve words.
Then exactly these headings, each with short lines below it, or "(none)":

## Goal
## Key files
## Decisions
## Errors and fixes
## User preferences
## Open work

If there is a summary so far, update it: keep what still holds, add what is new, correct what has
changed, drop what is done with. The goal stays unless the user has changed it."""

TINY_INSTRUCTION: Final = "Summarize this conversation in three short sentences."
"""For the embedded model, which gets lost in more."""

_HEADING: Final = re.compile(
    r"^\s*(?:\#{1,6}\s*)?(?:\*\*|__)?\s*(?:\d+[.)]\s*)?(?P<name>"
    + "|".join(re.escape(name) for name in SECTIONS)
    + r")\s*(?:\*\*|__)?\s*:?\s*(?:\*\*|__)?\s*(?P<rest>.*)$",
    re.IGNORECASE,
)
_MARKED: Final = re.compile(r"^\s*(?:\#{1,6}\s|\*\*|__)")
_SHORT: Final = re.compile(r"^\W*(?:short\s+)?summary\W*:\W*(?P<text>.*)$", re.IGNORECASE)
_NONE: Final = re.compile(r"^[\s\-*]*\(?(?:none|n/a|nothing)\.?\)?$", re.IGNORECASE)
_NAMES: Final = {name.lower(): name for name in SECTIONS}


# --- asking ---------------------------------------------------------------------------------------


def ask_summary(
    piece: str, *, previous: str | None = None, instructions: str | None = None, place: str = ""
) -> str:
    """What the model is told: the summary so far, the piece of conversation, and what to heed."""
    parts = []
    if previous:
        parts.append(f"<summary-so-far>\n{previous.strip()}\n</summary-so-far>")
    parts.append(f"<conversation{place}>\n{piece}\n</conversation>")
    if instructions:
        parts.append(f"The user asks you to heed this in the summary: {instructions.strip()}")
    parts.append("Write the updated summary now." if previous else "Write the summary now.")
    return "\n\n".join(parts)


def write_out(messages: Sequence[Message], longest: int) -> list[str]:
    """Messages as the text that is summarised, none longer than so many characters."""
    return [text for each in messages if (text := _line_of(each, longest))]


def _line_of(message: Message, longest: int) -> str:
    said = [shorten(message.content.strip(), longest)] if message.content.strip() else []
    pictures = sum("blob" in part for part in message.parts)
    if pictures:
        said.append(f"[{pictures} attached]")
    if message.role == "assistant":
        said += [
            f"[calls {call.name} {shorten(call.arguments, max(longest // 4, 40))}]"
            for call in message.tool_calls
        ]
    if not said:
        return ""
    who = {"user": "User", "assistant": "Assistant"}.get(message.role)
    who = who or f"Tool {message.tool_name or ''}{' failed' if message.is_error else ''}".rstrip()
    return f"{who}: " + "\n".join(said)


def pack(texts: Sequence[str], room: int) -> list[str]:
    """The texts in as few pieces as so many tokens allow; a longer text is a piece of its own."""
    pieces: list[list[str]] = []
    left = 0
    for text in texts:
        size = estimate_text(text) + 1
        if not pieces or size > left:
            pieces.append([])
            left = room
        pieces[-1].append(text)
        left -= size
    return ["\n\n".join(piece) for piece in pieces]


def shorten(text: str, longest: int) -> str:
    """The beginning and the end of a text, and how much is not there."""
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    tail = max(longest - head, 1)
    return f"{text[:head]} [… {len(text) - head - tail:,} characters …] {text[-tail:]}"


# --- what came ------------------------------------------------------------------------------------


def parse_sections(text: str) -> dict[str, str]:
    """The sections of a summary by their names; what stands before the first is under "".

    Headings are known by their words, with or without marks; a section that comes twice is one.
    """
    found: dict[str, list[str]] = {"": []}
    name = ""
    for line in strip_controls(text).split("\n"):
        match = _HEADING.match(line)
        if match is not None and (_MARKED.match(line) or _is_bare(line, match)):
            name = _NAMES[match["name"].lower()]
            found.setdefault(name, [])
            if match["rest"].strip():
                found[name].append(match["rest"].strip())
        elif name or not _SHORT.match(line):
            found[name].append(line.rstrip())
    return {each: "\n".join(lines).strip() for each, lines in found.items()}


def _is_bare(line: str, match: re.Match[str]) -> bool:
    """Whether a line without marks is a heading: nothing follows, or a colon does."""
    rest = match["rest"].strip()
    return not rest or line[match.end("name") :].lstrip().startswith(":")


def merge(
    text: str, *, previous: str | None, messages: Sequence[Message], room: int
) -> tuple[str, str | None]:
    """The summary to keep, and its short line, from what a model said.

    A section that is missing is taken from the summary before; text without any heading counts as
    open work. A goal that is missing altogether is the first thing that the user said.
    """
    new = parse_sections(text)
    old = parse_sections(previous) if previous else {}
    loose = new.pop("", "")
    if not new and loose:
        new = {"Open work": loose}
    sections = {name: new.get(name, old.get(name, "")) for name in SECTIONS}
    if _is_none(sections["Goal"]):
        sections["Goal"] = next(
            (goal for goal in (old.get("Goal", ""), _first_words(messages)) if not _is_none(goal)),
            "",
        )
    short = _find_short(text) or _first_line(sections["Goal"])
    return fit(sections, room), short or None


def fit(sections: Mapping[str, str], room: int) -> str:
    """The sections as one text of about so many tokens: long ones give way, the goal last."""
    kept = {name: sections.get(name) or "(none)" for name in SECTIONS}
    while estimate_text(whole := _join(kept)) > room:
        name = max(kept, key=lambda each: len(kept[each]) // (4 if each == "Goal" else 1))
        if len(kept[name]) <= 40:
            break
        kept[name] = shorten(kept[name], max(len(kept[name]) * 3 // 4 - 30, 8))
    return whole


def _join(sections: Mapping[str, str]) -> str:
    return "\n\n".join(f"## {name}\n{text}" for name, text in sections.items())


def _is_none(text: str) -> bool:
    return not text.strip() or bool(_NONE.match(text))


def _find_short(text: str) -> str:
    for line in text.split("\n", 8)[:8]:
        match = _SHORT.match(line)
        if match is not None:
            return _first_line(match["text"])
    return ""


def _first_line(text: str) -> str:
    line = strip_controls(text, keep_newlines=False).strip(" *_#-\"'`")
    return cut(" ".join(line.split()), SHORT_COLUMNS) if any(map(str.isalnum, line)) else ""


def _first_words(messages: Sequence[Message]) -> str:
    said = next((m.content.strip() for m in messages if m.role == "user" and m.content.strip()), "")
    return shorten(said, GOAL_CHARACTERS)
