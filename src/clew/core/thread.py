"""What of a thread the model may see: the newest part of it, mended so that a provider takes it.

Pure functions over messages, called anew for every request; the store keeps what was really said
and never hears of this. How messages become a provider's is the agent's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from clew.core.message import Message, ToolCall

INTERRUPTED = "interrupted"
"""The result of a call that has none: the turn ended before the tool did."""

CONTINUE = "(continue)"
"""Stands where a provider wants a user message and nobody said anything."""


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
    # Nobody ever asked anything: an assistant's message is the next best beginning.
    answers = [i for i in range(start, len(thread)) if thread[i].role == "assistant" and loose[i]]
    return thread[answers[0] :] if answers else thread


def repair(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The thread as every provider accepts it.

    Results stand next to their calls, in the order of the calls; a missing result is an error that
    says "interrupted"; results without a call are left out, and second ones. Empty messages are
    dropped, consecutive user messages are one, and between two answers, or before the first, a
    user message is put. Ids of calls are unique. A thread that was right comes back as it is.
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
    """The thread without its tools, for a model that has none: what people and the model said."""
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
    """For each result's place the call that it answers: the latest open one of that id before it.

    Providers promise unique ids, and some local servers count from zero in every answer.
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
    """For each place whether a cut before it separates nothing."""
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
