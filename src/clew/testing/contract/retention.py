"""`ports.Trash`: pruning by age, and the retention pass with its numbers."""

from __future__ import annotations

import pytest

from clew.core.changes import WriteScratch
from clew.core.retention import Retained, Retention, RetentionAction
from clew.core.session import SessionEdit
from clew.ports import Store
from clew.testing.clock import DAY, FakeClock
from clew.testing.contract.case import Contract, listed, make, record, say


async def make_days(store: Store, clock: FakeClock, count: int) -> list[str]:
    """Sessions of ten bytes, one a day, oldest first."""
    ids = []
    for _ in range(count):
        ids.append((await make(store)).id)
        await say(store, ids[-1], "0123456789")
        clock.advance(DAY)
    return ids


class RetentionContract(Contract):
    """Putting old sessions away."""

    async def test_sessions_last_updated_before_a_time_are_archived(
        self, store: Store, clock: FakeClock
    ) -> None:
        ids = await make_days(store, clock, 4)

        pruned = await store.prune_old_sessions(clock() - 2 * DAY)

        assert pruned == (ids[0], ids[1])
        assert await listed(store) == [ids[3], ids[2]]
        assert (await store.get_session(ids[0])).archived_at == clock()
        assert await store.prune_old_sessions(clock() - 2 * DAY) == ()

    async def test_pruning_can_trash_instead(self, store: Store, clock: FakeClock) -> None:
        ids = await make_days(store, clock, 2)

        assert await store.prune_old_sessions(clock() - DAY, action="delete") == (ids[0],)

        assert await listed(store, trashed=True) == [ids[0]]

    @pytest.mark.parametrize("action", ["archive", "delete"])
    async def test_a_dry_run_tells_and_does_nothing(
        self, store: Store, clock: FakeClock, action: RetentionAction
    ) -> None:
        ids = await make_days(store, clock, 3)
        policy = Retention(retention_days=1, max_storage_bytes=1, action=action)

        assert await store.prune_old_sessions(clock(), action=action, dry_run=True) == (
            ids[0], ids[1],
        )  # fmt: skip
        assert (await store.retain(policy, dry_run=True)).ids == (ids[0], ids[1])

        assert await listed(store) == ids[::-1]

    async def test_pinned_attached_leased_and_newest_sessions_are_spared(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        pinned, attached, leased, old, newest = await make_days(store, clock, 5)
        await store.edit_session(pinned, SessionEdit(pinned=True))
        clock.advance(365 * DAY)
        await other.attach(attached)
        await other.acquire_lease(leased, "runner")

        assert await store.prune_old_sessions(clock(), dry_run=True) == (old,)
        assert await store.retain(Retention(), dry_run=True) == Retained("archive", (old,))
        tiny = Retention(retention_days=0, max_storage_bytes=1)
        assert await store.retain(tiny) == Retained("archive", (), (old,))
        assert set(await listed(store)) == {pinned, attached, leased, newest}

    async def test_a_lease_that_ran_out_spares_nothing(
        self, store: Store, clock: FakeClock
    ) -> None:
        old, _ = await make_days(store, clock, 2)
        await store.acquire_lease(old, "dead")
        clock.advance(DAY)

        assert await store.prune_old_sessions(clock()) == (old,)

    async def test_the_lone_session_is_spared(self, store: Store, clock: FakeClock) -> None:
        await make_days(store, clock, 1)
        clock.advance(365 * DAY)

        assert await store.retain(Retention(max_storage_bytes=1)) == Retained("archive")

    async def test_idle_for_ninety_days_is_too_long(self, store: Store, clock: FakeClock) -> None:
        ids = await make_days(store, clock, 3)
        # Idle now: 3, 2 and 1 days.
        clock.advance(88 * DAY - 1)

        assert (await store.retain(Retention())).idle == (ids[0],)
        clock.advance(1)
        assert (await store.retain(Retention())).idle == ()
        clock.advance(1)
        assert (await store.retain(Retention())).idle == (ids[1],)

    async def test_the_oldest_go_until_the_content_fits(
        self, store: Store, clock: FakeClock
    ) -> None:
        ids = await make_days(store, clock, 5)

        exact = await store.retain(Retention(retention_days=0, max_storage_bytes=50))
        over = await store.retain(Retention(retention_days=0, max_storage_bytes=29))

        assert exact.ids == ()
        assert over == Retained("archive", (), tuple(ids[:3]))

    async def test_the_scratchpad_counts_as_content(self, store: Store, clock: FakeClock) -> None:
        ids = await make_days(store, clock, 2)
        await record(store, ids[1], WriteScratch("n", "0123456789"))

        kept = await store.retain(Retention(max_storage_bytes=30))
        gone = await store.retain(Retention(max_storage_bytes=29))

        assert (kept.ids, gone.oversize) == ((), (ids[0],))

    async def test_what_is_put_away_no_longer_counts(self, store: Store, clock: FakeClock) -> None:
        ids = await make_days(store, clock, 4)
        await store.edit_session(ids[0], SessionEdit(archived=True))
        await store.delete_sessions([ids[1]])

        assert (await store.retain(Retention(max_storage_bytes=20))).ids == ()

    async def test_idle_sessions_go_before_the_content_is_measured(
        self, store: Store, clock: FakeClock
    ) -> None:
        ids = await make_days(store, clock, 4)

        done = await store.retain(Retention(retention_days=2, max_storage_bytes=10))

        assert done == Retained("archive", (ids[0], ids[1]), (ids[2],))

    async def test_pins_count_but_stay(self, store: Store, clock: FakeClock) -> None:
        ids = await make_days(store, clock, 3)
        await store.edit_session(ids[0], SessionEdit(pinned=True))

        done = await store.retain(Retention(retention_days=0, max_storage_bytes=20))

        assert done.oversize == (ids[1],)

    @pytest.mark.parametrize("off", [0, -1])
    async def test_zero_and_less_switch_retention_off(
        self, store: Store, clock: FakeClock, off: int
    ) -> None:
        await make_days(store, clock, 3)
        clock.advance(3650 * DAY)

        done = await store.retain(Retention(retention_days=off, max_storage_bytes=off))

        assert done.ids == ()

    async def test_retention_can_trash_instead(self, store: Store, clock: FakeClock) -> None:
        ids = await make_days(store, clock, 3)
        policy = Retention(retention_days=2, max_storage_bytes=10, action="delete")

        done = await store.retain(policy)

        assert done == Retained("delete", (ids[0],), (ids[1],))
        assert set(await listed(store, trashed=True)) == set(ids[:2])

    async def test_an_empty_store_has_nothing_to_put_away(self, store: Store) -> None:
        assert (await store.retain(Retention())).ids == ()
        assert await store.prune_old_sessions(2**50) == ()
