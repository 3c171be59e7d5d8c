"""`ports.Sessions`: titles, pins, archive and trash of many sessions at once, and their undo."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clew.core.session import Session, SessionChange, SessionEdit, SessionFacts, SessionMarks
from clew.errors import InvalidInput
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, listed, make, purge, say


def except_revision(session: Session) -> Session:
    """A session without the number that goes up with every edit."""
    return msgspec.structs.replace(session, revision=0)


async def read_all(store: Store, ids: list[str]) -> list[Session]:
    """Sessions as they are, without their revisions."""
    return [except_revision(await store.get_session(each)) for each in ids]


class MarksContract(Contract):
    """Many sessions changed in one commit, and changed back."""

    @pytest.mark.parametrize(
        "change",
        [
            {"title": "New"},
            {"title": None},
            {"pinned": True},
            {"pinned": False},
            {"archived": True},
            {"archived": False},
            {"trashed": True},
            {"trashed": False},
            {"title": "New", "pinned": True, "archived": True},
        ],
    )
    async def test_a_change_of_many_is_undone_exactly(
        self, store: Store, clock: FakeClock, change: dict[str, Any]
    ) -> None:
        made = [(await make(store, title=title)).id for title in ("A", None, "C", "New", None)]
        await store.describe_session(made[1], SessionFacts(title="by a model"))
        await store.edit_session(made[2], SessionEdit(pinned=True, archived=True))
        clock.advance(SECOND)
        await store.edit_session(made[3], SessionEdit(archived=True))
        await store.delete_sessions([made[4]])
        await store.delete_sessions([made[0]])
        before = await read_all(store, made)
        clock.advance(SECOND)

        changes = await store.mark_sessions(made, **change)
        after = await read_all(store, made)
        clock.advance(SECOND)
        undone = await store.undo_marks(changes)

        changed = [each for each, one, two in zip(made, before, after, strict=True) if one != two]
        assert changed
        assert [each.id for each in changes] == list(undone) == changed
        assert await read_all(store, made) == before

    async def test_a_delete_of_many_and_its_undo_leave_the_rest_of_the_trash(
        self, store: Store
    ) -> None:
        kept = (await make(store)).id
        old = [(await make(store)).id for _ in range(3)]
        await store.mark_sessions(old, trashed=True)
        forty = [(await make(store)).id for _ in range(40)]

        changes = await store.mark_sessions([*forty, *old, UNKNOWN], trashed=True)
        assert await listed(store) == [kept]
        later = await store.mark_sessions([kept], trashed=True)

        assert set(await store.undo_marks(changes)) == set(forty)
        assert set(await listed(store)) == set(forty)
        assert set(await listed(store, trashed=True)) == {*old, kept}
        assert await store.undo_marks(later) == (kept,)

    async def test_what_was_changed_since_is_left_alone(self, store: Store) -> None:
        renamed, archived, gone, other = [(await make(store, title="T")).id for _ in range(4)]
        changes = await store.mark_sessions([renamed, archived, gone, other], archived=True)
        titles = await store.mark_sessions([renamed, other], title="Mine")
        await store.edit_session(renamed, SessionEdit(title="Another's"))
        await store.edit_session(other, SessionEdit(pinned=True))
        await say(store, archived, "un-archives it")
        await purge(store, gone)

        assert await store.undo_marks(titles) == (other,), "a pin is no change of the title"
        assert await store.undo_marks(changes) == (renamed, archived, other)
        assert (await store.get_session(renamed)).title == "Another's"
        assert (await store.get_session(other)).title == "T"
        assert (await store.get_session(other)).pinned

    async def test_an_edit_raises_the_revision_and_a_deletion_does_not(
        self, store: Store, session: Session
    ) -> None:
        (change,) = await store.mark_sessions([session.id], title="  New ")
        assert (change.after.title, change.after.title_by) == ("New", "user")
        assert (await store.get_session(session.id)).revision == session.revision + 1
        assert await store.mark_sessions([session.id], title="New") == ()
        assert await store.find_titles("NEW") != ()
        await store.undo_marks([change])
        assert (await store.get_session(session.id)).revision == session.revision + 2
        assert await store.find_titles("new") == ()
        await store.mark_sessions([session.id], trashed=True)
        assert (await store.get_session(session.id)).revision == session.revision + 2

    async def test_one_undo_of_the_trash_restores_what_was_marked_together(
        self, store: Store
    ) -> None:
        first = [(await make(store)).id for _ in range(2)]
        second = [(await make(store)).id for _ in range(2)]
        await store.mark_sessions(first, trashed=True)
        await store.mark_sessions(second, trashed=True)

        assert set(await store.restore_last()) == set(second)
        assert set(await store.restore_last()) == set(first)

    async def test_what_is_no_change_is_refused(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        wrong: Any = "yes"
        future = SessionMarks(deleted_at=clock() + 10**9)
        now = SessionMarks(deleted_at=None)
        twice = SessionChange(session.id, now, now)

        with pytest.raises(InvalidInput):
            await store.mark_sessions([session.id], pinned=wrong)
        with pytest.raises(InvalidInput):
            await store.mark_sessions([session.id], title="x" * 201)
        with pytest.raises(InvalidInput):
            await store.undo_marks([SessionChange(session.id, future, now)])
        with pytest.raises(InvalidInput):
            await store.undo_marks([twice, twice])
        assert await store.get_session(session.id) == session
        assert await store.undo_marks([]) == ()
