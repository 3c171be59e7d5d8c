"""`clew channels` with Slack: the manifest, two tokens, the code, and what a check says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from clew.channels.slack_app import MANIFEST
from clew.cli import main
from clew.config import load
from clew.testing.slack import ANN, APP_TOKEN, CHANNEL, TOKEN, SlackServer, direct, open_slack
from tests.cli.conftest import Home
from tests.patience import PATIENCE


class Workspace:
    """A Slack server in a thread of its own, and people who react to what is shown."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._live())
        self.loop.close()

    async def _live(self) -> None:
        self._over = asyncio.Event()
        async with open_slack() as self.server:
            self._ready.set()
            await self._over.wait()

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
def workspace() -> Iterator[Workspace]:
    workspace = Workspace()
    workspace.open()
    yield workspace
    workspace.close()


def add(home: Home, server: SlackServer, *more: str, typed: str) -> Result:
    args = ("channels", "add", "slack", "--set", f"api_url={server.base_url}", *more)
    environment = {"CLEW_HOME": str(home.path), "NO_COLOR": None}
    return CliRunner().invoke(main, args, input=typed, env=environment, prog_name="clew")


def test_whoever_writes_the_code_is_the_owner(home: Home, workspace: Workspace) -> None:
    args = ["channels", "add", "slack", "--set", f"api_url={workspace.server.base_url}"]
    args += ["--set", "token=env:BOT_TOKEN", "--set", "app_token=env:APP_TOKEN"]
    environment = {"CLEW_HOME": str(home.path), "BOT_TOKEN": TOKEN, "APP_TOKEN": APP_TOKEN}
    with subprocess.Popen(
        [sys.executable, "-m", "clew", *args],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if shown := re.search(r"[A-Z]{4}-[A-Z]{4}", line):
                workspace.say(f"@clew {shown[0]}", chat=CHANNEL)
                workspace.say(shown[0])
                break
        output = "".join([*said, process.stdout.read()])
        assert process.wait(PATIENCE) == 0, output

    assert "The slack account is @clew in the workspace Home." in output
    assert f"Its owner is slack:{ANN.id}: that is you." in output
    assert TOKEN not in output
    assert APP_TOKEN not in output
    assert load(home=str(home.path), environ={}).owners == (f"slack:{ANN.id}",)
    (answer,) = workspace.server.sent
    assert answer.chat == direct(ANN).id
    assert answer.text.startswith("You are my owner now.")


def test_the_manifest_is_shown_and_both_tokens_are_asked_kept_tested_and_removed(
    home: Home, workspace: Workspace
) -> None:
    server = workspace.server
    server.scopes.remove("files:read")
    result = add(home, server, "--no-owner", typed=f"{TOKEN}\n{APP_TOKEN}\n")

    assert result.exit_code == 0, result.output
    begin, end = result.output.index("{"), result.output.index("\n}") + 2
    assert json.loads(result.output[begin:end]) == MANIFEST
    assert "files:read (to get files)" in result.output
    for name, token in (("token", TOKEN), ("app_token", APP_TOKEN)):
        assert token not in result.output
        assert token not in (home.path / "config.toml").read_text()
        assert (home.path / "secrets" / f"slack-{name}").read_text() == token

    tested = home.clew("channels", "test", "slack")
    assert "slack is @clew in the workspace Home." in tested.stdout
    assert "files:read (to get files)" in tested.stdout

    assert home.clew("channels", "remove", "slack").exit_code == 0
    assert home.json("channels", "list") == []
    assert [*(home.path / "secrets").iterdir()] == []


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ((APP_TOKEN, TOKEN), "must begin with xoxb-"),
        (("xoxb-wrong", APP_TOKEN), "does not accept the bot token"),
        ((TOKEN, "xapp-wrong"), "does not accept the app-level token"),
    ],
)
def test_wrong_tokens_are_refused_by_name_and_not_stored(
    home: Home, workspace: Workspace, tokens: tuple[str, str], words: str
) -> None:
    result = add(home, workspace.server, "--no-owner", typed="\n".join([*tokens, ""]))

    assert result.exit_code != 0
    assert words in " ".join(result.output.split())
    assert not any(token in result.output for token in tokens)
    assert not (home.path / "config.toml").exists()
