"""Telegram through its real library, against a local server that speaks the Bot API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.channels.telegram import TelegramChannel
from clew.channels.telegram_markup import to_html
from clew.core.channels.incoming import Edited, Learned, Pressed
from clew.core.channels.replies import Attached, Choice, reply_to_peer, utf16_size
from clew.errors import ChannelRefused, ReplyDelayed, ReplyRefused
from clew.ports import Receive
from clew.testing.channel_contract import (
    ChannelContract,
    Listener,
    Reaction,
    Shown,
    keep_running,
    parcel_for,
    until,
)
from clew.testing.telegram import (
    BOB,
    FORUM,
    GROUP,
    LIMIT,
    TOKEN,
    TelegramServer,
    open_telegram,
    parse_html,
)
from tests.patience import PATIENCE

HERE = reply_to_peer("telegram", "default", "dm", "7")


def open_channel(server: TelegramServer, **fields: Any) -> TelegramChannel:
    return TelegramChannel(TOKEN, base_url=server.base_url, poll=2, **fields)


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with open_telegram() as server:
        yield server


@pytest.fixture
async def channel(server: TelegramServer) -> AsyncIterator[TelegramChannel]:
    channel = open_channel(server)
    yield channel
    await channel.close()


class Ann:
    """`Platform`: a private chat with the bot."""

    sender = "7"

    def __init__(self, server: TelegramServer, channel: TelegramChannel) -> None:
        self.server, self.channel = server, channel
        self._said: dict[str, int] = {}

    @asynccontextmanager
    async def listening(self, receive: Receive) -> AsyncIterator[None]:
        async with keep_running(self.channel, receive):
            yield

    async def say(self, text: str, *, name: str, files: Sequence[Attached] = ()) -> None:
        self._said[name] = await self.server.say(text, files=files)

    async def say_again(self, name: str) -> None:
        await self.server.repeat(self._said[name])

    async def is_acknowledged(self, name: str) -> bool:
        return self.server.confirmed >= self._said[name]

    def react(self, *reactions: Reaction) -> None:
        self.server.reactions.extend(reactions)

    def list_shown(self) -> list[Shown]:
        return [
            Shown(each.text, each.file, tuple(label for label, _ in each.buttons))
            for each in self.server.sent
        ]

    def count_typing(self) -> int:
        return len(self.server.typing)

    async def disconnect(self) -> None:
        await self.server.hang_up()

    async def go_away(self) -> None:
        await self.server.close()


class TestTelegramChannel(ChannelContract):
    @pytest.fixture
    async def platform(self, server: TelegramServer) -> AsyncIterator[Ann]:
        channel = open_channel(server)
        yield Ann(server, channel)
        await channel.close()


# --- what it reports ------------------------------------------------------------------------------


async def test_a_group_is_told_from_a_private_chat_and_a_mention_from_talk(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await server.say("so I said", chat=GROUP)
        await server.say("what do you say, @Clew_Test_Bot?", chat=GROUP, sender=BOB)
        await server.say("/new@clew_test_bot go on", chat=GROUP)
        await server.say("/new@another_bot", chat=GROUP)
        messages = await listener.wait_for(4)

    first = messages[0]
    assert first.arrival.peer is not None
    assert (first.arrival.peer.kind, first.arrival.peer.id) == ("group", "-100500")
    assert (first.sender.name, first.labels.conversation) == ("Ann", "Kitchen")
    assert [each.is_mentioned for each in messages] == [False, True, True, False]
    assert messages[2].text == "/new go on"
    assert len({each.reply_to.place for each in messages if each.reply_to}) == 1


async def test_an_answer_to_the_bot_is_for_the_bot_and_brings_what_it_answers(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    group = reply_to_peer("telegram", "default", "group", str(GROUP.id))
    async with keep_running(channel, listener):
        await channel.send(parcel_for(group, "Shall I?"))
        await server.say("do it", chat=GROUP, answers=server.sent[0])
        (message,) = await listener.wait_for(1)

    assert message.is_mentioned
    assert message.quote is not None
    assert (message.quote.text, message.quote.is_own) == ("Shall I?", True)


async def test_topics_of_a_forum_are_conversations_and_the_general_one_has_no_number(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await server.say("@clew_test_bot a", chat=FORUM, topic=44)
        await server.say("@clew_test_bot b", chat=FORUM)
        one, two = await listener.wait_for(2)
        for each in (one, two):
            assert each.reply_to is not None
            await channel.send(parcel_for(each.reply_to, "ok"))
            await channel.typing(each.reply_to.address, True)

    assert (one.arrival.thread, two.arrival.thread) == ("44", "1")
    assert one.arrival.is_forum
    assert [each.thread for each in server.sent] == [44, None]
    assert server.typing == [(FORUM.id, 44), (FORUM.id, None)]


async def test_voice_and_documents_come_as_files(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await server.say("", voice=b"OggS")
        await server.say("", files=[Attached("application/pdf", b"%PDF", "plan.pdf")])
        voice, document = await listener.wait_for(2)

    assert voice.attachments == (Attached("audio/ogg", b"OggS", "voice.ogg"),)
    assert document.attachments == (Attached("application/pdf", b"%PDF", "plan.pdf"),)


async def test_edits_presses_and_new_groups_are_reported(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        said = await server.say("helo")
        await server.edit(said, "hello")
        await channel.ask(parcel_for(HERE, "May I?"), [Choice("Yes", "0123456789abcdef:yes")])
        await server.press(server.sent[0], "Yes")
        await server.join(GROUP)
        await until(lambda: len(listener.events) == 4)
        await until(lambda: bool(server.answered))

    _, edited, pressed, learned = listener.events
    assert isinstance(edited, Edited)
    assert isinstance(pressed, Pressed)
    assert isinstance(learned, Learned)
    assert (edited.text, edited.external_id) == ("hello", listener.messages[0].external_id)
    assert (pressed.value, pressed.sender.id) == ("0123456789abcdef:yes", "7")
    assert pressed.reply_to.place == HERE.place
    assert learned.labels.conversation == "Kitchen"


async def test_bots_and_service_messages_are_not_reported(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    robot: dict[str, Any] = {"from": {"id": 5, "is_bot": True, "first_name": "Robot"}}
    async with keep_running(channel, listener):
        await server.say("beep", **robot)
        await server.say("", new_chat_title="Attic", chat=GROUP)
        await server.say("a person")
        await listener.wait_for(1)

    assert [each.text for each in listener.messages] == ["a person"]


async def test_what_waits_comes_in_order_after_a_restart_even_if_it_was_mixed_up(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    listener = Listener()
    for number in range(5):
        await server.say(f"{number}")
    await server.shuffle()

    async with keep_running(channel, listener):
        await listener.wait_for(5)

    assert [each.text for each in listener.messages] == ["0", "1", "2", "3", "4"]
    positions = [each.position for each in listener.messages]
    assert None not in positions
    assert positions == sorted(positions)  # type: ignore[type-var]  # none of them is None


# --- what goes wrong ------------------------------------------------------------------------------


async def test_a_revoked_token_is_said_and_never_shown(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    server.revoke()

    with pytest.raises(ChannelRefused) as raised:
        async with asyncio.timeout(PATIENCE):
            await channel.run(Listener())
    with pytest.raises(ReplyDelayed) as delayed:
        await channel.send(parcel_for(HERE, "hi"))

    assert delayed.value.stops == "account"
    for error in (raised.value, delayed.value):
        assert "revoked" in str(error)
        assert TOKEN not in str(error)


async def test_a_line_that_is_cut_after_sending_leaves_it_uncertain(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    server.reactions.append("swallow")

    with pytest.raises(ConnectionError) as raised:
        await channel.send(parcel_for(HERE, "hi"))

    assert len(server.sent) == 1
    assert TOKEN not in str(raised.value)


async def test_an_edit_of_a_message_that_is_gone_is_refused(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    with pytest.raises(ReplyRefused):
        await channel.edit({"chat": 7, "message": 1}, "x")


async def test_a_check_names_the_bot_and_what_it_lacks(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    found = await channel.check()
    assert found.who == "Clew (@clew_test_bot)"
    assert found.contact == "https://t.me/clew_test_bot"
    assert "/setprivacy" in found.problems[0]

    server.bot["can_read_all_group_messages"] = True
    assert (await channel.check()).problems == ()


# --- markup ---------------------------------------------------------------------------------------

MARKDOWN = st.lists(
    st.sampled_from((
        "**", "*", "_", "`", "```\n", "```py\n", "# ", "- ", "1. ", "> ", "[", "](http://x.y)",
        "](javascript:x)", "&", "&amp;", "<", ">", "\n", "\n\n", "    ", "word", "~~", "---\n",
        '"', "🧵", "<b>", "![a](b)", "|", "\\", "[x]: http://y\n", "<!--", "é", " ",
    )),
    min_size=1, max_size=50,
).map("".join)  # fmt: skip


@given(MARKDOWN)
def test_telegram_reads_whatever_is_rendered(text: str) -> None:
    shown = parse_html(to_html(text))

    assert shown.strip() or not text.strip() or not text.strip("\\ \n")
    assert "javascript:" not in to_html(text).partition('href="')[2].partition('"')[0]


@given(st.lists(MARKDOWN, max_size=40).map("\n".join))
def test_every_piece_is_read_and_fits(text: str) -> None:
    pieces = [*TelegramChannel(TOKEN).split(text * 8)]

    assert "".join(each.source for each in pieces) == text * 8
    assert all(utf16_size(parse_html(each.sent)) <= LIMIT for each in pieces)


def test_what_people_write_is_shown_as_they_expect() -> None:
    text = "# Plan\n\nSome *words*, **more** and `x < 1`.\n\n- one\n- two\n  1. deep\n\n"
    text += "```py\na < b\n```\n> so"

    assert to_html(text) == (
        "<b>Plan</b>\n\nSome <i>words</i>, <b>more</b> and <code>x &lt; 1</code>.\n\n• one\n• two\n"
        '    1. deep\n\n<pre><code class="language-py">a &lt; b</code></pre>\n\n'
        "<blockquote>so</blockquote>"
    )
