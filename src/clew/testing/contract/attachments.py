"""`ports.Attachments`: a terminal's exclusive hold on a session.

That a killed process loses its hold needs a process to kill: see the store's own tests.
"""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from clew.errors import SessionAttached, SessionNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, OpenStore, make


class AttachmentsContract(Contract):
    """Attachments."""

    async def test_a_session_is_held_by_one_process(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)

        held, before = await store.attach(session.id, terminal="/dev/pts/3")

        assert before is None
        assert (held.session_id, held.pid, held.host) == (
            session.id, os.getpid(), socket.gethostname(),
        )  # fmt: skip
        assert (held.terminal, held.since) == ("/dev/pts/3", clock())
        assert await other.find_attachment(session.id) == held
        with pytest.raises(SessionAttached) as refused:
            await other.attach(session.id)
        assert (refused.value.pid, refused.value.since) == (held.pid, held.since)
        assert await store.find_attachment(session.id) == held

    async def test_the_holder_may_attach_again(self, store: Store) -> None:
        session = await make(store)
        await store.attach(session.id)

        again, before = await store.attach(session.id, terminal="b")

        assert (again.terminal, before) == ("b", None)

    async def test_what_is_let_go_can_be_held_by_another(self, store: Store, other: Store) -> None:
        session = await make(store)
        await store.attach(session.id)

        await store.detach(session.id)

        assert await other.find_attachment(session.id) is None
        _, before = await other.attach(session.id)
        assert before is None

    async def test_nobody_lets_go_for_another(self, store: Store, other: Store) -> None:
        session = await make(store)
        held, _ = await store.attach(session.id)

        await other.detach(session.id)
        await other.detach(UNKNOWN)

        assert await other.find_attachment(session.id) == held

    async def test_a_closed_store_holds_nothing(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        session = await make(store)
        other = await open_store(clock)
        await other.attach(session.id)
        await other.close()

        assert await store.find_attachment(session.id) is None
        held, _ = await store.attach(session.id)
        assert await store.find_attachment(session.id) == held

    async def test_of_two_processes_one_gets_the_hold(self, store: Store, other: Store) -> None:
        session = await make(store)

        answers = await asyncio.gather(
            store.attach(session.id), other.attach(session.id), return_exceptions=True
        )

        assert sum(isinstance(answer, SessionAttached) for answer in answers) == 1

    async def test_a_beat_tells_the_time(self, store: Store, clock: FakeClock) -> None:
        one, two = await make(store), await make(store)
        await store.attach(one.id)
        await store.attach(two.id)
        now = clock.advance(10 * SECOND)

        await store.beat()

        for session in (one, two):
            held = await store.find_attachment(session.id)
            assert held is not None
            assert (held.beat_at, held.since) == (now, now - 10 * SECOND)

    async def test_a_hold_here_needs_no_beat(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        await store.attach(session.id)
        clock.advance(3_600 * SECOND)

        with pytest.raises(SessionAttached):
            await other.attach(session.id)

    async def test_attaching_never_changes_the_session(
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        clock.advance(SECOND)

        await store.attach(session.id)
        await store.beat()
        await store.detach(session.id)

        assert await store.get_session(session.id) == session

    async def test_an_unknown_session_can_not_be_held(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.attach(UNKNOWN)
        assert await store.find_attachment(UNKNOWN) is None
