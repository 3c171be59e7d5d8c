"""What the process does that `kill` ends in the middle of it.

Each act works on a store for as long as it is allowed to and posts a fact when, and only when, the
store has acknowledged it. Before that it looks at what its dead predecessor left, through clew
itself: the file is then repaired by an ordinary start, not by an inspector.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from clew.core.changes import AddMessage, StartTurn, WriteScratch
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.core.turn import LEASE_MS
from clew.errors import LeaseHeld, SessionNotFound
from clew.store import open_sqlite
from clew.store.sqlite.store import SqliteStore
from clew.testing.clock import FakeClock

SPEAKERS = 3
"""Sessions that are written to side by side, so that they share commits."""

WHOLE = 300
"""Messages of one large record: all of them are there, or none."""

Act = Literal["append", "import", "fork", "purge"]
Fact = Literal["leased", "said", "imported", "forked", "trashed", "purged", "problem", "finished"]
Post = Callable[[Fact, str, int], None]
"""Tell the parent: what, of which session, and a number."""


class Ledger(msgspec.Struct):
    """What was acknowledged by all who worked on one store, and who held which lease last."""

    said: dict[str, int] = {}
    imported: dict[str, int] = {}
    forks: dict[str, int] = {}
    trashed: set[str] = set()
    purged: set[str] = set()
    leased: dict[str, int] = {}


class Order(msgspec.Struct, frozen=True):
    """One life: which store, what to do there, and what is known of it."""

    path: Path
    number: int
    act: Act
    ledger: Ledger
    endless: bool = True


def text_of(number: int) -> str:
    """The text of a speaker's n-th message; every third one is for the other index."""
    said = f"Message {number} about the backup"
    return f"{said} 数据库的备份已经恢复正常了" if number % 3 == 0 else said


def session_id(name: str) -> str:
    """The same id for the same name, whoever asks."""
    return str(uuid.UUID(int=random.Random(name).getrandbits(128), version=4))


async def live(order: Order, post: Post) -> None:
    """Work until killed; or, if the order has an end, until it is done."""
    # Time stands still in a life and passes between two of them.
    clock = FakeClock()
    clock.advance(order.number * 2 * LEASE_MS)
    async with await open_sqlite(f"sqlite://{order.path}", clock=clock) as store:
        worker = Worker(store, clock, order, post)
        await worker.look_back()
        await {
            "append": worker.append,
            "import": worker.import_whole,
            "fork": worker.fork,
            "purge": worker.purge,
        }[order.act]()
        post("finished", "", order.number)


class Worker:
    """One life's work."""

    def __init__(self, store: SqliteStore, clock: FakeClock, order: Order, post: Post) -> None:
        self._store = store
        self._clock = clock
        self._order = order
        self._ledger = order.ledger
        self._post = post

    async def look_back(self) -> None:
        """What a start must find and mend: messages, leases, turns."""
        for session, count in self._ledger.said.items():
            found = [message.content for message in await self._store.get_messages(session)]
            if found[:count] != [text_of(number) for number in range(1, count + 1)]:
                self._post("problem", f"{session} has {len(found)} of {count} messages", 0)
        for session, epoch in self._ledger.leased.items():
            await self._take_over(session, epoch)

    async def _take_over(self, session: str, epoch: int) -> None:
        """The dead one's lease holds until its time is over, and its turn ends with it."""
        self._clock.advance(-2 * LEASE_MS)
        try:
            await self._store.acquire_lease(session, "impatient")
            self._post("problem", f"{session}: a lease was taken before its time", epoch)
        except LeaseHeld:
            pass
        self._clock.advance(2 * LEASE_MS)
        open_turns = await self._store.list_turns(session, unfinished=True)
        interrupted = await self._store.interrupt_turns(session)
        if [turn.id for turn in interrupted] != [turn.id for turn in open_turns]:
            self._post("problem", f"{session}: turns of the dead were left open", epoch)

    async def _lease(self, session: str) -> int:
        """Make the session if it is not there, and hold it."""
        try:
            await self._store.get_session(session)
        except SessionNotFound:
            await self._store.create_session(NewSession(key=f"kill:{session}", id=session))
        lease = await self._store.acquire_lease(session, f"life {self._order.number}")
        if lease.epoch <= self._ledger.leased.get(session, 0):
            self._post("problem", f"{session}: the epoch did not rise", lease.epoch)
        self._post("leased", session, lease.epoch)
        return lease.epoch

    async def append(self) -> None:
        """Several sessions, message by message, each with its key."""
        await asyncio.gather(*(self._speak(f"speaker {index}") for index in range(SPEAKERS)))

    async def _speak(self, name: str) -> None:
        session = session_id(name)
        epoch = await self._lease(session)
        number = self._ledger.said.get(session, 0)
        turn = str(uuid.uuid4())
        await self._store.record(session, epoch, StartTurn(turn_id=turn))
        while self._order.endless or number < 10:
            number += 1
            # The predecessor may have said this without hearing that it was stored.
            message = await self._store.append(
                session,
                epoch,
                Draft(role="user", content=text_of(number)),
                turn_id=turn,
                idempotency_key=str(number),
            )
            if message.seq != number:
                self._post("problem", f"{session}: message {number} has seq {message.seq}", 0)
            self._post("said", session, number)

    async def import_whole(self) -> None:
        """Large records, as an import writes them."""
        session = session_id("import")
        epoch = await self._lease(session)
        number = self._ledger.imported.get(session, 0)
        while True:
            number += 1
            drafts = (Draft(role="user", content=text_of(each)) for each in range(WHOLE))
            await self._store.record(
                session, epoch, *map(AddMessage, drafts), idempotency_key=str(number)
            )
            self._post("imported", session, number)
            if not self._order.endless:
                return

    async def fork(self) -> None:
        """Forks of a session that has something to copy, each with a message of its own."""
        parent = session_id("speaker 0")
        epoch = await self._lease(parent)
        await self._store.record(parent, epoch, WriteScratch("plan", "Fork, and fork again."))
        head = (await self._store.get_session(parent)).head
        while True:
            new = await self._store.fork_session(parent, new_id=str(uuid.uuid4()))
            self._post("forked", new.id, head)
            if not self._order.endless:
                return

    async def purge(self) -> None:
        """Sessions come, go to the trash, and go for good."""
        while True:
            session = (await self._store.create_session(NewSession(key="kill:purge"))).id
            lease = await self._store.acquire_lease(session, "purge")
            drafts = (Draft(role="user", content=text_of(each)) for each in range(20))
            await self._store.record(session, lease.epoch, *map(AddMessage, drafts))
            await self._store.release_lease(lease)
            await self._store.delete_sessions([session])
            self._post("trashed", session, 0)
            await self._store.purge_sessions([session])
            self._post("purged", session, 0)
            if not self._order.endless:
                return
