"""`clew channels` for Discord: a bot is added by the code that its owner writes, and tested."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.config import load
from clew.testing.discord import BOB, BOT, GENERAL, TOKEN, DiscordServer, open_discord
from tests.cli.conftest import Home
from tests.patience import PATIENCE


class Town:
    """A Discord server in a thread of its own, and people who react to what is shown."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.server = DiscordServer()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)

        async def live() -> None:
            async with open_discord() as server:
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

    def do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(PATIENCE)


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    town.open()
    yield town
    town.close()


def adding(home: Home, town: Town, token: Path) -> tuple[int, str]:
    """Add the bot in a process of its own; the code that it shows is written to it."""
    args = ["channels", "add", "discord", "--set", f"api_url={town.server.base_url}"]
    environment = {**os.environ, "CLEW_HOME": str(home.path)}
    command = [sys.executable, "-m", "clew", *args, "--set", f"token=file:{token}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            shown = re.search(r"\b[A-Z]{4}-[A-Z]{4}\b", line)
            if shown:
                town.do(town.server.connected.wait())
                town.do(town.server.say("AAAA-AAAA", sender=BOB))
                town.do(town.server.say(shown[0], channel=GENERAL, sender=BOB))
                town.do(town.server.say(shown[0]))
                break
        rest = process.stdout.read()
        return process.wait(PATIENCE), "".join(lines) + rest


def test_whoever_writes_the_code_in_private_is_the_owner(
    home: Home, town: Town, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    code, output = adding(home, town, tmp_path / "token")

    assert code == 0, output
    assert "The discord account is Clew (@clew)." in output
    assert "Its owner is discord:7: that is you." in output
    assert f"client_id={BOT}" in output
    assert f"permissions={town.server.rights}" in output
    assert TOKEN not in output
    assert load(home=str(home.path), environ={}).owners == ("discord:7",)
    assert [(each.channel, each.text) for each in town.server.sent] == [
        (9_008, "That is not the code. Look at it again in the terminal."),
        (9_007, "You are my owner now. Start the gateway with `clew serve`, then write to me."),
    ]

    town.server.flags, town.server.rights = 0, 1 << 10
    tested = home.clew("channels", "test", "discord")
    assert tested.exit_code == 0
    assert "Message Content Intent" in tested.stdout
    assert "Send Messages in Threads" in tested.stdout

    (memory,) = home.path.rglob("channels/discord.json")
    assert home.clew("channels", "remove", "discord").exit_code == 0
    assert not memory.exists()
