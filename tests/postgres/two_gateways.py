"""Gateways side by side on one store: for the store each is a process of its own.

An actor stands where each one's model is, so that a test says when an answer begins and ends.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from clew import config as configuration
from clew.agent.personalities import FilePersonalities
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.clock import host_clock
from clew.core.channels.incoming import Incoming, Receipt, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.message import Message
from clew.memory import MarkdownMemory
from clew.memory.recall import FileRecall
from clew.ports import Store
from clew.runtime.hooks import Hooks
from clew.runtime.recovery import take_up
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.store.postgres.store import PostgresStore
from clew.wiring import open_catalogue
from tests.client.calling import FixedParts
from tests.runtime.conftest import CONFIG, Actor, outline, soon, until
from tests.runtime.receiving import RULES, make_commands

_numbers = itertools.count(1)


class Gateway:
    """One of them, with its owner's client."""

    def __init__(self, calls: Calls, actor: Actor) -> None:
        self.runtime = calls.parts.runtime
        self.store: Store = self.runtime.store
        self.reception = calls.parts.runtime.reception
        self.actor = actor
        self.client = Client(transport=LocalTransport(calls, Caller()))

    async def hear(self, text: str, by: str = "1") -> Receipt:
        """A direct message on Telegram comes to this one; from the owner, if nobody is named."""
        return await soon(
            self.reception.receive(
                Incoming(
                    arrival=Arrival(channel="telegram", peer=Peer("dm", by)),
                    sender=Sender(by),
                    text=text,
                    external_id=str(next(_numbers)),
                    reply_to=ReplyTo(
                        channel="telegram", key=f"telegram:{by}", address={"chat": by}
                    ),
                )
            )
        )

    async def take_up(self) -> None:
        await soon(take_up(self.runtime))

    async def thread(self, session_id: str | None) -> list[str]:
        return outline(await self.store.get_messages(session_id or ""))

    async def rest(self, session_id: str | None, answers: int) -> list[str]:
        """The thread, when so many answers are in it and nothing waits."""

        async def is_calm() -> bool:
            thread = await self.store.get_messages(session_id or "")
            has_all = sum(_is_answer(each) for each in thread) >= answers
            return has_all and not await self.store.list_inbound(session_id)

        await until(is_calm)
        return await self.thread(session_id)


def _is_answer(message: Message) -> bool:
    return message.role == "assistant"


Opener = Callable[..., AbstractAsyncContextManager[Gateway]]


def opener(url: str, home: Path) -> Opener:
    """Opens gateways on one store."""
    home.mkdir(exist_ok=True, parents=True)
    (home / "config.toml").write_text(CONFIG, encoding="utf-8")
    config = configuration.load(home=str(home), environ={})

    @asynccontextmanager
    async def open_one(
        *scenes: Any, takes_up: bool = True, patience: float | None = None, **settings: Any
    ) -> AsyncIterator[Gateway]:
        async with AsyncExitStack() as stack:
            if patience is None:
                store: Store = await open_store(url, durability="normal")
            else:
                store = await PostgresStore.open(url, durability="normal", patience=patience)
            stack.push_async_callback(store.close)
            actor = Actor(*scenes)

            async def remember(_rule: str) -> None:
                """Nobody says "always" here."""

            hooks = Hooks({}, clock=host_clock)
            runtime = Runtime(store, actor, hooks=hooks, remember_rule=remember, **settings)
            stack.push_async_callback(runtime.close)
            models = open_catalogue(config)
            commands = make_commands(runtime, models, home, home)
            runtime.reception.open(RULES, commands, settle_s=0.0)
            parts = FixedParts(
                runtime=runtime,
                models=models,
                personalities=FilePersonalities(),
                memory=MarkdownMemory(home),
                recall=FileRecall(MarkdownMemory(home)),
                rules=RULES,
                reception=runtime.reception,
                context=commands.context,
            )
            gateway = Gateway(Calls(parts), actor)
            if takes_up:
                await gateway.take_up()
            yield gateway

    return open_one
