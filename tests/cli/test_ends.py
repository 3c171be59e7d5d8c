"""How command lines end: exit codes and messages, and nobody ever sees a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from clew.cli.app import App
from clew.cli.report import report
from clew.core.session import NewSession
from clew.ports import Store
from tests.cli.conftest import Home
from tests.cli.screens import Terminal
from tests.patience import PATIENCE

CLEW = [sys.executable, "-c", "from clew.cli import main; main(prog_name='clew')"]


def environment(home: Home) -> dict[str, str]:
    return {**os.environ, "CLEW_HOME": str(home.path)}


def test_a_foreign_file_in_place_of_the_store_is_code_4(home: Home) -> None:
    home.path.mkdir()
    (home.path / "sessions.db").write_bytes(b"no database at all" * 100)
    result = home.clew("list")
    assert result.exit_code == 4
    assert result.stderr.startswith("clew: ")
    assert "Traceback" not in result.stderr


def test_a_home_that_is_a_file_is_code_4(home: Home) -> None:
    home.path.write_text("", encoding="utf-8")
    assert home.clew("list").exit_code == 4


@pytest.mark.parametrize("command", [["chat"], ["ask", "hello"], ["explain", "resume"], []])
def test_a_conversation_without_a_usable_store_is_code_4(home: Home, command: list[str]) -> None:
    home.path.mkdir()
    (home.path / "sessions.db").write_bytes(b"no database at all" * 100)
    result = home.clew(*command)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "Traceback" not in result.stderr


def test_a_session_that_is_open_elsewhere_is_code_3(home: Home, tmp_path: Path) -> None:
    home.script("Hello.")
    chat = Terminal(home, "--plain", cwd=tmp_path)
    chat.wait_for_prompt()
    chat.say("hello")
    second = home.chat("me too", cwd=tmp_path)
    assert (second.exit_code, second.stdout) == (3, "")
    assert str(chat.process.pid) in second.stderr
    assert home.chat(args=["--read-only"], cwd=tmp_path).exit_code == 0
    assert home.chat("me too", args=["--fork"], cwd=tmp_path).exit_code == 0
    assert chat.leave() == 0
    assert home.chat("me too", cwd=tmp_path).exit_code == 0


def test_a_chat_that_is_told_to_end_is_code_130(home: Home, tmp_path: Path) -> None:
    home.script("Hello.")
    chat = Terminal(home, "--plain", cwd=tmp_path)
    chat.wait_for_prompt()
    chat.say("hello")
    chat.process.terminate()
    assert chat.finish() == 130
    assert "Resume this session with: clew -r " in chat.text


@pytest.mark.parametrize("url", ["mongodb://x/y", "sqlite://x", " "])
def test_a_store_that_nobody_knows_is_code_2(home: Home, url: str) -> None:
    assert home.clew("--store", url, "list").exit_code == 2


def test_errors_are_json_where_json_was_asked_for(home: Home) -> None:
    result = home.clew("--json", "show", "nope")
    assert result.stdout == ""
    error = msgspec.json.decode(result.stderr)
    assert error["error"] == "session_not_found"
    assert error["message"].startswith('Session "nope" not found.')


def test_wrong_usage_is_json_too(home: Home) -> None:
    result = home.clew("list", "--active", "0", "--json")
    assert result.exit_code == 2
    assert msgspec.json.decode(result.stderr)["error"] == "usage"


def test_a_bug_is_one_line_and_a_traceback_only_with_v(capsys: pytest.CaptureFixture[str]) -> None:
    app = App()
    assert report(app, ZeroDivisionError("by \x1b[31mzero")) == 1
    said = capsys.readouterr().err
    assert said == (
        "clew: ZeroDivisionError: by zero (this is a bug; run with -v for the traceback)\n"
    )
    app.verbose = True
    report(app, ZeroDivisionError("by zero"))
    assert "ZeroDivisionError: by zero\nclew: " in capsys.readouterr().err


def test_a_reader_that_has_had_enough_ends_it_quietly(home: Home) -> None:
    async def fill(store: Store) -> None:
        for number in range(2000):
            await store.create_session(NewSession(key=f"cli:{number}", title="x" * 40))

    home.store(fill)
    process = subprocess.Popen(
        [*CLEW, "sessions"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        process.stdout.close()  # before anything is written, so that writing itself fails
        assert process.wait(timeout=PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_output_works_where_the_encoding_is_poor(home: Home) -> None:
    home.add("京都 … ★")
    done = subprocess.run(
        [*CLEW, "list"],
        env={**environment(home), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_python_m_clew_is_clew(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clew", "config", "path"],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == f"{home.path}/config.toml\n"
