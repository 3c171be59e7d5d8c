"""`clew.local`, `clew.Client` and the example, as somebody who only reads the docs has them."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.config import load
from clew.core.live_events import Committed, Notice
from clew.errors import InvalidInput
from clew.wiring.house import House
from tests.client.conftest import drain
from tests.patience import PATIENCE

DASHBOARD = Path(__file__).parents[2] / "examples" / "dashboard.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a model that follows a script."""
    home = tmp_path / "home"
    home.mkdir()
    script = home / "script.json"
    script.write_text(json.dumps({"answers": ["Quite well."], "title": "How it goes"}))
    (home / "config.toml").write_text(
        'model = "script/x"\n[store]\ndurability = "normal"\n[providers.script]\nkind = "python"\n'
        f'factory = "clew.testing.scripted:open_model"\nbase_url = {json.dumps(str(script))}\n'
    )
    return home


async def test_a_whole_clew_answers_in_this_process(home: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with clew.local(str(home)) as client:
            frames = await drain(client.chat.send("How are you?"))
            session = frames[0].session
            status = await client.status()
        async with clew.local(str(home)) as client:
            again = await client.sessions.get(session, render="html")
    said = [each.event.message for each in frames if isinstance(each.event, Committed)]
    assert [each.content for each in said] == ["How are you?", "Quite well."]
    assert tuple(said) == again.messages
    assert [each.html for each in again.html or ()] == [
        "<p>How are you?</p>\n",
        "<p>Quite well.</p>\n",
    ]
    assert again.session.total_tokens > 0
    assert status.store is not None
    assert status.store.engine.startswith("SQLite")


async def test_under_a_key_the_rules_of_channels_hold_in_this_process_too(home: Path) -> None:
    key = "agent:main:main"
    async with asyncio.timeout(PATIENCE), clew.local(str(home)) as client:
        old = await drain(client.chat.send("How are you?", key=key))
        new = await drain(client.chat.send("/new And now?", key=key))
        told = await drain(client.chat.send("/title Well", key=key))
        shown = (await client.sessions.get(new[0].session)).session
    assert shown.previous_id == old[0].session
    assert [each.event for each in told] == [Notice("The title is now: Well")]
    assert (told[0].session, shown.title) == (shown.id, "Well")


def test_a_client_needs_an_address() -> None:
    with pytest.raises(InvalidInput, match="needs the address"):
        clew.Client()


def test_the_example_is_short_and_uses_only_the_sdk() -> None:
    text = DASHBOARD.read_text()
    assert len(text.splitlines()) < 100
    tree = ast.parse(text)
    names = {
        alias.name
        for each in ast.walk(tree)
        if isinstance(each, ast.Import)
        for alias in each.names
    } | {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    ours = {each for each in names if each and each.startswith("clew")}
    values = {"clew.api.frames", "clew.api.sessions", "clew.core.live_events"}
    assert ours <= {"clew", *values}
    assert names - ours <= set(sys.stdlib_module_names) | {"collections.abc"}


def test_the_example_shows_what_was_said(home: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(DASHBOARD), "--home", str(home), "--say", "How are you?", "--once"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "#1 user: How are you?" in ran.stdout
    assert "#2 assistant: Quite well." in ran.stdout
    assert ran.stderr == ""


async def test_an_answer_of_always_is_listed_with_the_file_that_keeps_it(home: Path) -> None:
    config = load(home=str(home), environ={"CLEW_TOOLS_ALLOW": '["shell:ls"]'})
    house = House(config, None)
    await house.remember_rule("shell=make test")
    await house.remember_rule("shell=make test")
    await house.remember_rule("shell:ls")
    assert [(each.rule, each.source) for each in house.list_tool_rules()] == [
        ("shell:ls", "CLEW_TOOLS_ALLOW"),
        ("shell=make test", f'{home}/config.toml (answered with "always")'),
    ]
    assert load(home=str(home), environ={}).tools.allow == ("shell=make test", "shell:ls")
