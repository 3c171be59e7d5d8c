"""The first minute: no configuration, no key; with the small model, and with no network at all."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from clew.ports import Store
from clew.testing.clock import FakeClock
from tests.cli.conftest import DAY, Home
from tests.cli.screens import Terminal
from tests.weights import have_weights

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has set up anything."""
    for name in (*KEYS, "OPENAI_BASE_URL", "CLEW_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def offline(keyless: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without weights, whose pip reaches nothing."""
    for name in ("HOME", "XDG_CACHE_HOME", "PIP_FIND_LINKS"):
        path = tmp_path / name.lower()
        path.mkdir()
        monkeypatch.setenv(name, str(path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.mark.usefixtures("keyless")
def test_clew_answers_and_remembers_without_any_configuration(home: Home, tmp_path: Path) -> None:
    have_weights()
    chat = Terminal(home, "--plain", cwd=tmp_path)
    greeting = chat.wait_for_prompt()
    assert greeting.count("SmolLM2") == 1
    assert "ANTHROPIC_API_KEY" in greeting
    answer = chat.say("Say hello.").partition("Session ")[2].split("\n", 1)[1]
    assert re.search(r"\w{2}", answer)
    assert chat.leave() == 0
    assert not (home.path / "config.toml").exists()
    again = Terminal(home, "--plain", cwd=tmp_path)
    shown = again.wait_for_prompt()
    assert "> Say hello.\n" in shown
    assert "expect weak answers" not in shown  # it was said once
    assert again.leave() == 0


@pytest.mark.usefixtures("offline")
def test_without_network_and_weights_everything_but_answering_works(
    home: Home, tmp_path: Path
) -> None:
    result = home.chat("hello", "/title Kept", "/search hello", "/status", cwd=tmp_path)
    assert result.exit_code == 0
    told = [line for line in result.stderr.splitlines() if "clew model pull" in line]
    assert len(told) == 2  # at the start, and as the answer
    assert "Check the network" in told[0]
    assert "everything except answering works" in told[0]
    assert "answers here" not in result.stderr
    assert "Your message is kept." in result.stderr
    assert "The title is now: Kept" in result.stdout
    assert home.json("list")["sessions"][0]["title"] == "Kept"
    assert home.clew("search", "hello").exit_code == 0
    asked = home.ask("hello", cwd=tmp_path)
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert asked.stderr.count("clew model pull") == 1


def test_old_sessions_are_put_away_at_the_start(home: Home, tmp_path: Path) -> None:
    home.script("Hello.")
    home.add("Old", created_at=int(time.time() * 1000) - 100 * DAY)
    home.add("New")
    result = home.chat(cwd=tmp_path)
    assert "Archived 1 old session." in result.stderr
    assert [each["title"] for each in home.json("list")["sessions"]] == ["New"]
    assert "Archived" not in home.chat(cwd=tmp_path).stderr


def test_old_trash_is_emptied_at_the_start(home: Home, tmp_path: Path) -> None:
    home.script("Hello.")
    session = home.add("Gone")

    async def delete(store: Store) -> None:
        await store.delete_sessions([session.id])

    home.store(delete, FakeClock(int(time.time() * 1000) - 40 * DAY))
    result = home.chat(cwd=tmp_path)
    assert "Removed 1 session from the trash for good (session.trash_days)." in result.stderr
    assert home.json("trash", "list")["sessions"] == []
