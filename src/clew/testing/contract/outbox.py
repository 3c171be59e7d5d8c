"""`ports.Outbox`: replies, until a receipt says that they arrived."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.core.changes import AddMessage, Send
from clew.core.delivery import NewOutbound, Outbound, OutboundStatus
from clew.core.ids import new_id
from clew.core.message import Draft
from clew.errors import InvalidInput, RecordNotFound, SessionNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract, make, record


def send(outbound_id: str, key: str = "k", channel: str = "telegram", **fields: Any) -> Send:
    """A reply to deliver."""
    return Send(NewOutbound(id=outbound_id, key=key, channel=channel, **fields))


async def claim(store: Store, claimant: str = "me", **options: Any) -> list[str]:
    """The ids that a claimant gets."""
    return [row.id for row in await store.claim_outbound(claimant, **options)]


class OutboxContract(Contract):
    """The outbox."""

    async def test_a_reply_is_durable_with_its_message(
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)

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

    async def test_a_reply_of_no_turn_needs_no_lease(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
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

    async def test_a_reply_that_is_added_twice_stays_as_it_is(self, store: Store) -> None:
        session = await make(store)
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

    async def test_replies_are_claimed_oldest_first(self, store: Store, clock: FakeClock) -> None:
        session = await make(store)
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
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
        await record(store, session.id, send("a"), send("b"), send("x", "another"))

        assert await claim(store) == ["a", "x"]
        assert await claim(other, "you") == []
        await store.settle_outbound("a", "sent")
        assert await claim(other, "you") == ["b"]

    async def test_a_reply_that_is_tried_again_is_still_before_the_next(
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
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
        self, store: Store, clock: FakeClock
    ) -> None:
        session = await make(store)
        await record(store, session.id, *(send(f"a{number}", "slow") for number in range(30)))
        await record(store, session.id, send("b", "quick"))
        await claim(store, limit=1)
        await store.settle_outbound("a0", "pending", due_at=clock() + SECOND)

        assert await claim(store) == ["b"]

    async def test_replies_of_some_channels_can_be_claimed(self, store: Store) -> None:
        session = await make(store)
        await record(
            store, session.id, send("a", "1", "slack"), send("b", "2", "email"), send("c", "3")
        )

        assert await claim(store, channels=["telegram", "slack"]) == ["a", "c"]
        assert await claim(store, channels=[]) == []

    @pytest.mark.parametrize("status", ["sent", "failed", "withheld"])
    async def test_what_came_of_a_delivery_is_kept(
        self, store: Store, clock: FakeClock, status: OutboundStatus
    ) -> None:
        session = await make(store)
        await record(store, session.id, send("a"))
        await claim(store)
        now = clock.advance(1)

        row = await store.settle_outbound("a", status, receipt={"id": 9}, error="why")

        assert (row.status, row.receipt, row.error, row.updated_at) == (
            status, {"id": 9}, "why", now,
        )  # fmt: skip
        assert await store.list_outbound(status=status) == (row,)
        assert await claim(store) == []

    async def test_a_withheld_reply_is_never_claimed(self, store: Store) -> None:
        session = await make(store)
        await record(store, session.id, send("a", withheld=True), send("b"))

        assert await claim(store) == ["b"]
        (row,) = await store.list_outbound(status="withheld")
        assert row.id == "a"

    async def test_what_a_dead_claimant_was_sending_is_uncertain(self, store: Store) -> None:
        session = await make(store)
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

    async def test_two_claimants_get_each_reply_once(self, store: Store, other: Store) -> None:
        session = await make(store)
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
        self, store: Store, other: Store
    ) -> None:
        session = await make(store)
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

    async def test_a_delivery_has_no_other_state(self, store: Store) -> None:
        session = await make(store)
        await record(store, session.id, send("a"))

        with pytest.raises(InvalidInput):
            await store.settle_outbound("a", "lost")  # type: ignore[arg-type]  # the point
