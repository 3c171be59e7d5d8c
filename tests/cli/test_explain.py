from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from clew.core.keys import qualified_key
from clew.core.resume import Breadcrumb
from clew.core.session import Session
from clew.terminal.breadcrumbs import write_breadcrumb
from tests.cli.conftest import Home

ONE = "550e8400-e29b-41d4-a716-446655440000"
TWO = "550e8401-e29b-41d4-a716-446655440001"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to be in."""
    directory = (tmp_path / "api").resolve()
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def read(home: Home, session: Session) -> Session:
    return home.store(lambda store: store.get_session(session.id))


def test_explain_shows_the_step_the_session_and_the_rejected(
    home: Home, here: Path, tmp_path: Path
) -> None:
    home.add("Login", "one", id=ONE, cwd=str(here))
    home.add("login", "two", id=TWO, cwd=str(tmp_path))
    explained = home.json("explain", "resume", "LOGIN")
    assert explained["step"] == "title"
    assert explained["session"]["id"] == ONE
    assert explained["question"] is None
    why = "it fits too, but this directory's sessions come first"
    assert explained["rejected"] == [{"session_id": TWO, "step": "title", "why": why}]
    lines = home.clew("explain", "resume", "LOGIN").stdout.splitlines()
    assert lines[0] == "step       3, exact title"
    assert f"session    {ONE}" in lines
    assert lines[-2:] == ["Not these:", f"  550e8401  login: {why}"]


def test_explain_shows_candidates(home: Home, here: Path) -> None:
    home.add("Login", "one", id=ONE, cwd=str(here))
    home.add("Logout", "two", id=TWO, cwd=str(here))
    explained = home.json("explain", "resume", "550e")
    assert explained["session"] is None
    assert [each["id"] for each in explained["candidates"]] == [TWO, ONE]
    shown = home.clew("explain", "resume", "550e").stdout
    assert "Several fit, so you would have to choose:\n  550e8401  just now  Logout" in shown


def test_explain_tells_what_would_be_asked(home: Home, here: Path, tmp_path: Path) -> None:
    home.add("Login", "one", cwd=str(tmp_path))
    question = f'Session "Login" belongs to {tmp_path}. [f]ork it here, [o]pen it there, [n]o'
    assert home.json("explain", "resume", "login")["question"] == "other_project"
    assert question in home.clew("explain", "resume", "login").stdout


def test_explain_tells_that_nothing_fits(home: Home, here: Path) -> None:
    result = home.clew("explain", "resume", "nothing")
    assert result.exit_code == 0
    assert result.stdout == "step     none of the six\nsession  none is found\n"
    assert home.json("explain", "resume", "nothing")["step"] is None


def test_explain_neither_opens_nor_makes_a_file(home: Home, here: Path) -> None:
    explained = home.json("explain", "resume", "talk.jsonl")
    assert (explained["step"], explained["path"]) == ("path", str(here / "talk.jsonl"))
    assert list(here.iterdir()) == []


def test_an_empty_value_is_wrong_usage(home: Home, here: Path) -> None:
    assert home.clew("explain", "resume", "").exit_code == 2
    assert home.clew("explain", "resume", "x", "--continue").exit_code == 2


def test_explain_without_a_value_tells_the_key(home: Home, here: Path) -> None:
    explained = home.json("explain", "resume")
    assert (explained["key"], explained["rule"], explained["session"]) == ("cli:api", "free", None)
    session = home.add("Login", "one", key="cli:api", cwd=str(here))
    explained = home.json("explain", "resume")
    assert (explained["rule"], explained["session"]["id"]) == ("ours", session.id)
    assert "key        cli:api\nwhy        it is this directory's\n" in (
        home.clew("explain", "resume").stdout
    )


def test_explain_tells_a_directory_named_alike(home: Home, here: Path, tmp_path: Path) -> None:
    home.add("Login", "one", key="cli:api", cwd=str(tmp_path))
    assert home.json("explain", "resume")["key"] == qualified_key("api", str(here))


def test_explain_follows_a_moved_directory_without_moving_anything(home: Home, here: Path) -> None:
    status = here.stat()
    session = home.add(
        "Login",
        "one",
        key="cli:api",
        cwd="/nowhere/api",
        metadata={"directory": {"device": status.st_dev, "inode": status.st_ino}},
    )
    explained = home.json("explain", "resume")
    assert (explained["rule"], explained["moved_from"]) == ("moved", "/nowhere/api")
    assert explained["session"]["id"] == session.id
    assert read(home, session) == session
    shown = home.clew("explain", "resume").stdout
    assert "this directory was /nowhere/api before, and its sessions follow" in shown


def test_an_explicit_key_can_be_explained(home: Home, here: Path) -> None:
    session = home.add("Login", "one", key="work", cwd="/nowhere")
    explained = home.json("explain", "resume", "--key", "work")
    assert (explained["rule"], explained["session"]["id"]) == ("explicit", session.id)
    by_variable = home.clew("explain", "resume", "--json", env={"CLEW_SESSION_KEY": "work"})
    assert msgspec.json.decode(by_variable.stdout) == explained


def test_explain_continue_reads_the_breadcrumb_of_this_terminal(home: Home, here: Path) -> None:
    older = home.add("Older", "one", cwd=str(here), key="a")
    newer = home.add("Newer", "two", cwd=str(here), key="b")
    terminal = {"TMUX_PANE": "%3", "KITTY_WINDOW_ID": ""}

    def explain() -> tuple[str, str | None]:
        result = home.clew("explain", "resume", "--continue", "--json", env=terminal)
        found = msgspec.json.decode(result.stdout)
        return found["why"], found["session"] and found["session"]["id"]

    assert explain() == ("directory", newer.id)
    write_breadcrumb(home.path, "tmux-%3", Breadcrumb(str(here), older.id))
    assert explain() == ("breadcrumb", older.id)
    write_breadcrumb(home.path, "tmux-%3", Breadcrumb(str(here), older.id, fresh=True))
    assert explain() == ("fresh", None)
    shown = home.clew("explain", "resume", "-c", env=terminal).stdout
    assert "/new was the last command in this terminal" in shown


def test_with_scope_git_the_repository_is_the_project(
    home: Home, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ".git").mkdir()
    (here / "src").mkdir()
    monkeypatch.chdir(here / "src")
    assert home.json("explain", "resume")["key"] == "cli:src"
    result = home.clew("explain", "resume", "--json", env={"CLEW_SESSION_SCOPE": "git"})
    assert msgspec.json.decode(result.stdout)["key"] == "cli:api"


def test_a_directory_that_is_gone_says_so(home: Home, here: Path) -> None:
    here.rmdir()
    result = home.clew("explain", "resume")
    os.chdir("/")
    assert result.exit_code == 2
    assert "This directory is gone" in result.stderr


def test_explain_and_continue_agree_in_a_renamed_directory(
    home: Home, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.script("Hello.")
    home.chat("hello", cwd=here)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home.chat("the newest of all", cwd=elsewhere)
    moved = here.rename(tmp_path / "renamed")
    monkeypatch.chdir(moved)
    explained = home.json("explain", "resume", "--continue")
    assert explained["session"]["cwd"] == str(here), "nothing is moved by an explanation"
    result = home.ask("-c", "--json", "again", cwd=moved)
    assert result.exit_code == 0, result.stderr
    resumed = msgspec.json.decode(result.stdout.splitlines()[-1])
    assert explained["why"] == "directory"
    assert resumed["session_id"] == explained["session"]["id"]
