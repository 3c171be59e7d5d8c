"""`ports.Trash`: delete, restore, purge, prune by age, and the retention pass."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.changes import AddMessage, WriteScratch
from clew.core.message import Draft
from clew.core.session import NewSession, Retained, Retention, RetentionAction, Session, SessionEdit
from clew.errors import BlobNotFound, Locked, SessionNotFound
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    found,
    listed,
    make,
    purge,
    read,
    record,
    say,
)


class TrashContract(Contract):
    """The trash."""

    async def test_a_deleted_session_is_gone_at_once(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store, "cli:a")
        await say(store, session.id, "apple")

        assert await store.delete_sessions([session.id]) == (session.id,)

        assert await listed(other, archived=None) == []
        assert await found(other, "apple") == set()
        assert await other.find_route("cli:a") is None
        assert (await other.get_session(session.id)).deleted_at == clock()
        assert await read(other, session.id) == ["apple"]

    async def test_unknown_and_deleted_sessions_are_not_reported(self, store: Store) -> None:
        one, two, gone = [(await make(store)).id for _ in range(3)]
        await store.delete_sessions([gone])

        assert await store.delete_sessions([one, UNKNOWN, gone, two, one]) == (one, two)
        assert await store.delete_sessions([]) == ()

    async def test_a_restored_session_is_back_as_it_was(self, store: Store) -> None:
        session = await make(store, "cli:a")
        await say(store, session.id, "apple")
        before = await store.get_session(session.id)
        await store.delete_sessions([session.id])

        assert await store.restore_sessions([session.id, UNKNOWN]) == (session.id,)

        assert await store.get_session(session.id) == before
        assert await listed(store) == [session.id]
        assert await store.find_route("cli:a") == before
        assert await store.restore_sessions([session.id]) == ()

    async def test_a_key_that_was_opened_again_stays_with_the_new_session(
        self, store: Store
    ) -> None:
        old, _ = await store.open_session(NewSession(key="cli:a"))
        await store.delete_sessions([old.id])
        new, _ = await store.open_session(NewSession(key="cli:a"))

        await store.restore_sessions([old.id])

        assert await store.find_route("cli:a") == new

    async def test_the_latest_deletion_is_brought_back_whole(self, store: Store) -> None:
        ids = [(await make(store)).id for _ in range(5)]
        # All in the same millisecond.
        await store.delete_sessions(ids[:2])
        await store.delete_sessions(ids[2:])
        await store.restore_sessions([ids[3]])

        assert set(await store.restore_last()) == {ids[2], ids[4]}
        assert set(await listed(store)) == set(ids[2:])

    async def test_with_an_empty_trash_there_is_nothing_to_bring_back(self, store: Store) -> None:
        await make(store)

        assert await store.restore_last() == ()

    async def test_only_trashed_sessions_are_purged(self, store: Store) -> None:
        kept, gone = await make(store), await make(store)
        await store.delete_sessions([gone.id])

        assert await store.purge_sessions([kept.id, UNKNOWN, gone.id]) == (gone.id,)

        assert await listed(store, archived=None) == [kept.id]
        assert await listed(store, trashed=True) == []
        with pytest.raises(SessionNotFound):
            await store.get_messages(gone.id)
        assert await store.purge_sessions([gone.id]) == ()

    async def test_a_session_in_use_is_not_purged(self, store: Store, other: Store) -> None:
        leased, attached, free = [(await make(store)).id for _ in range(3)]
        lease = await other.acquire_lease(leased, "runner")
        await other.attach(attached)
        await store.delete_sessions([leased, attached, free])

        for held in (leased, attached):
            with pytest.raises(Locked):
                await store.purge_sessions([free, held])
        assert len(await listed(store, trashed=True)) == 3

        await other.release_lease(lease)
        await other.detach(attached)
        assert set(await store.purge_sessions([leased, attached, free])) == {
            leased,
            attached,
            free,
        }

    async def test_a_purge_of_the_whole_trash_leaves_what_is_in_use(
        self, store: Store, clock: FakeClock
    ) -> None:
        leased, free = [(await make(store)).id for _ in range(2)]
        await store.acquire_lease(leased, "runner")
        await store.delete_sessions([leased, free])

        assert await store.purge_trash(clock() + SECOND) == (free,)

        assert await listed(store, trashed=True) == [leased]

    async def test_a_purge_leaves_nothing_behind(self, store: Store) -> None:
        session = await make(store, "cli:a")
        await say(store, session.id, *["apple"] * 450)
        await record(store, session.id, WriteScratch("n", "x"))
        await store.delete_sessions([session.id])

        await store.purge_sessions([session.id])

        stats = await store.stats()
        assert (stats.messages, stats.content_bytes, stats.trashed) == (0, 0, 0)
        assert await store.list_routes(session.id) == ()
        again = await make(store, id=session.id)
        assert await store.list_scratch(again.id) == ()

    async def test_the_trash_is_purged_by_its_age(self, store: Store, clock: FakeClock) -> None:
        ids = [(await make(store)).id for _ in range(3)]
        for each in ids:
            await store.delete_sessions([each])
            clock.advance(DAY)

        purged = await store.purge_trash(clock() - 2 * DAY)

        assert purged == (ids[0],)
        assert set(await listed(store, trashed=True)) == set(ids[1:])

    async def test_a_blob_goes_with_the_last_message_that_needs_it(self, store: Store) -> None:
        blob = await store.put_blob(b"picture", "image/png")
        sessions = [await make(store) for _ in range(2)]
        for session in sessions:
            await record(store, session.id, AddMessage(Draft(role="user", parts=({"blob": blob},))))

        for number, session in enumerate(sessions):
            assert (await store.get_blob(blob)).data == b"picture", number
            await purge(store, session.id)

        with pytest.raises(BlobNotFound):
            await store.get_blob(blob)

    async def test_a_blob_stays_while_a_fork_needs_it(self, store: Store) -> None:
        blob, late = (
            await store.put_blob(b"1", "image/png"),
            await store.put_blob(b"2", "image/png"),
        )
        parent = await make(store)
        for each in (blob, late):
            await record(store, parent.id, AddMessage(Draft(role="user", parts=({"blob": each},))))
        fork = await store.fork_session(parent.id, at=1)

        await purge(store, parent.id)

        assert (await store.get_blob(blob)).data == b"1"
        with pytest.raises(BlobNotFound):
            await store.get_blob(late)
        await purge(store, fork.id)
        with pytest.raises(BlobNotFound):
            await store.get_blob(blob)

    async def test_of_two_deletions_at_once_each_session_goes_once(
        self, store: Store, other: Store
    ) -> None:
        ids = [(await make(store)).id for _ in range(10)]

        one, two = await asyncio.gather(store.delete_sessions(ids), other.delete_sessions(ids))

        assert sorted(one + two) == sorted(ids)

    async def test_deleting_never_changes_the_time_of_update(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        clock.advance(SECOND)

        await store.delete_sessions([session.id])

        assert (await store.get_session(session.id)).updated_at == session.updated_at


async def make_days(store: Store, clock: FakeClock, count: int) -> list[str]:
    """Sessions of ten bytes, one a day, oldest first."""
    ids = []
    for _ in range(count):
        ids.append((await make(store)).id)
        await say(store, ids[-1], "0123456789")
        clock.advance(DAY)
    return ids


class RetentionContract(Contract):
    """Retention: archiving or deleting old sessions."""

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

    async def test_pinned_sessions_count_for_the_limit_but_stay(
        self, store: Store, clock: FakeClock
    ) -> None:
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
