"""The runtime as a terminal at a gateway uses it: say something, watch, answer, and ask what runs.

A message is followed by its own stream until it is answered. If that breaks, it is sent again under
the same idempotency key, which only asks what came of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from clew.api import queue as queue_rows
from clew.api.chat import Accepted, Upload
from clew.api.frames import AcceptedFrame, DoneFrame, EventFrame
from clew.api.queue import DropQueue
from clew.client.client import Client
from clew.client.live import PASSING, PAUSES
from clew.client.remote.line import Box, Line
from clew.client.remote.store import RemoteStore
from clew.clock import host_clock
from clew.core.delivery import Inbound
from clew.core.signals import Committed, Event, TurnEnded
from clew.core.turn import Approval, ApprovalScope, Decision, Turn
from clew.errors import ClewError, Conflict, Unauthorized
from clew.runtime.runtime import Ticket

ATTEMPTS: Final = 5
"""Times that a message is tried again before it counts as not sent: about four seconds."""
PATIENCE: Final = 16
"""Times that one asks what came of a message before one gives up: about a minute."""


class Letter:
    """A message on its way: what is known of it, and who follows it."""

    def __init__(
        self,
        text: str,
        session_id: str,
        person: str,
        attended: bool,
        files: tuple[Upload, ...] = (),
    ) -> None:
        loop = asyncio.get_running_loop()
        self.text = text
        self.session_id = session_id
        self.person = person
        self.attended = attended
        self.files = files
        self.key = secrets.token_hex(16)
        self.accepted: asyncio.Future[Accepted] = loop.create_future()
        self.turn: asyncio.Future[Turn] = loop.create_future()
        self.has_begun = False
        self.last: Turn | None = None
        self.seen = 0

    def fail(self, error: ClewError) -> None:
        """Nobody will be able to tell what comes of it; or it was not even sent."""
        if not self.accepted.done():
            self.accepted.set_exception(error)
        elif not self.turn.done():
            self.turn.set_exception(error)

    @property
    def inbound(self) -> Inbound:
        """As it stands in the inbox, about."""
        return Inbound(
            id=self.accepted.result().inbound if self.accepted.done() else self.key,
            channel="api",
            account=self.person,
            external_id=self.key,
            key="",
            session_id=self.session_id,
            person=self.person,
            payload={"text": self.text},
            status="queued",
            claimant=None,
            claimed_at=None,
            turn_id=None,
            received_at=host_clock(),
        )


class RemoteRuntime:
    """As much of `Runtime` as a terminal uses."""

    def __init__(self, client: Client, line: Line) -> None:
        self.client = client
        self.line = line
        self.store = RemoteStore(client, line)
        self.clock = host_clock
        self.answers: Box | None = None
        """Where the events of our own messages go beside, for who wants no others."""
        self._letters: dict[Letter, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Follow nothing any more."""
        tasks = set(self._letters.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- in -------------------------------------------------------------------------------------

    async def send(self, letter: Letter) -> Ticket:
        """Give a message to the gateway; returns once it is durable there."""
        task = asyncio.create_task(self._follow(letter), name="letter")
        self._letters[letter] = task
        task.add_done_callback(lambda _: self._forget(letter))
        accepted = await letter.accepted
        return Ticket(letter.inbound, accepted.is_new, letter.turn)

    def _forget(self, letter: Letter) -> None:
        self._letters.pop(letter, None)
        for future in (letter.accepted, letter.turn):
            future.cancel()  # does nothing to one that is done
        self.line.wake()

    async def _follow(self, letter: Letter) -> None:
        attempt = 0
        while True:
            try:
                await self._read(letter)
            except PASSING as error:
                if attempt >= (PATIENCE if letter.accepted.done() else ATTEMPTS):
                    letter.fail(error)
                    return
            except Conflict as error:
                if not letter.accepted.done():
                    letter.fail(error)
                return  # taken back: the turn is cancelled
            except ClewError as error:
                letter.fail(error)
                if isinstance(error, Unauthorized):
                    self.line.refuse(error)
                return
            else:
                return
            await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1

    async def _read(self, letter: Letter) -> None:
        sending = self.client.chat.send(
            letter.text,
            session=letter.session_id,
            attachments=letter.files,
            idempotency_key=letter.key,
            attended=letter.attended,
        )
        async with contextlib.aclosing(sending.frames()) as frames:
            async for frame in frames:
                match frame:
                    case AcceptedFrame(accepted) if not letter.accepted.done():
                        letter.accepted.set_result(accepted)
                    case EventFrame(event=event):
                        self._hear(letter, event)
                    case DoneFrame():
                        await self._end(letter)
                    case _:
                        pass

    def _hear(self, letter: Letter, event: Event) -> None:
        if not letter.has_begun:
            letter.has_begun = True
            self.line.happened += 1
        match event:
            case Committed(message):
                if message.seq <= letter.seen:
                    return  # it was told before the stream broke
                letter.seen = message.seq
            case TurnEnded(turn):
                letter.last = turn
            case _:
                pass
        if self.answers is not None:
            self.answers.put_nowait(event)

    async def _end(self, letter: Letter) -> None:
        if letter.last is not None and not letter.turn.done():
            letter.turn.set_result(letter.last)
            self.line.wake()
            await self.line.settle(letter.session_id, letter.last)

    # --- out ------------------------------------------------------------------------------------

    @contextmanager
    def watch(self, session_id: str, after: int) -> Iterator[AsyncIterator[Event]]:
        """See `Runtime`."""
        box = self.line.open(session_id, after)
        try:
            yield _empty(box)
        finally:
            self.line.close(session_id, box)

    @contextmanager
    def watch_answers(self) -> Iterator[AsyncIterator[Event]]:
        """The events of what is said here from now on, and no others."""
        self.answers = asyncio.Queue()
        try:
            yield _empty(self.answers)
        finally:
            self.answers = None

    # --- while it runs --------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """See `Runtime`; whoever has begun it."""
        return self.line.is_running(session_id) or bool(self._pending(session_id))

    async def join(self, session_id: str) -> None:
        """See `Runtime`."""
        while self.is_running(session_id):
            await self.line.wait()

    def _pending(self, session_id: str) -> list[Letter]:
        return [
            each
            for each in self._letters
            if each.session_id == session_id and not each.turn.done() and each.accepted.done()
        ]

    def list_queued(self, session_id: str) -> tuple[Inbound, ...]:
        """See `Runtime`; what was said in this terminal."""
        waiting = [each for each in self._pending(session_id) if not each.has_begun]
        if not self.line.is_running(session_id):
            waiting = waiting[1:]  # the first one's turn is just about to begin
        return tuple(each.inbound for each in waiting)

    def count_queued(self, session_id: str) -> int:
        """See `Runtime`."""
        return len(self.list_queued(session_id))

    def count_spawned(self, _session_id: str) -> int:
        """See `Runtime`. The gateway counts them where it stops them."""
        return 0

    async def take_back(self, session_id: str) -> tuple[Inbound, ...]:
        """See `Runtime`; what was said in this terminal, for others wait there too."""
        taken: list[Inbound] = []
        with contextlib.suppress(*PASSING):
            for each in self.list_queued(session_id):
                params = DropQueue(session=session_id, id=each.id)
                dropped = (await self.client.do(queue_rows.DROP, params)).dropped
                taken += [each] if each.id in dropped else []
        return tuple(taken)

    async def stop(self, session_id: str) -> bool:
        """See `Runtime`; whoever has begun the turn. One that can't be reached stops nothing."""
        try:
            return (await self.client.sessions.stop(session_id, queue=False)).stopped
        except PASSING:
            return False

    async def decide(
        self, approval_id: str, decision: Decision, *, by: str, scope: ApprovalScope = "once"
    ) -> Approval:
        """See `Runtime`. The gateway adds to the name with which token it was said."""
        decided = await self.client.approvals.decide(approval_id, decision, scope=scope)
        said_by = (decided.decided_by or "").partition(":")[0]
        if said_by == by and decided.decision == decision:
            return msgspec.structs.replace(decided, decided_by=by)
        return decided


async def _empty(box: Box) -> AsyncIterator[Event]:
    while True:
        yield await box.get()
