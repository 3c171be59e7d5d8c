"""Compaction: when to summarise a thread, which messages stay, what the summary contains.

Pure decisions over values. Nothing is deleted: a compaction is a row with the summary and the
number of the first message that stays. `agent.compaction` writes the summary, the runtime records
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from clew.core.context.size import estimate_message, estimate_text, estimate_thread
from clew.core.context.thread import window
from clew.core.message import Message
from clew.core.notes import Compaction
from clew.core.text import cut, strip_controls

COMPACT_FROM: Final = 0.8
"""A thread is compacted when it fills this share of the window."""

PRESSING: Final = 0.95
"""The share at which the next request would hardly fit: compaction can't wait any longer."""

KEEP_SHARE: Final = 0.1
KEEP_LEAST: Final = 4_000
KEEP_MOST: Final = 16_000
"""Tokens at the end of the thread that stay as they are."""

LEAST_MESSAGES: Final = 4
"""Fewer messages than this are not worth a summary."""

FLUSH_WITHIN: Final = 24_000
"""The memory is flushed this many tokens before the thread would be compacted."""

UNKNOWN_WINDOW: Final = 100_000
"""The window that is assumed for a model whose window is unknown."""

NOTHING: Final = (
    "There is nothing to compact: besides the most recent messages, which stay as they are, there "
    "are fewer than four."
)

BEFORE_SUMMARY: Final = (
    "[The earlier part of this conversation was compacted. This is clew's summary of it; the whole "
    "is still in the store, and session_read and session_search find it.]"
)
AFTER_SUMMARY: Final = "[End of the summary. The conversation goes on here.]"

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
"""Characters of the first message that are used if the summary names no goal."""

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
"""For the embedded model, which can't follow a longer instruction."""

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


class Plan(msgspec.Struct, frozen=True):
    """The messages to summarise, and those that stay.

    `keep_from` is the seq of the first message that stays, or the last seq plus one if none does.
    """

    old: tuple[Message, ...]
    kept: tuple[Message, ...]
    keep_from: int


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """A summary that a model wrote, and its one-line form for lists."""

    summary: str
    short: str | None


# --- when -----------------------------------------------------------------------------------------
def is_due(input_tokens: int | None, window_tokens: int | None, *, held: bool = False) -> bool:
    """Whether the last request was so long that the thread should be compacted now.

    `held`: the person undid the latest compaction, so the next one waits until it is pressing.
    """
    if not input_tokens or not window_tokens:
        return False
    return input_tokens > (PRESSING if held else COMPACT_FROM) * window_tokens


def is_pressing(context_tokens: int | None, coming: int, window_tokens: int | None) -> bool:
    """Whether the context and what comes next would not fit into the window."""
    if not context_tokens or not window_tokens:
        return False
    return context_tokens + coming > PRESSING * window_tokens


def wants_flush(context_tokens: int | None, window_tokens: int | None) -> bool:
    """Whether the thread is close enough to its limit for a memory flush."""
    if not context_tokens or not window_tokens:
        return False
    return context_tokens >= COMPACT_FROM * window_tokens - FLUSH_WITHIN


def last_input(messages: Sequence[Message], compaction: Compaction | None) -> int | None:
    """The input tokens of the newest answer, if nothing was compacted since."""
    made_at = 0 if compaction is None else compaction.made_at_seq
    for message in reversed(messages):
        if message.seq <= made_at:
            return None
        if message.usage is not None and message.usage.input_tokens:
            return message.usage.input_tokens
    return None


def is_counted(messages: Sequence[Message], compactions: Sequence[Compaction]) -> bool:
    """Whether a session's `context_tokens` are a provider's count, and not an estimate.

    `messages` are the newest, `compactions` all of them. True if the last answer has a count and no
    compaction was made or undone since.
    """
    answer = next((each for each in reversed(messages) if each.role == "assistant"), None)
    if answer is None or answer.usage is None:
        return False
    return all(
        each.made_at_seq < answer.seq and (each.undone_at is None or each.undone_at <= answer.at)
        for each in compactions
    )


# --- what -----------------------------------------------------------------------------------------
def tail_room(window_tokens: int | None) -> int:
    """How many tokens at the end stay: a tenth of the window, within bounds.

    If the lower bound would fill a small window, half of the window stays.
    """
    size = window_tokens or UNKNOWN_WINDOW
    room = min(max(int(size * KEEP_SHARE), KEEP_LEAST), KEEP_MOST)
    return min(room, size // 2)


def summary_room(window_tokens: int | None) -> int:
    """How many tokens a summary may have: an eighth of the window, at most 4,000."""
    return min((window_tokens or UNKNOWN_WINDOW) // 8, 4_000)


def plan(messages: Sequence[Message], window_tokens: int | None) -> Plan | None:
    """What to summarise and what to keep; None if there is too little.

    `messages` are those that the model sees in full: all from the last compaction's `keep_from` on.
    The tail begins with a user message. A last exchange that is longer than the tail stays if it
    fits into half of the window; an unanswered user message always stays. Otherwise only the
    summary stays.
    """
    thread = tuple(messages)
    kept = _keep(thread, window_tokens)
    old = thread[: len(thread) - len(kept)]
    if len(old) < LEAST_MESSAGES:
        return None
    return Plan(old, kept, kept[0].seq if kept else thread[-1].seq + 1)


def _keep(thread: tuple[Message, ...], window_tokens: int | None) -> tuple[Message, ...]:
    if not thread:
        return ()
    room = tail_room(window_tokens)
    count = _count_fitting(thread, room)
    kept = window(thread, max(count, 1))
    if kept[0].role != "user":
        kept = ()  # there is no user message
    elif len(kept) > count:
        # The last exchange is longer than the tail: `window` went back to its beginning.
        most = max(room, (window_tokens or UNKNOWN_WINDOW) // 2)
        kept = kept if estimate_thread(kept) <= most else ()
    return max(kept, _unanswered(thread), key=len)


def _count_fitting(thread: Sequence[Message], room: int) -> int:
    for count, message in enumerate(reversed(thread)):
        room -= estimate_message(message)
        if room < 0:
            return count
    return len(thread)


def _unanswered(thread: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages from the first unanswered user message on; empty if all have answers."""
    first = None
    for place in range(len(thread) - 1, -1, -1):
        message = thread[place]
        if message.role == "assistant" and not message.tool_calls:
            break
        if message.role == "user":
            first = place
    if first is None:
        return ()
    for place in range(first, -1, -1):
        size = len(thread) - place
        if thread[place].role == "user" and len(window(thread, size)) == size:
            return thread[place:]
    return thread


def count_after(before: int, seen: int, shown: int) -> int:
    """Tokens after a compaction: the count before, minus what goes, plus the summary.

    `seen` and `shown` are estimates of the messages before and after; the system prompt and the
    tools stay.
    """
    return shown + max(0, before - seen)


# --- how the model sees it ------------------------------------------------------------------------
def since(messages: Sequence[Message], compaction: Compaction | None) -> tuple[Message, ...]:
    """The messages that a compaction keeps."""
    if compaction is None:
        return tuple(messages)
    return tuple(each for each in messages if each.seq >= compaction.keep_from)


def summary_message(compaction: Compaction) -> Message:
    """The summary as the first user message. The same compaction gives the same message."""
    return Message(
        id=0,
        session_id=compaction.session_id,
        seq=compaction.keep_from - 1,
        turn_id=None,
        role="user",
        content=f"{BEFORE_SUMMARY}\n\n{compaction.summary.strip()}\n\n{AFTER_SUMMARY}",
        parts=(),
        tool_call_id=None,
        tool_name=None,
        tool_calls=(),
        is_error=False,
        model=None,
        usage=None,
        at=compaction.created_at,
    )


def show(
    messages: Sequence[Message], compaction: Compaction | None, limit: int
) -> tuple[Message, ...]:
    """What the model sees: the summary, if there is one, and the newest messages after it.

    `limit` counts the messages without the summary. Where more than `limit` have come since, there
    is a gap between the summary and the first of them.
    """
    left = since(messages, compaction)
    newest = window(left, limit) if left else ()
    return newest if compaction is None else (summary_message(compaction), *newest)


def brief(compaction: Compaction, characters: int = 300) -> str:
    """The summary in a line or two, for a model that can't read more."""
    text = " ".join(compaction.summary.replace("#", " ").split())
    return f"Earlier: {text[:characters]}"


def estimate_summary(summary: str) -> int:
    """Tokens of the message that shows a summary."""
    return sum(map(estimate_text, (BEFORE_SUMMARY, summary, AFTER_SUMMARY))) + 4


# --- asking ---------------------------------------------------------------------------------------
def ask_summary(
    piece: str, *, previous: str | None = None, instructions: str | None = None, place: str = ""
) -> str:
    """The request: the summary so far, the piece of conversation, the person's instructions."""
    parts = []
    if previous:
        parts.append(f"<summary-so-far>\n{previous.strip()}\n</summary-so-far>")
    parts.append(f"<conversation{place}>\n{piece}\n</conversation>")
    if instructions:
        parts.append(f"The user asks you to heed this in the summary: {instructions.strip()}")
    parts.append("Write the updated summary now." if previous else "Write the summary now.")
    return "\n\n".join(parts)


def write_out(messages: Sequence[Message], longest: int) -> list[str]:
    """Messages as the text to summarise; each is cut to `longest` characters."""
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
    """Join texts into few pieces of at most `room` tokens; a longer text is its own piece."""
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
    """The beginning and the end of a long text, with a note of how much is left out."""
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    tail = max(longest - head, 1)
    return f"{text[:head]} [… {len(text) - head - tail:,} characters …] {text[-tail:]}"


# --- what came ------------------------------------------------------------------------------------
def parse_sections(text: str) -> dict[str, str]:
    """The sections of a summary by name; what comes before the first heading is under "".

    Headings are recognised by their words, with or without marks; a section that comes twice is
    joined.
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
    """The summary to keep, and its short line, from a model's answer.

    A missing section is taken from the previous summary; text without any heading counts as open
    work. If no goal is known, it is the first thing that the user said.
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
    """The sections as one text of about `room` tokens: long ones are cut first, the goal last."""
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
