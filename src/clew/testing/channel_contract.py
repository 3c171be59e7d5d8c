"""The contract of `ports.Channel`, for the channels of clew and of anybody else.

Make a `Platform`: a local server that speaks the platform's protocol, and the channel that talks to
it through the platform's real library. Then derive a class from `ChannelContract` that gives it as
the fixture `platform`. What a channel does not do (`ports.SendsFiles`, `EditsMessages`, …) is not
asked of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Protocol

import msgspec
import pytest

from clew.core.channels.incoming import Event, Incoming, Receipt
from clew.core.channels.replies import Attached, Choice, Parcel, ReplyTo
from clew.core.delivery import Outbound
from clew.errors import FormatRefused, NotDelivered, ReplyDelayed, ReplyRefused
from clew.ports import (
    AsksWithButtons,
    Channel,
    EditsMessages,
    Receive,
    SendsFiles,
    ShowsTyping,
)

PATIENCE = 60.0
"""Seconds after which a test has failed."""

Reaction = Literal["take", "refuse", "flood", "vanish", "misread"]
"""What the platform does with the next message that is sent: accept it, refuse it for good, ask to
wait, hang up without an answer, or complain that it can't read the markup.
"""


class Shown(msgspec.Struct, frozen=True):
    """A message as the person sees it now: its text, its file, and the labels of its buttons."""

    text: str
    file: bytes | None = None
    buttons: tuple[str, ...] = ()


class Platform(Protocol):
    """The other side of a channel: a local server, and the person who uses it."""

    @property
    def channel(self) -> Channel:
        """The channel, connected to the server."""
        ...

    @property
    def sender(self) -> str:
        """The person's id on the platform."""
        ...

    def listening(self, receive: Receive) -> AbstractAsyncContextManager[None]:
        """Let the channel report to `receive` inside the block: see `keep_running`."""
        ...

    async def say(self, text: str, *, name: str, files: Sequence[Attached] = ()) -> None:
        """The person writes a message; `name` identifies it in the calls below."""
        ...

    async def say_again(self, name: str) -> None:
        """The platform delivers a message a second time."""
        ...

    async def is_acknowledged(self, name: str) -> bool:
        """Whether the platform knows that the message has been taken."""
        ...

    def react(self, *reactions: Reaction) -> None:
        """What happens to the next messages that are sent."""
        ...

    def list_shown(self) -> list[Shown]:
        """The messages that the person has got, oldest first, as they are now."""
        ...

    def count_typing(self) -> int:
        """How often the channel has shown that it is typing."""
        ...

    async def disconnect(self) -> None:
        """Cut the connections that are open; new ones work."""
        ...

    async def go_away(self) -> None:
        """Stop: from now on the platform can't be reached."""
        ...


@asynccontextmanager
async def keep_running(channel: Channel, receive: Receive) -> AsyncIterator[None]:
    """Run a channel inside the block, and again whenever it ends, as a gateway does."""

    async def keep() -> None:
        while True:
            with contextlib.suppress(Exception):
                await channel.run(receive)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.done(), "the channel does not stop"


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


class Listener:
    """A `Receive` that keeps what is reported. While it is `closed`, it does not return."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.opened = asyncio.Event()
        self.opened.set()
        self.failures = 0
        """How many of the next events it refuses, as if the store were away."""

    async def __call__(self, event: Event) -> Receipt:
        """See `ports.Receive`."""
        self.events.append(event)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the store is away")
        await self.opened.wait()
        return Receipt(inbound_id=f"i{len(self.events)}", session_id="s")

    @property
    def messages(self) -> list[Incoming]:
        """The messages among the events."""
        return [each for each in self.events if isinstance(each, Incoming)]

    async def wait_for(self, count: int) -> list[Incoming]:
        """The messages, once there are so many."""
        await until(lambda: len(self.messages) >= count)
        return self.messages


def parcel_for(reply_to: ReplyTo, text: str, **fields: Any) -> Parcel:
    """A message to send."""
    row = Outbound(
        "o1", "s1", reply_to.key, reply_to.channel, dict(reply_to.address), text, "t1", 4,
        "sending", 1, 0, "me", 0, None, None, 0, 0, reply_to.account,
    )  # fmt: skip
    return Parcel(outbound=row, text=text, **fields)


LONG = "\n\n".join(
    [
        "A paragraph of *some* words, with <signs> & marks_that mean [something](elsewhere). " * 20,
        "```python\n" + "print('a line of code', 1 < 2)\n" * 400 + "```",
        "🧵 und Umlaute äöü " * 300,
        "x" * 9_000,
    ]
)


class ChannelContract:
    """What every channel does. The class that is derived from it gives the fixture `platform`."""

    pytestmark = pytest.mark.asyncio

    async def meet(self, platform: Platform, listener: Listener) -> ReplyTo:
        """Where replies to the person go: as their first message says."""
        count = len(listener.messages)
        await platform.say("hello", name=f"meet {count}")
        message = (await listener.wait_for(count + 1))[-1]
        assert message.reply_to is not None
        return message.reply_to

    # --- in -------------------------------------------------------------------------------------

    async def test_a_message_says_who_wrote_it_and_where_the_answer_goes(
        self, platform: Platform
    ) -> None:
        listener, channel = Listener(), platform.channel
        async with platform.listening(listener):
            await platform.say("Good morning", name="a")
            (message,) = await listener.wait_for(1)

        assert message.text == "Good morning"
        assert message.sender.id == platform.sender
        assert (message.arrival.channel, message.arrival.account) == (channel.name, channel.account)
        assert message.external_id
        assert message.reply_to is not None
        assert message.reply_to.place[:2] == (channel.name, channel.account)
        assert message.person is None, "who it is, is not the channel's to say"

    async def test_a_message_is_acknowledged_when_it_is_kept_and_not_before(
        self, platform: Platform
    ) -> None:
        listener = Listener()
        listener.opened.clear()
        async with platform.listening(listener):
            saying = asyncio.create_task(platform.say("hi", name="a"))
            await listener.wait_for(1)
            assert not await platform.is_acknowledged("a")
            listener.opened.set()
            await until(lambda: platform.is_acknowledged("a"))
            await saying

    async def test_a_message_that_could_not_be_kept_comes_again(self, platform: Platform) -> None:
        listener = Listener()
        listener.failures = 1
        async with platform.listening(listener):
            with contextlib.suppress(RuntimeError):
                await platform.say("hi", name="a")
            if len(listener.messages) == 1 and not await platform.is_acknowledged("a"):
                with contextlib.suppress(RuntimeError):
                    await platform.say_again("a")
            first, *_, last = await listener.wait_for(2)
            await until(lambda: platform.is_acknowledged("a"))

        assert (first.text, first.external_id) == (last.text, last.external_id)

    async def test_a_second_delivery_has_the_same_identity(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            await platform.say("hi", name="a")
            await listener.wait_for(1)
            await platform.say_again("a")
            await platform.say("more", name="b")
            messages = await listener.wait_for(2)
            await until(lambda: listener.messages[-1].text == "more")

        identities = {each.external_id for each in messages if each.text == "hi"}
        assert len(identities) == 1
        assert listener.messages[-1].external_id not in identities

    async def test_messages_of_a_person_come_in_order(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            for number in range(6):
                await platform.say(f"{number}", name=f"n{number}")
            await listener.wait_for(6)

        assert [each.text for each in listener.messages] == [f"{number}" for number in range(6)]
        assert len({each.external_id for each in listener.messages}) == 6

    async def test_a_file_comes_along(self, platform: Platform) -> None:
        listener = Listener()
        if not isinstance(platform.channel, SendsFiles):
            return  # who can't send files need not take them
        async with platform.listening(listener):
            await platform.say("look", name="a", files=[Attached("image/png", b"\x89PNG", "a.png")])
            (message,) = await listener.wait_for(1)

        (file,) = message.attachments
        assert (message.text, file.data) == ("look", b"\x89PNG")
        assert file.media_type.startswith("image/")

    # --- out ------------------------------------------------------------------------------------

    async def test_an_answer_arrives_and_has_a_receipt(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            receipt = await platform.channel.send(parcel_for(to, "Good evening"))

        assert [each.text for each in platform.list_shown()] == ["Good evening"]
        assert msgspec.json.decode(msgspec.json.encode(receipt)) == receipt

    async def test_a_long_answer_is_cut_and_every_piece_is_accepted(
        self, platform: Platform
    ) -> None:
        listener, channel = Listener(), platform.channel
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            pieces = [*channel.split(LONG)]
            for number, piece in enumerate(pieces, 1):
                if piece.sent.strip():
                    await channel.send(parcel_for(to, piece.sent, part=number))

        assert "".join(piece.source for piece in pieces) == LONG
        assert pieces == [*channel.split(LONG)]
        assert len(platform.list_shown()) == sum(bool(each.sent.strip()) for each in pieces)
        assert [*channel.split("")] == []

    async def test_what_is_refused_is_refused_for_good(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            platform.react("refuse")
            with pytest.raises(ReplyRefused):
                await platform.channel.send(parcel_for(to, "hi"))

        assert platform.list_shown() == []

    async def test_a_flood_limit_says_how_long_to_wait(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            platform.react("flood")
            with pytest.raises(ReplyDelayed) as raised:
                await platform.channel.send(parcel_for(to, "hi"))

        assert raised.value.after is not None
        assert raised.value.stops in ("chat", "account")
        assert platform.list_shown() == []

    async def test_after_a_connection_that_broke_nobody_knows(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            platform.react("vanish")
            with pytest.raises(Exception) as raised:  # noqa: PT011  # any other than these
                await platform.channel.send(parcel_for(to, "hi"))

        assert not isinstance(raised.value, NotDelivered)

    async def test_what_can_not_be_sent_at_all_is_tried_later(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
        await platform.go_away()

        with pytest.raises(ReplyDelayed):
            await platform.channel.send(parcel_for(to, "hi"))

    async def test_markup_that_is_refused_is_said_to_be(self, platform: Platform) -> None:
        listener, channel = Listener(), platform.channel
        if channel.render("**x** <y>") == "**x** <y>":
            return  # it has no markup of its own
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            platform.react("misread")
            with pytest.raises(FormatRefused):
                await channel.send(parcel_for(to, channel.render("**x**")))
            await channel.send(parcel_for(to, "**x** <y>", is_plain=True))

        assert [each.text for each in platform.list_shown()] == ["**x** <y>"]

    async def test_a_file_is_sent(self, platform: Platform) -> None:
        listener, channel = Listener(), platform.channel
        if not isinstance(channel, SendsFiles):
            return
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            for file in (
                Attached("image/png", b"\x89PNG", "a.png"),
                Attached("application/pdf", b"%PDF", "b.pdf"),
            ):
                await channel.send_file(parcel_for(to, "", file=file))

        assert [each.file for each in platform.list_shown()] == [b"\x89PNG", b"%PDF"]

    async def test_a_message_is_changed_in_place(self, platform: Platform) -> None:
        listener, channel = Listener(), platform.channel
        if not isinstance(channel, EditsMessages):
            return
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            receipt = await channel.send(parcel_for(to, "one"))
            stored = msgspec.json.decode(msgspec.json.encode(receipt))
            await channel.edit(stored, "two")
            await channel.edit(stored, "two")

        assert [each.text for each in platform.list_shown()] == ["two"]

    async def test_typing_is_shown(self, platform: Platform) -> None:
        listener, channel = Listener(), platform.channel
        if not isinstance(channel, ShowsTyping):
            return
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            await channel.typing(to.address, True)
            assert platform.count_typing() == 1
            await channel.typing(to.address, False)

        assert platform.list_shown() == []

    async def test_a_question_has_buttons(self, platform: Platform) -> None:
        listener, channel = Listener(), platform.channel
        if not isinstance(channel, AsksWithButtons):
            return
        async with platform.listening(listener):
            to = await self.meet(platform, listener)
            choices = (Choice("Yes", "0123456789abcdef:yes"), Choice("No", "0123456789abcdef:no"))
            await channel.ask(parcel_for(to, "May I?"), choices)

        assert platform.list_shown() == [Shown("May I?", buttons=("Yes", "No"))]

    # --- its life -------------------------------------------------------------------------------

    async def test_after_a_lost_connection_it_listens_again(self, platform: Platform) -> None:
        listener = Listener()
        async with platform.listening(listener):
            await platform.say("one", name="a")
            await listener.wait_for(1)
            await platform.disconnect()
            await platform.say("two", name="b")
            await until(lambda: any(each.text == "two" for each in listener.messages))

    async def test_it_stops_when_it_is_cancelled_and_can_be_started_again(
        self, platform: Platform
    ) -> None:
        listener = Listener()
        async with platform.listening(listener):
            await platform.say("one", name="a")
            await listener.wait_for(1)
            await until(lambda: platform.is_acknowledged("a"))
        async with platform.listening(listener):
            await platform.say("two", name="b")
            await until(lambda: any(each.text == "two" for each in listener.messages))
