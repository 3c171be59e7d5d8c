"""Discord through its real library, against a local server that speaks its API and gateway."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.channels.discord import DiscordChannel
from clew.channels.discord_markup import to_discord
from clew.core.channels.incoming import Edited, Pressed
from clew.core.channels.replies import Attached, Choice, reply_to_peer
from clew.errors import ChannelRefused, FormatRefused, ReplyDelayed, ReplyRefused
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
from clew.testing.discord import (
    BOB,
    BOT,
    BOT_ROLE,
    CONTENT_FLAG,
    GENERAL,
    GUILD,
    LIMIT,
    THREAD,
    TOKEN,
    DiscordServer,
    Person,
    open_discord,
)
from tests.patience import PATIENCE

HERE = reply_to_peer("discord", "default", "dm", "7")


def open_channel(server: DiscordServer, **fields: Any) -> DiscordChannel:
    return DiscordChannel(TOKEN, base_url=server.base_url, again=0.01, **fields)


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with open_discord() as server:
        yield server


@pytest.fixture
async def channel(server: DiscordServer) -> AsyncIterator[DiscordChannel]:
    channel = open_channel(server)
    yield channel
    await channel.close()


@asynccontextmanager
async def listening(
    server: DiscordServer, channel: DiscordChannel, receive: Receive
) -> AsyncIterator[None]:
    """Run a channel inside the block, which begins when it is connected."""
    async with keep_running(channel, receive):
        await asyncio.wait_for(channel.listening.wait(), PATIENCE)
        yield


class Ann:
    """`Platform`: a private chat with the bot."""

    sender = "7"

    def __init__(self, server: DiscordServer, channel: DiscordChannel) -> None:
        self.server, self.channel = server, channel
        self._said: dict[str, int] = {}

    def listening(self, receive: Receive) -> Any:
        return listening(self.server, self.channel, receive)

    async def say(self, text: str, *, name: str, files: Sequence[Attached] = ()) -> None:
        self._said[name] = await self.server.say(text, files=files)

    async def say_again(self, name: str) -> None:
        await self.server.deliver(self._said[name])

    async def is_acknowledged(self, name: str) -> bool:
        # Discord has no acknowledgement: what counts is what is not asked for again.
        return self.channel.taken.has(self._said[name])

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


class TestDiscordChannel(ChannelContract):
    @pytest.fixture
    async def platform(self, server: DiscordServer) -> AsyncIterator[Ann]:
        channel = open_channel(server)
        yield Ann(server, channel)
        await channel.close()


# --- what it reports ------------------------------------------------------------------------------


async def test_a_channel_is_told_from_a_private_chat_and_a_mention_from_talk(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    async with listening(server, channel, listener):
        await server.say("so I said", channel=GENERAL)
        await server.say(f"what do you say, <@{BOT}> and <@8>?", channel=GENERAL, sender=BOB)
        await server.say(f"<@&{BOT_ROLE}> /new go on", channel=GENERAL)
        await server.say("hi all", channel=GENERAL, mention_everyone=True)
        messages = await listener.wait_for(4)

    first = messages[0]
    assert first.arrival.peer is not None
    assert (first.arrival.peer.kind, first.arrival.peer.id) == ("channel", str(GENERAL))
    assert first.arrival.guild == str(GUILD)
    assert (first.sender.name, first.labels.group_channel) == ("Ann", "#general")
    assert first.labels.space == "Kitchen"
    assert [each.is_mentioned for each in messages] == [False, True, True, False]
    assert messages[1].text == "what do you say, @Clew and @Bob?"
    assert (messages[2].text, messages[2].mention) == ("@Clew /new go on", "@Clew")
    assert len({each.reply_to.place for each in messages if each.reply_to}) == 1


async def test_an_answer_to_the_bot_is_for_the_bot_and_brings_what_it_answers(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    room = reply_to_peer("discord", "default", "channel", str(GENERAL))
    async with listening(server, channel, listener):
        await channel.send(parcel_for(room, "Shall I?"))
        await server.say("do it", channel=GENERAL, answers=server.sent[0])
        (message,) = await listener.wait_for(1)

    assert message.is_mentioned
    assert message.quote is not None
    assert (message.quote.text, message.quote.is_own) == ("Shall I?", True)


async def test_a_thread_is_a_conversation_of_its_own_and_is_answered_there(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    async with listening(server, channel, listener):
        await server.say(f"<@{BOT}> a", channel=THREAD)
        (message,) = await listener.wait_for(1)
        assert message.reply_to is not None
        await channel.send(parcel_for(message.reply_to, "ok"))
        await channel.typing(message.reply_to.address, True)

    assert message.arrival.peer is not None
    assert (message.arrival.peer.id, message.arrival.thread) == (str(GENERAL), str(THREAD))
    assert (message.labels.thread, message.labels.group_channel) == ("the oven", "#general")
    assert [each.channel for each in server.sent] == [THREAD]
    assert server.typing == [THREAD]


async def test_edits_and_presses_are_reported_and_previews_are_no_edits(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    async with listening(server, channel, listener):
        said = await server.say("helo")
        await server.preview(said)
        await server.edit(said, "hello")
        await server.preview(said)
        await channel.ask(parcel_for(HERE, "May I?"), [Choice("Yes", "0123456789abcdef:yes")])
        await server.press(server.sent[0], "Yes")
        await until(lambda: len(listener.events) == 3)
        await until(lambda: bool(server.deferred))

    _, edited, pressed = listener.events
    assert isinstance(edited, Edited)
    assert isinstance(pressed, Pressed)
    assert (edited.text, edited.external_id) == ("hello", listener.messages[0].external_id)
    assert (pressed.value, pressed.sender.id) == ("0123456789abcdef:yes", "7")
    assert pressed.reply_to.place == HERE.place


async def test_bots_webhooks_and_what_discord_says_are_not_reported(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    async with listening(server, channel, listener):
        await server.say("beep", sender=Person(5, "Robot", is_bot=True), channel=GENERAL)
        await server.say("hook", webhook_id="55", channel=GENERAL)
        await server.say("Ann has joined", type=7, channel=GENERAL)
        await server.say("a person")
        await listener.wait_for(1)

    assert [each.text for each in listener.messages] == ["a person"]


async def test_a_forwarded_message_and_a_sticker_are_told(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    forwarded = {
        "message": {
            "type": 0, "content": "look at this", "embeds": [], "attachments": [], "flags": 0,
            "timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None, "mentions": [],
            "mention_roles": [], "components": [],
        }
    }  # fmt: skip
    sticker = {"id": "3", "name": "wave", "format_type": 1}
    async with listening(server, channel, listener):
        await server.say("", message_snapshots=[forwarded])
        await server.say("", sticker_items=[sticker])
        one, two = await listener.wait_for(2)

    assert (one.text, two.text) == ("[forwarded] look at this", "[sticker: wave]")


# --- reconnecting ---------------------------------------------------------------------------------


async def test_a_lost_line_is_taken_up_where_it_broke(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    async with listening(server, channel, listener):
        await server.say("one")
        await listener.wait_for(1)
        await server.hang_up()
        await server.say("two")
        await listener.wait_for(2)
        await server.order_reconnect()
        await server.say("three")
        await listener.wait_for(3)

    assert [each.text for each in listener.messages] == ["one", "two", "three"]
    assert (server.identified, server.resumed) == (1, 2)


async def test_what_a_forgotten_session_has_missed_is_fetched_in_order(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    async with listening(server, channel, listener):
        await server.say("one")
        await server.say("one there", channel=GENERAL)
        await listener.wait_for(2)
        await server.forget()
        for number in range(3):
            await server.say(f"private {number}")
            await server.say(f"<@{BOT}> room {number}", channel=GENERAL)
        await listener.wait_for(8)
        await server.say("last")
        await listener.wait_for(9)

    assert [each.text for each in listener.messages] == [
        "one", "one there", "private 0", "@Clew room 0", "private 1", "@Clew room 1", "private 2",
        "@Clew room 2", "last",
    ]  # fmt: skip
    assert server.identified == 2
    assert [each.is_mentioned for each in listener.messages[2:4]] == [True, True]


async def test_what_was_written_while_nobody_listened_comes_after_a_restart(
    server: DiscordServer, tmp_path: Path
) -> None:
    memory, listener = tmp_path / "channels" / "discord.json", Listener()
    await server.say("before clew was there", channel=GENERAL)
    first = open_channel(server, memory=memory)
    async with listening(server, first, listener):
        await server.say("one")
        await listener.wait_for(1)
    await server.say("two")
    await server.say("three", channel=THREAD)

    second = open_channel(server, memory=memory)
    async with listening(server, second, listener):
        await server.say("four")
        await listener.wait_for(4)
    third = open_channel(server, memory=memory)
    async with listening(server, third, listener):
        await server.say("five")
        await listener.wait_for(5)

    assert [each.text for each in listener.messages] == ["one", "two", "three", "four", "five"]
    positions = [each.position or 0 for each in listener.messages]
    assert positions == sorted(positions)


async def test_a_message_that_comes_late_is_not_lost_behind_a_newer_one(
    server: DiscordServer, tmp_path: Path
) -> None:
    memory, listener = tmp_path / "discord.json", Listener()
    async with listening(server, open_channel(server, memory=memory), listener):
        await server.say("hello")
        late = await server.say("older", deliver=False)
        await server.say("newer", channel=GENERAL)
        await listener.wait_for(2)
    async with listening(server, open_channel(server, memory=memory), listener):
        await listener.wait_for(3)
        await server.deliver(late)
        await server.say("end")
        await listener.wait_for(4)

    assert [each.text for each in listener.messages] == ["hello", "newer", "older", "end"]


async def test_a_memory_that_can_not_be_read_is_begun_anew(
    server: DiscordServer, tmp_path: Path
) -> None:
    memory, listener = tmp_path / "discord.json", Listener()
    memory.write_text("{broken")
    async with listening(server, open_channel(server, memory=memory), listener):
        await server.say("hi")
        await listener.wait_for(1)

    assert "position" in memory.read_text()


async def test_nothing_is_lost_or_out_of_order_whatever_breaks(
    server: DiscordServer, tmp_path: Path
) -> None:
    chance, memory, listener = random.Random(3), tmp_path / "discord.json", Listener()
    said: list[str] = []
    async with listening(server, open_channel(server, memory=memory), listener):
        await server.say("hello")
        await listener.wait_for(1)
    for _ in range(8):
        async with listening(server, open_channel(server, memory=memory), listener):
            for _ in range(3):
                for _ in range(3):
                    place = chance.choice([None, GENERAL, THREAD])
                    said.append(str(await server.say("so", channel=place)))
                match chance.choice(["line", "session", "order", "store"]):
                    case "line":
                        await server.hang_up()
                    case "session":
                        await server.forget()
                    case "order":
                        await server.order_reconnect()
                    case _:
                        listener.failures = 1
    async with listening(server, open_channel(server, memory=memory), listener):
        await until(lambda: {*said} <= {each.external_id for each in listener.messages})

    first = {each.external_id: each for each in reversed(listener.messages)}
    for chat in {each.reply_to.place for each in first.values() if each.reply_to}:
        kept = [e.position for e in listener.messages if e.reply_to and e.reply_to.place == chat]
        assert [*dict.fromkeys(kept)] == sorted({each for each in kept if each})


# --- what goes wrong ------------------------------------------------------------------------------


async def test_a_token_that_was_reset_is_said_and_never_shown(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    listener = Listener()
    running = asyncio.create_task(channel.run(listener))
    await asyncio.wait_for(server.connected.wait(), PATIENCE)
    await channel.send(parcel_for(HERE, "hello"))
    server.revoke()
    await server.hang_up()

    with pytest.raises(ChannelRefused) as at_gateway:
        await asyncio.wait_for(running, PATIENCE)
    with pytest.raises(ChannelRefused) as at_start:
        await asyncio.wait_for(channel.run(listener), PATIENCE)
    errors: list[Exception] = [at_gateway.value, at_start.value]
    for _ in range(2):  # with the client that is signed in, and with a new one
        with pytest.raises(ReplyDelayed) as delayed:
            await channel.send(parcel_for(HERE, "hi"))
        assert delayed.value.stops == "account"
        errors.append(delayed.value)

    for error in errors:
        assert "reset" in str(error)
        assert TOKEN not in str(error)


async def test_without_the_message_content_intent_it_still_hears_what_is_meant_for_it(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    server.flags, listener = 0, Listener()
    async with listening(server, channel, listener):
        await server.say("not for you", channel=GENERAL)
        await server.say(f"<@{BOT}> for you", channel=GENERAL)
        await server.say("private")
        await listener.wait_for(2)

    assert [each.text for each in listener.messages] == ["@Clew for you", "private"]


async def test_an_intent_that_is_taken_away_is_named(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    server.flags, server.application = 0, {"flags": CONTENT_FLAG}

    with pytest.raises(ChannelRefused, match="message content intent"):
        await asyncio.wait_for(channel.run(Listener()), PATIENCE)


@pytest.mark.parametrize(
    ("scope", "stops"), [("shared", "chat"), ("user", "chat"), ("global", "account")]
)
async def test_a_flood_limit_stops_the_chat_or_the_account(
    server: DiscordServer, channel: DiscordChannel, scope: Any, stops: str
) -> None:
    server.limit_scope, server.retry_after = scope, 7
    server.reactions.append("flood")

    with pytest.raises(ReplyDelayed) as raised:
        await channel.send(parcel_for(HERE, "hi"))

    assert (raised.value.after, raised.value.stops) == (7, stops)


async def test_a_line_that_is_cut_after_sending_is_uncertain_and_repeating_shows_it_once(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    server.reactions.append("swallow")

    with pytest.raises(ConnectionError) as raised:
        await channel.send(parcel_for(HERE, "hi"))
    receipt = await channel.send(parcel_for(HERE, "hi"))

    assert [str(each.id) for each in server.sent] == [receipt["message"]]
    assert TOKEN not in str(raised.value)


async def test_an_answer_that_failed_on_the_way_is_repeated_and_shown_once(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    server.reactions.append("fail")

    await channel.send(parcel_for(HERE, "hi"))

    assert [each.text for each in server.sent] == ["hi"]


async def test_what_is_gone_or_never_was_is_refused(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    with pytest.raises(ReplyRefused):
        await channel.edit({"channel": "9007", "message": "1"}, "x")
    for kind, peer in (("channel", "123"), ("dm", "999"), ("dm", "somebody")):
        with pytest.raises(ReplyRefused):
            await channel.send(parcel_for(reply_to_peer("discord", "default", kind, peer), "x"))
    with pytest.raises(FormatRefused):
        await channel.send(parcel_for(HERE, "x" * (LIMIT + 1)))


async def test_a_check_names_the_bot_its_invitation_and_what_it_lacks(
    server: DiscordServer,
) -> None:
    channel = open_channel(server, answers_all=True)
    found = await channel.check()
    assert found.who == "Clew (@clew)"
    assert found.problems == ()
    (invitation,) = found.hints
    assert f"client_id={BOT}" in invitation
    assert f"permissions={server.rights}" in invitation
    assert "scope=bot" in invitation

    server.flags = 0
    server.rights = 1 << 10
    server.application = {"interactions_endpoint_url": "https://x.y"}
    server.application["bot_require_code_grant"] = True
    content, hooked, grant, rights = (await channel.check()).problems
    assert "Message Content Intent" in content
    assert 'groups = "always"' in content
    assert "endpoint URL" in hooked
    assert "Code Grant" in grant
    assert "Kitchen" in rights
    assert "Send Messages, Send Messages in Threads, Read Message History, Attach Files" in rights

    server.is_invited = False
    assert "no server" in (await channel.check()).problems[-1]


# --- markup ---------------------------------------------------------------------------------------

MARKDOWN = st.lists(
    st.sampled_from((
        "**", "*", "_", "__", "`", "``", "```\n", "```py\n", "# ", "#### ", "- ", "1. ", "> ", "[",
        "](http://x.y)", "](javascript:x)", "&", "<@7>", "<#1>", "<t:1>", "\n", "\n\n", "    ",
        "word", "~~", "---\n", "||", "🧵", "<b>", "![a](b)", "|", "\\", "[x]: http://y\n", "é",
        " ", "-# ", "| a | b |\n|--|--|\n| 1 | 2 |\n", "@everyone", "http://a.b/c_d_e",
    )),
    min_size=1, max_size=50,
).map("".join)  # fmt: skip


def visible(text: str) -> list[str]:
    """The words that stay, whatever is done to the marks around them."""
    return re.findall(r"word|🧵|é", text)


@given(MARKDOWN)
def test_what_is_rendered_loses_no_words_and_calls_nobody(text: str) -> None:
    shown = to_discord(text)

    assert visible(shown) == visible(text)
    assert shown.count("```") % 2 == 0
    outside = re.sub(r"```.*?```|(`+).*?\1", "", shown, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<(@|#|t:)", outside)
    assert not re.search(r"(?<!\\)\]\(javascript:", outside)


@settings(max_examples=25)
@given(st.lists(MARKDOWN, max_size=20).map("\n".join))
def test_every_piece_fits_and_its_code_blocks_are_closed(text: str) -> None:
    pieces = [*DiscordChannel(TOKEN).split(text * 4)]

    assert "".join(each.source for each in pieces) == text * 4
    assert all(len(each.sent) <= LIMIT for each in pieces)
    assert all(each.sent.count("```") % 2 == 0 for each in pieces)


def test_what_people_write_is_shown_as_they_expect() -> None:
    text = "# Plan\n\nSome *words*, **more**, __bold__ and `x < 1` of snake_case <@7>.\n\n"
    text += "- one\n- two\n  1. deep\n\n```py\na < b\n```\n> so\n\n#### Small\n\n1986\\. A\n\n"
    text += "| a | b |\n|---|---|\n| 1 | 2 |\n\nhttp://a.b/c_d_e **a***b*"

    assert to_discord(text) == (
        "# Plan\n\nSome *words*, **more**, **bold** and `x < 1` of snake\\_case \\<@7>.\n\n"
        "- one\n- two\n  1. deep\n\n```py\na < b\n```\n\n> so\n\n**Small**\n\n1986\\. A\n\n"
        "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\n\nhttp://a.b/c_d_e **a**\u200b*b*"
    )
