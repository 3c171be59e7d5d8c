"""A terminal's seat over the handlers of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.agent.personalities import FilePersonalities
from clew.agent.system_prompt import ContextParts, SystemPrompt
from clew.agent.tools import Tools
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.api.sessions import SessionView
from clew.client.client import Client
from clew.client.seats import locate
from clew.clock import host_clock
from clew.core.channels.session_choice import Judge
from clew.core.keys import cli_key
from clew.core.turn import HEARTBEAT_MS, Turn
from clew.memory import MarkdownMemory
from clew.memory.recall import FileRecall
from clew.ports import Store
from clew.runtime.place.attachment import Attachments
from clew.runtime.runtime import Runtime
from clew.terminal import seat as terminal
from clew.terminal.live import Sent, open_live
from clew.transfer import export_session
from tests.client.calling import FixedParts
from tests.runtime.conftest import soon
from tests.runtime.receiving import RULES


class Seat(terminal.Seat):
    """A seat whose first message makes a session, as a chat lets it."""

    async def say(self, text: str, **more: Any) -> Sent:
        await self.make_ready()
        return await super().say(text, **more)


Seats = Callable[..., Awaitable[Seat]]


@pytest.fixture
async def make_seat(
    store: Store,  # is closed after the seats are left
    models: Catalogue,
    directory: Path,
    tmp_path: Path,
) -> AsyncIterator[Seats]:
    """Seats that are left at the end, before the store is closed.

    `holds`: it is a terminal of this process; else one of several at a gateway, so to speak.
    """
    async with AsyncExitStack() as stack:

        async def make(
            runtime: Runtime,
            *,
            holds: bool = True,
            judge: Judge | None = None,
            beat_ms: int = HEARTBEAT_MS,
            **more: Any,
        ) -> Seat:
            parts = make_parts(runtime, models, tmp_path / "home", judge)
            if holds:
                held = Attachments(runtime.store, beat_ms=beat_ms)
                parts = parts._replace(attachments=held, is_terminal=True)
                stack.callback(held.close)
            client = Client(transport=LocalTransport(Calls(parts), Caller()))
            live = await stack.enter_async_context(open_live(client))
            place = locate(directory)
            given: dict[str, Any] = {"place": place, "key": cli_key(place.basename)}
            made = Seat(client, live, **(given | more))
            await made.locate(place, made.key)
            stack.push_async_callback(leave, made)
            return made

        yield make


async def leave(seat: Seat) -> None:
    await soon(seat.leave())


def make_parts(
    runtime: Runtime, models: Catalogue, home: Path, judge: Judge | None = None
) -> FixedParts:
    store, memory, personalities = runtime.store, MarkdownMemory(home), FilePersonalities()
    return FixedParts(
        runtime=runtime,
        models=models,
        personalities=personalities,
        memory=memory,
        recall=FileRecall(memory),
        context=ContextParts(
            catalogue=models,
            personalities=personalities,
            toolbox=Tools(store, memory),
            prompt=SystemPrompt(memory, store, host_clock),
        ),
        export=lambda session, kind, masked, thinking: export_session(
            store, session, kind, masked=masked, thinking=thinking
        ),
        rules=RULES,
        judge=judge,
    )


@pytest.fixture
async def seat(runtime: Runtime, make_seat: Seats) -> Seat:
    return await make_seat(runtime)


def sitting(seat: Seat) -> SessionView:
    assert seat.session is not None
    return seat.session


async def ended(sent: Sent) -> Turn:
    """The turn of a message, when it is over and the session is free."""
    return await soon(asyncio.shield(sent.turn))


async def run(seat: Seat, line: str) -> str:
    """What a command says."""
    reply, _ = await soon(seat.run_command(line))
    return reply.text
