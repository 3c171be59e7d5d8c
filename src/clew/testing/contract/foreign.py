"""What another program needs that keeps its conversations here: its own ids, one-commit records,
facts inside of a record, erasing, and lists of what is its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.changes import (
    AddMessage,
    DescribeSession,
    EndTurn,
    EraseTurn,
    RedoTurn,
    StartTurn,
    UndoTurn,
)
from clew.core.keys import new_id
from clew.core.message import Draft, Role
from clew.core.session import Session, SessionFacts
from clew.core.turn import Lease
from clew.errors import Conflict, LeaseHeld, RecordNotFound, SessionNotFound, StaleLease
from clew.ports import Store
from clew.testing.clock import FakeClock
from clew.testing.contract.case import (
    Contract,
    OpenStore,
    dead_identity,
    find,
    listed,
    make,
    read,
    record,
    say,
    take_turn,
)


def said(content: str, turn_id: str, *, role: Role = "user") -> AddMessage:
    """A message of a turn."""
    return AddMessage(Draft(role=role, content=content), turn_id)


async def external(store: Store, session_id: str, prefix: str, **options: Any) -> list[str | None]:
    """The external ids that are listed."""
    return [each.external_id for each in await store.list_external(session_id, prefix, **options)]


def item(external_id: str, content: str = "hello", *, once: bool = False) -> AddMessage:
    """A message that another program has an id for."""
    return AddMessage(Draft(role="user", content=content, external_id=external_id), once=once)


class ForeignContract(Contract):
    """Records of other programs."""

    async def test_a_record_without_an_epoch_takes_the_lease_for_itself(
        self, store: Store, other: Store, session: Session
    ) -> None:
        await store.record(session.id, None, item("a", "one"))
        await other.record(session.id, None, item("b", "two"))

        assert await read(store, session.id) == ["one", "two"]
        assert await store.find_lease(session.id) is None

    async def test_a_record_without_an_epoch_waits_for_no_living_lease(
        self, store: Store, session: Session, lease: Lease
    ) -> None:
        with pytest.raises(LeaseHeld):
            await store.record(session.id, None, item("a"))
        assert await read(store, session.id) == []

        await store.record(session.id, lease.epoch, item("a"))
        await store.release_lease(lease)
        await store.record(session.id, None, item("b"))
        with pytest.raises(StaleLease):
            await store.record(session.id, lease.epoch, item("c"))

    async def test_a_record_without_an_epoch_passes_over_dead_and_expired_leases(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        dead, old = await make(store), await make(store)
        await store.acquire_lease(dead.id, await dead_identity(open_store, clock))
        await store.acquire_lease(old.id, "me", ttl=1)
        clock.advance(2)

        for each in (dead, old):
            await store.record(each.id, None, item("a"))
            assert await read(store, each.id) == ["hello"]

    async def test_an_idempotency_key_is_recognised_without_an_epoch(
        self, store: Store, session: Session
    ) -> None:
        first = await store.record(session.id, None, item("a"), idempotency_key="k")
        await store.acquire_lease(session.id, "me")
        again = await store.record(session.id, None, item("b"), idempotency_key="k")

        assert again.repeated
        assert again.seqs == first.seqs

    async def test_an_external_id_is_unique_in_its_session(
        self, store: Store, session: Session
    ) -> None:
        await record(store, session.id, item("a", "first"))
        with pytest.raises(Conflict):
            await record(store, session.id, item("b"), item("a", "second"))
        assert await read(store, session.id) == ["first"]

        another = await make(store)
        await record(store, another.id, item("a", "elsewhere"))
        assert await read(store, another.id) == ["elsewhere"]

    async def test_once_passes_over_what_is_there(self, store: Store, session: Session) -> None:
        await record(store, session.id, item("a", "first"))
        before = await store.get_session(session.id)
        again = await record(store, session.id, item("a", "second", once=True))

        assert again.seqs == (1,)
        assert await store.get_session(session.id) == before
        mixed = await record(
            store, session.id, item("b", once=True), item("a", once=True), item("b", once=True)
        )
        assert mixed.seqs == (2, 1, 2)
        assert (await store.get_session(session.id)).message_count == 2

    async def test_many_messages_once(self, store: Store, session: Session) -> None:
        items = [item(f"i{number}", f"m{number}", once=True) for number in range(150)]
        await record(store, session.id, *items[:120])
        await record(store, session.id, *items)

        assert await read(store, session.id) == [f"m{number}" for number in range(150)]

    async def test_a_message_is_found_by_its_external_id(
        self, store: Store, session: Session
    ) -> None:
        await record(store, session.id, item("a\0\ud800", "one"), item("b", "two"))
        fork = await store.fork_session(session.id, at=1)
        await record(store, session.id, item("c"))

        found = await store.find_message(session.id, "a\0\ud800")
        assert found is not None
        assert (found.seq, found.content, found.external_id) == (1, "one", "a\0\ud800")
        assert found.draft.external_id == "a\0\ud800"
        assert found == (await store.get_messages(session.id))[0]
        assert await store.find_message(fork.id, "a\0\ud800") == found
        assert await store.find_message(fork.id, "b") is None
        assert await store.find_message(session.id, "z") is None

    async def test_messages_are_listed_by_the_beginning_of_their_external_id(
        self, store: Store, session: Session
    ) -> None:
        for each in ("b/1", "a/2", "a/1", "a/\ud800", "a/Ä", "a", "c"):
            await record(store, session.id, item(each, each))
        assert await external(store, session.id, "a/") == ["a/\ud800", "a/Ä", "a/2", "a/1"]
        assert await external(store, session.id, "a/", limit=2) == ["a/\ud800", "a/Ä"]
        assert await external(store, session.id, "a/", before="a/Ä") == ["a/2", "a/1"]
        assert await external(store, session.id, "a/", before="z", limit=1) == ["a/\ud800"]
        assert await external(store, session.id, "", limit=2) == ["c", "b/1"]
        assert await external(store, session.id, "d") == []
        with pytest.raises(SessionNotFound):
            await store.list_external("none", "a")

    async def test_a_fork_lists_external_ids_of_its_parent_and_its_own(
        self, store: Store, session: Session
    ) -> None:
        turn = new_id()
        await record(store, session.id, item("a", "parent's"), item("c", "parent's"))
        await record(store, session.id, StartTurn(turn_id=turn))
        await record(
            store, session.id, AddMessage(Draft(role="note", external_id="b"), turn),
            EndTurn(turn_id=turn, status="done"),
        )  # fmt: skip
        fork = await store.fork_session(session.id)
        await record(store, session.id, item("d"))
        await record(store, fork.id, item("c", "fork's"), EraseTurn(turn))

        found = await store.list_external(fork.id, "")
        assert [(each.external_id, each.content) for each in found] == [
            ("c", "fork's"), ("a", "parent's"),
        ]  # fmt: skip
        assert await external(store, session.id, "") == ["d", "c", "b", "a"]

    async def test_facts_are_part_of_a_record(self, store: Store, session: Session) -> None:
        await record(
            store, session.id, item("a"), DescribeSession(SessionFacts(metadata={"n": 1}), {})
        )
        with pytest.raises(Conflict):
            await record(
                store, session.id, item("b"), DescribeSession(SessionFacts(metadata={"n": 2}), {})
            )

        assert (await store.get_session(session.id)).metadata == {"n": 1}
        assert await read(store, session.id) == ["hello"]

    async def test_lists_by_the_beginning_of_the_key_and_by_parent(self, store: Store) -> None:
        parent = await make(store, "app:x/1")
        child = await make(store, "app:x/1/sub", parent_id=parent.id)
        await make(store, "app:xy")
        await make(store, "app:%/1")

        assert set(await listed(store, key_prefix="app:x/")) == {parent.id, child.id}
        assert await listed(store, key_prefix="app:_") == []
        assert await listed(store, parent_id=parent.id) == [child.id]
        assert len(await listed(store, key_prefix="")) == 4


class NoteMessagesContract(Contract):
    """What another program keeps in a thread without anybody having said it."""

    async def test_a_note_is_read_by_those_who_ask(self, store: Store, session: Session) -> None:
        await say(store, session.id, "one")
        await say(store, session.id, "noted", role="note")
        await say(store, session.id, "two")
        before = await store.get_session(session.id)
        await say(store, session.id, "noted again", role="note")

        assert await read(store, session.id) == ["one", "two"]
        assert await read(store, session.id, 1) == ["two"]
        assert await read(store, session.id, 2, offset=1) == ["one"]
        assert await read(store, session.id, after=1) == ["two"]
        assert await read(store, session.id, undone=True) == ["one", "two"]
        assert await read(store, session.id, 3, notes=True) == ["noted", "two", "noted again"]
        after = await store.get_session(session.id)
        assert (after.head, after.message_count, after.preview) == (4, 2, "one")
        assert after.content_bytes == before.content_bytes + len("noted again")
        assert after.last_interaction_at == before.last_interaction_at

    async def test_a_note_of_one_record_is_like_one_of_its_own(
        self, store: Store, session: Session, lease: Lease
    ) -> None:
        note = Draft(role="note", content="noted")
        one = await store.append(session.id, lease.epoch, note)
        await store.record(session.id, lease.epoch, *[AddMessage(note)] * 120)

        assert (one.role, one.seq) == ("note", 1)
        assert await read(store, session.id) == []
        assert len(await read(store, session.id, notes=True)) == 121
        assert (await store.get_session(session.id)).message_count == 0

    async def test_a_search_finds_notes_if_it_asks(self, store: Store, session: Session) -> None:
        await say(store, session.id, "word said")
        await say(store, session.id, "word noted", role="note")

        assert [hit.seq for hit in await find(store, "word")] == [1]
        assert [hit.seq for hit in await find(store, "word", role="note")] == [2]
        assert [hit.seq for hit in await find(store, "word", session=session.id)] == [1]

    async def test_forks_and_undone_turns_count_no_notes(
        self, store: Store, session: Session
    ) -> None:
        await say(store, session.id, "one", "two")
        await say(store, session.id, "noted", role="note")
        turn = new_id()
        await record(
            store, session.id, StartTurn(turn_id=turn), said("three", turn),
            said("noted", turn, role="note"), EndTurn(turn_id=turn, status="done"),
        )  # fmt: skip
        await say(store, session.id, "four")
        forks = [await store.fork_session(session.id, at=at) for at in (2, 3, 5, 6)]
        assert [each.message_count for each in forks] == [2, 2, 3, 4]
        assert await read(store, forks[3].id) == ["one", "two", "three", "four"]
        assert len(await read(store, forks[3].id, notes=True)) == 6

        await record(store, session.id, UndoTurn(turn))
        assert (await store.get_session(session.id)).message_count == 3
        assert (await store.fork_session(session.id, at=5)).message_count == 2
        assert await read(store, session.id, notes=True) == ["one", "two", "noted", "four"]
        await record(store, session.id, RedoTurn(turn))
        assert (await store.get_session(session.id)).message_count == 4
        await record(store, session.id, EraseTurn(turn))
        assert await read(store, session.id, notes=True) == ["one", "two", "noted", "four"]
        assert (await store.get_session(session.id)).message_count == 3


class ErasingContract(Contract):
    """Erasing turns."""

    async def test_an_erased_turn_is_nowhere(self, store: Store, session: Session) -> None:
        first = await take_turn(store, session.id, "secret words")
        await take_turn(store, session.id, "other words")
        before = await store.get_session(session.id)
        await record(store, session.id, EraseTurn(first))

        assert await read(store, session.id) == ["other words"]
        assert await read(store, session.id, undone=True) == ["other words"]
        assert [hit.seq for hit in await find(store, "words")] == [2]
        assert await find(store, "secret") == ()
        after = await store.get_session(session.id)
        assert (after.head, after.message_count) == (2, 1)
        assert after.preview == "other words"
        assert after.content_bytes == before.content_bytes - len("secret words")
        assert await store.list_damaged(session.id) == ()

    async def test_an_erased_turn_is_never_brought_back(
        self, store: Store, session: Session
    ) -> None:
        turn = await take_turn(store, session.id, "secret")
        await record(store, session.id, UndoTurn(turn))
        await record(store, session.id, EraseTurn(turn))
        await record(store, session.id, EraseTurn(turn))

        with pytest.raises(RecordNotFound):
            await record(store, session.id, RedoTurn(turn))
        session = await store.get_session(session.id)
        assert (session.message_count, session.preview) == (0, None)
        await say(store, session.id, "next")
        assert await read(store, session.id, undone=True) == ["next"]
        assert (await store.get_session(session.id)).preview == "next"

    async def test_an_erased_external_id_can_be_used_again(
        self, store: Store, session: Session
    ) -> None:
        turn = await take_turn(store, session.id, "one")
        await record(store, session.id, EraseTurn(turn), item("a", "two"))
        assert await read(store, session.id) == ["two"]

    async def test_a_fork_keeps_what_its_parent_erases(
        self, store: Store, session: Session
    ) -> None:
        turn = await take_turn(store, session.id, "shared")
        fork = await store.fork_session(session.id)
        await record(store, session.id, EraseTurn(turn))
        assert (await read(store, session.id), await read(store, fork.id)) == ([], ["shared"])

        again = await store.fork_session(fork.id)
        await record(store, again.id, EraseTurn(turn))
        assert (await read(store, again.id), await read(store, fork.id)) == ([], ["shared"])

    async def test_only_a_turn_of_the_thread_is_erased(
        self, store: Store, session: Session
    ) -> None:
        elsewhere = await take_turn(store, (await make(store)).id, "elsewhere")
        for turn in (elsewhere, "none"):
            with pytest.raises(RecordNotFound):
                await record(store, session.id, EraseTurn(turn))
