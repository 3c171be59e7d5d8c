"""`ports.Sessions`: lists, their filters, their cursors, and who sees what."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.session import SessionEdit, SessionFilter
from clew.errors import InvalidCursor
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract, listed, make, say

GUEST = "telegram:7"


async def pages(store: Store, where: SessionFilter, limit: int) -> list[list[str]]:
    """A list, page by page."""
    found: list[list[str]] = []
    cursor = None
    while True:
        page = await store.list_sessions(where, limit=limit, cursor=cursor)
        found.append([session.id for session in page.sessions])
        cursor = page.cursor
        if cursor is None:
            return found


def flat(found: list[list[str]]) -> list[str]:
    """All pages in one."""
    return [session_id for page in found for session_id in page]


class ListingContract(Contract):
    """Pages of sessions."""

    async def test_a_list_is_pinned_first_then_newest_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(4):
            made.append((await make(store)).id)
            clock.advance(1)
        await store.edit_session(made[1], SessionEdit(pinned=True))
        await say(store, made[0], "moves up")

        assert await listed(store) == [made[1], made[0], made[3], made[2]]

    async def test_sessions_of_one_millisecond_are_listed_in_a_fixed_order(
        self, store: Store
    ) -> None:
        made = [(await make(store)).id for _ in range(25)]
        where = SessionFilter(viewer="owner")

        whole = await listed(store)

        assert sorted(whole) == sorted(made)
        assert whole in (sorted(made), sorted(made, reverse=True))
        assert flat(await pages(store, where, 7)) == whole

    async def test_a_list_shows_all_there_is_to_a_session(self, store: Store) -> None:
        session = await make(store, title="T", cwd="/here")
        await say(store, session.id, "first", "second")

        page = await store.list_sessions(SessionFilter(viewer="owner"))

        assert page.sessions == (await store.get_session(session.id),)
        assert (page.sessions[0].preview, page.sessions[0].message_count) == ("first", 2)
        assert page.cursor is None

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7])
    async def test_pages_add_up_to_the_list(
        self, store: Store, clock: FakeClock, size: int
    ) -> None:
        for number in range(6):
            session = await make(store)
            await store.edit_session(session.id, SessionEdit(pinned=number % 3 == 0))
            clock.advance(number % 2)

        found = await pages(store, SessionFilter(viewer="owner"), size)

        assert flat(found) == await listed(store)
        assert all(len(page) == size for page in found[:-1])
        assert found[-1]

    async def test_a_cursor_goes_on_where_its_page_ended_while_rows_change(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(8):
            made.append((await make(store)).id)
            clock.advance(1)
        where = SessionFilter(viewer="owner")
        first = await store.list_sessions(where, limit=3)

        await make(store)
        await say(store, made[1], "moves to the top")
        await store.delete_sessions([made[5], made[2]])
        rest = await store.list_sessions(where, limit=10, cursor=first.cursor)

        assert [session.id for session in first.sessions] == [made[7], made[6], made[5]]
        assert [session.id for session in rest.sessions] == [made[4], made[3], made[0]]

    async def test_a_list_of_active_and_archived_sessions_has_one_order(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for number in range(6):
            made.append((await make(store)).id)
            await store.edit_session(made[-1], SessionEdit(archived=number % 2 == 0))
            clock.advance(1)
        where = SessionFilter(viewer="owner", archived=None)

        assert flat(await pages(store, where, 2)) == made[::-1]

    @pytest.mark.parametrize("cursor", ["", "x", "!!!!", "bnVsbA", "WzEsMl0", "é", "\ud800", "\0"])
    async def test_a_cursor_from_elsewhere_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidCursor):
            await store.list_sessions(SessionFilter(viewer="owner"), cursor=cursor)

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ({}, "abcde"),
            ({"platform": "telegram"}, "b"),
            ({"agent": "research"}, "c"),
            ({"kind": "group"}, "b"),
            ({"cwd": "/one"}, "ad"),
            ({"project": "/p"}, "de"),
            ({"cwd": "/one", "project": "/p"}, "d"),
            ({"platform": "cli", "cwd": "/nowhere"}, ""),
            ({"text": "ÉCLAIR"}, "a"),
            ({"text": "hello"}, "e"),
            ({"text": "THERE, Über"}, "e"),
            ({"text": "üBER"}, "e"),
            ({"text": "привет"}, "e"),
            ({"text": "100%"}, "d"),
            ({"text": "_"}, ""),
        ],
    )
    async def test_a_filter_picks_its_sessions(
        self, store: Store, where: dict[str, Any], expected: str
    ) -> None:
        made = {
            "a": await make(store, cwd="/one", title="Petit éclair"),
            "b": await make(store, platform="telegram", kind="group"),
            "c": await make(store, agent="research"),
            "d": await make(store, cwd="/one", project="/p", title="100% sure"),
            "e": await make(store, project="/p"),
        }
        await say(store, made["e"].id, "Hello there, über ПРИВЕТ")

        assert set(await listed(store, **where)) == {made[name].id for name in expected}
        count = await store.count_sessions(SessionFilter(viewer="owner", **where))
        assert count == len(expected)

    async def test_active_since_is_inclusive(self, store: Store, clock: FakeClock) -> None:
        await make(store)
        now = clock.advance(SECOND)
        recent = await make(store)

        assert await listed(store, active_since=now) == [recent.id]
        assert await listed(store, active_since=now + 1) == []

    async def test_archived_sessions_are_shown_when_asked_for(self, store: Store) -> None:
        active, archived = await make(store), await make(store)
        await store.edit_session(archived.id, SessionEdit(archived=True))

        assert await listed(store) == [active.id]
        assert await listed(store, archived=True) == [archived.id]
        assert set(await listed(store, archived=None)) == {active.id, archived.id}

    async def test_the_trash_lists_the_latest_deletion_first(
        self, store: Store, clock: FakeClock
    ) -> None:
        made = []
        for _ in range(3):
            made.append((await make(store)).id)
            clock.advance(1)
        for each in (made[2], made[0], made[1]):
            await store.delete_sessions([each])
            clock.advance(1)
        await store.purge_sessions([made[0]])

        assert await listed(store, trashed=True) == [made[1], made[2]]
        assert await listed(store, trashed=True, archived=None) == [made[1], made[2]]
        assert await store.count_sessions(SessionFilter(viewer="owner", trashed=True)) == 2
        assert await pages(store, SessionFilter(viewer="owner", trashed=True), 1) == [
            [made[1]],
            [made[2]],
        ]

    async def test_the_trash_lists_archived_sessions_too(self, store: Store) -> None:
        session = await make(store)
        await store.edit_session(session.id, SessionEdit(archived=True))
        await store.delete_sessions([session.id])

        assert await listed(store, trashed=True) == [session.id]

    async def test_a_guest_sees_only_its_own_sessions(self, store: Store) -> None:
        owners, guests = await make(store), await make(store, person=GUEST)
        await make(store, person="telegram:8")
        gone = await make(store, person=GUEST)
        hidden = await make(store)
        await store.delete_sessions([gone.id, hidden.id])

        assert await listed(store, viewer=GUEST) == [guests.id]
        assert await listed(store, viewer=GUEST, archived=None) == [guests.id]
        assert await listed(store, viewer=GUEST, trashed=True) == [gone.id]
        assert await listed(store, viewer="nobody") == []
        assert await store.count_sessions(SessionFilter(viewer=GUEST)) == 1
        assert owners.id not in await listed(store, viewer=GUEST, text="")

    async def test_the_owner_sees_every_session(self, store: Store) -> None:
        made = {(await make(store)).id, (await make(store, person=GUEST)).id}

        assert set(await listed(store)) == made
