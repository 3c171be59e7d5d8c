"""A gateway with an app in a Slack workspace, as it is wired: config file, real library, server."""

from __future__ import annotations

import subprocess
import sys
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
from clew.testing.slack import (
    ANN,
    APP_TOKEN,
    BOB,
    CHANNEL,
    TOKEN,
    Sent,
    SlackServer,
    direct,
    open_slack,
)
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
async def server() -> AsyncIterator[SlackServer]:
    async with open_slack() as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, server: SlackServer, monkeypatch: pytest.MonkeyPatch) -> Config:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    monkeypatch.chdir(work)
    script = home / "script.json"
    script.write_bytes(msgspec.json.encode(SCRIPT))
    (home / "token").write_text(TOKEN)
    (home / "app_token").write_text(APP_TOKEN)
    (home / "config.toml").write_text(
        f"""model = "script/x"
owners = ["slack:{ANN.id}"]
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[channels.slack]
token = "file:{home / "token"}"
app_token = "file:{home / "app_token"}"
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


async def shown(server: SlackServer, count: int) -> list[Sent]:
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
KITCHEN = f"agent:main:slack:channel:{CHANNEL.id.lower()}"


async def test_the_owner_writes_and_is_answered_and_the_message_has_its_author(
    config: Config, server: SlackServer
) -> None:
    async with serving(config) as house:
        said = server.ts_of(await server.say("Good *morning* <you> & all"))
        (answer,) = await shown(server, 1)
        await until(lambda: len(server.reacted) == 2)
        thread = await thread_of(house, MAIN)

    assert (answer.chat, answer.text) == (
        direct(ANN).id, "You said: Good _morning_ <you> & all",
    )  # fmt: skip
    assert thread[0].author is not None
    assert (thread[0].author.id, thread[0].author.name) == (f"slack:{ANN.id}", "Ann")
    assert server.reacted == [("add", direct(ANN).id, said), ("remove", direct(ANN).id, said)]


async def test_in_a_channel_a_mention_is_answered_and_the_rest_is_context(
    config: Config, server: SlackServer
) -> None:
    async with serving(config) as house:
        await server.say("@clew hello", chat=CHANNEL)
        await shown(server, 1)
        await server.say("the oven is broken", chat=CHANNEL, sender=BOB)
        await server.say("@clew what now?", chat=CHANNEL)
        await server.say("@clew let me in", chat=CHANNEL, sender=BOB)
        _, second = await shown(server, 2)
        thread = await thread_of(house, KITCHEN)
        session = await find_session(house, KITCHEN)

    assert f"Bob (slack:{BOB.id}): the oven is broken" in second.text
    assert f"Ann (slack:{ANN.id}): @clew what now?" in second.text
    assert [each.content for each in thread if each.role == "user"] == [
        "@clew hello", "@clew what now?",
    ]  # fmt: skip
    assert {each.chat for each in server.sent} == {CHANNEL.id}
    # The words of people are not commands of Slack when the agent repeats them.
    assert all(each.mentions == () for each in server.sent)
    assert session.origin["label"] == "#kitchen"
    assert session.space == "Home"


async def test_a_thread_is_a_session_and_a_command_resets_only_its_own(
    config: Config, server: SlackServer
) -> None:
    async with serving(config) as house:
        first = server.ts_of(await server.say("Where is the salt?", chat=CHANNEL, sender=BOB))
        await server.say("@clew do you know?", chat=CHANNEL, thread=first)
        (answer,) = await shown(server, 1)
        one = await find_session(house, f"{KITCHEN}:thread:{first}")
        await server.say("@clew hi", chat=CHANNEL)
        await shown(server, 2)
        channel_before = await find_session(house, KITCHEN)
        await server.say("@clew /new", chat=CHANNEL, thread=first)
        await shown(server, 3)
        two = await find_session(house, f"{KITCHEN}:thread:{first}")
        channel_after = await find_session(house, KITCHEN)
        await server.command("status", chat=CHANNEL)
        await until(lambda: any(each.text.startswith("session") for each in server.sent))
        status = server.sent[-1]

    assert answer.thread == first
    assert "Where is the salt?" in answer.text
    assert one.id != two.id
    assert channel_before.id == channel_after.id
    assert status.chat == CHANNEL.id


async def test_files_come_and_go(config: Config, server: SlackServer) -> None:
    async with serving(config) as house:
        await server.say("look", files=[Attached("image/png", b"\x89PNG", "a.png")])
        await shown(server, 1)
        thread = await thread_of(house, MAIN)
        blob = await house.store.get_blob(thread[0].parts[0]["blob"])

    assert blob.data == b"\x89PNG"


async def test_a_button_of_the_owner_lets_the_command_run(
    config: Config, server: SlackServer
) -> None:
    async with serving(config):
        await server.say("make it")
        (question,) = await shown(server, 1)
        assert question.text.startswith("May I use shell? Run: touch made")
        assert [label for label, _ in question.buttons] == ["Yes", "No", "Session", "Always"]
        await server.press(question, "Yes", sender=BOB)
        await until(lambda: len(server.whispered) == 1)
        assert not is_made()
        await server.press(question, "Yes")
        await until(lambda: any(each.text == "Well." for each in server.sent))
        await until(lambda: question.buttons == ())

    assert is_made()
    assert server.whispered == [(BOB.id, "Only the owner of this clew can answer that.")]
    assert question.text.endswith("_Allowed, once._")


async def test_a_question_of_a_channel_goes_to_the_owner_and_is_answered_there(
    config: Config, server: SlackServer
) -> None:
    async with serving(config):
        await server.say("@clew make it", chat=CHANNEL)
        await shown(server, 2)
        told = {each.chat: each for each in server.sent}
        there, private = told[CHANNEL.id], told[direct(ANN).id]
        assert "touch made" not in there.text
        assert "touch made" in private.text
        assert there.buttons == ()
        # A button counts only where it was shown.
        await server.press(there, "Yes", value=private.buttons[0][1])
        await until(lambda: "That question is over" in there.text)
        assert not is_made()
        await server.press(private, "Yes")
        await until(lambda: any(each.text == "Well." for each in server.sent))

    assert is_made()


async def test_a_late_edit_goes_along_with_the_next_message(
    config: Config, server: SlackServer
) -> None:
    async with serving(config):
        first = await server.say("meet at five")
        await shown(server, 1)
        await server.unfurl(first)
        await server.edit(first, "meet at six")
        await server.say("when?")
        _, answer = await shown(server, 2)

    assert "(Changed since it was answered. These messages now read:)" in answer.text
    assert f"Ann (slack:{ANN.id}): meet at six" in answer.text


async def test_a_long_answer_is_shown_as_it_comes_and_ends_as_one_message(
    config: Config, server: SlackServer
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
    assert one.text.strip() == ("A long answer. " * 40).strip()
    assert one.edits >= 1
    assert rows[0].receipt is not None
    assert rows[0].receipt["parts"] == [{"chat": direct(ANN).id, "message": one.ts}]


async def test_duplicates_are_one_turn_and_a_restart_answers_what_waited(
    config: Config, server: SlackServer
) -> None:
    said = [await server.say(f"message {number}") for number in range(3)]
    for each in said:
        await server.repeat(each)
    server.shuffle()
    async with serving(config):
        await until(lambda: any("message 2" in each.text for each in server.sent))
        await server.refresh("warning")
    late = await server.say("while it was away")
    async with serving(config) as house:
        await server.repeat(said[0])
        await server.repeat(late)
        await server.say("last")
        await until(lambda: any("last" in each.text for each in server.sent))
        thread = await thread_of(house, MAIN)

    said_then = [each.content for each in thread if each.role == "user"]
    assert said_then == ["message 0", "message 1", "message 2", "while it was away", "last"]


async def test_what_comes_again_after_nine_days_is_no_turn(
    config: Config, server: SlackServer
) -> None:
    now = [1_800_000_000_000]

    def clock() -> int:
        return now[0]

    async with serving(config, clock) as house:
        once = await server.say("once", date=clock() // 1000)
        await shown(server, 1)
        await settled(house.store, "sent")
        now[0] += 9 * DAY
        await house.store.sweep()
        await server.repeat(once)
        await server.say("now", date=clock() // 1000)
        await until(lambda: any("now" in each.text for each in server.sent))
        thread = await thread_of(house, MAIN)

    assert [each.text for each in server.sent if "once" in each.text] == ["You said: once"]
    assert [each.content for each in thread if each.role == "user"] == ["now"]


async def test_a_flood_limit_delays_and_a_broken_line_is_uncertain(
    config: Config, server: SlackServer
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
    config: Config, server: SlackServer
) -> None:
    server.revoke()
    async with serving(config) as house:

        async def is_down() -> bool:
            (view,) = house.list_channels()
            return view.state == "down"

        await until(is_down)
        (view,) = house.list_channels()

    assert view.detail is not None
    assert "token_revoked" in view.detail
    assert TOKEN not in view.detail
    assert APP_TOKEN not in view.detail


async def test_markup_that_slack_can_not_read_comes_as_plain_text(
    config: Config, server: SlackServer
) -> None:
    server.reactions.append("misread")
    async with serving(config):
        await server.say("**hi** <!channel>")
        (answer,) = await shown(server, 1)

    assert answer.text == "You said: **hi** <!channel>"
    assert answer.mentions == ()


def test_nothing_is_imported_unless_a_channel_is_configured() -> None:
    code = (
        "import clew.wiring.gateway, clew.cli, sys; print([m for m in sys.modules if 'slack' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
