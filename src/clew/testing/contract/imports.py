"""`ports.Imports`: where sessions came from, and that retention leaves them alone."""

from __future__ import annotations

import msgspec
import pytest

from clew.core.notes import ImportNote
from clew.core.session import Retained, Retention, RetentionAction
from clew.errors import SessionNotFound
from clew.ports import Store
from clew.testing.clock import DAY, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, listed, make, purge, say


def note_of(session_id: str, **fields: object) -> ImportNote:
    """A note about a session of the agent `other`."""
    given: dict[str, object] = {"agent": "other", "native_id": f"n-{session_id}", "stamp": "1:2"}
    return msgspec.convert(given | {"session_id": session_id, "head": 1} | fields, ImportNote)


async def bring(store: Store, clock: FakeClock, text: str = "0123456789") -> str:
    """A session with one imported message; a day goes by."""
    session = await make(store)
    await say(store, session.id, text)
    await store.note_import(note_of(session.id))
    clock.advance(DAY)
    return session.id


class ImportsContract(Contract):
    """The notes."""

    async def test_a_note_is_listed_under_its_agent(self, store: Store, other: Store) -> None:
        note = note_of((await make(store)).id)
        await store.note_import(note)

        assert await other.list_imports("other") == (note,)
        assert await other.list_imports("Other") == ()

    async def test_a_second_note_replaces_the_first(self, store: Store) -> None:
        session = await make(store)
        await store.note_import(note_of(session.id))
        later = note_of(session.id, stamp="3:4", head=7, native_id="n2")
        await store.note_import(later)

        assert await store.list_imports("other") == (later,)
        assert await store.find_imports(f"n-{session.id}") == ()

    async def test_a_note_outlives_its_session(self, store: Store) -> None:
        kept, trashed, purged = [(await make(store)).id for _ in range(3)]
        for each in (kept, trashed, purged):
            await store.note_import(note_of(each))
        await store.delete_sessions([trashed])
        await purge(store, purged)

        notes = await store.list_imports("other")
        assert {each.session_id: each.gone for each in notes} == {
            kept: None,
            trashed: "trashed",
            purged: "purged",
        }

    async def test_a_session_is_found_by_the_id_that_its_agent_has(
        self, store: Store, clock: FakeClock
    ) -> None:
        old, new, gone = [await bring(store, clock) for _ in range(3)]
        for each in (old, new, gone):
            await store.note_import(note_of(each, native_id="same"))
        await store.delete_sessions([gone])

        assert [each.id for each in await store.find_imports("same")] == [new, old]
        assert [each.id for each in await store.find_imports("same", limit=1)] == [new]
        assert await store.find_imports("Same") == ()
        assert await store.find_imports("") == ()

    async def test_any_text_is_an_id(self, store: Store) -> None:
        session = await make(store)
        note = note_of(session.id, native_id="a\x00\ud800é'", stamp="\x00", agent="\udfff")
        await store.note_import(note)

        assert await store.list_imports("\udfff") == (note,)
        assert [each.id for each in await store.find_imports(note.native_id)] == [session.id]

    async def test_a_session_is_made_with_its_parent(self, store: Store) -> None:
        parent = await make(store)
        await say(store, parent.id, "theirs")
        child = await make(store, parent_id=parent.id, kind="subagent")
        await say(store, child.id, "mine")

        assert (child.parent_id, child.forked_at_seq) == (parent.id, None)
        assert [each.content for each in await store.get_messages(child.id)] == ["mine"]
        with pytest.raises(SessionNotFound):
            await make(store, parent_id=UNKNOWN)

    async def test_a_parent_can_be_purged(self, store: Store) -> None:
        parent = await make(store)
        child = await make(store, parent_id=parent.id)
        await say(store, child.id, "mine")
        await purge(store, parent.id)

        assert [each.content for each in await store.get_messages(child.id)] == ["mine"]

    @pytest.mark.parametrize("action", ["archive", "delete"])
    async def test_retention_leaves_alone_what_was_only_imported(
        self, store: Store, clock: FakeClock, action: RetentionAction
    ) -> None:
        brought = [await bring(store, clock) for _ in range(3)]
        own = await make(store)
        await say(store, own.id, "own")
        clock.advance(365 * DAY)
        await say(store, (await make(store)).id, "the newest")

        assert await store.prune_old_sessions(clock(), action=action, dry_run=True) == (own.id,)
        policy = Retention(max_storage_bytes=1, action=action)
        assert await store.retain(policy) == Retained(action, (own.id,))
        assert set(brought) < set(await listed(store))

    async def test_retention_does_not_count_what_was_only_imported(
        self, store: Store, clock: FakeClock
    ) -> None:
        own = await make(store)
        await say(store, own.id, "0123456789")
        clock.advance(DAY)
        for _ in range(3):
            await bring(store, clock)
        await say(store, (await make(store)).id, "0123456789")

        assert (await store.retain(Retention(max_storage_bytes=20))).ids == ()
        assert (await store.retain(Retention(max_storage_bytes=19))).oversize == (own.id,)

    async def test_an_imported_session_is_like_any_other_once_somebody_talks_in_it(
        self, store: Store, clock: FakeClock
    ) -> None:
        brought = await bring(store, clock)
        await say(store, brought, "let us go on")
        clock.advance(365 * DAY)
        await say(store, (await make(store)).id, "the newest")

        assert (await store.retain(Retention())).idle == (brought,)
