"""The turn: ask the model, record what it says, run what it asks for, until it has answered.

A function over a live turn, a model and a toolbox. It keeps nothing between two requests: each is
built from the rows that the turn has recorded. It knows no store, no surface and no provider.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from clew.agent.answers import check_answer, count_said, find_notice, stream_answer
from clew.agent.attempts import Chance, Sleep, attempt
from clew.agent.calls import Caller
from clew.agent.conversation import GetBlob
from clew.agent.drafts import PutBlob, draft_of
from clew.agent.prices import is_counted, usage_of
from clew.agent.requests import Request, build_request, cut_question, read_window
from clew.agent.tooling import Toolbox, ToolSpec
from clew.core.changes import AddMessage, AddUsage, Change
from clew.core.message import Draft, ToolCall
from clew.core.models import ModelInfo
from clew.core.notes import Compaction
from clew.core.personality import Personality
from clew.core.pruning import Pruning
from clew.core.signals import Notice
from clew.errors import TurnFailed
from clew.ports import LiveTurn

MAX_REQUESTS: Final = 50
"""How often one turn asks the model: an agent that goes round in circles stops here."""

BuildPrompt = Callable[[LiveTurn, Personality, ModelInfo], Awaitable[str]]
FindCompaction = Callable[[str], Awaitable[Compaction | None]]


async def no_compaction(_session_id: str) -> Compaction | None:
    """For a thread that is whole, or was shortened before."""
    return None


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is done with."""

    info: ModelInfo
    model: Model
    settings: dict[str, Any]
    personality: Personality
    toolbox: Toolbox
    build_prompt: BuildPrompt
    get_blob: GetBlob
    put_blob: PutBlob
    find_compaction: FindCompaction = no_compaction
    pruning: Pruning | None = None
    context_messages: int = 200
    max_requests: int = MAX_REQUESTS
    sleep: Sleep = asyncio.sleep
    chance: Chance = random.random


async def run_turn(turn: LiveTurn, means: Means) -> None:
    """Do what the turn's user message asks. Ends with `turn.finish`, or raises `TurnFailed`.

    The system prompt is that of the beginning: what a tool writes to the memory counts from the
    next turn on. Only an approved plan changes it, for it takes the turn out of plan mode and
    brings more tools, which are asked for anew each time.
    """
    info, mode = means.info, turn.session.mode
    prompt = await means.build_prompt(turn, means.personality, info)
    for number in range(means.max_requests):
        if number:
            await turn.take_steering()
        if turn.session.mode != mode:
            mode = turn.session.mode
            prompt = await means.build_prompt(turn, means.personality, info)
        tools = await _list_tools(turn, means)
        request = await _next_request(turn, means, prompt, tools)
        if request.left_out and not number:
            turn.signal(Notice(cut_question(request.left_out)))
        response = await attempt(
            partial(stream_answer, means.model, info, request, turn.signal),
            info,
            turn.signal,
            sleep=means.sleep,
            chance=means.chance,
        )
        calls = await _record(turn, means, request, response)
        if not calls:
            return
        await Caller(turn, means.toolbox, means.personality, tools).run(calls)
    raise TurnFailed(
        f"The model asked for tools {means.max_requests} times without coming to an answer, so "
        "clew stopped it. What it did is kept; say `go on` to let it continue."
    )


async def _list_tools(turn: LiveTurn, means: Means) -> tuple[ToolSpec, ...]:
    if means.info.embedded or not means.info.tools:
        return ()
    return await means.toolbox.list_tools(turn, means.personality, means.info)


async def _next_request(
    turn: LiveTurn, means: Means, prompt: str, tools: tuple[ToolSpec, ...]
) -> Request:
    compaction = await means.find_compaction(turn.session.id)
    rows = await read_window(turn, means.context_messages, compaction)
    return await build_request(
        rows,
        prompt,
        tools,
        info=means.info,
        model=means.model,
        settings=means.settings,
        get_blob=means.get_blob,
        compaction=compaction,
        pruning=means.pruning,
    )


async def _record(
    turn: LiveTurn, means: Means, request: Request, response: ModelResponse
) -> tuple[ToolCall, ...]:
    """The whole answer and its cost, in one commit; if nothing is asked, the turn ends with it.

    An answer with nothing in it is no answer, but it is paid for. A message has the count of its
    provider; where there is none, the turn has an estimate.
    """
    usage = usage_of(response, means.info, sent=request.characters, said=count_said(response))
    try:
        check_answer(response, means.info)
    except TurnFailed:
        await turn.record(AddUsage(usage=usage, turn_id=turn.id))
        raise
    draft = await draft_of(response, means.put_blob, model=means.info.name)
    counted = usage if is_counted(response) else None
    draft = msgspec.structs.replace(draft, usage=counted, tool_calls=_distinct(draft))
    changes: tuple[Change, ...] = (
        AddMessage(draft, turn.id, from_person=False),
        AddUsage(
            usage=usage,
            turn_id=turn.id,
            context_tokens=usage.input_tokens + usage.output_tokens,
        ),
    )
    notice = find_notice(response)
    if notice is not None:
        turn.signal(Notice(notice))
    if draft.tool_calls:
        await turn.record(*changes)
    else:
        await turn.finish(*changes)
    return draft.tool_calls


def _distinct(draft: Draft) -> tuple[ToolCall, ...]:
    """Some local servers give two calls of an answer one id: results could not be told apart."""
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for place, call in enumerate(draft.tool_calls):
        name = call.id if call.id and call.id not in seen else f"{call.id or 'call'}_{place}"
        seen.add(name)
        calls.append(call if name == call.id else msgspec.structs.replace(call, id=name))
    return tuple(calls)
