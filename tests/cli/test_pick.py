"""`clew pick` in a real terminal, and where there is none."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway
from tests.cli.screens import Terminal
from tests.forks import CLEW

CAPTURED = f"""
import subprocess, sys
done = subprocess.run([sys.executable, "-c", {CLEW!r}, *sys.argv[1:]], stdout=subprocess.PIPE)
print("captured", done.returncode, done.stdout, flush=True)
"""

ENTER, ESCAPE, CTRL_C = "\r", "\x1b", "\x03"


def test_print_gives_the_id_of_the_chosen_one(home: Home, tmp_path: Path) -> None:
    session = home.add("Alpha", "hello", cwd=str(tmp_path))
    home.add("Elsewhere", "hello", cwd="/nowhere")
    terminal = Terminal(home, "pick", "--print", cwd=tmp_path)
    terminal.wait_for("Alpha")
    terminal.type(ENTER)
    assert terminal.finish() == 0
    assert session.id in terminal.text


def test_a_program_that_reads_the_id_gets_nothing_else(home: Home, tmp_path: Path) -> None:
    session = home.add("Alpha", "hello", cwd=str(tmp_path))
    terminal = Terminal(home, "pick", "--print", program=CAPTURED, cwd=tmp_path)
    terminal.wait_for("Alpha")
    terminal.type(ENTER)
    terminal.wait_for(f"captured 0 b'{session.id}\\n'")
    assert terminal.finish() == 0


def test_json_tells_the_session_and_whether_to_fork(home: Home, tmp_path: Path) -> None:
    session = home.add("Alpha", "hello", cwd="/nowhere")
    terminal = Terminal(home, "pick", "--all", "--json", program=CAPTURED, cwd=tmp_path)
    terminal.wait_for("Alpha")
    terminal.type("\x06")
    terminal.wait_for("captured 0 b'")
    terminal.finish()
    told = msgspec.json.decode(terminal.text.rpartition("captured 0 b'")[2].partition("\\n'")[0])
    assert told["session"]["id"] == session.id
    assert told["forks"] is True


def test_leaving_without_a_choice_is_no_error(home: Home, tmp_path: Path) -> None:
    home.add("Alpha", "hello", cwd=str(tmp_path))
    for key in (ESCAPE, CTRL_C):
        terminal = Terminal(home, "pick", "--print", cwd=tmp_path)
        terminal.wait_for("Alpha")
        terminal.type(key)
        terminal.wait_for("No session selected")
        assert terminal.finish() == 0


def test_a_session_of_a_gateway_is_picked_there(home: Home, tmp_path: Path) -> None:
    session = home.add("Alpha", "hello", cwd=str(tmp_path))
    away = Home(tmp_path / "away")
    with run_gateway(home) as gateway:
        at = ("--url", gateway.url, "--token", gateway.token)
        terminal = Terminal(away, "pick", "--print", *at, cwd=tmp_path)
        terminal.wait_for("Alpha")
        terminal.type(ENTER)
        assert terminal.finish() == 0
        assert session.id in terminal.text
        assert "No sessions found" in away.clew("pick", "--print").stderr


def test_without_sessions_there_is_nothing_to_pick(home: Home) -> None:
    for args in (("pick", "--print"), ("pick", "--json")):
        result = home.clew(*args)
        assert result.exit_code == 0
        assert "No sessions found" in result.stderr
    assert msgspec.json.decode(home.clew("pick", "--json").stdout)["session"] is None


def test_without_a_terminal_nobody_can_pick(home: Home) -> None:
    home.add("Alpha", "hello")
    result = home.clew("pick", "--print")
    assert result.exit_code == 2
    assert "There is no terminal to choose at" in result.stderr


def test_all_is_for_scripts(home: Home) -> None:
    result = home.clew("pick", "--all")
    assert result.exit_code == 2
    assert "press Tab" in result.stderr


def test_pick_alone_opens_the_picker_and_esc_starts_no_chat(home: Home, tmp_path: Path) -> None:
    home.add("Alpha", "hello", cwd=str(tmp_path))
    home.script("hi")
    terminal = Terminal(home, "pick", cwd=tmp_path)
    terminal.wait_for("Alpha")
    terminal.type(ESCAPE)
    terminal.wait_for("No session selected")
    assert terminal.finish() == 0
