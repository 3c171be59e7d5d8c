"""Compaction: when a thread gets a summary, what of it stays verbatim, and how the model sees it.

Pure decisions over values. Nothing is deleted by any of this: a compaction is a row that says from
where the thread goes on. What a summary is made of is in `summaries`; who writes it is the agent's
business, when it is recorded the runtime's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from clew.core.estimate import estimate_message, estimate_text, estimate_thread
from clew.core.message import Message
from clew.core.notes import Compaction
from clew.core.thread import window

COMPACT_FROM: Final = 0.8
"""The share of the window that the last request has to pass."""

PRESSING: Final = 0.95
"""The share from which the next request would hardly fit, whatever else is wished."""

KEEP_SHARE: Final = 0.1
KEEP_LEAST: Final = 4_000
KEEP_MOST: Final = 16_000
"""Tokens at the end of the thread that stay as they are."""

LEAST_MESSAGES: Final = 4
"""Fewer than these are not worth a summary."""

FLUSH_WITHIN: Final = 24_000
"""Tokens before the mark of compaction from which the memory is written first."""

UNKNOWN_WINDOW: Final = 100_000
"""What is assumed of a model of which nobody knows how much it reads."""

NOTHING: Final = (
    "There is nothing to compact: besides the most recent messages, which stay as they are, there "
    "are fewer than four."
)

BEFORE_SUMMARY: Final = (
    "[The earlier part of this conversation was compacted. This is clew's summary of it; the whole "
    "is still in the store, and session_read and session_search find it.]"
)
AFTER_SUMMARY: Final = "[End of the summary. The conversation goes on here.]"


class Plan(msgspec.Struct, frozen=True):
    """What a compaction is about: the messages to summarise, and those that stay.

    `keep_from` is the seq of the first that stays, or the one after the last.
    """

    old: tuple[Message, ...]
    kept: tuple[Message, ...]
    keep_from: int


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """A summary as a model wrote it, and its one line for lists."""

    summary: str
    short: str | None


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a compaction, for the person."""

    compaction_id: str
    summarised: int
    kept: int
    tokens_before: int
    tokens_after: int


# --- when -----------------------------------------------------------------------------------------


def is_due(input_tokens: int | None, window_tokens: int | None, *, held: bool = False) -> bool:
    """Whether the last request was so long that the thread should be compacted now.

    `held`: the person has taken the latest compaction back, so it waits until it is pressing.
    """
    if not input_tokens or not window_tokens:
        return False
    return input_tokens > (PRESSING if held else COMPACT_FROM) * window_tokens


def is_pressing(context_tokens: int | None, coming: int, window_tokens: int | None) -> bool:
    """Whether what is there and what comes would not fit into the window."""
    if not context_tokens or not window_tokens:
        return False
    return context_tokens + coming > PRESSING * window_tokens


def wants_flush(context_tokens: int | None, window_tokens: int | None) -> bool:
    """Whether the thread is near enough to its mark that the memory is written first."""
    if not context_tokens or not window_tokens:
        return False
    return context_tokens >= COMPACT_FROM * window_tokens - FLUSH_WITHIN


def last_input(messages: Sequence[Message], compaction: Compaction | None) -> int | None:
    """What the newest answer's request took, if nothing was compacted since."""
    made_at = 0 if compaction is None else compaction.made_at_seq
    for message in reversed(messages):
        if message.seq <= made_at:
            return None
        if message.usage is not None and message.usage.input_tokens:
            return message.usage.input_tokens
    return None


def is_counted(messages: Sequence[Message], compactions: Sequence[Compaction]) -> bool:
    """Whether a session's `context_tokens` are a provider's count, and not an estimate.

    `messages` are the newest, `compactions` all of them: since the last answer, which has a count,
    nothing was compacted and nothing of that taken back.
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
    """How many tokens at the end stay: a tenth of the window within its bounds.

    A window so small that the lower bound would fill it keeps half of itself.
    """
    size = window_tokens or UNKNOWN_WINDOW
    room = min(max(int(size * KEEP_SHARE), KEEP_LEAST), KEEP_MOST)
    return min(room, size // 2)


def summary_room(window_tokens: int | None) -> int:
    """How many tokens a summary may have: an eighth of the window, at most 4,000."""
    return min((window_tokens or UNKNOWN_WINDOW) // 8, 4_000)


def plan(messages: Sequence[Message], window_tokens: int | None) -> Plan | None:
    """What to summarise and what to keep, None if there is too little.

    `messages` are those that the model sees in full: all from the last compaction's `keep_from`
    on. The tail begins with a user message. One last exchange that is longer than the tail may be
    stays if it fits into half of the window, and so does, always, a user message that nobody has
    answered; otherwise nothing stays but the summary.
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
        kept = ()  # nobody asked anything there
    elif len(kept) > count:
        # One exchange is longer than the room: `window` went back to where it began.
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
    """From the first user message on that has no answer yet; nothing if all have one."""
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
    """Tokens after a compaction: what was counted before, less what goes, plus what comes.

    `seen` and `shown` are estimates of the messages before and after; what is around them, the
    system prompt and the tools, stays.
    """
    return shown + max(0, before - seen)


# --- how the model sees it ------------------------------------------------------------------------


def since(messages: Sequence[Message], compaction: Compaction | None) -> tuple[Message, ...]:
    """The messages that a compaction leaves as they are."""
    if compaction is None:
        return tuple(messages)
    return tuple(each for each in messages if each.seq >= compaction.keep_from)


def summary_message(compaction: Compaction) -> Message:
    """The summary as the first thing that the user says. The same compaction gives the same one."""
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

    `limit` is about the messages; the summary comes on top. Where more than `limit` have come
    since, there is a gap between the summary and the first of them.
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
