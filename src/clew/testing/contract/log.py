"""`ports.Log`: the one call that writes, and reading a thread back."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from clew.core.changes import (
    AddMessage,
    AddUsage,
    EndTurn,
    RedoTurn,
    StartTurn,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.message import Author, Draft, ToolCall
from clew.core.notes import Todo
from clew.core.session import Session, SessionEdit
from clew.core.turn import Lease
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput, RecordNotFound, SessionNotFound, StaleLease
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    contents,
    found,
    make,
    read,
    record,
    say,
    take_turn,
)

EVERYTHING = Draft(
    role="assistant",
    content="Let me look.",
    parts=({"type": "thinking", "signature": "s", "deep": [1, 2.5, None, {"a": True}]},),
    tool_call_id="call_0",
    tool_name="read_file",
    tool_calls=(ToolCall("call_1", "read_file", '{"path": "a"}'), ToolCall("call_2", "list")),
    is_error=True,
    model="anthropic/claude",
    usage=Usage(1, 2, 3, 4, 5, 6),
    at=1_600_000_000_000,
    author=Author("telegram:7", "Ann \ud800\x00"),
)


class LogContract(Contract):
    """Messages."""

    async def test_messages_are_numbered_from_one(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        recorded = await record(
            store,
            session.id,
            AddMessage(Draft(role="user", content="a")),
            AddMessage(Draft(role="assistant", content="b")),
        )

        assert (recorded.seqs, recorded.head, recorded.at) == ((1, 2), 2, clock())
        assert not recorded.repeated
        messages = await store.get_messages(session.id)
        assert recorded.ids == tuple(message.id for message in messages)
        assert [(m.seq, m.role, m.content) for m in messages] == [
            (1, "user", "a"),
            (2, "assistant", "b"),
        ]

    async def test_a_message_comes_back_as_it_went_in(
        self, store: Store, session: Session, lease: Lease, other: Store
    ) -> None:
        message = await store.append(session.id, lease.epoch, EVERYTHING, turn_id=None)

        assert message.draft == EVERYTHING
        assert (message.session_id, message.seq) == (session.id, 1)
        assert await other.get_messages(session.id) == (message,)

    async def test_a_bare_message_has_the_stores_time(
        self, store: Store, session: Session, lease: Lease, clock: FakeClock
    ) -> None:
        message = await store.append(session.id, lease.epoch, Draft(role="user"))

        assert message.draft == Draft(role="user", at=clock())

    async def test_a_message_is_visible_to_all_handles_once_it_is_acknowledged(
        self, store: Store, session: Session, lease: Lease, other: Store
    ) -> None:
        for number in range(10):
            await store.append(session.id, lease.epoch, Draft(role="user", content=str(number)))
            assert len(await other.get_messages(session.id)) == number + 1
            assert len(await store.get_messages(session.id)) == number + 1

    async def test_a_burst_in_one_millisecond_keeps_its_order(
        self, store: Store, session: Session, lease: Lease
    ) -> None:
        drafts = [Draft(role="user", content=str(number)) for number in range(60)]

        messages = await asyncio.gather(
            *(store.append(session.id, lease.epoch, draft) for draft in drafts)
        )

        assert [message.seq for message in messages] == list(range(1, 61))
        assert await read(store, session.id) == [draft.content for draft in drafts]

    async def test_order_is_the_number_and_never_the_clock(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await say(store, session.id, "first")
        clock.advance(-SECOND)
        await say(store, session.id, "second")
        await record(store, session.id, AddMessage(Draft(role="user", content="third", at=1)))

        assert await read(store, session.id) == ["first", "second", "third"]
        assert await read(store, session.id, 1) == ["third"]

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, "123456"),
            ({"limit": None, "offset": 2}, "1234"),
            ({"limit": 2}, "56"),
            ({"limit": 2, "offset": 1}, "45"),
            ({"limit": 2, "offset": 5}, "1"),
            ({"limit": 2, "offset": 6}, ""),
            ({"limit": 100, "offset": 100}, ""),
            ({"limit": 100}, "123456"),
            ({"limit": 0}, ""),
            ({"limit": 0, "offset": 3}, ""),
            ({"before": 3}, "12"),
            ({"before": 1}, ""),
            ({"before": -5}, ""),
            ({"before": 100}, "123456"),
            ({"after": 4}, "56"),
            ({"after": 6}, ""),
            ({"after": -5}, "123456"),
            ({"after": 1, "before": 5}, "234"),
            ({"after": 4, "before": 5}, ""),
            ({"after": 5, "before": 2}, ""),
            ({"after": 1, "limit": 2}, "56"),
            ({"after": 1, "limit": 2, "before": 5}, "34"),
            ({"after": 1, "before": 6, "limit": 2, "offset": 1}, "34"),
        ],
    )
    async def test_a_page_is_counted_from_the_newest(
        self, store: Store, session: Session, options: dict[str, Any], expected: str
    ) -> None:
        await say(store, session.id, *"123456")

        assert await read(store, session.id, **options) == list(expected)

    @pytest.mark.parametrize("options", [{"limit": -1}, {"offset": -1}, {"limit": 0, "offset": -1}])
    async def test_a_negative_page_is_a_value_error(
        self, store: Store, session: Session, options: dict[str, Any]
    ) -> None:
        with pytest.raises(ValueError, match=r"."):
            await store.get_messages(session.id, **options)

    async def test_a_session_without_messages_reads_empty(
        self, store: Store, session: Session
    ) -> None:
        assert await store.get_messages(session.id) == ()

    async def test_an_unknown_session_has_no_thread(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.get_messages(UNKNOWN)
        with pytest.raises(SessionNotFound):
            await store.record(UNKNOWN, 1, AddMessage(Draft(role="user")))

    async def test_an_empty_message_is_a_message(self, store: Store, session: Session) -> None:
        await say(store, session.id, "", "  ")

        assert await read(store, session.id) == ["", "  "]
        assert (await store.get_session(session.id)).message_count == 2

    async def test_a_message_of_ten_megabytes_is_kept_whole(
        self, store: Store, session: Session, other: Store
    ) -> None:
        huge = "wörter und mehr " * 625_000
        assert len(huge) == 10_000_000

        await say(store, session.id, "needle " + huge)

        assert await read(other, session.id) == ["needle " + huge]
        assert await found(store, "needle") == {(session.id, 1)}

    async def test_a_record_is_all_or_nothing(self, store: Store, session: Session) -> None:
        before = await store.get_session(session.id)
        lease = await store.acquire_lease(session.id, "me")

        with pytest.raises(RecordNotFound):
            await store.record(
                session.id,
                lease.epoch,
                StartTurn(turn_id="t"),
                AddMessage(Draft(role="user", content="orphan"), "t"),
                WriteScratch("note", "x"),
                AddUsage(usage=Usage(5)),
                EndTurn(turn_id="another", status="done"),
                idempotency_key="k",
            )

        assert await store.get_session(session.id) == before
        assert await store.get_messages(session.id) == ()
        assert await store.list_turns(session.id) == ()
        assert await store.list_scratch(session.id) == ()
        assert await found(store, "orphan") == set()
        # Nor is the key taken.
        recorded = await store.record(
            session.id, lease.epoch, AddMessage(Draft(role="user")), idempotency_key="k"
        )
        assert (recorded.seqs, recorded.repeated) == ((1,), False)

    async def test_a_failed_record_leaves_those_beside_it(
        self, store: Store, session: Session, lease: Lease
    ) -> None:
        changes = [
            UndoTurn("none") if number % 3 == 0 else AddMessage(Draft(role="user"))
            for number in range(30)
        ]

        answers = await asyncio.gather(
            *(store.record(session.id, lease.epoch, change) for change in changes),
            return_exceptions=True,
        )

        failed = [isinstance(answer, RecordNotFound) for answer in answers]
        assert failed == [number % 3 == 0 for number in range(30)]
        assert [m.seq for m in await store.get_messages(session.id)] == list(range(1, 21))

    async def test_an_empty_record_changes_nothing(self, store: Store, session: Session) -> None:
        await say(store, session.id, "a")
        before = await store.get_session(session.id)

        recorded = await record(store, session.id)

        assert (recorded.seqs, recorded.ids, recorded.head) == ((), (), 1)
        assert await store.get_session(session.id) == before

    @pytest.mark.parametrize("epoch", [-1, 0, 1, 3, 2**62])
    async def test_a_writer_with_another_epoch_is_refused(
        self, store: Store, session: Session, epoch: int
    ) -> None:
        await store.acquire_lease(session.id, "me")
        lease = await store.acquire_lease(session.id, "me")
        before = await store.get_session(session.id)

        with pytest.raises(StaleLease) as refused:
            await store.append(session.id, epoch, Draft(role="user", content="late"))

        assert (refused.value.epoch, refused.value.current) == (epoch, lease.epoch)
        assert await store.get_session(session.id) == before

    async def test_a_writer_without_a_lease_is_refused(
        self, store: Store, session: Session
    ) -> None:
        with pytest.raises(StaleLease):
            await store.append(session.id, 0, Draft(role="user"))

    async def test_a_repeated_key_returns_the_first_answer(
        self, store: Store, session: Session, lease: Lease, other: Store
    ) -> None:
        change = AddMessage(Draft(role="user", content="once"))
        first = await store.record(session.id, lease.epoch, change, idempotency_key="k")
        await store.append(session.id, lease.epoch, Draft(role="assistant"))
        before = await store.get_session(session.id)

        again = await other.record(session.id, lease.epoch, change, idempotency_key="k")

        assert again == msgspec.structs.replace(first, repeated=True)
        assert await store.get_session(session.id) == before
        assert len(await store.get_messages(session.id)) == 2

    async def test_a_repeated_append_returns_the_first_message(
        self, store: Store, session: Session, lease: Lease
    ) -> None:
        draft = Draft(role="user", content="once")

        first = await store.append(session.id, lease.epoch, draft, idempotency_key="k")
        again = await store.append(
            session.id, lease.epoch, Draft(role="user", content="twice"), idempotency_key="k"
        )

        assert again == first
        assert await read(store, session.id) == ["once"]

    async def test_an_append_under_the_key_of_another_record_is_refused(
        self, store: Store, session: Session, lease: Lease
    ) -> None:
        hello = AddMessage(Draft(role="user", content="hello"))
        await store.record(session.id, lease.epoch, hello, hello, idempotency_key="two")
        await store.record(session.id, lease.epoch, idempotency_key="none")

        for key in ("two", "none"):
            with pytest.raises(Conflict):
                await store.append(session.id, lease.epoch, hello.draft, idempotency_key=key)

        assert len(await store.get_messages(session.id)) == 2

    async def test_a_repeated_key_is_answered_without_the_lease(
        self, store: Store, session: Session, lease: Lease, other: Store, clock: FakeClock
    ) -> None:
        change = AddMessage(Draft(role="user"))
        first = await store.record(session.id, lease.epoch, change, idempotency_key="k")
        clock.advance(60 * SECOND)
        await other.acquire_lease(session.id, "you")

        again = await store.record(session.id, lease.epoch, change, idempotency_key="k")

        assert again == msgspec.structs.replace(first, repeated=True)

    async def test_keys_are_remembered_for_seven_days(
        self, store: Store, session: Session, lease: Lease, clock: FakeClock
    ) -> None:
        change = AddMessage(Draft(role="user"))
        await store.record(session.id, lease.epoch, change, idempotency_key="k")
        for _ in range(7):
            clock.advance(DAY)
            await say(store, (await make(store)).id, "time passes")

        again = await store.record(session.id, lease.epoch, change, idempotency_key="k")

        assert again.repeated

    async def test_a_key_is_known_to_its_own_session_alone(self, store: Store) -> None:
        for _ in range(2):
            session = await make(store)
            lease = await store.acquire_lease(session.id, "me")
            recorded = await store.record(
                session.id, lease.epoch, AddMessage(Draft(role="user")), idempotency_key="k"
            )
            assert not recorded.repeated

    async def test_of_two_writers_with_one_key_one_writes(
        self, store: Store, session: Session, lease: Lease, other: Store
    ) -> None:
        change = AddMessage(Draft(role="user"))

        answers = await asyncio.gather(
            *(
                handle.record(session.id, lease.epoch, change, idempotency_key="k")
                for handle in (store, other, store, other)
            )
        )

        assert sum(not answer.repeated for answer in answers) == 1
        assert {answer.seqs for answer in answers} == {(1,)}

    async def test_a_message_moves_the_time_of_update(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        now = clock.advance(SECOND)

        await say(store, session.id, "a", role="assistant")

        after = await store.get_session(session.id)
        assert (after.updated_at, after.created_at) == (now, session.created_at)

    async def test_only_messages_move_the_time_of_update(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        turn = await take_turn(store, session.id, "1")
        before = (await store.get_session(session.id)).updated_at
        spent, todos = AddUsage(usage=Usage(1)), WriteTodos((Todo("x"),))

        for change in (UndoTurn(turn), RedoTurn(turn), spent, WriteScratch("a", "x"), todos):
            clock.advance(SECOND)
            await record(store, session.id, change)
            assert (await store.get_session(session.id)).updated_at == before, change

    async def test_an_old_message_does_not_turn_the_time_back(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, AddMessage(Draft(role="user", at=5)))

        assert (await store.get_session(session.id)).updated_at == clock()

    async def test_only_a_persons_message_moves_the_reset_clock(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        now = clock.advance(SECOND)
        await say(store, session.id, "hello")
        clock.advance(SECOND)
        await say(store, session.id, "answer", role="assistant")
        await record(
            store, session.id, AddMessage(Draft(role="user", content="cron"), from_person=False)
        )

        assert (await store.get_session(session.id)).last_interaction_at == now

    async def test_the_preview_is_the_first_thing_a_user_said(
        self, store: Store, session: Session
    ) -> None:
        await say(store, session.id, "Welcome", role="assistant")
        await say(store, session.id, "  ", "  First words  ", "Second words")

        assert (await store.get_session(session.id)).preview == "First words"

    async def test_a_long_preview_is_cut(self, store: Store, session: Session) -> None:
        await say(store, session.id, "word " * 10_000)

        preview = (await store.get_session(session.id)).preview
        assert preview is not None
        assert 50 < len(preview) < 500
        assert ("word " * 10_000).startswith(preview.rstrip("…"))

    async def test_content_is_counted_in_bytes(self, store: Store, session: Session) -> None:
        await say(store, session.id, "abc", "é")
        await record(store, session.id, WriteScratch("n", "1234"))

        assert (await store.get_session(session.id)).content_bytes == 3 + 2 + 4

    async def test_a_message_brings_an_archived_session_back(
        self, store: Store, session: Session
    ) -> None:
        await store.edit_session(session.id, SessionEdit(archived=True))

        await say(store, session.id, "hello again")

        assert (await store.get_session(session.id)).archived_at is None

    async def test_reading_never_changes_the_session(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await say(store, session.id, "a")
        before = await store.get_session(session.id)
        clock.advance(SECOND)

        await store.get_messages(session.id)
        await store.find_sessions(session.id)
        await store.acquire_lease(session.id, "me")

        assert await store.get_session(session.id) == before

    async def test_an_undone_turn_is_passed_over(self, store: Store, session: Session) -> None:
        await say(store, session.id, "1")
        turn = await take_turn(store, session.id, "2", "3")
        await say(store, session.id, "4")

        await record(store, session.id, UndoTurn(turn))

        assert await read(store, session.id) == ["1", "4"]
        assert await read(store, session.id, 1, offset=1) == ["1"]
        assert await read(store, session.id, 2, undone=True) == ["3", "4"]
        assert await read(store, session.id, undone=True) == ["1", "2", "3", "4"]
        assert (await store.get_session(session.id)).message_count == 2

    async def test_numbers_stay_when_a_turn_is_undone(self, store: Store, session: Session) -> None:
        turn = await take_turn(store, session.id, "1", "2")

        await record(store, session.id, UndoTurn(turn))
        await say(store, session.id, "3")

        messages = await store.get_messages(session.id)
        assert [(m.seq, m.content) for m in messages] == [(3, "3")]
        assert (await store.get_session(session.id)).head == 3

    async def test_what_was_undone_and_said_again_in_one_record_counts_right(
        self, store: Store, session: Session
    ) -> None:
        turn = await take_turn(store, session.id, "1", "2")

        await record(
            store,
            session.id,
            UndoTurn(turn),
            AddMessage(Draft(role="user", content="3")),
            StartTurn(turn_id="new"),
            AddMessage(Draft(role="user", content="4"), "new"),
            UndoTurn("new"),
        )

        assert contents(await store.get_messages(session.id)) == ["3"]
        assert (await store.get_session(session.id)).message_count == 1

    async def test_a_message_needs_its_blobs(self, store: Store, session: Session) -> None:
        with pytest.raises(InvalidInput):
            await record(
                store, session.id, AddMessage(Draft(role="user", parts=({"blob": "0" * 64},)))
            )

        assert await store.get_messages(session.id) == ()
