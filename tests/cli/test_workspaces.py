"""Which directory the agent works in: asked about, refused, a gateway's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway
from tests.cli.screens import FullScreen, Terminal

LIST = {"tool_calls": [{"name": "list_files", "arguments": {}}]}
QUESTION = "is a home directory. May the agent read all files in it"
NOTE = "the agent has no tools for files here"


@pytest.fixture
def me(tmp_path: Path) -> Path:
    """The home directory of a person."""
    made = tmp_path / "me"
    (made / "project").mkdir(parents=True)
    (made / "diary.txt").write_text("private")
    return made


def tool_results(home: Home) -> list[str]:
    """What the tools have answered in the newest session."""
    (newest, *_) = home.json("list")["sessions"]
    messages: list[dict[str, Any]] = home.json("show", newest["id"])["messages"]
    return [each["content"] for each in messages if each["role"] == "tool"]


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["ask", "chat"])
@pytest.mark.parametrize("where", ["disk", "home", "own"])
def test_without_a_terminal_such_a_directory_is_no_workspace(
    home: Home, me: Path, where: str, command: str
) -> None:
    home.script(LIST, "Done.")
    cwd = {"disk": Path("/"), "home": me, "own": home.path}[where]
    say = home.ask if command == "ask" else home.chat
    run = say("what is here?", cwd=cwd, env={"HOME": str(me)})
    assert run.exit_code == 0, run.output
    assert NOTE in run.stderr
    assert NOTE not in run.stdout
    (result,) = tool_results(home)
    assert 'There is no tool "list_files"' in result


def test_a_directory_below_a_home_is_a_workspace(home: Home, me: Path) -> None:
    home.script(LIST, "Done.")
    (me / "project" / "a.py").touch()
    run = home.ask("what is here?", cwd=me / "project", env={"HOME": str(me)})
    assert NOTE not in run.stderr
    assert tool_results(home) == ["a.py"]


def test_it_can_be_allowed_by_a_flag_and_is_from_then_on(home: Home, me: Path) -> None:
    for flags in (["--allow-directory"], []):
        home.script(LIST, "Done.")
        run = home.ask("what is here?", *flags, cwd=me, env={"HOME": str(me)})
        assert run.exit_code == 0, run.output
        assert NOTE not in run.stderr
        assert tool_results(home) == ["diary.txt"]


def test_the_chat_asks_once_and_takes_yes(home: Home, me: Path) -> None:
    home.script(LIST, "Done.")
    terminal = Terminal(home, "chat", "--plain", cwd=me, HOME=str(me))
    terminal.wait_for(QUESTION)
    terminal.type("y\n")
    terminal.wait_for_prompt()
    terminal.say("what is here?")
    assert terminal.leave() == 0
    assert tool_results(home) == ["diary.txt"]
    again = Terminal(home, "chat", "--plain", cwd=me, HOME=str(me))
    again.wait_for_prompt()
    assert QUESTION not in again.text
    assert NOTE not in again.text
    again.leave()


def test_the_chat_asks_once_and_takes_no(home: Home, me: Path) -> None:
    home.script(LIST, "Done.")
    terminal = Terminal(home, "chat", "--plain", cwd=me, HOME=str(me))
    terminal.wait_for(QUESTION)
    terminal.type("\n")
    terminal.wait_for(NOTE)
    terminal.wait_for_prompt()
    terminal.leave()
    again = Terminal(home, "chat", "--plain", cwd=me, HOME=str(me))
    again.wait_for(NOTE)
    again.wait_for_prompt()
    assert QUESTION not in again.text
    assert "--allow-directory" in again.text
    again.leave()


def test_the_full_screen_asks_before_it_opens(home: Home, me: Path) -> None:
    home.script("Hello.")
    screen = FullScreen(home, cwd=me, HOME=str(me))
    screen.wait_for(QUESTION)
    screen.type("n\n")
    screen.sees("no tools for files here")
    screen.leave()


# --- clew's own directories -----------------------------------------------------------------------


def test_no_directory_of_clew_is_readable_in_the_usual_layout_either(
    home: Home, tmp_path: Path
) -> None:
    kinds = ("config", "data", "state", "cache")
    names = {kind: tmp_path / "xdg" / kind / "clew" / "file" for kind in kinds}
    for each in names.values():
        each.parent.mkdir(parents=True)
        each.write_text("hidden")
    (tmp_path / "xdg" / "plain.txt").write_text("open")
    reads = [f"{kind}/clew/file" for kind in kinds]
    calls = [{"name": "read_file", "arguments": {"path": each}} for each in reads]
    searches = {"name": "search_files", "arguments": {"pattern": "hidden|open", "regex": True}}
    home.script({"tool_calls": [*calls, searches]}, "Done.")
    (home.path / "config.toml").rename(names["config"].with_name("config.toml"))
    env = {f"XDG_{kind.upper()}_HOME": str(tmp_path / "xdg" / kind) for kind in kinds}
    env |= {"CLEW_HOME": ""}
    run = home.ask("read it", cwd=tmp_path / "xdg", env=env)
    assert run.exit_code == 0, run.output
    shown = home.clew("list", "--json", env=env)
    (session,) = msgspec.json.decode(shown.stdout)["sessions"]
    shown = home.clew("show", session["id"], "--json", env=env)
    messages = msgspec.json.decode(shown.stdout)["messages"]
    *results, found = [each["content"] for each in messages if each["role"] == "tool"]
    assert len(results) == 4
    assert all("belongs to clew" in each for each in results), results
    assert found == "plain.txt:1: open"


# --- a gateway ------------------------------------------------------------------------------------


def test_a_gateway_works_in_a_directory_of_its_own(home: Home) -> None:
    home.script(LIST, "Done.")
    before = Path.cwd()
    os.chdir("/")
    try:
        with run_gateway(home) as gateway:
            assert gateway.told["workspace"] == str(home.path / "workspace")
            sent = {"key": "agent:main:main", "text": "what is here?"}
            (home.path / "workspace" / "a.txt").touch()
            answer = gateway.ask("POST", "/v1/chat", json=sent | {"stream": True})
            assert answer.status_code == 200
    finally:
        os.chdir(before)
    assert tool_results(home) == ["a.txt"]
    (session, *_) = home.json("list")["sessions"]
    assert session["cwd"] == str(home.path / "workspace")


def test_a_gateway_takes_the_directory_that_is_named(home: Home, me: Path) -> None:
    home.script("Hello.", more=f'[gateway]\nworkspace = "{me}/project"')
    with run_gateway(home) as gateway:
        assert gateway.told["workspace"] == str(me / "project")
    with run_gateway(home, "--workspace", str(me)) as gateway:
        assert gateway.told["workspace"] == str(me)


@pytest.mark.parametrize("name", ["home", "home/memory", "gone"])
def test_a_gateway_refuses_a_workspace_that_is_its_own_or_gone(
    home: Home, tmp_path: Path, name: str
) -> None:
    (tmp_path / "home" / "memory").mkdir(parents=True)
    home.script("Hello.", more=f'[gateway]\nworkspace = "{tmp_path}/{name}"')
    run = home.clew("serve", "--port", "0")
    assert run.exit_code == 2
    assert "gateway.workspace" in run.stderr
