"""`ports.Leases`: the right to run the next turn, and the epoch that fences late writers."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.message import Draft
from clew.core.turn import LEASE_MS, Lease
from clew.errors import LeaseHeld, SessionNotFound, StaleLease
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, make, read


class LeasesContract(Contract):
    """Leases."""

    async def test_a_lease_lasts_thirty_seconds(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)

        lease = await store.acquire_lease(session.id, "me")

        assert (lease.session_id, lease.holder) == (session.id, "me")
        assert lease.expires_at == clock() + 30 * SECOND
        assert await other.find_lease(session.id) == lease
        clock.advance(30 * SECOND - 1)
        assert await other.find_lease(session.id) == lease
        clock.advance(1)
        assert await other.find_lease(session.id) is None

    async def test_another_runner_is_refused_while_the_lease_is_alive(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me", ttl=SECOND)
        clock.advance(SECOND - 1)

        with pytest.raises(LeaseHeld) as refused:
            await other.acquire_lease(session.id, "you")

        assert (refused.value.holder, refused.value.expires_at) == ("me", lease.expires_at)
        assert await store.find_lease(session.id) == lease

    async def test_a_lease_that_ran_out_is_taken_over_with_a_higher_epoch(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        mine = await store.acquire_lease(session.id, "me")
        clock.advance(LEASE_MS)

        yours = await other.acquire_lease(session.id, "you")

        assert yours.epoch > mine.epoch
        assert await store.find_lease(session.id) == yours

    async def test_a_late_writer_is_refused_after_a_takeover(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
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
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        clock.advance(LEASE_MS + SECOND)

        await store.append(session.id, lease.epoch, Draft(role="user", content="slow"))

        renewed = await store.renew_lease(lease)
        assert await store.find_lease(session.id) == renewed
        assert await read(store, session.id) == ["slow"]

    async def test_the_holder_may_take_its_lease_again(self, store: Store) -> None:
        session = await make(store)
        first = await store.acquire_lease(session.id, "me")

        second = await store.acquire_lease(session.id, "me")

        assert second.epoch > first.epoch
        with pytest.raises(StaleLease):
            await store.append(session.id, first.epoch, Draft(role="user"))
        await store.append(session.id, second.epoch, Draft(role="user"))

    async def test_a_renewed_lease_is_the_same_for_longer(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        clock.advance(10 * SECOND)

        renewed = await store.renew_lease(lease, ttl=5 * SECOND)

        assert renewed == Lease(session.id, "me", lease.epoch, clock() + 5 * SECOND)
        assert await other.find_lease(session.id) == renewed

    async def test_a_released_lease_is_free_at_once(self, store: Store, other: Store) -> None:
        session = await make(store)
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
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
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

    async def test_a_lease_never_changes_the_session(self, store: Store, clock: FakeClock) -> None:
        session = await make(store)
        clock.advance(SECOND)

        lease = await store.acquire_lease(session.id, "me")
        await store.renew_lease(lease)
        await store.release_lease(lease)

        assert await store.get_session(session.id) == session
