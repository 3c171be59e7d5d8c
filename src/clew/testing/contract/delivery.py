"""`ports.Inbox` and `ports.Outbox`: messages until a turn has them, replies until they arrived."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from clew.core.changes import AddMessage, EndTurn, Send, StartTurn, TakeInbound
from clew.core.delivery import ContextLine, NewInbound, NewOutbound, Outbound, OutboundStatus
from clew.core.keys import new_id
from clew.core.message import Author, Draft
from clew.core.session import Session
from clew.errors import Conflict, InvalidInput, RecordNotFound, SessionNotFound
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import Contract, found, make, purge, record


def inbound(inbound_id: str, **fields: Any) -> NewInbound:
    """A message from Telegram."""
    return NewInbound(
        **{"id": inbound_id, "channel": "telegram", "key": "k", "external_id": inbound_id, **fields}
    )


async def open_ids(store: Store, session_id: str | None = None) -> list[str]:
    """What is queued or claimed."""
    return [each.id for each in await store.list_inbound(session_id)]


async def _is_there(store: Store, inbound_id: str) -> bool:
    try:
        await store.get_inbound(inbound_id)
    except RecordNotFound:
        return False
    return True


class InboxContract(Contract):
    """The inbox."""

    async def test_an_accepted_message_is_queued(self, store: Store, clock: FakeClock) -> None:
        new = inbound("a", account="bot", person="telegram:7", payload={"text": "hi", "n": [1]})

        row, fresh = await store.accept(new)

        assert fresh
        for name in set(new.__struct_fields__) - {"takes"}:
            assert getattr(row, name) == getattr(new, name), name
        assert (row.status, row.received_at, row.turn_id) == ("queued", clock(), None)
        assert await store.list_inbound() == (row,)

    async def test_open_messages_are_counted_by_their_status(self, store: Store) -> None:
        assert await store.count_inbound() == {}
        for name in "abcd":
            await store.accept(inbound(name, external_id=name))
        await store.claim_inbound("me", limit=1)
        await store.drop_inbound(["d"])

        assert await store.count_inbound() == {"claimed": 1, "queued": 2}

    async def test_a_message_is_got_by_its_id_whatever_became_of_it(
        self, store: Store, session: Session, other: Store
    ) -> None:
        queued, _ = await store.accept(inbound("a", payload={"text": "hi"}))
        claimed, _ = await store.accept(inbound("b"), claimant="me")
        for name in "cd":
            await store.accept(inbound(name))
        await store.drop_inbound(["c"])
        await record(store, session.id, StartTurn(turn_id="t", inbound=("d",)))

        assert await other.get_inbound("a") == queued
        assert await other.get_inbound("b") == claimed
        assert (await other.get_inbound("c")).status == "dropped"
        taken = await other.get_inbound("d")
        assert (taken.status, taken.turn_id, taken.session_id) == ("done", "t", session.id)

    async def test_a_message_that_never_came_is_not_found(self, store: Store) -> None:
        await store.accept(inbound("a", external_id="42"))

        for name in ("b", "42", "A", ""):
            with pytest.raises(RecordNotFound):
                await store.get_inbound(name)

    async def test_a_second_delivery_returns_the_first_row(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        first, _ = await store.accept(inbound("a", external_id="42"))
        clock.advance(SECOND)

        again = await other.accept(inbound("b", external_id="42", payload={"new": True}))

        assert again == (first, False)
        assert await open_ids(store) == ["a"]

    async def test_a_message_may_be_accepted_and_claimed_at_once(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        row, fresh = await store.accept(inbound("a"), claimant="me")

        assert fresh
        assert (row.status, row.claimant, row.claimed_at) == ("claimed", "me", clock())
        assert row.received_at == clock()
        assert await other.list_inbound() == (row,)
        assert await other.claim_inbound("you") == ()
        assert await other.drop_inbound(["a"]) == ()

    async def test_a_message_that_was_claimed_at_once_can_be_released(
        self, store: Store, other: Store
    ) -> None:
        await store.accept(inbound("a"), claimant="dead")

        assert await other.release_inbound("dead") == 1

        (row,) = await other.claim_inbound("me")
        assert (row.id, row.claimant) == ("a", "me")

    async def test_a_second_delivery_takes_nothing_over(self, store: Store, other: Store) -> None:
        queued, _ = await store.accept(inbound("a"))
        mine, _ = await store.accept(inbound("b"), claimant="me")

        for name, first in (("a", queued), ("b", mine)):
            again = await other.accept(inbound("again", external_id=name), claimant="you")
            assert again == (first, False)

        assert await store.list_inbound() == (queued, mine)

    async def test_what_waits_is_listed_by_session_and_by_key(self, store: Store) -> None:
        for name, key, session in (
            ("a", "k", "s"),
            ("b", "k", "t"),
            ("c", "l", "s"),
            ("d", "l", "t"),
        ):
            await store.accept(inbound(name, key=key, session_id=session))

        async def names(*args: str, **more: Any) -> list[str]:
            return [each.id for each in await store.list_inbound(*args, **more)]

        assert await names() == ["a", "b", "c", "d"]
        assert await names("s") == ["a", "c"]
        assert await names("s", key="k") == ["a", "b", "c"]
        assert await names(key="l") == ["c", "d"]
        assert await names("s", key="k", limit=2) == ["a", "b"]
        assert await names("u", key="m") == []

    async def test_two_deliveries_at_once_are_one_row(self, store: Store, other: Store) -> None:
        answers = await asyncio.gather(
            *(
                handle.accept(inbound(name, external_id="42"))
                for handle, name in ((store, "a"), (other, "b"), (store, "c"), (other, "d"))
            )
        )

        assert sum(fresh for _, fresh in answers) == 1
        assert len({row.id for row, _ in answers}) == 1

    async def test_an_identity_is_channel_account_and_number(self, store: Store) -> None:
        same = {"external_id": "42"}
        await store.accept(inbound("a", **same))

        for name, fields in (("b", {"account": "2"}), ("c", {"channel": "slack"})):
            _, fresh = await store.accept(inbound(name, **same, **fields))
            assert fresh

    async def test_without_an_identity_every_delivery_is_new(self, store: Store) -> None:
        for name in "ab":
            _, fresh = await store.accept(inbound(name, external_id=None))
            assert fresh

    async def test_identities_are_remembered_for_seven_days(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await store.accept(inbound("a"))
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))
        for day in range(7):
            clock.advance(DAY)
            await store.accept(inbound(f"day {day}"))

        row, fresh = await store.accept(inbound("again", external_id="a"))

        assert (row.id, row.status, row.turn_id, fresh) == ("a", "done", "t", False)

    async def test_messages_leave_the_inbox_seven_days_after_their_answer(
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        for name in ("answered", "dropped", "waits", "running"):
            await store.accept(inbound(name))
        await record(store, session.id, StartTurn(turn_id="t", inbound=("answered",)))
        clock.advance(DAY)
        await record(store, session.id, EndTurn(turn_id="t", status="done"))
        await record(store, session.id, StartTurn(turn_id="long", inbound=("running",)))
        await store.drop_inbound(["dropped"])

        async def left() -> set[str]:
            await store.sweep()
            names = ("answered", "dropped", "waits", "running")
            return {name for name in names if await _is_there(store, name)}

        clock.advance(7 * DAY)
        assert await left() == {"answered", "dropped", "waits", "running"}
        clock.advance(1)
        assert await left() == {"waits", "running"}
        clock.advance(90 * DAY)
        assert await left() == {"waits", "running"}
        assert await open_ids(store) == ["waits"]

    async def test_what_lies_before_a_removed_message_is_never_answered(
        self, store: Store, clock: FakeClock
    ) -> None:
        for number in (3, 9, 5):
            await store.accept(inbound(f"n{number}", position=number))
        await store.accept(inbound("elsewhere", account="another", position=100))
        await store.drop_inbound(["n9", "n3"])
        clock.advance(9 * DAY)
        await store.sweep()
        assert not await _is_there(store, "n9")

        for number in (3, 8, 9):
            again = inbound(f"again{number}", external_id=f"n{number}", position=number)
            row, fresh = await store.accept(again, claimant="me")
            assert (row.id, row.status, row.claimant, fresh) == (again.id, "dropped", None, False)
        known, fresh = await store.accept(inbound("again", external_id="n5", position=5))
        assert (known.id, known.status, fresh) == ("n5", "queued", False)
        for new in (
            inbound("next", position=10),
            inbound("other", account="another", position=4),
            inbound("unnumbered"),
        ):
            row, fresh = await store.accept(new)
            assert (row.status, fresh) == ("queued", True)
        clock.advance(9 * DAY)
        await store.sweep()
        assert not await _is_there(store, "again8")
        _, fresh = await store.accept(inbound("once more", external_id="n8", position=8))
        assert not fresh

    async def test_messages_are_claimed_oldest_first(self, store: Store, clock: FakeClock) -> None:
        for name in ("c", "a", "b"):  # all in one millisecond
            await store.accept(inbound(name))
        clock.advance(1)

        claimed = await store.claim_inbound("me", limit=2)

        assert [(row.id, row.status, row.claimant, row.claimed_at) for row in claimed] == [
            ("c", "claimed", "me", clock()),
            ("a", "claimed", "me", clock()),
        ]
        assert [row.id for row in await store.claim_inbound("you")] == ["b"]
        assert await store.claim_inbound("you") == ()
        assert await open_ids(store) == ["c", "a", "b"]

    async def test_a_turn_takes_messages_while_it_runs(
        self, store: Store, session: Session
    ) -> None:
        for name in "ab":
            await store.accept(inbound(name), claimant="me" if name == "a" else None)
        await record(store, session.id, StartTurn(turn_id="t"))

        said = (AddMessage(Draft(role="user", content=name), "t") for name in "ab")
        await record(store, session.id, TakeInbound(turn_id="t", inbound=("a", "b")), *said)

        assert await open_ids(store) == []
        row, fresh = await store.accept(inbound("again", external_id="a"))
        assert (row.id, row.status, row.turn_id, fresh) == ("a", "done", "t", False)
        assert (await store.get_turn("t")).status == "running"

    async def test_a_turn_takes_nothing_that_is_taken_and_nothing_after_its_end(
        self, store: Store, session: Session
    ) -> None:
        for name in "ab":
            await store.accept(inbound(name))
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))
        said = AddMessage(Draft(role="user", content="b"), "t")

        with pytest.raises(Conflict):
            await record(store, session.id, TakeInbound(turn_id="t", inbound=("b", "a")), said)
        await record(store, session.id, EndTurn(turn_id="t", status="done"))
        with pytest.raises(RecordNotFound):
            await record(store, session.id, TakeInbound(turn_id="t", inbound=("b",)), said)

        assert await open_ids(store) == ["b"]
        assert await store.get_messages(session.id) == ()

    async def test_messages_of_one_session_can_be_claimed(self, store: Store) -> None:
        for name, session_id in (("a", "s"), ("b", None), ("c", "s")):
            await store.accept(inbound(name, session_id=session_id))

        claimed = await store.claim_inbound("me", session_id="s")

        assert [row.id for row in claimed] == ["a", "c"]
        assert await open_ids(store, "s") == ["a", "c"]
        assert await open_ids(store, "other") == []

    async def test_two_claimants_get_each_message_once(self, store: Store, other: Store) -> None:
        names = [f"{number:03}" for number in range(60)]
        for name in names:
            await store.accept(inbound(name))

        claims = await asyncio.gather(
            *(
                handle.claim_inbound(who, limit=7)
                for _ in range(6)
                for handle, who in ((store, "me"), (other, "you"))
            )
        )

        claimed = [row.id for claim in claims for row in claim]
        assert sorted(claimed) == names

    async def test_what_a_dead_claimant_had_goes_back(self, store: Store, session: Session) -> None:
        for name in "abc":
            await store.accept(inbound(name))
        await store.claim_inbound("dead", limit=2)
        await store.claim_inbound("alive")
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))

        assert await store.release_inbound("dead") == 1

        (row,) = await store.claim_inbound("me")
        assert (row.id, row.claimant) == ("b", "me")
        assert await store.release_inbound("dead") == 0

    async def test_a_turn_takes_its_messages(self, store: Store, session: Session) -> None:
        for name in "abc":
            await store.accept(inbound(name))
        await store.claim_inbound("me", limit=1)

        await record(store, session.id, StartTurn(turn_id="t", inbound=("a", "b")))

        assert await open_ids(store) == ["c"]
        row, _ = await store.accept(inbound("again", external_id="a"))
        assert (row.status, row.turn_id, row.session_id) == ("done", "t", session.id)

    async def test_what_a_turn_has_taken_is_listed_oldest_first(
        self, store: Store, session: Session, other: Store
    ) -> None:
        for name in ("c", "a", "d", "b"):
            await store.accept(inbound(name))
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))
        await record(store, session.id, TakeInbound(turn_id="t", inbound=("b", "c")))

        taken = await other.list_taken_inbound("t")

        assert [row.id for row in taken] == ["c", "a", "b"]
        assert {(row.status, row.turn_id) for row in taken} == {("done", "t")}
        await record(store, session.id, EndTurn(turn_id="t", status="done"))
        await record(store, session.id, StartTurn(turn_id="u"))
        assert await other.list_taken_inbound("t") == taken
        assert await other.list_taken_inbound("u") == ()
        assert await other.list_taken_inbound("none") == ()

    async def test_a_message_is_taken_by_one_turn(self, store: Store, session: Session) -> None:
        await store.accept(inbound("a"))
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))

        for names in (("a",), ("none",)):
            with pytest.raises(Conflict):
                await record(store, session.id, StartTurn(turn_id="u", inbound=names))

        assert [turn.id for turn in await store.list_turns(session.id)] == ["t"]

    async def test_queued_messages_can_be_dropped(self, store: Store) -> None:
        for name in "abc":
            await store.accept(inbound(name))
        await store.claim_inbound("me", limit=1)

        assert await store.drop_inbound(["a", "b", "none", "b"]) == ("b",)

        assert await open_ids(store) == ["a", "c"]
        row, fresh = await store.accept(inbound("again", external_id="b"))
        assert (row.id, row.status, fresh) == ("b", "dropped", False)
        assert await store.drop_inbound([]) == ()

    async def test_a_message_is_found_by_its_identity(self, store: Store) -> None:
        row, _ = await store.accept(inbound("a", account="bot", external_id="42"))

        assert await store.find_inbound("telegram", "bot", "42") == row
        for wrong in (("slack", "bot", "42"), ("telegram", "x", "42"), ("telegram", "bot", "a")):
            assert await store.find_inbound(*wrong) is None

    async def test_what_a_message_says_is_revised_until_a_turn_has_it(
        self, store: Store, session: Session
    ) -> None:
        await store.accept(inbound("a", payload={"text": "one"}))
        await store.accept(inbound("b", payload={"text": "two"}), claimant="me")

        revised = await store.revise_inbound("a", {"text": "1"})
        claimed = await store.revise_inbound("b", {"text": "2"})
        assert revised is not None
        assert claimed is not None
        assert (revised.payload, revised.status) == ({"text": "1"}, "queued")
        assert (claimed.payload, claimed.claimant) == ({"text": "2"}, "me")

        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))
        assert await store.revise_inbound("a", {"text": "late"}) is None
        assert await store.revise_inbound("none", {}) is None
        assert (await store.get_inbound("a")).payload == {"text": "1"}

    async def test_lines_are_kept_until_a_message_takes_them(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        ann = Author("telegram:7", "Ann \ud800\x00")
        await store.add_line(line("a", author=ann, session_id="s", account="bot"))
        clock.advance(1)
        for number in (1, 2):
            await store.add_line(line(f"b{number}", external_id="b"))
        await store.add_line(line("x", key="elsewhere"))

        first, second = await other.list_lines("k")
        assert first == line("a", author=ann, session_id="s", account="bot", at=clock() - 1)
        assert (second.id, second.content) == ("b1", "b1")

        await store.accept(inbound("m", takes=("a", "x")))
        await store.accept(inbound("again", external_id="m", takes=("b1",)))
        assert [each.id for each in await other.list_lines("k")] == ["b1"]
        assert [each.id for each in await other.list_lines("elsewhere")] == ["x"]

    async def test_an_edit_replaces_a_line_and_a_second_delivery_does_not(
        self, store: Store
    ) -> None:
        await store.add_line(line("a", external_id="1", content="helo"))
        await store.add_line(line("b", external_id="1", content="hello", kind="edited"))
        await store.add_line(line("c", external_id="1", content="helo"))

        (only,) = await store.list_lines("k")
        assert (only.content, only.kind) == ("hello", "said")

    async def test_fifty_lines_are_kept_for_a_day(self, store: Store, clock: FakeClock) -> None:
        for number in range(60):
            await store.add_line(line(f"{number:02}"))
        assert [each.id for each in await store.list_lines("k")] == [
            f"{number:02}" for number in range(10, 60)
        ]

        clock.advance(DAY)
        await store.add_line(line("new"))
        assert len(await store.list_lines("k")) == 50
        clock.advance(1)
        assert [each.id for each in await store.list_lines("k")] == ["new"]
        await store.sweep()
        clock.advance(-SECOND)
        assert [each.id for each in await store.list_lines("k")] == ["new"]

    async def test_lines_go_with_their_session_and_are_never_found(
        self, store: Store, session: Session
    ) -> None:
        await store.add_line(line("a", session_id=session.id, content="a rhubarb"))
        await store.add_line(line("b", content="rhubarb too"))
        assert await found(store, "rhubarb") == set()

        await purge(store, session.id)

        assert [each.id for each in await store.list_lines("k")] == ["b"]


def line(line_id: str, **fields: Any) -> ContextLine:
    """A line of a group."""
    told = {"id": line_id, "key": "k", "channel": "telegram", "content": line_id}
    return ContextLine(**(told | {"external_id": line_id} | fields))


def send(outbound_id: str, key: str = "k", channel: str = "telegram", **fields: Any) -> Send:
    """A reply to deliver."""
    return Send(NewOutbound(id=outbound_id, key=key, channel=channel, **fields))


async def claim(store: Store, claimant: str = "me", **options: Any) -> list[str]:
    """The ids that a claimant gets."""
    return [row.id for row in await store.claim_outbound(claimant, **options)]


class OutboxContract(Contract):
    """The outbox."""

    async def test_a_reply_is_durable_with_its_message(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(
            store,
            session.id,
            AddMessage(Draft(role="assistant", content="hi")),
            send("a", "k", "telegram", address={"chat": 7}, content="hi", turn_id="t", seq=1),
        )

        now = clock()
        assert await store.list_outbound() == (
            Outbound(
                "a", session.id, "k", "telegram", {"chat": 7}, "hi", "t", 1, "pending", 0, now,
                None, None, None, None, now, now,
            ),
        )  # fmt: skip

    async def test_what_has_not_arrived_is_counted_by_its_status(
        self, store: Store, session: Session
    ) -> None:
        assert await store.count_outbound() == {}
        for name in "abcde":
            await record(store, session.id, send(name, name, "telegram"))
        await store.settle_outbound("a", "sent")
        await store.settle_outbound("b", "failed")
        await store.settle_outbound("c", "uncertain")

        assert await store.count_outbound() == {"failed": 1, "pending": 2, "uncertain": 1}

    async def test_a_reply_of_no_turn_needs_no_lease(
        self, store: Store, session: Session, other: Store, clock: FakeClock
    ) -> None:
        lease = await other.acquire_lease(session.id, "busy")
        new = NewOutbound(id="a", key="k", channel="telegram", address={"chat": 7}, content="hi")

        row = await store.add_outbound(session.id, new)

        now = clock()
        assert row == Outbound(
            "a", session.id, "k", "telegram", {"chat": 7}, "hi", None, None, "pending", 0, now,
            None, None, None, None, now, now,
        )  # fmt: skip
        assert await store.list_outbound() == (row,)
        assert await other.find_lease(session.id) == lease

    async def test_what_belongs_to_no_session_is_delivered_too(self, store: Store) -> None:
        new = NewOutbound(id="a", key="k", channel="telegram", content="who are you?")

        row = await store.add_outbound(None, new)

        assert row.session_id is None
        assert await store.list_outbound() == (row,)
        assert await claim(store) == ["a"]
        assert (await store.settle_outbound("a", "sent")).status == "sent"

    async def test_a_reply_that_is_added_twice_stays_as_it_is(
        self, store: Store, session: Session
    ) -> None:
        first = NewOutbound(id="a", key="k", channel="telegram", content="hi")
        await store.add_outbound(session.id, first)
        await claim(store)
        await store.settle_outbound("a", "sent")

        again = NewOutbound(id="a", key="other", channel="slack", content="anew", withheld=True)
        row = await store.add_outbound(session.id, again)

        assert (row.key, row.content, row.status) == ("k", "hi", "sent")
        assert await store.list_outbound() == (row,)

    async def test_a_reply_needs_its_session(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.add_outbound(new_id(), NewOutbound(id="a", key="k", channel="c"))

        assert await store.list_outbound() == ()

    async def test_replies_are_claimed_oldest_first(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        for name in ("c", "a", "b"):
            await record(store, session.id, send(name, name))
        now = clock.advance(1)

        claimed = await store.claim_outbound("me", limit=2)

        assert [(row.id, row.status, row.attempts) for row in claimed] == [
            ("c", "sending", 1),
            ("a", "sending", 1),
        ]
        assert {(row.claimant, row.claimed_at) for row in claimed} == {("me", now)}
        assert await claim(store, "you") == ["b"]
        assert await claim(store, "you") == []

    async def test_per_key_a_reply_waits_for_the_earlier_one(
        self, store: Store, session: Session, other: Store
    ) -> None:
        await record(store, session.id, send("a"), send("b"), send("x", "another"))

        assert await claim(store) == ["a", "x"]
        assert await claim(other, "you") == []
        await store.settle_outbound("a", "sent")
        assert await claim(other, "you") == ["b"]

    async def test_a_reply_that_is_tried_again_is_still_before_the_next(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, send("a"), send("b"))
        await claim(store)

        row = await store.settle_outbound("a", "pending", error="429", due_at=clock() + SECOND)

        assert (row.status, row.error, row.due_at) == ("pending", "429", clock() + SECOND)
        assert await claim(store) == []
        clock.advance(SECOND)
        assert await claim(store) == ["a"]
        (row, _) = reversed(await store.list_outbound())
        assert row.attempts == 2

    async def test_a_key_that_waits_does_not_hold_up_the_others(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        await record(store, session.id, *(send(f"a{number}", "slow") for number in range(30)))
        await record(store, session.id, send("b", "quick"))
        await claim(store, limit=1)
        await store.settle_outbound("a0", "pending", due_at=clock() + SECOND)

        assert await claim(store) == ["b"]

    @pytest.mark.parametrize("outcome", ["sent", "failed", "uncertain", "doubted"])
    async def test_a_long_line_is_called_one_by_one(
        self, store: Store, outcome: OutboundStatus | Literal["doubted"]
    ) -> None:
        session = await make(store)
        await record(store, session.id, *(send(f"{number}", "slow") for number in range(5)))
        for number in range(5):
            assert await claim(store, places=[("telegram", "default")]) == [f"{number}"]
            assert (
                await claim(store, places=[("telegram", "default")]) == []
            )  # the others are behind it
            if outcome == "doubted":
                await store.doubt_outbound("me")
            else:
                await store.settle_outbound(f"{number}", outcome)

        assert await claim(store) == []

    async def test_two_claimants_work_off_a_line_without_a_pause(
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
        names = [f"{number:02}" for number in range(60)]
        sent: list[str] = []

        async def answer() -> None:
            for name in names:
                await store.add_outbound(session.id, send(name, "same").outbound)

        async def deliver(handle: Store, who: str) -> None:
            for _ in range(3_000):
                for row in await handle.claim_outbound(who, places=[("telegram", "default")]):
                    sent.append(row.id)
                    await handle.settle_outbound(row.id, "sent")
                if len(sent) == len(names):
                    break

        workers = (deliver(*each) for each in ((store, "me"), (other, "you")) * 2)
        await asyncio.gather(answer(), *workers)

        assert sent == names

    async def test_a_reply_behind_one_that_is_gone_is_sent_in_the_end(
        self, store: Store, clock: FakeClock
    ) -> None:
        gone, stays = await make(store), await make(store)
        await record(store, gone.id, send("a", "same"))
        await record(store, stays.id, send("b", "same"))
        assert await claim(store) == ["a"]
        assert await claim(store) == []
        await store.delete_sessions([gone.id])
        await store.purge_sessions([gone.id])

        clock.advance(10 * 60 * SECOND)

        assert await claim(store) == ["b"]

    async def test_replies_of_some_channels_can_be_claimed(
        self, store: Store, session: Session
    ) -> None:
        await record(
            store, session.id, send("a", "1", "slack"), send("b", "2", "email"), send("c", "3")
        )

        assert await claim(store, places=[("telegram", "default"), ("slack", "default")]) == [
            "a",
            "c",
        ]
        assert await claim(store, places=[]) == []

    async def test_accounts_of_a_channel_never_wait_for_each_other(
        self, store: Store, session: Session, other: Store
    ) -> None:
        await record(store, session.id, send("a"), send("b", account="work"), send("c"))

        assert await claim(store, places=[("telegram", "work")]) == ["b"]
        assert await claim(other, places=[("telegram", "default")]) == ["a"]
        await store.doubt_outbound("me")
        assert await claim(other, places=[("telegram", "default")]) == ["c"]

    async def test_what_a_claimant_does_not_send_is_stranded(
        self, store: Store, session: Session
    ) -> None:
        await record(
            store,
            session.id,
            send("a"),
            send("b", account="work"),
            send("c", "1", "slack"),
            send("d", "2", "slack"),
            send("e", "3", "email", withheld=True),
        )
        mine = [("telegram", "default")]

        assert [row.id for row in await store.list_stranded(mine)] == ["b", "c", "d"]
        assert [row.id for row in await store.list_stranded(mine, limit=1)] == ["b"]
        await claim(store, places=[("slack", "default")])
        mine += [("telegram", "work")]
        assert await store.list_stranded(mine) == ()

    async def test_the_files_of_a_reply_are_kept_with_it(
        self, store: Store, session: Session
    ) -> None:
        files = ({"type": "image", "blob": "00", "name": "a\ud800\x00.png"},)
        await record(store, session.id, send("a", account="work", parts=files))

        (row,) = await store.claim_outbound("me")
        assert (row.account, row.parts) == ("work", files)

    @pytest.mark.parametrize("status", ["sent", "failed", "withheld"])
    async def test_what_came_of_a_delivery_is_kept(
        self, store: Store, session: Session, clock: FakeClock, status: OutboundStatus
    ) -> None:
        await record(store, session.id, send("a"))
        await claim(store)
        now = clock.advance(1)

        row = await store.settle_outbound("a", status, receipt={"id": 9}, error="why")

        assert (row.status, row.receipt, row.error, row.updated_at) == (
            status, {"id": 9}, "why", now,
        )  # fmt: skip
        assert await store.list_outbound(status=status) == (row,)
        assert await claim(store) == []

    async def test_a_withheld_reply_is_never_claimed(self, store: Store, session: Session) -> None:
        await record(store, session.id, send("a", withheld=True), send("b"))

        assert await claim(store) == ["b"]
        (row,) = await store.list_outbound(status="withheld")
        assert row.id == "a"

    async def test_what_a_dead_claimant_was_sending_is_uncertain(
        self, store: Store, session: Session
    ) -> None:
        await record(store, session.id, send("a", "1"), send("b", "2"), send("c", "3"))
        await claim(store, "dead", limit=2)
        await claim(store, "alive")

        doubtful = await store.doubt_outbound("dead")

        assert [(row.id, row.status) for row in doubtful] == [
            ("a", "uncertain"),
            ("b", "uncertain"),
        ]
        assert await store.doubt_outbound("dead") == ()
        assert await claim(store) == []
        assert (await store.list_outbound(status="sending"))[0].id == "c"

    async def test_deliveries_are_listed_newest_first(self, store: Store) -> None:
        one, two = await make(store), await make(store)
        await record(store, one.id, send("a", "1"), send("b", "2"))
        await record(store, two.id, send("c", "3"))

        assert [row.id for row in await store.list_outbound()] == ["c", "b", "a"]
        assert [row.id for row in await store.list_outbound(session_id=one.id)] == ["b", "a"]
        assert [row.id for row in await store.list_outbound(limit=1)] == ["c"]
        assert await store.list_outbound(status="sent") == ()

    async def test_two_claimants_get_each_reply_once(
        self, store: Store, session: Session, other: Store
    ) -> None:
        names = [f"{number:02}" for number in range(40)]
        await record(store, session.id, *(send(name, name) for name in names))

        claims = await asyncio.gather(
            *(
                handle.claim_outbound(who, limit=7)
                for _ in range(4)
                for handle, who in ((store, "me"), (other, "you"))
            )
        )

        assert sorted(row.id for claim in claims for row in claim) == names

    async def test_a_delivery_is_got_by_its_id_whatever_its_status(
        self, store: Store, session: Session, other: Store
    ) -> None:
        await record(store, session.id, send("a", "1"), send("b", "2", withheld=True))
        alone = await store.add_outbound(None, NewOutbound(id="c", key="3", channel="email"))
        await claim(store, limit=1)
        sent = await store.settle_outbound("a", "sent", receipt={"id": 9})

        assert await other.get_outbound("a") == sent
        assert (await other.get_outbound("b")).status == "withheld"
        assert await other.get_outbound("c") == alone

    async def test_an_unknown_delivery_is_not_found(self, store: Store) -> None:
        await store.add_outbound(None, NewOutbound(id="a", key="k", channel="email"))

        for name in ("b", "k", "A", ""):
            with pytest.raises(RecordNotFound):
                await store.get_outbound(name)

    async def test_an_unknown_delivery_can_not_be_settled(self, store: Store) -> None:
        with pytest.raises(RecordNotFound):
            await store.settle_outbound("none", "sent")

    async def test_a_delivery_has_no_other_state(self, store: Store, session: Session) -> None:
        await record(store, session.id, send("a"))

        with pytest.raises(InvalidInput):
            await store.settle_outbound("a", "lost")  # type: ignore[arg-type]  # the point
