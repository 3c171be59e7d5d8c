"""A gateway with a mailbox, as it is wired: config file, real libraries, local servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from clew.config import Config, load
from clew.testing.channel_contract import until
from clew.testing.clock import DAY
from clew.testing.email import ADDRESS, ANN, AUTHSERV, PASSWORD, MailServer, open_mail
from clew.wiring import House, open_configured_store, run_errands
from clew.wiring.channels import build_channels

MAKE = {"tool_calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}
SCRIPT = {
    "rules": [{"when": "make it", "answers": [MAKE, "Well."]}],
    "answers": [{"text": "You said: ", "echo": "user"}],
}


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with open_mail() as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, server: MailServer, monkeypatch: pytest.MonkeyPatch) -> Config:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    monkeypatch.chdir(work)
    script = home / "script.json"
    script.write_bytes(msgspec.json.encode(SCRIPT))
    (home / "password").write_text(PASSWORD)
    (home / "config.toml").write_text(
        f"""model = "script/x"
owners = ["email:{ANN}"]
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[channels.email]
address = "{ADDRESS}"
password = "file:{home / "password"}"
imap = "{server.imap}"
smtp = "{server.smtp}"
authserv_id = "{AUTHSERV}"
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


async def answers(server: MailServer, count: int) -> list[str]:
    await until(lambda: len(server.sent) >= count)
    return [str(each.get_content()).strip() for each in server.sent]


def is_made() -> bool:
    return Path("made").exists()


async def test_the_owner_is_answered_and_a_forger_only_gets_a_code(
    config: Config, server: MailServer
) -> None:
    async with serving(config):
        await server.say("hello")
        await answers(server, 1)
        await server.say("hello", results="dmarc=fail header.from=example.com")
        first, second = await answers(server, 2)

    assert first == "You said: hello"
    assert "give my owner this code" in second


async def test_nothing_is_approved_or_linked_by_mail(config: Config, server: MailServer) -> None:
    async with serving(config) as house:
        await server.say("make it")
        said = await answers(server, 1)
        for number, text in enumerate(("yes", "/approve", "/link"), 2):
            await server.say(text)
            said = await answers(server, number)
        rows = await house.store.list_outbound()

    assert said == ["Well.", "You said: yes", "You said: /approve", "You said: /link"]
    assert not is_made()
    assert not any("May I" in each.content for each in rows)


async def test_a_mailbox_that_renumbers_and_a_restart_make_no_second_turn(
    config: Config, server: MailServer
) -> None:
    async with serving(config):
        await server.say("once")
        await answers(server, 1)
        await server.renumber()
        await until(lambda: "\\Seen" in server.box[0].flags)
    await server.renumber()
    async with serving(config):
        await server.say("now")
        said = await answers(server, 2)

    assert said == ["You said: once", "You said: now"]


async def test_what_comes_again_after_nine_days_is_no_turn(
    config: Config, server: MailServer
) -> None:
    now = [1_800_000_000_000]

    def clock() -> int:
        return now[0]

    def today() -> datetime:
        return datetime.fromtimestamp(now[0] / 1000, UTC)

    async with serving(config, clock) as house:
        held = await server.say("once", at=today())
        await answers(server, 1)

        async def is_sent() -> bool:
            return bool(await house.store.list_outbound(status="sent"))

        await until(is_sent)
        now[0] += 9 * DAY
        await house.store.sweep()
        again = await server.put(held.raw, at=held.at)
        await until(lambda: "\\Seen" in again.flags)
        await server.say("now", at=today())
        said = await answers(server, 2)

    assert said == ["You said: once", "You said: now"]


async def test_a_line_that_breaks_while_sending_is_uncertain(
    config: Config, server: MailServer
) -> None:
    server.reactions.append("swallow")
    async with serving(config) as house:
        await server.say("one")

        async def is_doubted() -> bool:
            return bool(await house.store.list_outbound(status="uncertain"))

        await until(is_doubted)

    assert len(server.sent) == 1


def test_nothing_is_imported_unless_a_mailbox_is_configured() -> None:
    code = (
        "import clew.wiring.gateway, sys; "
        "print([m for m in sys.modules if m in ('imapclient', 'aiosmtplib')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
