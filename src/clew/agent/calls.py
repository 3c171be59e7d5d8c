"""The tool calls of one answer: which may run side by side, and each result recorded at once.

What a tool is, what it may do and how it fails is the toolbox's; the order in which a provider
wants the results is the thread's (`core.thread.repair`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from clew.agent.tooling import Toolbox, ToolOutcome, ToolSpec
from clew.core.changes import AddMessage
from clew.core.message import Draft, ToolCall
from clew.core.personality import Personality
from clew.core.signals import ToolEnded, ToolStarted
from clew.ports import LiveTurn

SIDE_BY_SIDE: Final = 8


class Caller:
    """Runs the calls of one turn."""

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
        """All of them, in order; those that may, together."""
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
            # Whether the person stopped the turn or one call ended it: nothing runs on alone.
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
