"""A reception over a real store and runtime, with a clock that only goes when it is told to."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec

from clew.agent.models.catalogue import Catalogue
from clew.agent.personalities import FilePersonalities
from clew.agent.system_prompt import ContextParts, SystemPrompt
from clew.agent.tools import Tools
from clew.client.seats import locate
from clew.core.channels.incoming import Event, Incoming, Labels, Receipt, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.channels.session_choice import ReceptionRules
from clew.core.channels.triggers import ModelNames
from clew.core.session import Session
from clew.memory import MarkdownMemory
from clew.memory.recall import FileRecall
from clew.ports import Store
from clew.runtime.hooks import Hooks
from clew.runtime.inbound.commands import ChannelCommands
from clew.runtime.recovery import TakenUp, take_up
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.testing.clock import FakeClock
from tests.runtime.conftest import Actor, outline, soon

NOON = 1_773_316_800_000
"""2026-03-12T12:00Z."""

RULES = ReceptionRules(
    owners=("telegram:1", "slack:U1"),
    guests=("*",),
    triggers=("/fresh",),
    models=ModelNames(allowed=("script/one", "script/two"), aliases={"big": "script/two"}),
    zone=UTC,
)

_numbers = itertools.count(1)


def incoming(text: str, *, by: str = "1", channel: str = "telegram", **fields: Any) -> Incoming:
    """A direct message of the owner, unless it is told otherwise."""
    peer = fields.pop("peer", Peer("dm", by))
    place = {name: fields.pop(name) for name in ("thread", "is_forum", "account") if name in fields}
    given: dict[str, Any] = {
        "arrival": Arrival(channel=channel, peer=peer, **place),
        "sender": Sender(by, fields.pop("name", None)),
        "text": text,
        "external_id": str(next(_numbers)),
        "labels": Labels(**fields.pop("labels", {})),
        "reply_to": ReplyTo(channel=channel, key=f"{channel}:{peer.id}", address={"chat": peer.id}),
    }
    return Incoming(**(given | fields))


class Front:
    """What stands between channels and sessions, and what can be seen of it."""

    def __init__(self, store: Store, runtime: Runtime, clock: FakeClock) -> None:
        self.store = store
        self.runtime = runtime
        self.reception = runtime.reception
        self.clock = clock

    async def hear(self, message: Event) -> Receipt:
        """Take a message in, without waiting for its turn."""
        return await soon(self.reception.receive(message))

    async def say(self, text: str, **fields: Any) -> Session:
        """Take a message in; the session, once nothing is left to do in it."""
        receipt = await self.hear(incoming(text, **fields))
        return await self.rest(receipt)

    async def rest(self, receipt: Receipt) -> Session:
        session_id = receipt.session_id or ""
        await soon(self.runtime.join(session_id))
        return await self.store.get_session(session_id)

    async def thread(self, session: Session) -> list[str]:
        return outline(await self.store.get_messages(session.id))

    async def sent(self, key: str | None = None) -> list[str]:
        """What is to be delivered, oldest first."""
        rows = await self.store.list_outbound(limit=1000)
        kept = [row for row in reversed(rows) if key is None or row.key == key]
        return [row.content for row in kept if row.status != "withheld"]

    async def last(self) -> str:
        return (await self.sent())[-1]

    async def take_up(self) -> TakenUp:
        return await soon(take_up(self.runtime))


def make_commands(
    runtime: Runtime, models: Catalogue, home: Path, directory: Path
) -> ChannelCommands:
    memory = MarkdownMemory(home)
    return ChannelCommands(
        runtime=runtime,
        models=models,
        personalities=FilePersonalities(),
        memory=memory,
        recall=FileRecall(memory),
        context=ContextParts(
            catalogue=models,
            personalities=FilePersonalities(),
            toolbox=Tools(runtime.store, memory),
            prompt=SystemPrompt(memory, runtime.store, runtime.clock),
        ),
        place=locate(directory),
        zone=UTC,
    )


Opener = Callable[..., AbstractAsyncContextManager[Front]]


def opener(url: str, models: Catalogue, home: Path, directory: Path) -> Opener:
    """Opens fronts on one store, one after the other or side by side: each is a process."""

    @asynccontextmanager
    async def open_front(
        actor: Actor,
        clock: FakeClock | None = None,
        *,
        paired: tuple[str, ...] = (),
        settle_s: float = 0.0,
        **rules: Any,
    ) -> AsyncIterator[Front]:
        clock = clock or FakeClock(NOON)
        chosen = msgspec.structs.replace(RULES, **rules)

        async def forget(_rule: str) -> None:
            return None

        async with await open_store(url, durability="normal", clock=clock) as store:
            runtime = Runtime(
                store,
                actor,
                hooks=Hooks({}, clock=clock),
                clock=clock,
                remember_rule=forget,
                sending=chosen.sending,
            )
            for person in paired:
                channel = person.partition(":")[0]
                await store.decide_pairing(person, channel, "paired", by="owner")
            commands = make_commands(runtime, models, home, directory)
            runtime.reception.open(chosen, commands, settle_s=settle_s)
            try:
                yield Front(store, runtime, clock)
            finally:
                await soon(runtime.close())

    return open_front
