"""The full screen in a real terminal: when it is used, how it begins, and how it ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import termios
from pathlib import Path

import pytest

from clew.core.message import Draft
from tests.cli.conftest import Home
from tests.cli.screens import FullScreen, Terminal
from tests.forks import CLEW
from tests.patience import PATIENCE

ECHO = {"text": "You said: ", "echo": "user"}
ANSWER = Draft(role="assistant", content="Hi.")
ALT_SCREEN, NORMAL_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def chat(home: Home, work: Path) -> FullScreen:
    home.script(ECHO)
    screen = FullScreen(home, cwd=work)
    screen.sees("A new session", "Write a message")
    return screen


def test_clew_on_a_terminal_takes_the_whole_screen_and_gives_it_back(chat: FullScreen) -> None:
    chat.type("hello\r")
    chat.sees("You said: hello")
    assert not termios.tcgetattr(chat._master)[3] & termios.ICANON
    chat.type("one\x1b\r")  # Alt+Enter, as terminals send it that know only old keys
    chat.type("two\r")
    chat.sees("▌ one", "▌ two", "You said: one two")
    assert chat.leave() == 0
    rest = chat.output.rpartition(NORMAL_SCREEN)[2]
    assert re.search(r"Session [0-9a-f-]{36}", rest)
    assert "Resume this session with: clew -r " in rest
    assert "Traceback" not in chat.text


def test_what_is_typed_before_there_is_a_screen_is_not_lost(home: Home, work: Path) -> None:
    home.script(ECHO)
    screen = FullScreen(home, cwd=work)
    screen.type("early bird\n")
    screen.sees("You said: early bird")
    assert screen.leave() == 0


WATCHED = f"""
import json, os, pathlib
write, told = os.write, pathlib.Path(os.environ["MODULES"])

def watched(descriptor, data):
    if b"Write a message" in data and not told.exists():
        import sys
        told.write_text(json.dumps(list(sys.modules)))
    return write(descriptor, data)

os.write = watched
{CLEW}
"""


def test_it_is_there_before_the_agents_library_is_loaded(
    home: Home, work: Path, tmp_path: Path
) -> None:
    home.script(ECHO)
    found = tmp_path / "modules"
    screen = FullScreen(home, cwd=work, program=WATCHED, MODULES=str(found))
    screen.sees("Write a message")
    modules = {name.partition(".")[0] for name in json.loads(found.read_text())}
    assert "textual" in modules
    assert not modules & {"pydantic_ai", "openai", "anthropic", "httpx", "rapidfuzz", "xllamacpp"}
    assert screen.leave() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_130_and_the_terminal_is_as_before(
    chat: FullScreen, number: signal.Signals
) -> None:
    chat.type("hello\r")
    chat.sees("You said: hello")
    chat.process.send_signal(number)
    assert chat.finish() == 130
    assert NORMAL_SCREEN in chat.output
    assert "Resume this session with: clew -r " in chat.output.rpartition(NORMAL_SCREEN)[2]
    assert "Traceback" not in chat.text


def test_a_signal_to_interrupt_stops_the_turn_as_the_key_does(
    home: Home, work: Path, tmp_path: Path
) -> None:
    home.script({"text": "One two three", "hold": str(tmp_path / "never")})
    screen = FullScreen(home, cwd=work)
    screen.sees("Write a message")
    screen.type("go\r")
    screen.sees("One two")
    screen.process.send_signal(signal.SIGINT)
    screen.sees("Stopped.")
    screen.type("\x04")
    assert screen.finish() == 0


def test_a_window_that_is_closed_ends_it(chat: FullScreen, home: Home) -> None:
    chat.type("hello\r")
    chat.sees("You said: hello")
    os.close(chat._master)
    assert chat.process.wait(PATIENCE) == 130
    (session,) = home.json("list")["sessions"]
    assert session["message_count"] == 2


@pytest.mark.parametrize(("args", "term"), [(["--plain"], "xterm"), ([], "dumb")])
def test_plain_and_dumb_terminals_stay_with_lines(
    home: Home, work: Path, args: list[str], term: str
) -> None:
    home.script(ECHO)
    chat = Terminal(home, *args, cwd=work, TERM=term)
    chat.wait_for_prompt()
    assert ALT_SCREEN not in chat.output
    assert chat.leave() == 0


def test_questions_before_the_screen_leave_its_keys_alone(
    home: Home, work: Path, tmp_path: Path
) -> None:
    home.script(ECHO)
    there = tmp_path / "there"
    there.mkdir()
    one = home.add("Greeting", "hello", ANSWER, cwd=str(there), project=str(there))
    screen = FullScreen(home, "-r", one.id, cwd=work)
    screen.wait_for("[n]o: ")
    screen.type("f\n")
    screen.sees("hello", "Write a message")
    screen.type("abc\r")
    screen.sees("You said: abc")
    assert screen.leave() == 0


def test_several_matches_open_the_picker_and_then_the_chat(home: Home, work: Path) -> None:
    home.script(ECHO)
    for key in ("a", "b"):
        home.add(
            "Same", f"said in {key}", ANSWER, key=f"cli:{key}", cwd=str(work), project=str(work)
        )
    screen = FullScreen(home, "-r", "same", cwd=work)
    screen.sees("Same", "Esc")
    screen.type("\r")
    screen.sees("said in ", "Write a message")
    screen.type("on\r")
    screen.sees("You said: on")
    assert screen.leave() == 0


def test_choosing_nothing_starts_no_chat(home: Home, work: Path) -> None:
    home.script(ECHO)
    home.add("One", "hello", cwd=str(work), project=str(work))
    screen = FullScreen(home, "--resume", cwd=work)
    screen.sees("One")
    screen.type("\x1b")
    assert screen.finish() == 0
    assert screen.text.endswith("No session selected\n")


def test_errors_can_go_to_a_file_and_colours_can_be_left_out(home: Home, work: Path) -> None:
    home.script(ECHO)
    log = work / "log"
    program = f"import os; os.dup2(os.open({str(log)!r}, 65), 2)\n{CLEW}"
    screen = FullScreen(home, cwd=work, program=program, NO_COLOR="1", COLORTERM="truecolor")
    screen.sees("Write a message")
    screen.type("hello\r")
    screen.sees("You said: hello")
    assert screen.leave() == 0
    assert "Resume this session with: clew -r " in log.read_text(encoding="utf-8")
    shades = re.findall(r"[34]8;2;(\d+);(\d+);(\d+)", screen.output)
    assert shades
    assert all(red == green == blue for red, green, blue in shades)


def test_a_paste_of_many_lines_arrives_whole(chat: FullScreen, home: Home) -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    data = f"\x1b[200~{text}\x1b[201~".encode()
    while data:  # a terminal takes what it has room for
        _, ready, _ = select.select([], [chat._master], [], PATIENCE)
        assert ready
        data = data[os.write(chat._master, data[:4000]) :]
    chat.sees("[pasted 5,000 lines]")
    chat.type("\r")
    chat.sees("line 4999")
    assert chat.leave() == 0
    (session,) = home.json("list")["sessions"]
    shown = home.clew("show", session["id"], "--json").stdout
    assert "line 0\\nline 1\\n" in shown
