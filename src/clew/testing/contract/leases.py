"""`ports.Leases`, `ports.Attachments` and `ports.Processes`: who holds what, and until when.

Leases are the right to run the next turn, with the epoch that fences late writers; attachments are
a terminal's exclusive hold on a session; processes share the store, and what a dead one held is
taken over.
"""

from __future__ import annotations

import asyncio
import os
import socket
from itertools import pairwise

import pytest

from clew.core.changes import StartTurn
from clew.core.message import Draft
from clew.core.session import NewSession, Session, SessionEdit
from clew.core.turn import LEASE_MS, Lease
from clew.errors import InvalidInput, LeaseHeld, SessionAttached, SessionNotFound, StaleLease
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    OpenStore,
    dead_identity,
    make,
    read,
    say,
)


class LeasesContract(Contract):
    """Leases."""

    async def test_a_lease_lasts_thirty_seconds(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        lease = await store.acquire_lease(session.id, "me")

        assert (lease.session_id, lease.holder) == (session.id, "me")
        assert lease.expires_at == clock() + 30 * SECOND
        assert await other.find_lease(session.id) == lease
        clock.advance(30 * SECOND - 1)
        assert await other.find_lease(session.id) == lease
        clock.advance(1)
        assert await other.find_lease(session.id) is None

    async def test_another_runner_is_refused_while_the_lease_is_alive(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        lease = await store.acquire_lease(session.id, "me", ttl=SECOND)
        clock.advance(SECOND - 1)

        with pytest.raises(LeaseHeld) as refused:
            await other.acquire_lease(session.id, "you")

        assert (refused.value.holder, refused.value.expires_at) == ("me", lease.expires_at)
        assert await store.find_lease(session.id) == lease

    async def test_a_lease_that_ran_out_is_taken_over_with_a_higher_epoch(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        mine = await store.acquire_lease(session.id, "me")
        clock.advance(LEASE_MS)

        yours = await other.acquire_lease(session.id, "you")

        assert yours.epoch > mine.epoch
        assert await store.find_lease(session.id) == yours

    async def test_a_late_writer_is_refused_after_a_takeover(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        mine = await store.acquire_lease(session.id, "me")
        await store.append(session.id, mine.epoch, Draft(role="user", content="in time"))
        clock.advance(LEASE_MS)
        yours = await other.acquire_lease(session.id, "you")

        with pytest.raises(StaleLease):
            await store.append(session.id, mine.epoch, Draft(role="user", content="late"))
        with pytest.raises(StaleLease):
            await store.renew_lease(mine)

        await other.append(session.id, yours.epoch, Draft(role="user", content="mine now"))
        assert await read(store, session.id) == ["in time", "mine now"]

    async def test_a_lease_that_ran_out_still_writes_until_it_is_taken_over(
        self, store: Store, session: Session, lease: Lease, clock: FakeClock
    ) -> None:
        clock.advance(LEASE_MS + SECOND)

        await store.append(session.id, lease.epoch, Draft(role="user", content="slow"))

        renewed = await store.renew_lease(lease)
        assert await store.find_lease(session.id) == renewed
        assert await read(store, session.id) == ["slow"]

    async def test_the_holder_may_take_its_lease_again(
        self, store: Store, session: Session
    ) -> None:
        first = await store.acquire_lease(session.id, "me")

        second = await store.acquire_lease(session.id, "me")

        assert second.epoch > first.epoch
        with pytest.raises(StaleLease):
            await store.append(session.id, first.epoch, Draft(role="user"))
        await store.append(session.id, second.epoch, Draft(role="user"))

    async def test_a_renewed_lease_is_the_same_for_longer(
        self, store: Store, session: Session, lease: Lease, other: Store, clock: FakeClock
    ) -> None:
        clock.advance(10 * SECOND)

        renewed = await store.renew_lease(lease, ttl=5 * SECOND)

        assert renewed == Lease(session.id, "me", lease.epoch, clock() + 5 * SECOND)
        assert await other.find_lease(session.id) == renewed

    async def test_a_released_lease_is_free_at_once(
        self, store: Store, session: Session, other: Store
    ) -> None:
        mine = await store.acquire_lease(session.id, "me")

        await store.release_lease(mine)

        assert await store.find_lease(session.id) is None
        with pytest.raises(StaleLease):
            await store.renew_lease(mine)
        with pytest.raises(StaleLease):
            await store.append(session.id, mine.epoch, Draft(role="user"))
        yours = await other.acquire_lease(session.id, "you")
        assert yours.epoch > mine.epoch

    async def test_releasing_what_is_no_longer_held_is_fine(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        mine = await store.acquire_lease(session.id, "me")
        clock.advance(LEASE_MS)
        yours = await other.acquire_lease(session.id, "you")

        await store.release_lease(mine)
        await store.release_lease(Lease(UNKNOWN, "me", 1, 0))

        assert await store.find_lease(session.id) == yours

    async def test_of_two_runners_one_gets_the_lease(self, store: Store, other: Store) -> None:
        for _ in range(10):
            session = await make(store)

            answers = await asyncio.gather(
                store.acquire_lease(session.id, "me"),
                other.acquire_lease(session.id, "you"),
                return_exceptions=True,
            )

            assert sum(isinstance(answer, Lease) for answer in answers) == 1
            assert sum(isinstance(answer, LeaseHeld) for answer in answers) == 1

    async def test_a_lease_is_on_one_session(self, store: Store) -> None:
        one, two = await make(store), await make(store)
        await store.acquire_lease(one.id, "me")

        assert (await store.acquire_lease(two.id, "you")).holder == "you"

    async def test_an_unknown_session_can_not_be_leased(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.acquire_lease(UNKNOWN, "me")
        assert await store.find_lease(UNKNOWN) is None

    async def test_a_lease_never_changes_the_session(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        clock.advance(SECOND)

        lease = await store.acquire_lease(session.id, "me")
        await store.renew_lease(lease)
        await store.release_lease(lease)

        assert await store.get_session(session.id) == session


class AttachmentsContract(Contract):
    """Attachments."""

    async def test_a_session_is_held_by_one_process(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
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

    async def test_the_holder_may_attach_again(self, store: Store, session: Session) -> None:
        await store.attach(session.id)

        again, before = await store.attach(session.id, terminal="b")

        assert (again.terminal, before) == ("b", None)

    async def test_a_detached_session_can_be_attached_by_another(
        self, store: Store, session: Session, other: Store
    ) -> None:
        await store.attach(session.id)

        await store.detach(session.id)

        assert await other.find_attachment(session.id) is None
        _, before = await other.attach(session.id)
        assert before is None

    async def test_a_process_can_not_detach_another(
        self, store: Store, session: Session, other: Store
    ) -> None:
        held, _ = await store.attach(session.id)

        await other.detach(session.id)
        await other.detach(UNKNOWN)

        assert await other.find_attachment(session.id) == held

    async def test_a_closed_store_holds_nothing(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        other = await open_store(clock)
        await other.attach(session.id)
        await other.close()

        assert await store.find_attachment(session.id) is None
        held, _ = await store.attach(session.id)
        assert await store.find_attachment(session.id) == held

    async def test_of_two_processes_one_gets_the_hold(
        self, store: Store, session: Session, other: Store
    ) -> None:
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
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        await store.attach(session.id)
        clock.advance(3_600 * SECOND)

        with pytest.raises(SessionAttached):
            await other.attach(session.id)

    async def test_attaching_never_changes_the_session(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        clock.advance(SECOND)

        await store.attach(session.id)
        await store.beat()
        await store.detach(session.id)

        assert await store.get_session(session.id) == session

    async def test_an_unknown_session_can_not_be_held(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.attach(UNKNOWN)
        assert await store.find_attachment(UNKNOWN) is None


class ProcessesContract(Contract):
    """Processes, and the leases of those that died."""

    async def test_every_process_has_an_identity_of_its_own(
        self, store: Store, other: Store
    ) -> None:
        assert store.identity == store.identity
        assert store.identity
        assert store.identity != other.identity
        assert "#" not in store.identity

    async def test_a_process_lives_until_it_closes_the_store(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        other = await open_store(clock)
        assert await store.is_living(store.identity)
        assert await other.is_living(store.identity)
        assert await store.is_living(other.identity)

        await other.close()

        assert not await store.is_living(other.identity)
        assert await store.is_living(store.identity)

    async def test_more_behind_an_identity_is_the_same_process(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)

        for suffix in ("#", "#lane 3", "#a#b", "#\ud800\0"):
            assert await store.is_living(store.identity + suffix)
            assert not await store.is_living(gone + suffix)

    @pytest.mark.parametrize(
        "name", ["", "me", "#", "@", "a@b", "../../etc", "\0", "\ud800", "0" * 32, "é" * 500]
    )
    async def test_an_unknown_process_counts_as_living(self, store: Store, name: str) -> None:
        assert await store.is_living(name)

    async def test_an_identity_that_is_no_text_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            await store.is_living(5)  # type: ignore[arg-type]  # on purpose

    async def test_many_who_ask_at_once_get_the_same_answer(
        self, store: Store, other: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)

        answers = await asyncio.gather(
            *(each.is_living(gone) for each in (store, other) * 20),
            *(each.is_living(other.identity) for each in (store, other) * 20),
        )

        assert answers == [False] * 40 + [True] * 40

    async def test_the_pulse_changes_with_every_commit_of_any_process(
        self, store: Store, session: Session, other: Store
    ) -> None:
        seen = [await store.pulse()]

        for handle in (store, other):
            await say(handle, session.id, "hello")
            seen.append(await store.pulse())
            await handle.edit_session(session.id, SessionEdit(title=f"by {handle.identity}"))
            seen.append(await store.pulse())
            await handle.set_route("k", session.id)
            seen.append(await store.pulse())

        assert all(before != after for before, after in pairwise(seen))

    async def test_the_pulse_stands_still_while_nothing_is_committed(
        self, store: Store, session: Session, other: Store
    ) -> None:
        await say(other, session.id, "hello")
        before = await store.pulse()

        await store.get_messages(session.id)
        await other.get_session(session.id)
        await other.pulse()
        with pytest.raises(SessionNotFound):
            await other.set_route("k", UNKNOWN)
        with pytest.raises(SessionNotFound):
            await store.set_route("k", UNKNOWN)

        assert [await store.pulse() for _ in range(3)] == [before] * 3

    async def test_what_the_pulse_tells_of_can_be_read(self, store: Store, other: Store) -> None:
        before = await store.pulse()
        session, _ = await other.open_session(NewSession(key="cli:a"))

        assert await store.pulse() != before
        assert await store.find_route("cli:a") == session

    async def test_a_dead_processs_lease_is_taken_over_at_once(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await open_store(clock)
        held = await gone.acquire_lease(session.id, gone.identity)
        assert await store.find_lease(session.id) == held
        with pytest.raises(LeaseHeld):
            await store.acquire_lease(session.id, store.identity)

        await gone.close()

        assert await store.find_lease(session.id) is None
        mine = await store.acquire_lease(session.id, store.identity)
        assert mine.epoch > held.epoch
        assert await store.find_lease(session.id) == mine

    async def test_a_holder_with_more_behind_its_identity_dies_with_its_process(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)
        await store.acquire_lease(session.id, f"{gone}#lane 1")

        assert await store.find_lease(session.id) is None
        mine = await store.acquire_lease(session.id, f"{store.identity}#lane 1")
        assert await store.find_lease(session.id) == mine

    async def test_only_the_very_same_holder_takes_a_living_lease_again(
        self, store: Store, session: Session
    ) -> None:
        lease = await store.acquire_lease(session.id, f"{store.identity}#1")

        for holder in (store.identity, f"{store.identity}#2"):
            with pytest.raises(LeaseHeld):
                await store.acquire_lease(session.id, holder)

        again = await store.acquire_lease(session.id, f"{store.identity}#1")
        assert again.epoch > lease.epoch

    async def test_a_living_processs_lease_still_runs_out(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        await store.acquire_lease(session.id, store.identity, ttl=SECOND)
        clock.advance(SECOND)

        assert await other.find_lease(session.id) is None
        assert (await other.acquire_lease(session.id, other.identity)).holder == other.identity

    async def test_a_process_that_seems_dead_may_write_until_a_takeover(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)
        lease = await store.acquire_lease(session.id, gone)

        await store.append(session.id, lease.epoch, Draft(role="user", content="late"))

        renewed = await store.renew_lease(lease)
        assert renewed.epoch == lease.epoch
        assert await store.find_lease(session.id) is None

    async def test_a_dead_processs_turns_are_interrupted_at_once(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await open_store(clock)
        lease = await gone.acquire_lease(session.id, f"{gone.identity}#1")
        await gone.record(session.id, lease.epoch, StartTurn(turn_id="t"))
        assert await store.interrupt_turns(session.id) == ()

        await gone.close()

        (turn,) = await store.interrupt_turns(session.id)
        assert (turn.id, turn.status) == ("t", "interrupted")

    async def test_what_a_dead_process_leased_may_be_purged(
        self, store: Store, other: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)
        dead, living = await make(store), await make(store)
        await store.acquire_lease(dead.id, gone)
        await other.acquire_lease(living.id, other.identity)
        await store.delete_sessions([dead.id, living.id])

        assert await store.purge_trash(clock() + DAY) == (dead.id,)

    async def test_what_a_dead_process_leased_is_not_spared(
        self, store: Store, other: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        gone = await dead_identity(open_store, clock)
        dead, living = await make(store), await make(store)
        clock.advance(DAY)
        await make(store)
        await store.acquire_lease(dead.id, gone)
        await other.acquire_lease(living.id, other.identity)

        assert await store.prune_old_sessions(clock()) == (dead.id,)
