"""`ports.Trash`: deleting, bringing back, and removing for good."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.changes import AddMessage, WriteScratch
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.errors import BlobNotFound, Locked, SessionNotFound
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, found, listed, make, read, record, say


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

    async def test_what_is_not_there_to_delete_is_not_reported(self, store: Store) -> None:
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

    async def test_a_key_that_was_made_anew_stays_with_the_new_session(self, store: Store) -> None:
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
            await store.delete_sessions([session.id])
            await store.purge_sessions([session.id])

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

        await store.delete_sessions([parent.id])
        await store.purge_sessions([parent.id])

        assert (await store.get_blob(blob)).data == b"1"
        with pytest.raises(BlobNotFound):
            await store.get_blob(late)
        await store.delete_sessions([fork.id])
        await store.purge_sessions([fork.id])
        with pytest.raises(BlobNotFound):
            await store.get_blob(blob)

    async def test_of_two_deletions_at_once_each_session_goes_once(
        self, store: Store, other: Store
    ) -> None:
        ids = [(await make(store)).id for _ in range(10)]

        one, two = await asyncio.gather(store.delete_sessions(ids), other.delete_sessions(ids))

        assert sorted(one + two) == sorted(ids)

    async def test_deleting_never_changes_the_time_of_update(
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        clock.advance(SECOND)

        await store.delete_sessions([session.id])

        assert (await store.get_session(session.id)).updated_at == session.updated_at
