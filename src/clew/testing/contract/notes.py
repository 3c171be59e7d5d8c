"""`ports.Notes`: scratchpad, todo list, compactions and blobs."""

from __future__ import annotations

import hashlib

import pytest

from clew.core.changes import (
    AddCompaction,
    AddMessage,
    DeleteScratch,
    UndoCompaction,
    WriteScratch,
    WriteTodos,
)
from clew.core.message import Draft
from clew.core.notes import Blob, ScratchEntry, Todo
from clew.core.session import Session
from clew.errors import BlobNotFound, InvalidInput, RecordNotFound, SessionNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, make, read, record, say


def compact(compaction_id: str, keep_from: int, summary: str = "sum") -> AddCompaction:
    """A compaction with everything in it."""
    return AddCompaction(
        compaction_id=compaction_id,
        keep_from=keep_from,
        summary=summary,
        short_summary=f"{summary}, short",
        tokens_before=100,
        tokens_after=10,
    )


class NotesContract(Contract):
    """What a session carries beside its messages."""

    async def test_scratchpad_entries_are_listed_by_name_without_content(
        self, store: Store, clock: FakeClock
    ) -> None:
        session, stranger = await make(store), await make(store)
        await record(store, stranger.id, WriteScratch("a", "elsewhere"))

        await record(store, session.id, WriteScratch("b", "zwölf"), WriteScratch("a", ""))

        assert await store.list_scratch(session.id) == (
            ScratchEntry("a", "", 0, clock()),
            ScratchEntry("b", "", 6, clock()),
        )
        assert await store.find_scratch(session.id, "b") == ScratchEntry("b", "zwölf", 6, clock())
        assert await store.find_scratch(session.id, "c") is None

    async def test_an_entry_is_written_over_an_older_one(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, WriteScratch("a", "old and long"))
        now = clock.advance(SECOND)

        await record(store, session.id, WriteScratch("a", "new"))

        assert await store.list_scratch(session.id) == (ScratchEntry("a", "", 3, now),)
        assert (await store.get_session(session.id)).content_bytes == 3

    async def test_a_deleted_entry_is_gone_and_one_that_is_not_there_is_fine(
        self, store: Store, session: Session
    ) -> None:
        await record(store, session.id, WriteScratch("a", "x"), WriteScratch("b", "y"))

        await record(store, session.id, DeleteScratch("a"), DeleteScratch("none"))

        assert [entry.name for entry in await store.list_scratch(session.id)] == ["b"]
        assert (await store.get_session(session.id)).content_bytes == 1

    async def test_an_entry_needs_a_name(self, store: Store, session: Session) -> None:
        with pytest.raises(InvalidInput):
            await record(store, session.id, WriteScratch("", "x"))

    async def test_the_todo_list_is_replaced_in_its_order(
        self, store: Store, session: Session
    ) -> None:
        todos = (Todo("b"), Todo("a", "in_progress"), Todo("b", "done"), Todo("", "cancelled"))
        await record(store, session.id, WriteTodos((Todo("old"),)))

        await record(store, session.id, WriteTodos(todos))

        assert await store.get_todos(session.id) == todos
        await record(store, session.id, WriteTodos(()))
        assert await store.get_todos(session.id) == ()

    async def test_what_was_never_written_is_empty(self, store: Store) -> None:
        for session_id in ((await make(store)).id, UNKNOWN):
            assert await store.list_scratch(session_id) == ()
            assert await store.get_todos(session_id) == ()
            assert await store.find_compaction(session_id) is None
            assert await store.list_compactions(session_id) == ()

    async def test_a_compaction_holds_and_deletes_nothing(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await say(store, session.id, "1", "2", "3")

        await record(store, session.id, compact("a", 3))

        held = await store.find_compaction(session.id)
        assert held is not None
        assert (held.id, held.session_id, held.keep_from, held.made_at_seq) == (
            "a", session.id, 3, 3,
        )  # fmt: skip
        assert (held.summary, held.short_summary) == ("sum", "sum, short")
        assert (held.tokens_before, held.tokens_after, held.created_at) == (100, 10, clock())
        after = await store.get_session(session.id)
        assert (after.compactions, after.short_summary) == (1, "sum, short")
        assert await read(store, session.id) == ["1", "2", "3"]

    async def test_the_latest_compaction_holds_until_it_is_undone(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await say(store, session.id, "1", "2", "3")
        await record(store, session.id, compact("b", 2, "first"))
        await record(store, session.id, compact("a", 3, "second"))
        held = await store.find_compaction(session.id)
        now = clock.advance(SECOND)

        await record(store, session.id, UndoCompaction("a"))

        before = await store.find_compaction(session.id)
        assert (held and held.id, before and before.id) == ("a", "b")
        listed = await store.list_compactions(session.id)
        assert [(each.id, each.undone_at) for each in listed] == [("b", None), ("a", now)]
        assert (await store.get_session(session.id)).short_summary == "first, short"

    async def test_an_unknown_compaction_can_not_be_undone(self, store: Store) -> None:
        session, stranger = await make(store), await make(store)
        await record(store, stranger.id, compact("a", 1))

        for compaction_id in ("none", "a"):
            with pytest.raises(RecordNotFound):
                await record(store, session.id, UndoCompaction(compaction_id))

    @pytest.mark.parametrize("keep_from", [-1, 0, 4, 2**63])
    async def test_a_compaction_keeps_from_within_the_thread(
        self, store: Store, session: Session, keep_from: int
    ) -> None:
        await say(store, session.id, "1", "2")

        with pytest.raises(InvalidInput):
            await record(store, session.id, compact("a", keep_from))

    async def test_the_same_bytes_are_kept_once(self, store: Store, other: Store) -> None:
        data = bytes(range(256)) * 10

        first = await store.put_blob(data, "image/png")
        second = await other.put_blob(data, "image/png")

        assert first == second == hashlib.sha256(data).hexdigest()
        assert await other.get_blob(first) == Blob(first, "image/png", data)

    async def test_a_thread_has_the_blobs_of_its_messages_and_no_others(
        self, store: Store, session: Session
    ) -> None:
        early, late = await store.put_blob(b"early", "a/b"), await store.put_blob(b"late", "a/b")
        await say(store, session.id, "before")
        with_early = Draft(role="user", content="1", parts=({"blob": early},))
        with_late = Draft(role="user", content="2", parts=({"blob": late},))
        await record(store, session.id, AddMessage(with_early))
        fork = await store.fork_session(session.id, at=2)
        await record(store, session.id, AddMessage(with_late))
        stranger = await make(store)

        assert await store.has_blob(session.id, early)
        assert await store.has_blob(session.id, late)
        assert await store.has_blob(fork.id, early), "inherited"
        assert not await store.has_blob(fork.id, late), "said after the fork"
        assert not await store.has_blob(stranger.id, early)
        assert not await store.has_blob(session.id, "no hash")
        with pytest.raises(SessionNotFound):
            await store.has_blob(UNKNOWN, early)

    async def test_no_bytes_are_bytes_too(self, store: Store) -> None:
        empty = await store.put_blob(b"", "text/plain")

        assert (await store.get_blob(empty)).data == b""

    @pytest.mark.parametrize("blob_hash", ["", "none", "0" * 64, "\0", "\ud800"])
    async def test_an_unknown_blob_is_not_found(self, store: Store, blob_hash: str) -> None:
        with pytest.raises(BlobNotFound):
            await store.get_blob(blob_hash)
