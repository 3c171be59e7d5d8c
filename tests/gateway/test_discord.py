"""A gateway with a bot on Discord, as it is wired: config file, real library, local server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from clew.config import Config, load
from clew.core.channels.replies import Attached
from clew.core.delivery import OutboundStatus
from clew.core.message import Message
from clew.core.session import Session
from clew.ports import Store
from clew.testing.channel_contract import until
from clew.testing.clock import DAY
from clew.testing.discord import (
    BOB,
    BOT,
    EPOCH,
    GENERAL,
    THREAD,
    TOKEN,
    DiscordServer,
    Sent,
    open_discord,
)
from clew.wiring import House, open_configured_store, run_errands
from clew.wiring.channels import build_channels
from tests.patience import PATIENCE

MAKE = {"tool_calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}
LONG = {"text": "A long answer. " * 40, "chunk": 300, "hold": "go"}
SCRIPT = {
    "rules": [
        {"when": "make it", "answers": [MAKE, "Well."]},
        {"when": "slowly", "answers": [LONG]},
    ],
    "answers": [{"text": "You said: ", "echo": "user"}],
}


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with open_discord() as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, server: DiscordServer, monkeypatch: pytest.MonkeyPatch) -> Config:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    monkeypatch.chdir(work)
    script = home / "script.json"
    script.write_bytes(msgspec.json.encode(SCRIPT))
    (home / "token").write_text(TOKEN)
    (home / "config.toml").write_text(
        f"""model = "script/x"
owners = ["discord:7"]
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[channels.discord]
token = "file:{home / "token"}"
api_url = "{server.base_url}"
""",
        encoding="utf-8",
    )
    return load(home=str(home), environ={})


@asynccontextmanager
async def serving(
    config: Config, server: DiscordServer, clock: Callable[[], int] | None = None
) -> AsyncIterator[House]:
    """A gateway that is connected, inside the block."""
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock)
        open_things.push_async_callback(store.close)
        house = House(config, store, settle_s=0.0, clock=clock)
        open_things.push_async_callback(house.close)
        await open_things.enter_async_context(run_errands(house, build_channels(config)))
        if server.token == TOKEN:
            await asyncio.wait_for(server.connected.wait(), PATIENCE)
        yield house


async def shown(server: DiscordServer, count: int) -> list[Sent]:
    await until(lambda: len(server.sent) >= count)
    return server.sent


async def find_session(house: House, key: str) -> Session:
    session = await house.store.find_route(key)
    assert session is not None
    return session


async def thread_of(house: House, key: str) -> tuple[Message, ...]:
    return await house.store.get_messages((await find_session(house, key)).id)


async def settled(store: Store, status: OutboundStatus, count: int = 1) -> None:
    async def there_are() -> bool:
        return len(await store.list_outbound(status=status)) >= count

    await until(there_are)


def is_made() -> bool:
    return Path("made").exists()


def let_go() -> None:
    Path("go").touch()


MAIN = "agent:main:main"
ROOM = f"agent:main:discord:channel:{GENERAL}"
ANNS = 9_007
"""The private chat with Ann."""
HI = f"<@{BOT}>"


async def test_the_owner_writes_and_is_answered_and_the_message_has_its_author(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server) as house:
        await server.say("Good morning")
        (answer,) = await shown(server, 1)
        thread = await thread_of(house, MAIN)

    assert (answer.channel, answer.text) == (ANNS, "You said: Good morning")
    assert thread[0].author is not None
    assert (thread[0].author.id, thread[0].author.name) == ("discord:7", "Ann")
    assert server.typing[0] == ANNS


async def test_in_a_channel_a_mention_is_answered_and_the_rest_is_context(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server) as house:
        await server.say(f"{HI} hello", channel=GENERAL)
        await shown(server, 1)
        await server.say("the oven is broken", channel=GENERAL, sender=BOB)
        await server.say(f"{HI} what now?", channel=GENERAL)
        await shown(server, 2)
        await server.say(f"{HI} and then?", channel=GENERAL)
        _, second, third = await shown(server, 3)
        thread = await thread_of(house, ROOM)
        session = await find_session(house, ROOM)

    assert "Bob (discord:8): the oven is broken" in second.text
    assert "Ann (discord:7): @Clew what now?" in second.text
    assert "oven" not in third.text
    assert [each.content for each in thread if each.role == "user"] == [
        "@Clew hello", "@Clew what now?", "@Clew and then?",
    ]  # fmt: skip
    assert (session.room, session.space) == ("#general", "Kitchen")


async def test_with_groups_always_a_channel_is_answered_and_a_command_needs_no_mention(
    config: Config, server: DiscordServer
) -> None:
    with config.file.open("a") as file:
        file.write('groups = "always"\n')
    async with serving(load(home=str(config.home), environ={}), server):
        await server.say("hello", channel=GENERAL)
        (answer,) = await shown(server, 1)

    assert (answer.channel, "hello" in answer.text) == (GENERAL, True)


async def test_a_stranger_in_a_channel_is_not_answered_and_in_private_gets_a_code(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server):
        await server.say(f"{HI} let me in", channel=GENERAL, sender=BOB)
        await server.say("let me in", sender=BOB)
        (offer,) = await shown(server, 1)

    assert offer.channel == 9_000 + BOB.id
    assert "give my owner this code" in offer.text


async def test_a_thread_is_a_session_and_is_answered_there(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server) as house:
        await server.say(f"{HI} hi", channel=THREAD)
        (answer,) = await shown(server, 1)
        session = await find_session(house, f"agent:main:discord:channel:{THREAD}")

    assert answer.channel == THREAD
    assert session.display_name == "the oven"


async def test_a_picture_comes_into_the_session(config: Config, server: DiscordServer) -> None:
    async with serving(config, server) as house:
        await server.say("look", files=[Attached("image/jpeg", b"JFIF", "a.jpg")])
        await shown(server, 1)
        thread = await thread_of(house, MAIN)
        blob = await house.store.get_blob(thread[0].parts[0]["blob"])

    assert blob.data == b"JFIF"


async def test_a_button_of_the_owner_lets_the_command_run(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server):
        await server.say("make it")
        (question,) = await shown(server, 1)
        assert question.text.startswith("May I use shell? Run: touch made")
        assert [label for label, _ in question.buttons] == ["Yes", "No", "Session", "Always"]
        await server.press(question, "Yes", sender=BOB)
        await until(lambda: len(server.answered) == 1)
        assert not is_made()
        await server.press(question, "Yes")
        await shown(server, 2)
        await until(lambda: not server.sent[0].buttons)

    assert is_made()
    assert server.answered == [
        "Only the owner of this clew can answer that.", "Allowed, once.",
    ]  # fmt: skip
    assert server.sent[1].text == "Well."


async def test_a_question_of_a_channel_goes_to_the_owner_and_is_answered_there(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server):
        await server.say(f"{HI} make it", channel=GENERAL)
        await shown(server, 2)
        told = {each.channel: each for each in server.sent}
        assert "touch made" not in told[GENERAL].text
        assert "touch made" in told[ANNS].text
        assert told[GENERAL].buttons == ()
        # A button counts only where it was shown.
        there = Sent(GENERAL, told[GENERAL].id, "", buttons=told[ANNS].buttons)
        await server.press(there, "Yes")
        await until(lambda: len(server.answered) == 1)
        assert not is_made()
        await server.say("yes")
        await until(lambda: any(each.text == "Well." for each in server.sent))

    assert is_made()
    assert server.answered[0] == "That question is over. Nothing was done."


async def test_a_late_edit_goes_along_with_the_next_message(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server):
        first = await server.say("meet at five")
        await shown(server, 1)
        await server.edit(first, "meet at six")
        await server.say("when?")
        _, answer = await shown(server, 2)

    assert "(Changed since it was answered. These messages now read:)" in answer.text
    assert "Ann (discord:7): meet at six" in answer.text


async def test_a_long_answer_is_shown_as_it_comes_and_ends_as_one_message(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server) as house:
        await server.say("slowly")
        (one,) = await shown(server, 1)
        begun = one.text
        let_go()
        await settled(house.store, "sent")
        rows = await house.store.list_outbound(status="sent")

    assert begun.endswith("…")
    assert len(server.sent) == 1
    assert server.sent[0].text.strip() == ("A long answer. " * 40).strip()
    assert server.sent[0].edits >= 1
    assert rows[0].receipt is not None
    assert rows[0].receipt["parts"] == [{"channel": str(ANNS), "message": str(one.id)}]


async def test_duplicates_are_one_turn_and_a_restart_answers_what_waited(
    config: Config, server: DiscordServer
) -> None:
    async with serving(config, server) as house:
        said = [await server.say(f"message {number}") for number in range(3)]
        for each in reversed(said):
            await server.deliver(each)
        await until(lambda: any("message 2" in each.text for each in server.sent))
    await server.say("while you were away")
    await server.say("this too")
    async with serving(config, server) as house:
        await server.deliver(said[0])
        await server.say("last")
        await until(lambda: any("last" in each.text for each in server.sent))
        thread = await thread_of(house, MAIN)

    said_there = [each.content for each in thread if each.role == "user"]
    assert said_there == [
        "message 0", "message 1", "message 2", "while you were away", "this too", "last",
    ]  # fmt: skip


async def test_what_comes_again_after_nine_days_is_no_turn(
    config: Config, server: DiscordServer
) -> None:
    now = [1_800_000_000_000]

    def clock() -> int:
        return now[0]

    def snowflake() -> int:
        return (clock() - EPOCH) << 22

    async with serving(config, server, clock) as house:
        said = await server.say("once", id=str(snowflake()))
        await shown(server, 1)
        await settled(house.store, "sent")
        now[0] += 9 * DAY
        await house.store.sweep()
        await server.deliver(said)
        await server.say("now", id=str(snowflake()))
        await until(lambda: any("now" in each.text for each in server.sent))
        thread = await thread_of(house, MAIN)

    assert [each.text for each in server.sent if "once" in each.text] == ["You said: once"]
    assert [each.content for each in thread if each.role == "user"] == ["now"]


async def test_a_flood_limit_delays_and_a_broken_line_is_uncertain(
    config: Config, server: DiscordServer
) -> None:
    server.reactions.extend(["flood", "take", "swallow"])
    async with serving(config, server) as house:
        await server.say("one")
        await shown(server, 1)
        await server.say("two")
        await settled(house.store, "uncertain")
        (doubtful,) = await house.store.list_outbound(status="uncertain")
        await server.say("three")
        await until(lambda: any("three" in each.text for each in server.sent))

    assert "two" in doubtful.content
    assert TOKEN not in str(doubtful.error)
    assert [each.text for each in server.sent] == [
        "You said: one", "You said: two", "You said: three",
    ]  # fmt: skip


async def test_a_token_that_was_reset_is_shown_in_the_status(
    config: Config, server: DiscordServer
) -> None:
    server.revoke()
    async with serving(config, server) as house:

        async def is_down() -> bool:
            (view,) = house.list_channels()
            return view.state == "down"

        await until(is_down)
        (view,) = house.list_channels()

    assert view.detail is not None
    assert "was reset" in view.detail
    assert TOKEN not in view.detail


async def test_text_that_discord_does_not_take_comes_unrendered(
    config: Config, server: DiscordServer
) -> None:
    server.reactions.append("misread")
    async with serving(config, server):
        await server.say("__hi__")
        (answer,) = await shown(server, 1)

    assert answer.text == "You said: __hi__"


def test_nothing_is_imported_unless_a_channel_is_configured() -> None:
    import subprocess
    import sys

    code = "import clew.wiring.gateway, sys; print([m for m in sys.modules if m == 'discord'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
