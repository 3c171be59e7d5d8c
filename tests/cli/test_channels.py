"""`clew channels`: a bot is added, tested, listed and removed, against a local Bot API server."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clew.cli import main
from clew.config import load
from clew.testing.telegram import ANN, BOB, GROUP, TOKEN, TelegramServer, open_telegram
from tests.cli.conftest import Home
from tests.patience import PATIENCE


class Town:
    """A Telegram server in a thread of its own, and people who react to what is shown."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.server = TelegramServer()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)

        async def live() -> None:
            async with open_telegram() as server:
                self.server = server
                self._ready.set()
                await self._over.wait()

        self.loop.run_until_complete(live())
        self.loop.close()

    def open(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)

    def say(self, text: str, **fields: object) -> None:
        told = self.server.say(text, **fields)  # type: ignore[arg-type]  # as the caller says
        asyncio.run_coroutine_threadsafe(told, self.loop).result(PATIENCE)


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    town.open()
    yield town
    town.close()


def add(home: Home, town: Town, *more: str, typed: str = f"{TOKEN}\n") -> Result:
    args = ("channels", "add", "telegram", "--set", f"api_url={town.server.base_url}", *more)
    environment = {"CLEW_HOME": str(home.path), "NO_COLOR": None}
    return CliRunner().invoke(main, args, input=typed, env=environment, prog_name="clew")


def adding(home: Home, town: Town, *written: str) -> tuple[int, str]:
    """Add a bot in a process of its own; these are written to it, where {} is the code shown."""
    args = ["channels", "add", "telegram", "--set", f"api_url={town.server.base_url}"]
    environment = {**os.environ, "CLEW_HOME": str(home.path), "BOT_TOKEN": TOKEN}
    command = [sys.executable, "-m", "clew", *args, "--set", "token=env:BOT_TOKEN"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            shown = re.search(r"[A-Z]{4}-[A-Z]{4}", line)
            if shown:
                for each in written:
                    town.say(each.format(shown[0]))
                break
        rest = process.stdout.read()
        return process.wait(PATIENCE), "".join(lines) + rest


def test_whoever_writes_the_code_is_the_owner(home: Home, town: Town) -> None:
    town.say("who are you?", sender=BOB)
    town.say("AAAA-AAAA", chat=GROUP)

    code, output = adding(home, town, "AAAA-AAAA", "{}")

    assert code == 0, output
    assert "Clew (@clew_test_bot)" in output
    assert "Its owner is telegram:7: that is you." in output
    assert "/setprivacy" in output
    assert TOKEN not in output
    assert load(home=str(home.path), environ={}).owners == ("telegram:7",)
    said = [(each.chat, each.text) for each in town.server.sent]
    assert said == [
        (BOB.id, "Write me the code that the terminal shows."),
        (ANN.id, "That is not the code. Look at it again in the terminal."),
        (ANN.id, "You are my owner now. Start the gateway with clew serve, then write to me."),
    ]


def test_five_wrong_codes_end_it_and_change_nothing(home: Home, town: Town) -> None:
    code, output = adding(home, town, *["AAAA-AAAA"] * 5, "{}")

    assert code != 0
    assert "5 wrong codes" in output
    assert not (home.path / "config.toml").exists()


def test_a_token_that_is_typed_is_kept_in_a_file_of_its_own(home: Home, town: Town) -> None:
    result = add(home, town, "--no-owner")

    assert result.exit_code == 0, result.output
    assert TOKEN not in result.output
    secret = home.path / "secrets" / "telegram-token"
    assert secret.read_text() == TOKEN
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    assert TOKEN not in (home.path / "config.toml").read_text()


def test_a_wrong_token_is_refused_and_not_stored(home: Home, town: Town) -> None:
    result = add(home, town, typed="12345:wrong\n")

    assert result.exit_code != 0
    assert "does not accept the token" in result.output
    assert "12345:wrong" not in result.output
    assert not (home.path / "config.toml").exists()


def test_a_bot_is_added_without_an_owner_listed_tested_and_removed(home: Home, town: Town) -> None:
    result = add(home, town, "--no-owner", "--name", "work", "--groups", "always")
    assert result.exit_code == 0, result.output

    (listed,) = home.json("channels", "list")
    assert listed == {"name": "work", "type": "telegram", "account": "work", "groups": "always"}
    assert re.search(r"work +telegram +work +always +file:", home.clew("channels", "list").stdout)
    assert add(home, town, "--no-owner", "--name", "work").exit_code != 0

    tested = home.clew("channels", "test", "work")
    assert tested.exit_code == 0
    assert "work is Clew (@clew_test_bot)." in tested.stdout
    assert 'groups = "always"' in tested.stdout

    assert home.clew("channels", "remove", "work").exit_code == 0
    assert home.json("channels", "list") == []
    assert not (home.path / "secrets" / "work-token").exists()
    assert home.clew("channels", "test", "work").exit_code != 0


def test_an_owner_without_a_channel_is_refused_with_the_right_form(home: Home) -> None:
    result = home.clew("config", "set", "owners", '["123"]')

    assert result.exit_code != 0
    assert '"telegram:123"' in result.stderr


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[channels.telegram]\ngroups = "never"', "groups"),
        ('[channels.telegram]\ntoken = "a"\n[channels.b]\ntype = "telegram"\naccount = "default"',
         "both the telegram account default"),
        ('[channels.carrier-pigeon]\ntoken = "a"', "is not a type of channel"),
        ("[channels.telegram]\ngroups = 'mention'", "channels.telegram.token is missing"),
        ('[channels.x]\nfactory = "nothing.at.all:build"', "no module"),
    ],
)  # fmt: skip
def test_a_section_that_can_not_work_says_why(home: Home, section: str, words: str) -> None:
    from clew.errors import InvalidConfig
    from clew.wiring.channels import build_channels

    home.path.mkdir(exist_ok=True)
    Path(home.path / "config.toml").write_text(section)
    with pytest.raises(InvalidConfig, match=words):
        build_channels(load(home=str(home.path), environ={}))
