"""`ports.Processes`: who shares the store, and what becomes of what the dead ones held.

A closed handle is a dead process here. That a killed one is, too, needs a process to kill: see the
store's own tests.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from clew.core.changes import StartTurn
from clew.core.message import Draft
from clew.core.session import NewSession, SessionEdit
from clew.errors import InvalidInput, LeaseHeld, SessionNotFound
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    OpenStore,
    dead_identity,
    make,
    say,
)


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
    async def test_whoever_is_not_known_counts_as_living(self, store: Store, name: str) -> None:
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

    async def test_the_pulse_changes_with_every_commit_of_anybody(
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
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
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
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
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        session = await make(store)
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
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        session = await make(store)
        gone = await dead_identity(open_store, clock)
        await store.acquire_lease(session.id, f"{gone}#lane 1")

        assert await store.find_lease(session.id) is None
        mine = await store.acquire_lease(session.id, f"{store.identity}#lane 1")
        assert await store.find_lease(session.id) == mine

    async def test_only_the_very_same_holder_takes_a_living_lease_again(self, store: Store) -> None:
        session = await make(store)
        lease = await store.acquire_lease(session.id, f"{store.identity}#1")

        for holder in (store.identity, f"{store.identity}#2"):
            with pytest.raises(LeaseHeld):
                await store.acquire_lease(session.id, holder)

        again = await store.acquire_lease(session.id, f"{store.identity}#1")
        assert again.epoch > lease.epoch

    async def test_a_living_processs_lease_still_runs_out(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        await store.acquire_lease(session.id, store.identity, ttl=SECOND)
        clock.advance(SECOND)

        assert await other.find_lease(session.id) is None
        assert (await other.acquire_lease(session.id, other.identity)).holder == other.identity

    async def test_who_is_taken_for_dead_may_write_until_somebody_takes_over(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        session = await make(store)
        gone = await dead_identity(open_store, clock)
        lease = await store.acquire_lease(session.id, gone)

        await store.append(session.id, lease.epoch, Draft(role="user", content="late"))

        renewed = await store.renew_lease(lease)
        assert renewed.epoch == lease.epoch
        assert await store.find_lease(session.id) is None

    async def test_a_dead_processs_turns_are_interrupted_at_once(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        session = await make(store)
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
