"""Replies on their way: durable with the answer, in order, once, and never silently twice.

The other side is a peer on a local port; one claimant is a process of its own, and is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from clew.clock import host_clock
from clew.core.changes import Send
from clew.core.channels.replies import Parcel, Piece, ReplyTo
from clew.core.channels.send_policy import SendMatch, SendRule, SendRules
from clew.core.delivery import NewOutbound, Outbound, OutboundStatus
from clew.core.message import Draft
from clew.core.session import NewSession, Session, SessionEdit
from clew.core.tokens import ALL
from clew.core.turn import Turn
from clew.errors import FormatRefused, TurnFailed
from clew.ports import LiveTurn, Store
from clew.runtime.event_log import EventLog
from clew.runtime.lane.queue import Attempt
from clew.runtime.outbound import Deliverer, DeliverySettings
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.testing.channels import Peer, PeerChannel, open_peer
from clew.testing.clock import DAY
from tests.patience import PATIENCE
from tests.runtime.conftest import (
    Actor,
    Runtimes,
    ended,
    failing,
    saying,
    soon,
    typed,
    until,
    using_a_tool,
)

KEY = "agent:main:peer:dm:7"
HERE = ReplyTo(channel="peer", key=KEY, address={"peer": {"kind": "dm", "id": "7"}})
QUICK = DeliverySettings(patience=5, poll=0.05, inspect=0.2, grace=0.1)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    async with open_peer() as peer:
        yield peer


@asynccontextmanager
async def delivering(
    store: Store,
    *channels: PeerChannel,
    bell: asyncio.Event | None = None,
    events: EventLog | None = None,
    **settings: Any,
) -> AsyncIterator[Deliverer]:
    """A deliverer at work inside the block."""
    deliverer = Deliverer(
        store,
        channels,
        clock=host_clock,
        bell=bell or asyncio.Event(),
        settings=msgspec.structs.replace(QUICK, **settings),
        events=events,
    )
    running = asyncio.create_task(deliverer.run())
    try:
        yield deliverer
    finally:
        await soon(deliverer.close())
        await soon(running)


async def ask(runtime: Runtime, session: Session, text: str, to: ReplyTo | None = HERE) -> Turn:
    return await ended(await runtime.accept(typed(session, text, reply_to=to)))


async def put(store: Store, session: Session, *rows: tuple[str, str], **fields: Any) -> None:
    """Replies to deliver, as (key, text)."""
    async with asyncio.timeout(PATIENCE):
        lease = await store.acquire_lease(session.id, store.identity)
        for key, text in rows:
            new = NewOutbound(id=text[:20], key=key, channel="peer", content=text, **fields)
            await store.record(session.id, lease.epoch, Send(new))
        await store.release_lease(lease)


async def wait_for(store: Store, status: OutboundStatus, count: int = 1) -> tuple[Outbound, ...]:
    """The deliveries of that state, once there are so many; oldest first."""

    async def there_are() -> bool:
        return len(await store.list_outbound(status=status)) >= count

    await until(there_are)
    return tuple(reversed(await store.list_outbound(status=status)))


# --- rows -------------------------------------------------------------------------------------


async def test_an_answer_is_in_the_outbox_with_its_message(
    runtime: Runtime, store: Store, session: Session
) -> None:
    turn = await ask(runtime, session, "hello")

    (row,) = await store.list_outbound()
    thread = await store.get_messages(session.id)
    assert (row.key, row.channel, row.content, row.status) == (KEY, "peer", "ok", "pending")
    assert (row.account, row.address) == ("default", {"peer": {"kind": "dm", "id": "7"}})
    assert (row.turn_id, row.seq, row.created_at) == (turn.id, thread[-1].seq, thread[-1].at)
    assert turn.reply_to == msgspec.to_builtins(HERE) | {"scopes": ["admin"]}


async def test_a_turn_from_the_terminal_has_nothing_to_deliver(
    runtime: Runtime, store: Store, session: Session
) -> None:
    await ask(runtime, session, "hello", to=None)

    assert await store.list_outbound() == ()


async def test_only_the_answer_is_delivered_not_what_was_said_before_a_tool(
    runtime: Runtime, store: Store, session: Session, actor: Actor
) -> None:
    actor.scenes.append(using_a_tool("It is blue."))

    await ask(runtime, session, "which colour?")

    assert [row.content for row in await store.list_outbound()] == ["It is blue."]


async def test_who_asked_hears_that_the_turn_failed(
    runtime: Runtime, store: Store, session: Session, actor: Actor
) -> None:
    actor.scenes.append(failing(TurnFailed("No network."), "half an ans"))

    turn = await ask(runtime, session, "hello")

    (row,) = await store.list_outbound()
    assert (turn.status, row.content, row.seq) == (
        "failed", "That did not work: No network.", None,
    )  # fmt: skip


async def test_a_denied_reply_is_kept_and_withheld(
    store: Store, session: Session, actor: Actor, make_runtime: Runtimes
) -> None:
    rules = SendRules(rules=(SendRule("deny", SendMatch(channel="peer")),))
    runtime = make_runtime(store, actor, sending=rules)

    await ask(runtime, session, "hello")
    await store.edit_session(session.id, SessionEdit(send_policy="allow"))
    await ask(runtime, session, "again")

    assert [row.status for row in await store.list_outbound()] == ["pending", "withheld"]


async def test_a_word_said_while_the_turn_runs_counts_for_its_reply(
    runtime: Runtime, store: Store, session: Session, actor: Actor
) -> None:
    async def scene(turn: LiveTurn) -> None:
        await store.edit_session(session.id, SessionEdit(send_policy="deny"))
        await saying("ok")(turn)

    actor.scenes.append(scene)
    await ask(runtime, session, "hello")

    assert [row.status for row in await store.list_outbound()] == ["withheld"]


async def test_a_retry_that_says_the_same_is_not_delivered_twice(
    runtime: Runtime, store: Store, session: Session, actor: Actor
) -> None:
    turn = await ask(runtime, session, "hello")
    hello = (Draft(role="user", content="hello"),)
    again = Attempt(person="owner", scopes=ALL, drafts=hello, undo=(turn.id,), reply_to=HERE)

    same = await ended(runtime.retry(session.id, again))
    assert len(await store.list_outbound()) == 1

    actor.scenes.append(saying("something else"))
    again = msgspec.structs.replace(again, undo=(same.id,))
    await ended(runtime.retry(session.id, again))
    assert [row.content for row in await store.list_outbound()] == ["something else", "ok"]


async def test_two_turns_that_say_the_same_are_both_delivered(
    runtime: Runtime, store: Store, session: Session
) -> None:
    await ask(runtime, session, "hello")
    await ask(runtime, session, "hello")

    assert [row.content for row in await store.list_outbound()] == ["ok", "ok"]


async def test_a_retry_says_it_again_where_the_first_reply_failed_or_is_of_another_session(
    runtime: Runtime, store: Store, session: Session
) -> None:
    await ask(runtime, session, "hello")
    fresh = await store.create_session(NewSession(key="cli:fresh"))
    await ended(runtime.retry(fresh.id, Attempt(person="owner", scopes=ALL, reply_to=HERE)))
    (*_, first) = await store.list_outbound()
    await store.settle_outbound(first.id, "failed")
    await ended(runtime.retry(session.id, Attempt(person="owner", scopes=ALL, reply_to=HERE)))

    assert len(await store.list_outbound()) == 3


async def test_what_is_asked_in_two_places_is_answered_in_each(
    runtime: Runtime, store: Store, session: Session
) -> None:
    elsewhere = msgspec.structs.replace(HERE, key="agent:main:peer:dm:8")
    tickets = [
        await runtime.accept(
            typed(session, "hi", reply_to=to),
            queue="collect",
        )
        for to in (HERE, elsewhere)
    ]
    for ticket in tickets:
        await ended(ticket)

    assert sorted(row.key for row in await store.list_outbound()) == [KEY, elsewhere.key]


# --- sending ----------------------------------------------------------------------------------


async def test_an_answer_arrives_as_soon_as_it_is_committed(
    runtime: Runtime, store: Store, session: Session, peer: Peer
) -> None:
    bell = runtime.replies.bell
    async with delivering(store, PeerChannel(peer.port), bell=bell, poll=60):
        await ask(runtime, session, "hello")
        (row,) = await wait_for(store, "sent")

    assert peer.taken == ["ok"]
    assert row.receipt == {"characters": 2, "parts": [{"number": 1}]}


async def test_what_another_process_committed_is_delivered_too(
    store: Store, other: Store, session: Session, peer: Peer
) -> None:
    async with delivering(store, PeerChannel(peer.port)):
        await put(other, session, (KEY, "from over there"))
        await wait_for(store, "sent")

    assert peer.taken == ["from over there"]


async def test_replies_under_one_key_arrive_in_order_whatever_happens(
    store: Store, session: Session, peer: Peer
) -> None:
    texts = [f"{number:02}" for number in range(12)]
    await put(store, session, *((KEY, text) for text in texts))
    peer.reactions.extend(["take", "later", "later", "take", "later"])

    async with delivering(store, PeerChannel(peer.port)):
        await wait_for(store, "sent", len(texts))

    assert peer.taken == texts


async def test_a_reply_is_tried_again_when_nobody_was_there(
    store: Store, session: Session, peer: Peer
) -> None:
    await peer.close()
    await put(store, session, (KEY, "hello"))

    async with delivering(store, PeerChannel(peer.port)):

        async def has_failed() -> bool:
            (row,) = await store.list_outbound()
            return row.status == "pending" and row.error == "The peer can't be reached."

        await until(has_failed)
        await peer.open(peer.port)
        (row,) = await wait_for(store, "sent")

    assert (peer.taken, row.attempts) == (["hello"], 2)


async def test_what_the_other_side_refuses_has_failed(
    store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("refuse")
    await put(store, session, (KEY, "one"), (KEY, "two"))

    async with delivering(store, PeerChannel(peer.port)):
        await wait_for(store, "sent")

    (failed,) = await store.list_outbound(status="failed")
    assert (failed.error, peer.taken) == ("The chat is closed.", ["two"])


async def test_what_may_have_arrived_is_uncertain_and_not_sent_again(
    runtime: Runtime, store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("vanish")
    await put(store, session, (KEY, "one"), (KEY, "two"))

    async with delivering(store, PeerChannel(peer.port)):
        await wait_for(store, "sent")
        (doubtful,) = await store.list_outbound(status="uncertain")
        assert doubtful.error == "ConnectionError: the peer closed the connection without an answer"
        assert [each.text for each in peer.received] == ["one", "two"]

        await store.settle_outbound(doubtful.id, "pending", due_at=host_clock())  # a person's word
        await wait_for(store, "sent", 2)

    assert [each.text for each in peer.received] == ["one", "two", "one"]


async def test_a_peer_that_says_nothing_leaves_a_doubt(
    store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("silence")
    await put(store, session, (KEY, "one"))
    events = EventLog(host_clock)

    async with delivering(store, PeerChannel(peer.port), patience=0.05, events=events):
        (row,) = await wait_for(store, "uncertain")

    assert row.error == "no answer in 0.05 seconds"
    (event,) = events.list_events()
    assert (event.kind, event.session) == ("delivery_uncertain", session.id)
    assert event.channel == row.channel


async def test_a_channel_that_knows_repetitions_is_sent_doubtful_replies_again(
    store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("vanish")
    await put(store, session, (KEY, "one"))

    async with delivering(store, PeerChannel(peer.port, repeats=True)):
        await wait_for(store, "sent")

    assert [each.id for each in peer.received] == ["one-1", "one-1"]


async def test_a_key_that_hangs_holds_nobody_up(store: Store, session: Session, peer: Peer) -> None:
    peer.reactions.append("silence")
    await put(store, session, (KEY, "stuck"), (KEY, "behind"), ("another", "free"))

    async with delivering(store, PeerChannel(peer.port)):
        await wait_for(store, "sent")
        assert peer.taken == ["free"]

    (stuck,) = await store.list_outbound(status="uncertain")
    assert stuck.error == "clew was stopped while it was being sent"
    assert [row.content for row in await store.list_outbound(status="pending")] == ["behind"]


async def test_a_long_reply_arrives_in_parts_and_none_is_sent_twice(
    store: Store, session: Session, peer: Peer
) -> None:
    text = "First part.\n\nSecond part.\n\nThird part."
    peer.reactions.extend(["take", "vanish"])
    await put(store, session, (KEY, text))

    async with delivering(store, PeerChannel(peer.port, limit=14)):
        (row,) = await wait_for(store, "uncertain")
        assert row.receipt == {"characters": 13, "parts": [{"number": 1}]}
        await store.settle_outbound(row.id, "pending", due_at=host_clock())
        await wait_for(store, "sent")

    assert "".join(peer.taken) == text
    assert [each.text for each in peer.received] == [
        "First part.\n\n", "Second part.\n\n", "Second part.\n\n", "Third part.",
    ]  # fmt: skip


async def test_a_reply_for_an_account_that_is_not_here_waits_a_day_and_fails(
    store: Store, session: Session, peer: Peer
) -> None:
    await put(store, session, (KEY, "hi"), account="work")
    now = [host_clock()]
    deliverer = Deliverer(
        store, [PeerChannel(peer.port)], clock=lambda: now[0], bell=asyncio.Event(), settings=QUICK
    )

    await deliverer.look_for_stranded()
    assert deliverer.stranded == {("peer", "work"): 1}
    (row,) = await store.list_outbound()
    assert (row.status, row.attempts) == ("pending", 0)

    now[0] += DAY + 60_000
    await deliverer.look_for_stranded()
    assert deliverer.stranded == {}
    (row,) = await store.list_outbound()
    assert row.status == "failed"
    assert "no account work" in str(row.error)
    assert peer.received == []


async def test_a_flood_limit_stops_the_account_and_no_other(
    store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("flood")
    peer.wait_seconds = 0.3
    for number in range(4):
        await put(store, session, (f"k{number}", f"mine {number}"))
    flooded = PeerChannel(peer.port)
    async with delivering(store, flooded):
        await peer.wait_for(1)
        await wait_for(store, "pending", 1)
        await put(store, session, ("other", "theirs"), account="work")
        async with delivering(store, PeerChannel(peer.port, account="work")):
            await wait_for(store, "sent", 5)

    # What was already on its way when the limit came may be refused too; the rest waits.
    assert sorted(peer.taken) == ["mine 0", "mine 1", "mine 2", "mine 3", "theirs"]
    tries = [each.text for each in peer.received if each.reaction == "flood"]
    assert len(tries) == 1


async def test_files_go_after_the_text_each_once(
    store: Store, session: Session, peer: Peer
) -> None:
    blobs = [await store.put_blob(data, "image/png") for data in (b"one", b"two")]
    parts = tuple({"type": "image", "blob": blob, "name": f"{blob[:4]}.png"} for blob in blobs)
    await put(store, session, (KEY, "look"), parts=parts)
    peer.reactions.extend(["take", "later"])

    async with delivering(store, FileChannel(peer.port)):
        (row,) = await wait_for(store, "sent")

    assert peer.taken == ["look", "[file 3 bytes]", "[file 3 bytes]"]
    assert row.receipt is not None
    assert (row.receipt["characters"], row.receipt["files"]) == (4, 2)


async def test_a_channel_without_files_names_them(
    store: Store, session: Session, peer: Peer
) -> None:
    blob = await store.put_blob(b"one", "image/png")
    await put(store, session, (KEY, "look"), parts=({"type": "image", "blob": blob},))

    async with delivering(store, PeerChannel(peer.port)):
        await wait_for(store, "sent")

    assert peer.taken == ["look\n\n[a file: files can't be sent here]"]


async def test_markup_that_is_refused_is_sent_as_plain_text(
    store: Store, session: Session, peer: Peer
) -> None:
    await put(store, session, (KEY, "*bold"))

    async with delivering(store, Particular(peer.port)):
        await wait_for(store, "sent")

    assert peer.taken == ["*bold"]


class FileChannel(PeerChannel):
    async def send_file(self, parcel: Parcel) -> dict[str, Any]:
        assert parcel.file is not None
        words = f"[file {len(parcel.file.data)} bytes]"
        return await self.send(msgspec.structs.replace(parcel, text=words))


class Particular(PeerChannel):
    """Its platform can't read the markup."""

    def split(self, text: str) -> Iterator[Piece]:
        yield Piece(text, f"<b>{text}")

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        if not parcel.is_plain:
            raise FormatRefused("can't parse")
        return await super().send(parcel)


async def test_a_channel_that_can_not_cut_a_text_fails_that_reply_and_no_other(
    store: Store, session: Session, peer: Peer
) -> None:
    class Clumsy(PeerChannel):
        def split(self, text: str) -> Iterator[Piece]:
            if text == "bad":
                raise RuntimeError("oh no")
            return super().split(text)

    await put(store, session, (KEY, "bad"), (KEY, "good"))
    async with delivering(store, Clumsy(peer.port)):
        await wait_for(store, "sent")

    (failed,) = await store.list_outbound(status="failed")
    assert failed.error is not None
    assert "oh no" in failed.error


async def test_a_reply_whose_session_is_gone_for_good_troubles_nobody(
    store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("silence")
    await put(store, session, (KEY, "gone"))
    other = await store.create_session(NewSession(key="cli:other"))

    async with delivering(store, PeerChannel(peer.port), patience=0.3):
        await soon(peer.wait_for(1))
        await store.delete_sessions([session.id])
        await store.purge_sessions([session.id])
        await put(store, other, (KEY, "after"))
        await wait_for(store, "sent")

    assert peer.taken == ["after"]


async def test_a_store_whose_clock_is_late_is_asked_again(
    url: str, session: Session, peer: Peer
) -> None:
    peer.reactions.append("later")
    async with await open_store(url, clock=lambda: host_clock() - 400) as late:
        await put(late, session, (KEY, "hello"))
        async with delivering(late, PeerChannel(peer.port), inspect=600):
            await wait_for(late, "sent")

    assert peer.taken == ["hello"]


async def test_many_replies_over_two_accounts_arrive_once_each_and_in_order(
    store: Store, other: Store, session: Session, peer: Peer
) -> None:
    for number in range(40):
        key = f"k{number % 5}"
        account = "work" if number % 2 else "default"
        await put(store, session, (key, f"{key}-{number:02}"), account=account)
    both = [PeerChannel(peer.port), PeerChannel(peer.port, account="work")]

    async with delivering(store, *both), delivering(other, *both):
        await wait_for(store, "sent", 40)

    assert len(peer.taken) == len(set(peer.taken)) == 40
    for digit in range(5):
        mine = [text for text in peer.taken if text.startswith(f"k{digit}")]
        for parity in (0, 1):
            of_account = [text for text in mine if int(text[-2:]) % 2 == parity]
            assert of_account == sorted(of_account)


# --- a process that dies ------------------------------------------------------------------------

CLAIMANT = """
import asyncio, sys
from clew.runtime.outbound import Deliverer
from clew.clock import host_clock
from clew.store import open_store
from clew.testing.channels import PeerChannel

async def main(url, port):
    async with await open_store(url, durability="normal") as store:
        channels = [PeerChannel(int(port))]
        await Deliverer(store, channels, clock=host_clock, bell=asyncio.Event()).run()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_killed_process_was_sending_is_uncertain_and_never_silently_resent(
    url: str, store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.append("silence")
    await put(store, session, (KEY, "one"), (KEY, "two"))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLAIMANT, url, str(peer.port)
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await peer.wait_for(1)
    finally:
        child.kill()
        await child.wait()
    (row,) = await store.list_outbound(status="sending")
    assert row.claimant is not None

    async with delivering(store, PeerChannel(peer.port)):
        await wait_for(store, "sent")
        (row,) = await wait_for(store, "uncertain")

    assert (row.content, row.error) == ("one", "clew was stopped while it was being sent")
    assert [each.text for each in peer.received] == ["one", "two"]


async def test_replies_that_another_living_process_sends_are_left_alone(
    store: Store, other: Store, session: Session, peer: Peer
) -> None:
    await put(store, session, (KEY, "one"))
    await other.claim_outbound(f"{other.identity}#delivery-x")
    deliverer = Deliverer(
        store, [PeerChannel(peer.port)], clock=host_clock, bell=asyncio.Event(), settings=QUICK
    )

    assert await deliverer.doubt_the_dead() == ()
    assert [row.status for row in await store.list_outbound()] == ["sending"]


class Buggy(PeerChannel):
    """A channel that fails where nobody expects it to."""

    def may_repeat(self, outbound: Outbound) -> bool:
        raise KeyError(outbound.id)


async def test_a_bug_is_raised_and_leaves_its_reply_uncertain_and_the_others_go_out(
    store: Store, session: Session, peer: Peer
) -> None:
    peer.reactions.extend(["vanish", "take"])
    await put(store, session, (KEY, "first"))
    deliverer = Deliverer(
        store, [Buggy(peer.port)], clock=host_clock, bell=asyncio.Event(), settings=QUICK
    )
    with pytest.raises(KeyError, match="first"):
        await soon(deliverer.run())
    (row,) = await wait_for(store, "uncertain")
    assert (row.id, row.error) == ("first", "KeyError: 'first'")

    await put(store, session, (KEY, "second"))
    again = asyncio.create_task(deliverer.run())
    await wait_for(store, "sent")
    await soon(deliverer.close())
    await soon(again)
    assert peer.taken == ["second"]
