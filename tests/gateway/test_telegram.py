"""A gateway with a bot on Telegram, as it is wired: config file, real library, local server."""

from __future__ import annotations

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
from clew.testing.telegram import BOB, FORUM, GROUP, TOKEN, Sent, TelegramServer, open_telegram
from clew.wiring import House, open_configured_store, run_errands
from clew.wiring.channels import build_channels

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
async def server() -> AsyncIterator[TelegramServer]:
    async with open_telegram() as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, server: TelegramServer, monkeypatch: pytest.MonkeyPatch) -> Config:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    monkeypatch.chdir(work)
    script = home / "script.json"
    script.write_bytes(msgspec.json.encode(SCRIPT))
    (home / "token").write_text(TOKEN)
    (home / "config.toml").write_text(
        f"""model = "script/x"
owners = ["telegram:7"]
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[channels.telegram]
token = "file:{home / "token"}"
api_url = "{server.base_url}"
""",
        encoding="utf-8",
    )
    return load(home=str(home), environ={})


@asynccontextmanager
async def serving(config: Config, clock: Callable[[], int] | None = None) -> AsyncIterator[House]:
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock)
        open_things.push_async_callback(store.close)
        house = House(config, store, settle_s=0.0, clock=clock)
        open_things.push_async_callback(house.close)
        await open_things.enter_async_context(run_errands(house, build_channels(config)))
        yield house


async def shown(server: TelegramServer, count: int) -> list[Sent]:
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
KITCHEN = f"agent:main:telegram:group:{GROUP.id}"


async def test_the_owner_writes_and_is_answered_and_the_message_has_its_author(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config) as house:
        await server.say("Good morning")
        (answer,) = await shown(server, 1)
        thread = await thread_of(house, MAIN)

    assert (answer.chat, answer.text) == (7, "You said: Good morning")
    assert thread[0].author is not None
    assert (thread[0].author.id, thread[0].author.name) == ("telegram:7", "Ann")
    assert server.typing[0] == (7, None)


async def test_in_a_group_a_mention_is_answered_and_the_rest_is_context(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config) as house:
        await server.say("@clew_test_bot hello", chat=GROUP)
        await shown(server, 1)
        await server.say("the oven is broken", chat=GROUP, sender=BOB)
        await server.say("@clew_test_bot what now?", chat=GROUP)
        await shown(server, 2)
        await server.say("@clew_test_bot and then?", chat=GROUP)
        _, second, third = await shown(server, 3)
        thread = await thread_of(house, KITCHEN)
        hits = await house.store.list_lines(KITCHEN)

    assert "Bob (telegram:8): the oven is broken" in second.text
    assert "Ann (telegram:7): @clew_test_bot what now?" in second.text
    assert "oven" not in third.text
    assert [each.content for each in thread if each.role == "user"] == [
        "@clew_test_bot hello", "@clew_test_bot what now?", "@clew_test_bot and then?",
    ]  # fmt: skip
    assert hits == ()


async def test_a_stranger_in_a_group_is_not_answered_and_in_private_gets_a_code(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config):
        await server.say("@clew_test_bot let me in", chat=GROUP, sender=BOB)
        await server.say("let me in", sender=BOB)
        (offer,) = await shown(server, 1)

    assert offer.chat == BOB.id
    assert "give my owner this code" in offer.text


async def test_a_topic_is_answered_in_its_topic(config: Config, server: TelegramServer) -> None:
    async with serving(config) as house:
        await server.say("@clew_test_bot hi", chat=FORUM, topic=44)
        (answer,) = await shown(server, 1)
        await find_session(house, f"agent:main:telegram:group:{FORUM.id}:topic:44")

    assert (answer.chat, answer.thread) == (FORUM.id, 44)


async def test_a_photo_comes_into_the_session(config: Config, server: TelegramServer) -> None:
    async with serving(config) as house:
        await server.say("look", files=[Attached("image/jpeg", b"JFIF")])
        await shown(server, 1)
        thread = await thread_of(house, MAIN)
        blob = await house.store.get_blob(thread[0].parts[0]["blob"])

    assert blob.data == b"JFIF"


async def test_a_button_of_the_owner_lets_the_command_run(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config):
        await server.say("make it")
        (question,) = await shown(server, 1)
        assert question.text.startswith("May I use shell? Run: touch made")
        assert [label for label, _ in question.buttons] == ["Yes", "No", "Session", "Always"]
        await server.press(question, "Yes", sender=BOB)
        await until(lambda: len(server.answered) == 1)
        assert not is_made()
        await server.press(question, "Yes")
        await shown(server, 2)

    assert is_made()
    assert [said for _, said in server.answered] == [
        "Only the owner of this clew can answer that.", "Allowed, once.",
    ]  # fmt: skip
    assert server.sent[0].buttons == ()
    assert server.sent[1].text == "Well."


async def test_a_question_of_a_group_goes_to_the_owner_and_is_answered_there(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config):
        await server.say("@clew_test_bot make it", chat=GROUP)
        await shown(server, 2)
        told = {each.chat: each for each in server.sent}
        assert "touch made" not in told[GROUP.id].text
        assert "touch made" in told[7].text
        assert told[GROUP.id].buttons == ()
        # A button counts only where it was shown.
        await server.press(Sent(GROUP.id, told[GROUP.id].id, "", buttons=told[7].buttons), "Yes")
        await until(lambda: len(server.answered) == 1)
        assert not is_made()
        await server.say("yes")
        await until(lambda: any(each.text == "Well." for each in server.sent))

    assert is_made()
    assert server.answered[0][1] == "That question is over. Nothing was done."


async def test_a_late_edit_goes_along_with_the_next_message(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config):
        first = await server.say("meet at five")
        await shown(server, 1)
        await server.edit(first, "meet at six")
        await server.say("when?")
        _, answer = await shown(server, 2)

    assert "(Changed since it was answered. These messages now read:)" in answer.text
    assert "Ann (telegram:7): meet at six" in answer.text


async def test_a_long_answer_is_shown_as_it_comes_and_ends_as_one_message(
    config: Config, server: TelegramServer
) -> None:
    async with serving(config) as house:
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
    assert rows[0].receipt["parts"] == [{"chat": 7, "message": one.id}]


async def test_duplicates_are_one_turn_and_a_restart_answers_what_waited(
    config: Config, server: TelegramServer
) -> None:
    updates = [await server.say(f"message {number}") for number in range(3)]
    for update in updates:
        await server.repeat(update)
    async with serving(config) as house:
        await until(lambda: any("message 2" in each.text for each in server.sent))
        thread = await thread_of(house, MAIN)
    async with serving(config) as house:
        await server.repeat(updates[0])
        await server.say("last")
        await until(lambda: any("last" in each.text for each in server.sent))
        thread = await thread_of(house, MAIN)

    said = [each.content for each in thread if each.role == "user"]
    assert said == ["message 0", "message 1", "message 2", "last"]


async def test_what_comes_again_after_nine_days_is_no_turn(
    config: Config, server: TelegramServer
) -> None:
    now = [1_800_000_000_000]

    def clock() -> int:
        return now[0]

    async with serving(config, clock) as house:
        update = await server.say("once", date=clock() // 1000)
        await shown(server, 1)
        await settled(house.store, "sent")
        now[0] += 9 * DAY
        await house.store.sweep()
        await server.repeat(update)
        await server.say("now", date=clock() // 1000)
        await until(lambda: any("now" in each.text for each in server.sent))
        routes = [await thread_of(house, MAIN)]

    assert [each.text for each in server.sent if "once" in each.text] == ["You said: once"]
    assert [each.content for each in routes[0] if each.role == "user"] == ["now"]


async def test_a_flood_limit_delays_and_a_broken_line_is_uncertain(
    config: Config, server: TelegramServer
) -> None:
    server.reactions.extend(["flood", "take", "swallow"])
    async with serving(config) as house:
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


async def test_a_revoked_token_is_shown_in_the_status_and_hurts_nothing_else(
    config: Config, server: TelegramServer
) -> None:
    server.revoke()
    async with serving(config) as house:

        async def is_down() -> bool:
            (view,) = house.list_channels()
            return view.state == "down"

        await until(is_down)
        (view,) = house.list_channels()

    assert view.detail is not None
    assert "revoked" in view.detail
    assert TOKEN not in view.detail


async def test_markup_that_telegram_can_not_read_comes_as_plain_text(
    config: Config, server: TelegramServer
) -> None:
    server.reactions.append("misread")
    async with serving(config):
        await server.say("**hi**")
        (answer,) = await shown(server, 1)

    assert answer.text == "You said: **hi**"


def test_nothing_is_imported_unless_a_channel_is_configured() -> None:
    import subprocess
    import sys

    code = "import clew.wiring.gateway, sys; print([m for m in sys.modules if m == 'telegram'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
