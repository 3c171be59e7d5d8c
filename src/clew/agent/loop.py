"""One turn: ask the model, record its answer, run the tools it calls, until it has answered.

A function over a live turn, a model and a toolbox. It keeps nothing between two requests: each is
built from the rows that the turn has recorded. It knows no store, no surface and no provider. What
a tool may do is decided in the toolbox; the order of results in `core.context.thread`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

import msgspec
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from clew.agent.answers import (
    Chance,
    Silence,
    Sleep,
    attempt,
    check_answer,
    count_said,
    find_notice,
    is_counted,
    stream_answer,
    usage_of,
)
from clew.agent.model_messages import GetBlob, PutBlob, draft_of
from clew.agent.requests import Request, build_request, cut_question, read_window
from clew.agent.tool_interface import Toolbox, ToolOutcome, ToolSpec
from clew.core.changes import AddMessage, AddUsage, Change
from clew.core.context.thread import Pruning
from clew.core.live_events import Notice, ToolEnded, ToolStarted
from clew.core.message import Draft, ToolCall
from clew.core.models import ModelInfo, Personality
from clew.core.notes import Compaction
from clew.errors import TurnFailed
from clew.ports import LiveTurn

MAX_REQUESTS: Final = 50
"""Most requests of one turn: an agent that goes round in circles stops here."""

BuildPrompt = Callable[[LiveTurn, Personality, ModelInfo], Awaitable[str]]
FindCompaction = Callable[[str], Awaitable[Compaction | None]]

SIDE_BY_SIDE: Final = 8


async def no_compaction(_session_id: str) -> Compaction | None:
    """No compaction: for a thread that is whole, or was shortened before."""
    return None


class TurnSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn is run with: the model, its settings, the tools, and how to get at the rest."""

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
    silence: Silence = Silence()
    sleep: Sleep = asyncio.sleep
    chance: Chance = random.random


async def run_turn(turn: LiveTurn, setup: TurnSetup) -> None:
    """Do what the turn's user message asks. Ends with `turn.finish`, or raises `TurnFailed`.

    The system prompt is built once, at the beginning: what a tool writes to the memory counts from
    the next turn on. Only an approved plan changes it, because it takes the turn out of plan mode
    and brings more tools.
    """
    info, mode = setup.info, turn.session.mode
    prompt = await setup.build_prompt(turn, setup.personality, info)
    for number in range(setup.max_requests):
        if number:
            await turn.take_steering()
        if turn.session.mode != mode:
            mode = turn.session.mode
            prompt = await setup.build_prompt(turn, setup.personality, info)
        tools = await _list_tools(turn, setup)
        request = await _next_request(turn, setup, prompt, tools)
        if request.left_out and not number:
            turn.signal(Notice(cut_question(request.left_out)))
        response = await attempt(
            partial(stream_answer, setup.model, info, request, turn.signal, setup.silence),
            info,
            turn.signal,
            sleep=setup.sleep,
            chance=setup.chance,
        )
        calls = await _record(turn, setup, request, response)
        if not calls:
            return
        await ToolCaller(turn, setup.toolbox, setup.personality, tools).run(calls)
    raise TurnFailed(
        f"The model asked for tools {setup.max_requests} times without coming to an answer, so "
        "clew stopped it. What it did is kept; say `go on` to let it continue."
    )


async def _list_tools(turn: LiveTurn, setup: TurnSetup) -> tuple[ToolSpec, ...]:
    if setup.info.embedded or not setup.info.tools:
        return ()
    return await setup.toolbox.list_tools(turn, setup.personality, setup.info)


async def _next_request(
    turn: LiveTurn, setup: TurnSetup, prompt: str, tools: tuple[ToolSpec, ...]
) -> Request:
    compaction = await setup.find_compaction(turn.session.id)
    rows = await read_window(turn, setup.context_messages, compaction)
    return await build_request(
        rows,
        prompt,
        tools,
        info=setup.info,
        model=setup.model,
        settings=setup.settings,
        get_blob=setup.get_blob,
        compaction=compaction,
        pruning=setup.pruning,
    )


async def _record(
    turn: LiveTurn, setup: TurnSetup, request: Request, response: ModelResponse
) -> tuple[ToolCall, ...]:
    """Record the answer and its cost in one commit; without tool calls, the turn ends with it.

    An answer without content is a failure, but its cost is recorded. A message carries the count of
    its provider; where there is none, the turn carries an estimate.
    """
    usage = usage_of(response, setup.info, sent=request.characters, said=count_said(response))
    try:
        check_answer(response, setup.info)
    except TurnFailed:
        await turn.record(AddUsage(usage=usage, turn_id=turn.id))
        raise
    draft = await draft_of(response, setup.put_blob, model=setup.info.name)
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
    """Tool calls with distinct ids: some local servers give two calls of an answer the same one."""
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for place, call in enumerate(draft.tool_calls):
        name = call.id if call.id and call.id not in seen else f"{call.id or 'call'}_{place}"
        seen.add(name)
        calls.append(call if name == call.id else msgspec.structs.replace(call, id=name))
    return tuple(calls)


class ToolCaller:
    """Runs the tool calls of one turn."""

    def __init__(
        self,
        turn: LiveTurn,
        toolbox: Toolbox,
        personality: Personality,
        tools: Sequence[ToolSpec],
    ) -> None:
        self._turn = turn
        self._toolbox = toolbox
        self._personality = personality
        self._tools = {tool.name: tool for tool in tools}
        self._recording = asyncio.Lock()
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def run(self, calls: Sequence[ToolCall]) -> None:
        """Run all of them in order, side by side where possible; record each result at once."""
        for group in self._groups(calls):
            await self._run_together(group)

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        together: list[ToolCall] = []
        for call in calls:
            tool = self._tools.get(call.name)
            if tool is None or tool.parallel:
                together.append(call)
                continue
            if together:
                yield together
            yield [call]
            together = []
        if together:
            yield together

    async def _run_together(self, calls: Sequence[ToolCall]) -> None:
        tasks = [asyncio.create_task(self._run_one(call)) for call in calls]
        try:
            await asyncio.gather(*tasks)
        finally:
            # When the person stops the turn, or one call ends it, no other call keeps running.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_one(self, call: ToolCall) -> None:
        async with self._room:
            self._turn.signal(ToolStarted(call.id, call.name, _parsed(call.arguments)))
            if call.name in self._tools:
                outcome = await self._toolbox.run(call, self._turn, self._personality)
            else:
                outcome = self._unknown(call.name)
            self._turn.signal(ToolEnded(call.id, call.name, outcome.is_error))
        result = AddMessage(_result(call, outcome), self._turn.id, from_person=False)
        async with self._recording:
            await self._turn.record(result, *outcome.changes)

    def _unknown(self, name: str) -> ToolOutcome:
        near = get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        known = ", ".join(sorted(self._tools)) or "none"
        return ToolOutcome(
            content=f'There is no tool "{name}".{hint} The tools are: {known}.', is_error=True
        )


def _result(call: ToolCall, outcome: ToolOutcome) -> Draft:
    return Draft(
        role="tool",
        content=outcome.content,
        parts=outcome.parts,
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=outcome.is_error,
    )


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}
