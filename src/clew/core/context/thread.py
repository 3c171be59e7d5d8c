"""The part of a thread that the model sees: the newest messages, repaired and trimmed.

Pure functions over messages, called for every request; they never change what is stored. `repair`
makes a thread that any provider accepts, `prune` trims old tool results so that a long thread
leaves room. `agent.model_messages` converts it for a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from clew.core.context.size import estimate_text, estimate_thread
from clew.core.message import Message, ToolCall

INTERRUPTED = "interrupted"
"""Stands in for a missing tool result: the turn ended before the tool did."""

CONTINUE = "(continue)"
"""A user message for providers that need one where the person did not write one."""

CLEARED: Final = "[Old tool result content cleared]"

TRIM_FROM: Final = 0.3
CLEAR_FROM: Final = 0.5
"""Shares of the window at which tool results are trimmed, and cleared."""

LONG: Final = 4_000
HEAD: Final = 1_500
TAIL: Final = 1_500
"""In characters: which results are long, and how much of them is kept."""

WORTH_CLEARING: Final = 50_000
"""Characters that clearing must free at least; otherwise nothing is cleared."""

RECENT: Final = 3
"""Tool results since this many answers of the model are never touched."""

CLEAR_STEP: Final = 0.05
"""Clearing goes below its mark by up to this share of the window, so that the beginning of the
thread stays the same for many requests and the provider's cache of it can be used.
"""


def window(messages: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """The newest `limit` messages, cut so that no tool call is separated from its result.

    The start moves forward to the next user message; if the tail is one unbroken chain of tools,
    backward to the user message that began it.
    """
    thread = tuple(messages)
    start = max(0, len(thread) - max(limit, 1))
    if start == 0:
        return thread
    loose = _loose(thread)
    begins = [index for index, message in enumerate(thread) if message.role == "user"]
    after = [index for index in begins if index >= start and loose[index]]
    if after:
        return thread[after[0] :]
    before = [index for index in begins if index < start and loose[index]]
    if before:
        return thread[before[-1] :]
    # There is no user message at all: an assistant's message is the next best beginning.
    answers = [i for i in range(start, len(thread)) if thread[i].role == "assistant" and loose[i]]
    return thread[answers[0] :] if answers else thread


def repair(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The thread as every provider accepts it.

    Results follow their calls, in the order of the calls. A missing result becomes an error that
    says "interrupted"; results without a call, and second results of a call, are left out. Empty
    messages are dropped, consecutive user messages are joined, and a user message is added between
    two answers or before the first. Ids of calls become unique. A valid thread stays as it is.
    """
    thread = tuple(messages)
    results = {call: thread[result] for result, call in _answers(thread).items()}
    mended: list[Message] = []
    seen: set[str] = set()
    for index, message in enumerate(thread):
        if message.role == "tool" or _is_empty(message):
            continue
        if message.role == "user":
            _add_user(mended, message)
            continue
        if not mended or mended[-1].role == "assistant":
            mended.append(_placeholder(message))
        calls = tuple(_unique(call, seen) for call in message.tool_calls)
        mended.append(
            message
            if calls == message.tool_calls
            else msgspec.structs.replace(message, tool_calls=calls)
        )
        mended += (
            _result(message, call, results.get((index, place))) for place, call in enumerate(calls)
        )
    return tuple(mended)


def plain(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The thread without tool calls and results, for a model that has no tools."""
    spoken: list[Message] = []
    for message in messages:
        if message.role == "tool" or not message.content.strip():
            if message.role == "user" and message.parts:
                spoken.append(message)
            continue
        bare = message
        if message.role == "assistant" and (message.tool_calls or message.parts):
            bare = msgspec.structs.replace(message, tool_calls=(), parts=())
        if spoken and bare.role == "assistant" == spoken[-1].role:
            joined = f"{spoken[-1].content}\n\n{bare.content}"
            spoken[-1] = msgspec.structs.replace(spoken[-1], content=joined)
        else:
            spoken.append(bare)
    return repair(spoken)


def _answers(thread: Sequence[Message]) -> dict[int, tuple[int, int]]:
    """The call that each result answers: the latest open one of that id before it.

    Providers promise unique ids, but some local servers count from zero in every answer.
    """
    found: dict[int, tuple[int, int]] = {}
    open_calls: dict[str, list[tuple[int, int]]] = {}
    for index, message in enumerate(thread):
        if message.role == "assistant":
            fresh: dict[str, list[tuple[int, int]]] = {}
            for place, call in enumerate(message.tool_calls):
                fresh.setdefault(call.id, []).append((index, place))
            open_calls |= fresh
        elif message.role == "tool" and (waiting := open_calls.get(message.tool_call_id or "")):
            found[index] = waiting.pop(0)
    return found


def _loose(thread: Sequence[Message]) -> list[bool]:
    """For each position, whether the thread can be cut there without splitting call and result."""
    depth = [0] * (len(thread) + 2)
    for result, (call, _) in _answers(thread).items():
        depth[call + 1] += 1
        depth[result + 1] -= 1
    loose: list[bool] = []
    inside = 0
    for change in depth[: len(thread)]:
        inside += change
        loose.append(inside == 0)
    return loose


def _is_empty(message: Message) -> bool:
    if message.content.strip() or message.tool_calls:
        return False
    if message.role == "user":
        return not message.parts
    return not any("blob" in part for part in message.parts)


def _add_user(mended: list[Message], message: Message) -> None:
    if not mended or mended[-1].role != "user":
        mended.append(message)
        return
    before = mended[-1]
    texts = [text for text in (before.content, message.content) if text.strip()]
    mended[-1] = msgspec.structs.replace(
        before, content="\n\n".join(texts), parts=before.parts + message.parts
    )


def _placeholder(before: Message) -> Message:
    return msgspec.structs.replace(
        before, role="user", content=CONTINUE, parts=(), tool_calls=(), model=None, usage=None
    )


def _unique(call: ToolCall, seen: set[str]) -> ToolCall:
    name = base = call.id or "call"
    count = 1
    while name in seen:
        count += 1
        name = f"{base}_{count}"
    seen.add(name)
    return call if name == call.id else msgspec.structs.replace(call, id=name)


def _result(answer: Message, call: ToolCall, result: Message | None) -> Message:
    if result is None:
        return msgspec.structs.replace(
            answer,
            role="tool",
            content=INTERRUPTED,
            parts=(),
            tool_calls=(),
            tool_call_id=call.id,
            tool_name=call.name,
            is_error=True,
            model=None,
            usage=None,
        )
    if result.tool_call_id == call.id:
        return result
    return msgspec.structs.replace(result, tool_call_id=call.id)


class Pruning(msgspec.Struct, frozen=True, kw_only=True):
    """Whether results are trimmed, and of which tools: patterns of names, all if `allow` is empty.

    What `deny` names is never trimmed, even if `allow` names it.
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

    `window` is the model's; None if unknown: then nothing is done. `overhead` are the tokens of the
    system prompt and the tools. Both limits are compared with an estimate of the whole thread, not
    with a provider's count: that would fall after the first trimming, and so undo it.
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
    """The beginning and the end of a result, with a note of how long it was."""
    note = f"[… {len(text):,} characters; only the first {HEAD:,} and last {TAIL:,} are shown …]"
    return f"{text[:HEAD]}\n{note}\n{text[-TAIL:]}"


def _find_old(thread: Sequence[Message], rules: Pruning) -> list[int]:
    """The positions of the results that may be trimmed."""
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
    """Which results are cleared: the oldest, until the context is below the limit."""
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
