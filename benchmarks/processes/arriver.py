"""A life in which `/new` with a message arrives on a channel: for `turns arriving`.

Everything that a message can set going is in it: a new session under the old one's key, a pin that
moves, a notice, a turn, a reply. Each life takes up what the last one left, and the platform brings
the message again until a life has acknowledged it. Whatever happens, in the end there is one of
each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.processes.receiver import Place
from benchmarks.processes.talker import Ledger, Post, World
from clew.config import load
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import Parcel, Piece, ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import Outbound
from clew.core.session import Session, SessionEdit, SessionFilter
from clew.ports import Receive, Store
from clew.runtime.inbound.reception import Reception
from clew.runtime.outbound import Deliverer, DeliverySettings
from clew.runtime.recovery import take_up
from clew.wiring import House, open_configured_store

KEY = "agent:main:telegram:dm:7"
STUCK = 30.0


class ArrivingWorld(World, frozen=True):
    """A home with a scripted model, and a file that says what was sent."""

    def make(self) -> None:
        """Write the configuration and the script."""
        Place(self.home, {}).make()

    @property
    def sent(self) -> Path:
        """One line for each message that has left."""
        return self.folder / "sent.txt"


class FileChannel:
    """`ports.Channel`: what is sent stands in a file, and nothing ever comes in."""

    name = "telegram"
    account = "default"

    def __init__(self, file: Path) -> None:
        self._file = file

    async def run(self, receive: Receive) -> None:
        """See `ports.Channel`."""

    def render(self, text: str) -> str:
        """See `ports.Channel`."""
        return text

    def split(self, text: str) -> Sequence[Piece]:
        """See `ports.Channel`."""
        return [Piece(text, text)]

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the port's signature
        """See `ports.Channel`."""
        return False

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        with self._file.open("a") as file:
            file.write(f"{parcel.outbound.id}\n")
        return {}


def message(number: int, text: str) -> Incoming:
    """What a guest says, who is known by this number there."""
    return Incoming(
        arrival=Arrival(channel="telegram", peer=Peer("dm", "7")),
        sender=Sender("7"),
        text=text,
        external_id=str(number),
        reply_to=ReplyTo(channel="telegram", key="telegram:7", address={"chat": 7}),
    )


@asynccontextmanager
async def _open(world: Any) -> AsyncIterator[tuple[House, Reception]]:
    config = msgspec.structs.replace(load(home=str(world.home), environ={}), guests=("telegram:7",))
    store = await open_configured_store(config)
    house = House(config, store, settle_s=0.0)
    try:
        yield house, house.reception
    finally:
        await house.close()
        await store.close()


async def prepare(world: Any, _ledger: Ledger, post: Post) -> None:
    """A conversation, pinned."""
    async with _open(world) as (house, reception):
        receipt = await reception.receive(message(1, "hello"))
        await house.runtime.join(receipt.session_id or "")
        edit = SessionEdit(pinned=True, title="Kept")
        await house.runtime.store.edit_session(receipt.session_id or "", edit)
        (row,) = await house.runtime.store.claim_outbound("nobody")
        await house.runtime.store.settle_outbound(row.id, "sent")
    post("finished", "", 0)


async def live(world: Any, ledger: Ledger, post: Post) -> None:
    """Take up what there is, hear the message unless it was acknowledged, and deliver."""
    async with _open(world) as (house, reception):
        runtime = house.runtime
        deliverer = Deliverer(
            runtime.store,
            [FileChannel(world.sent)],
            clock=runtime.clock,
            bell=runtime.replies.bell,
            settings=DeliverySettings(poll=0.02),
        )
        await take_up(runtime)
        if not ledger.accepted:
            await reception.receive(message(2, "/new what now"))
            post("accepted", "/new", 2)
        # One after the other: each commit has its number, so that none is passed over by chance.
        # What goes on side by side is killed in `storm`.
        await _wait(house, delivered=False)
        delivering = asyncio.create_task(deliverer.run())
        try:
            await _wait(house, delivered=True)
        finally:
            await deliverer.close()
            await delivering
        for problem in await _check(runtime.store, world):
            post("problem", problem, 0)
    post("finished", "", 0)


async def _wait(house: House, *, delivered: bool) -> None:
    """Until everything that was set going has ended, deliveries too."""
    async with asyncio.timeout(STUCK):
        while True:
            is_sending = delivered and await _is_delivering(house)
            if not is_sending and not await _is_busy(house):
                return
            await asyncio.sleep(0.01)


async def _is_busy(house: House) -> bool:
    """Whether anything has no end yet. Returns when nothing runs here."""
    store = house.runtime.store
    sessions = await _list(store)
    for session in sessions:
        await house.runtime.join(session.id)
    states = await store.list_states([each.id for each in sessions])
    is_open = any(each.running or each.interrupted for each in states.values())
    return is_open or bool(await store.list_inbound())


async def _is_delivering(house: House) -> bool:
    rows = await house.runtime.store.list_outbound()
    return any(row.status in ("pending", "sending") for row in rows)


async def _list(store: Store) -> tuple[Session, ...]:
    return (await store.list_sessions(SessionFilter(viewer="owner", archived=None))).sessions


async def _check(store: Store, world: ArrivingWorld) -> list[str]:
    """One session more, one turn, one notice, one reply; each sent once, or unsure."""
    sessions = {each.reset_reason: each for each in await _list(store)}
    if len(sessions) != 2 or len(await _list(store)) != 2:
        return [f"there are {len(await _list(store))} sessions: {list(sessions)}"]
    old, new = sessions[None], sessions["/new"]
    led = await store.find_route(KEY)
    thread = [each.content for each in await store.get_messages(new.id)]
    rows = await store.list_outbound(session_id=new.id)
    wrong = {
        "the route": (led.id if led else None, new.id),
        "the previous one": (new.previous_id, old.id),
        "the pins": ((old.pinned, new.pinned), (False, True)),
        "the title": (new.title, "Kept"),
        "the thread": (thread, ["what now", "To what now"]),
        "the old thread": ((await store.get_session(old.id)).message_count, 2),
        "the replies": (
            sorted(row.content for row in rows),
            ["A new conversation begins. /resume goes back to the one before.", "To what now"],
        ),
    }
    problems = [f"{what}: {is_so}, not {must}" for what, (is_so, must) in wrong.items()
                if is_so != must]  # fmt: skip
    sent = Counter(world.sent.read_text().split() if world.sent.exists() else ())
    for row in rows:
        if row.status not in ("sent", "uncertain") or sent[row.id] > 1:
            problems.append(f"{row.content!r} is {row.status}, and was sent {sent[row.id]} times")
        if row.status == "sent" and not sent[row.id]:
            problems.append(f"{row.content!r} is called sent, and was not")
    return problems
