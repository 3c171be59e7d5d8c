"""Slack through its real library, against a local server that speaks Web API and socket mode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.channels.slack import LIMIT, SlackChannel, build
from clew.channels.slack_app import EVENTS, MANIFEST, SCOPES
from clew.channels.slack_markup import list_references, to_mrkdwn, to_plain
from clew.core.channels.incoming import Edited, Learned, Pressed
from clew.core.channels.kinds import ChannelSetup
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
from clew.testing.slack import (
    ANN,
    APP_TOKEN,
    BOB,
    CHANNEL,
    FRIENDS,
    PRIVATE,
    TOKEN,
    SlackServer,
    direct,
    open_slack,
    parse_mrkdwn,
)
from clew.testing.slack import SCOPES as ALL_SCOPES
from tests.patience import PATIENCE

HERE = reply_to_peer("slack", "default", "dm", ANN.id)
KITCHEN = reply_to_peer("slack", "default", "channel", CHANNEL.id)


def open_channel(server: SlackServer) -> SlackChannel:
    return SlackChannel(TOKEN, APP_TOKEN, base_url=server.base_url, settle=0.02)


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with open_slack() as server:
        yield server


@pytest.fixture
async def channel(server: SlackServer) -> AsyncIterator[SlackChannel]:
    channel = open_channel(server)
    yield channel
    await channel.close()


class Ann:
    """`Platform`: a private chat with the bot."""

    sender = ANN.id

    def __init__(self, server: SlackServer, channel: SlackChannel) -> None:
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
        return self._said[name] in self.server.acknowledged

    def react(self, *reactions: Reaction) -> None:
        self.server.reactions.extend(reactions)

    def list_shown(self) -> list[Shown]:
        return [
            Shown(each.text, each.file, tuple(label for label, _ in each.buttons))
            for each in self.server.sent
        ]

    def count_typing(self) -> int:
        return sum(what == "add" for what, _, _ in self.server.reacted)

    async def disconnect(self) -> None:
        await self.server.hang_up()

    async def go_away(self) -> None:
        await self.server.close()


class TestSlackChannel(ChannelContract):
    @pytest.fixture
    async def platform(self, server: SlackServer) -> AsyncIterator[Ann]:
        channel = open_channel(server)
        yield Ann(server, channel)
        await channel.close()


# --- what it reports ------------------------------------------------------------------------------


async def test_chats_are_told_apart_and_a_mention_from_talk(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await server.say("so I said", chat=CHANNEL)
        await server.say("what do you say, @clew? Or @Bob <x> & y", chat=CHANNEL, sender=BOB)
        await server.say("hi", chat=PRIVATE)
        await server.say("hi", chat=FRIENDS)
        await server.say("hi")
        messages = await listener.wait_for(5)

    peers = [each.arrival.peer for each in messages]
    assert [(each.kind, each.id) for each in peers if each is not None] == [
        ("channel", CHANNEL.id), ("channel", CHANNEL.id), ("channel", PRIVATE.id),
        ("group", FRIENDS.id), ("dm", ANN.id),
    ]  # fmt: skip
    assert [each.is_mentioned for each in messages] == [False, True, False, False, True]
    assert messages[1].text == "what do you say, @clew? Or @Bob <x> & y"
    assert (messages[1].sender.name, messages[1].mention) == ("Bob", "@clew")
    assert (messages[0].labels.conversation, messages[0].labels.space) == ("#kitchen", "Home")
    assert {each.arrival.team for each in messages} == {server.team["id"]}
    assert messages[0].reply_to == messages[1].reply_to
    assert messages[0].reply_to is not None
    assert messages[0].reply_to.place == KITCHEN.place


async def test_a_thread_is_a_place_of_its_own_and_brings_its_first_message_once(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        first = server.ts_of(await server.say("Where is the salt?", chat=CHANNEL, sender=BOB))
        await server.say("in a thread", chat=CHANNEL, thread=first)
        await server.say("@clew do you know?", chat=CHANNEL, thread=first)
        await server.say("@clew really?", chat=CHANNEL, thread=first)
        messages = await listener.wait_for(4)
        assert messages[2].reply_to is not None
        await channel.send(parcel_for(messages[2].reply_to, "On the shelf."))
        own = server.sent[0].ts
        await server.say("thanks", chat=CHANNEL, thread=own)
        messages = await listener.wait_for(5)

    assert [each.arrival.thread for each in messages] == [None, first, first, first, own]
    assert server.sent[0].thread == first
    quotes = [each.quote for each in messages]
    assert [each is not None for each in quotes] == [False, False, True, False, True]
    assert quotes[2] is not None
    assert quotes[2].author is not None
    assert (quotes[2].text, quotes[2].author.name, quotes[2].is_own) == (
        "Where is the salt?", "Bob", False,
    )  # fmt: skip
    # What is said in a thread that the bot began is said to the bot.
    assert messages[4].is_mentioned
    assert quotes[4] is not None
    assert quotes[4].is_own


async def test_files_come_along_and_the_token_is_shown_to_slack_only(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    elsewhere = {"id": "F9", "name": "plan", "url_private": "https://slack.com.example/plan"}
    outside = elsewhere | {"is_external": True, "url_private": f"{server.origin}/files/F9"}
    async with keep_running(channel, listener):
        await server.say("", files=[Attached("application/pdf", b"%PDF", "plan.pdf")])
        await server.say("one", links=[elsewhere, outside])
        await listener.wait_for(2)
        server.scopes.remove("files:read")
        await server.say("last", files=[Attached("image/png", b"\x89PNG", "a.png")])
        messages = await listener.wait_for(3)

    assert messages[0].attachments == (Attached("application/pdf", b"%PDF", "plan.pdf"),)
    assert messages[1].text == (
        "one\n[plan: is not kept at Slack: https://slack.com.example/plan]\n"
        f"[plan: is not kept at Slack: {server.origin}/files/F9]"
    )
    assert messages[2].text == "last\n[a.png could not be fetched: does the app have files:read?]"
    assert all(each.attachments == () for each in messages[1:])


async def test_edits_presses_and_new_channels_are_reported(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        said = await server.say("helo")
        await server.unfurl(said)
        await server.edit(said, "hello, @Bob")
        await channel.ask(parcel_for(HERE, "May I?"), [Choice("Yes", "0123456789abcdef:yes")])
        await server.press(server.sent[0], "Yes")
        await server.join(CHANNEL)
        await until(lambda: len(listener.events) == 4)

    _, edited, pressed, learned = listener.events
    assert isinstance(edited, Edited)
    assert isinstance(pressed, Pressed)
    assert isinstance(learned, Learned)
    assert (edited.text, edited.external_id) == ("hello, @Bob", listener.messages[0].external_id)
    assert (pressed.value, pressed.sender.id) == ("0123456789abcdef:yes", ANN.id)
    assert pressed.reply_to.place == HERE.place
    assert (learned.labels.conversation, learned.sender.name) == ("#kitchen", "Ann")


async def test_what_began_a_thread_stays_where_it_was_written(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        said = await server.say("helo", chat=CHANNEL)
        await channel.ask(parcel_for(KITCHEN, "May I?"), [Choice("Yes", "0123456789abcdef:yes")])
        for first in (server.ts_of(said), server.sent[0].ts):
            await server.say("a reply", chat=CHANNEL, thread=first)
        await server.edit(said, "hello")
        await server.press(server.sent[0], "Yes")
        await until(lambda: len(listener.events) == 5)

    *_, edited, pressed = listener.events
    assert isinstance(edited, Edited)
    assert isinstance(pressed, Pressed)
    assert edited.arrival.thread is None
    assert pressed.reply_to.place == KITCHEN.place


async def test_bots_and_service_messages_are_not_reported_but_acknowledged(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await channel.send(parcel_for(KITCHEN, "my own words"))
        beep = await server.say("beep", bot_id="B1")
        await server.say("Ann has joined", subtype="channel_join", chat=CHANNEL)
        await server.say("from Slack itself", user="USLACKBOT")
        await server.say("a person")
        await listener.wait_for(1)
        await until(lambda: beep in server.acknowledged)

    assert [each.text for each in listener.messages] == ["a person"]


async def test_the_command_of_the_app_is_one_of_clew(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        for text in ("new go on", "/status", "", "what is new?"):
            await server.command(text, chat=CHANNEL)
        messages = await listener.wait_for(4)

    assert [each.text for each in messages] == ["/new go on", "/status", "/help", "what is new?"]
    assert all(each.is_mentioned for each in messages)
    assert len({each.external_id for each in messages}) == 4


async def test_what_waits_comes_in_order_after_a_restart_even_if_it_was_mixed_up(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    for number in range(5):
        await server.say(f"{number}")
    server.shuffle()

    async with keep_running(channel, listener):
        await listener.wait_for(5)

    assert [each.text for each in listener.messages] == ["0", "1", "2", "3", "4"]
    positions = [each.position or 0 for each in listener.messages]
    assert positions == sorted(set(positions))


async def test_another_connection_is_made_before_slack_closes_the_old_one(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    running = asyncio.create_task(channel.run(listener))
    for number, reason in enumerate(("warning", "refresh_requested")):
        await until(lambda number=number: server.connections == number + 1)  # type: ignore[misc]
        await server.refresh(reason)
        await server.say(reason)
        await listener.wait_for(number + 1)
    assert not running.done(), "nobody has to be told of it"
    running.cancel()
    await asyncio.wait({running})

    assert [each.text for each in listener.messages] == ["warning", "refresh_requested"]


# --- what goes wrong ------------------------------------------------------------------------------


async def test_a_revoked_token_is_said_and_never_shown(
    server: SlackServer, channel: SlackChannel
) -> None:
    server.revoke()

    with pytest.raises(ChannelRefused) as raised:
        async with asyncio.timeout(PATIENCE):
            await channel.run(Listener())
    with pytest.raises(ReplyDelayed) as delayed:
        await channel.send(parcel_for(HERE, "hi"))

    assert delayed.value.stops == "account"
    for error in (raised.value, delayed.value):
        assert "token_revoked" in str(error)
        assert TOKEN not in str(error)


async def test_what_ends_a_running_channel_is_said_in_words(
    server: SlackServer, channel: SlackChannel
) -> None:
    for end, words in (
        (server.remove_app(), "removed from the workspace"),
        (server.refresh("link_disabled"), "Socket mode was switched off"),
    ):
        before = server.connections
        running = asyncio.create_task(channel.run(Listener()))
        await until(lambda before=before: server.connections > before)  # type: ignore[misc]
        await end
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({running})
        server.forget()
        error = running.exception()
        assert isinstance(error, ChannelRefused)
        assert words in str(error)


async def test_the_app_token_is_named_if_it_is_that_one(
    server: SlackServer, channel: SlackChannel
) -> None:
    server.app_token = "xapp-another"

    for call in (channel.run(Listener()), channel.check()):
        with pytest.raises(ChannelRefused, match="app-level token"):
            await call


async def test_a_line_that_is_cut_or_an_answer_that_says_nothing_leaves_it_uncertain(
    server: SlackServer, channel: SlackChannel
) -> None:
    server.reactions.extend(["swallow", "break", "swallow"])
    file = Attached("image/png", b"\x89PNG", "a.png")

    for call in (
        channel.send(parcel_for(HERE, "hi")),
        channel.send(parcel_for(HERE, "hi")),
        channel.send_file(parcel_for(HERE, "", file=file)),
    ):
        with pytest.raises(ConnectionError) as raised:
            await call
        assert TOKEN not in str(raised.value)

    assert [each.file for each in server.sent] == [None, b"\x89PNG"]
    assert server.calls.count("chat.postMessage") == 2, "the library must not send it again"


async def test_an_edit_of_a_message_that_is_gone_is_refused(
    server: SlackServer, channel: SlackChannel
) -> None:
    with pytest.raises(ReplyRefused, match="message_not_found"):
        await channel.edit({"chat": direct(ANN).id, "message": "1.000001"}, "x")


async def test_a_place_from_a_key_is_found_though_it_is_in_small_letters(
    server: SlackServer, channel: SlackChannel
) -> None:
    for kind, name in (("channel", CHANNEL.id), ("dm", BOB.id)):
        place = reply_to_peer("slack", "default", kind, name.lower())
        await channel.send(parcel_for(place, "hi"))
        await channel.send_file(parcel_for(place, "", file=Attached("text/plain", b"x", "a.txt")))

    assert [each.chat for each in server.sent] == [CHANNEL.id] * 2 + [direct(BOB).id] * 2
    with pytest.raises(ReplyRefused, match="channel_not_found"):
        await channel.send(parcel_for(reply_to_peer("slack", "default", "channel", "c9"), "hi"))


async def test_the_message_that_is_worked_on_has_a_reaction(
    server: SlackServer, channel: SlackChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await server.say("talk", chat=CHANNEL)
        said = server.ts_of(await server.say("@clew hi", chat=CHANNEL))
        await server.say("more talk", chat=CHANNEL)
        await listener.wait_for(3)
        for on in (True, True, False, False):
            await channel.typing(KITCHEN.address, on)

    assert server.reacted == [("add", CHANNEL.id, said), ("remove", CHANNEL.id, said)]


async def test_a_check_names_the_bot_and_what_it_lacks(
    server: SlackServer, channel: SlackChannel
) -> None:
    found = await channel.check()
    assert (found.who, found.problems) == ("@clew in the workspace Home", ())

    server.scopes.remove("files:write")
    server.app_id = "A02APP"
    missing, other = (await channel.check()).problems
    assert "files:write (to send files)" in missing
    assert "different apps" in other


async def test_the_manifest_asks_for_what_is_used() -> None:
    assert tuple(SCOPES) == ALL_SCOPES
    assert MANIFEST["oauth_config"]["scopes"]["bot"] == list(SCOPES)
    assert {"message.im", "message.channels"} <= set(EVENTS)
    assert MANIFEST["settings"]["socket_mode_enabled"]


def test_tokens_that_were_swapped_are_refused_before_anything_is_asked() -> None:
    for token, app_token in ((APP_TOKEN, TOKEN), (TOKEN, None), ("", APP_TOKEN)):
        settings = {"app_token": app_token} if app_token else {}
        with pytest.raises(ValueError, match="must begin with") as raised:
            build(ChannelSetup(name="slack", account="x", token=token, settings=settings))
        assert "local-test" not in str(raised.value)


# --- markup ---------------------------------------------------------------------------------------

MARKDOWN = st.lists(
    st.sampled_from((
        "**", "*", "_", "`", "```\n", "```py\n", "# ", "- ", "1. ", "> ", "[", "](http://x.y)",
        "](javascript:x)", "](<http://a|b>)", "&", "&amp;", "<", ">", "\n", "\n\n", "    ", "word",
        "~~", "---\n", '"', "🧵", "<!channel>", "<@U07ANN>", "<#C0KITCHEN|x>", "![a](http://b.c)",
        "|", "\\", "[x]: http://y\n", "<!--", "é", " ", "<http://x.y|@here>",
    )),
    min_size=1, max_size=50,
).map("".join)  # fmt: skip


@given(MARKDOWN)
def test_whatever_is_rendered_mentions_nobody_and_shows_something(text: str) -> None:
    rendered = to_mrkdwn(text)
    shown, mentions = parse_mrkdwn(rendered)

    assert mentions == ()
    assert not [*list_references(rendered)]
    assert shown.strip() or not text.strip("\\ \n")
    assert "<javascript" not in rendered


@given(st.lists(MARKDOWN, max_size=40).map("\n".join))
def test_every_piece_fits(text: str) -> None:
    pieces = [*SlackChannel(TOKEN, APP_TOKEN).split(text * 8)]

    assert "".join(each.source for each in pieces) == text * 8
    assert all(utf16_size(each.sent) <= LIMIT for each in pieces)


@given(st.text(alphabet=st.sampled_from("<>&|@!#amplt; U07C\n")))
def test_what_a_person_writes_is_read_without_loss(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert to_plain(escaped, lambda _: None) == text


def test_what_people_write_is_shown_as_they_expect() -> None:
    text = "# Plan\n\nSome *words*, **more**, a**b**c and `x < 1`.\n\n- one\n- two\n  1. deep\n\n"
    text += (
        "```py\na < b\n```\n> so\n> **two\n> lines**\n\n[a](https://x.y/?a&b) ![p](https://x.y/p)"
    )

    assert to_mrkdwn(text) == (
        "*Plan*\n\nSome _words_, *more*, a\u200b*b*\u200bc and `x &lt; 1`.\n\n• one\n• two\n"
        "    1. deep\n\n```\na &lt; b\n```\n\n> so\n> *two*\n> *lines*\n\n"
        "<https://x.y/?a&amp;b|a> <https://x.y/p|p>"
    )


def test_what_slack_marks_is_read_as_people_do() -> None:
    text = "<@U1> see <https://x.y|x.y>, <https://x.y/z|here> <!here> <#C1|general> &lt;b&gt; "
    text += "<mailto:a@b.c|a@b.c> <!subteam^S1|@team> <@U2> <!date^1^{date}|today>"

    assert to_plain(text, {"@U1": "ann"}.get) == (
        "@ann see https://x.y, here (https://x.y/z) @here #general <b> a@b.c @team @U2 today"
    )
