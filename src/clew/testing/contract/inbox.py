"""`ports.Inbox`: messages that came in, until a turn has them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.core.changes import AddMessage, EndTurn, StartTurn, TakeInbound
from clew.core.delivery import NewInbound
from clew.core.message import Draft
from clew.errors import Conflict, RecordNotFound
from clew.ports import Store
from clew.testing.clock import DAY, SECOND, FakeClock
from clew.testing.contract.case import Contract, make, record


def inbound(inbound_id: str, **fields: Any) -> NewInbound:
    """A message from Telegram."""
    return NewInbound(
        **{"id": inbound_id, "channel": "telegram", "key": "k", "external_id": inbound_id, **fields}
    )


async def open_ids(store: Store, session_id: str | None = None) -> list[str]:
    """What is queued or claimed."""
    return [each.id for each in await store.list_inbound(session_id)]


class InboxContract(Contract):
    """The inbox."""

    async def test_an_accepted_message_is_queued(self, store: Store, clock: FakeClock) -> None:
        new = inbound("a", account="bot", person="telegram:7", payload={"text": "hi", "n": [1]})

        row, fresh = await store.accept(new)

        assert fresh
        for name in new.__struct_fields__:
            assert getattr(row, name) == getattr(new, name), name
        assert (row.status, row.received_at, row.turn_id) == ("queued", clock(), None)
        assert await store.list_inbound() == (row,)

    async def test_a_message_is_got_by_its_id_whatever_became_of_it(
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
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

    async def test_a_message_may_be_somebodys_from_the_beginning(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        row, fresh = await store.accept(inbound("a"), claimant="me")

        assert fresh
        assert (row.status, row.claimant, row.claimed_at) == ("claimed", "me", clock())
        assert row.received_at == clock()
        assert await other.list_inbound() == (row,)
        assert await other.claim_inbound("you") == ()
        assert await other.drop_inbound(["a"]) == ()

    async def test_what_was_somebodys_from_the_beginning_goes_back_as_any_other(
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
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        await store.accept(inbound("a"))
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))
        for day in range(7):
            clock.advance(DAY)
            await store.accept(inbound(f"day {day}"))

        row, fresh = await store.accept(inbound("again", external_id="a"))

        assert (row.id, row.status, row.turn_id, fresh) == ("a", "done", "t", False)

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

    async def test_a_turn_takes_messages_while_it_runs(self, store: Store) -> None:
        session = await make(store)
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
        self, store: Store
    ) -> None:
        session = await make(store)
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

    async def test_what_a_dead_claimant_had_goes_back(self, store: Store) -> None:
        session = await make(store)
        for name in "abc":
            await store.accept(inbound(name))
        await store.claim_inbound("dead", limit=2)
        await store.claim_inbound("alive")
        await record(store, session.id, StartTurn(turn_id="t", inbound=("a",)))

        assert await store.release_inbound("dead") == 1

        (row,) = await store.claim_inbound("me")
        assert (row.id, row.claimant) == ("b", "me")
        assert await store.release_inbound("dead") == 0

    async def test_a_turn_takes_its_messages(self, store: Store) -> None:
        session = await make(store)
        for name in "abc":
            await store.accept(inbound(name))
        await store.claim_inbound("me", limit=1)

        await record(store, session.id, StartTurn(turn_id="t", inbound=("a", "b")))

        assert await open_ids(store) == ["c"]
        row, _ = await store.accept(inbound("again", external_id="a"))
        assert (row.status, row.turn_id, row.session_id) == ("done", "t", session.id)

    async def test_what_a_turn_has_taken_is_listed_oldest_first(
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
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

    async def test_a_message_is_taken_by_one_turn(self, store: Store) -> None:
        session = await make(store)
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
