"""The full screen in a real terminal: tmux draws it, and is asked what stands there."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew.core.message import Draft, Message
from clew.core.session import OWNER, Session, SessionFilter
from clew.ports import Store
from tests.cli.conftest import Home
from tests.forks import CLEW
from tests.patience import PATIENCE
from tests.sizes import pick

CONFIG = """
set -g remain-on-exit on
set -g default-terminal tmux-256color
set -sg escape-time 0
set -g status off
"""
ECHO = {"text": "You said: ", "echo": "user"}
READY = "Write a message"


class Tmux:
    """A terminal in which clew runs."""

    def __init__(self, path: Path, home: Home, work: Path) -> None:
        self.home = home
        self._work = work
        self._socket = path / "tmux"
        self._pid, self._code = path / "pid", path / "code"
        self._config = path / "tmux.conf"
        self._config.write_text(CONFIG, encoding="utf-8")

    def run(self, *command: str) -> str:
        """A command of tmux's; what it says."""
        program = ["tmux", "-S", str(self._socket), "-f", str(self._config), *command]
        ran = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return ran.stdout

    def start(self, *args: str) -> None:
        """clew, with these arguments."""
        self._code.unlink(missing_ok=True)
        program = f"import os; open({str(self._pid)!r}, 'w').write(str(os.getpid()))\n{CLEW}"
        command = f"{shlex.join([sys.executable, '-c', program, *args])}; echo $? > {self._code}"
        known = [f"-eCLEW_HOME={self.home.path}", "-eCOLORTERM=truecolor", f"-c{self._work}"]
        known += ["-eCOLUMNS=80", "-eLINES=24"]  # as whoever uses readline leaves it behind
        if self._socket.exists():
            self.run("respawn-pane", "-k", *known, command)
        else:
            self.run("new-session", "-d", "-x80", "-y24", *known, command)

    def stop(self) -> None:
        """End the terminal, and what runs in it."""
        if self._socket.exists():
            self.run("kill-server")

    @property
    def shown(self) -> str:
        return self.run("capture-pane", "-p")

    def sees(self, *texts: str) -> str:
        """Wait until all of these stand there."""
        return self.until(lambda shown: all(text in shown for text in texts), *texts)

    def misses(self, text: str) -> str:
        """Wait until this stands there no more."""
        return self.until(lambda shown: text not in shown, f"no {text}")

    def until(self, is_so: Callable[[str], Any], *what: str) -> str:
        limit = time.monotonic() + PATIENCE
        while not is_so(shown := self.shown):
            assert time.monotonic() < limit, f"{what} did not come:\n{shown}"
            time.sleep(0.02)
        assert "Traceback" not in shown
        return shown

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def say(self, text: str) -> None:
        self.type(text)
        self.sees(text)
        self.press("Enter")

    @property
    def pid(self) -> int:
        return int(self._pid.read_text())

    def ended(self) -> int:
        """Wait until it is over; the exit code."""
        self.until(lambda _: self._code.exists() and self._code.read_text().strip(), "the end")
        return int(self._code.read_text())

    def leave(self) -> None:
        self.press("C-d")
        assert self.ended() == 0


@pytest.fixture
def tmux(home: Home, work: Path) -> Iterator[Tmux]:
    home.script(ECHO)
    with tempfile.TemporaryDirectory(prefix="clew-") as path:  # a socket's path must be short
        terminal = Tmux(Path(path), home, work)
        try:
            yield terminal
        finally:
            terminal.stop()


def messages(home: Home, session: str | None = None) -> tuple[Message, ...]:
    """What is in the store: of this session, or the only one."""

    async def look(store: Store) -> tuple[Message, ...]:
        of = session or (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions[0].id
        return await store.get_messages(of)

    return home.store(look)


def add(home: Home, work: Path, title: str, said: str) -> Session:
    answer = Draft(role="assistant", content=f"About {said}.")
    return home.add(title, said, answer, cwd=str(work), project=str(work))


def test_resume_from_the_picker_and_switch_to_and_fro_ten_times(tmux: Tmux, work: Path) -> None:
    fruit = {"Alpha": "apples", "Beta": "bananas"}
    sessions = {title: add(tmux.home, work, title, said) for title, said in fruit.items()}
    tmux.start("--resume")
    tmux.sees("Sessions of this directory", "Alpha", "Beta")
    tmux.type("alpha")
    tmux.sees("About apples")
    tmux.press("Enter")
    tmux.sees(READY, "About apples")
    for number in range(10):
        title, other = ("Beta", "Alpha") if number % 2 == 0 else ("Alpha", "Beta")
        tmux.press("C-r")
        tmux.sees("Sessions of this directory", "you are here")
        tmux.type(title.lower())
        tmux.sees(f"About {fruit[title]}", "1 name")
        tmux.press("Enter")
        shown = tmux.sees(READY, f"About {fruit[title]}", "Resumed session")
        assert fruit[other] not in shown
    tmux.say("still here")
    tmux.sees("You said: still here")
    tmux.leave()
    assert [each.content for each in messages(tmux.home, sessions["Alpha"].id)][-2:] == [
        "still here",
        "You said: still here",
    ]
    assert len(messages(tmux.home, sessions["Beta"].id)) == 2


def test_the_window_changes_its_size_while_an_answer_comes(tmux: Tmux) -> None:
    words = " ".join(f"word{number}" for number in range(400))
    tmux.home.script({"text": words, "delay": 0.005})
    tmux.start()
    tmux.sees(READY)
    tmux.say("go")
    for number, (width, height) in enumerate([(60, 15), (120, 40), (30, 8), (81, 25)]):
        sought = re.compile(rf"word({20 + 60 * number}|399)\b")
        tmux.until(sought.search, sought.pattern)
        tmux.run("resize-window", f"-x{width}", f"-y{height}")
        shown = tmux.until(partial(fills, width, height), f"{width} by {height}")
    shown = tmux.sees("word399")
    tmux.misses("working")
    assert "word398" in shown
    assert messages(tmux.home)[-1].content == words
    tmux.leave()


def fills(width: int, height: int, shown: str) -> bool:
    """Whether the chat has just this size."""
    lines = shown.splitlines()
    return (
        len(lines) == height
        and max(map(len, lines)) <= width
        and lines[-3] == "─" * width
        and READY in lines[-2]
        and "script/x" in lines[-1]
    )


def test_a_paste_of_5000_lines_arrives_whole(tmux: Tmux, tmp_path: Path) -> None:
    text = "\n".join(f"line {number} of many" for number in range(5000))
    file = tmp_path / "text"
    file.write_text(text, encoding="utf-8")
    tmux.start()
    tmux.sees(READY)
    tmux.run("load-buffer", str(file))
    tmux.run("paste-buffer", "-p")
    tmux.sees("[pasted 5,000 lines]")
    tmux.press("Enter")
    tmux.sees("4999 of many")
    tmux.misses("working")
    assert messages(tmux.home)[0].content == text
    tmux.leave()


def test_ctrl_c_stops_whatever_runs_and_twice_leaves(tmux: Tmux, tmp_path: Path) -> None:
    lasting = tmp_path / "lasting"
    shell = {"command": f"echo $$ > {lasting}; exec sleep 100"}
    tmux.home.script(
        "Hm.",
        rules=[
            {"when": r"early\Z", "answers": [{"text": "never", "delay": 100}]},
            {"when": r"middle\Z", "answers": [{"text": "Once upon a time", "hold": "/nowhere"}]},
            {"when": r"tool\Z", "answers": [call("shell", shell)]},
            {"when": r"asking\Z", "answers": [call("write_file", {"path": "x", "content": "y"})]},
        ],
    )
    tmux.start()
    tmux.sees(READY)

    tmux.say("early")
    tmux.sees("working")
    stop(tmux, 1)

    tmux.say("middle")
    tmux.sees("Once upo")
    stop(tmux, 2)

    tmux.say("asking")
    tmux.sees("Yes, once")
    stop(tmux, 3)
    tmux.misses("Yes, once")
    assert not (tmux._work / "x").exists()

    tmux.say("tool")
    tmux.sees("Yes, once")
    choose(tmux, "Tab")
    tmux.press("Enter")
    tmux.until(lambda _: lasting.exists() and lasting.read_text().strip())
    stop(tmux, 4)
    tmux.until(lambda _: not Path(f"/proc/{lasting.read_text().strip()}").exists())

    tmux.press("C-c", "C-c")  # together: they must come within two seconds
    assert tmux.ended() == 0
    assert "Resume this session with" in tmux.shown


def choose(tmux: Tmux, key: str) -> None:
    """Go to the answers; a key that comes right after the question is not for it."""
    limit = time.monotonic() + PATIENCE
    while "━━━" not in tmux.shown:
        assert time.monotonic() < limit, tmux.shown
        tmux.press(key)
        time.sleep(0.2)


def test_typing_never_answers_a_question_whenever_that_comes(tmux: Tmux, tmp_path: Path) -> None:
    go, said = tmp_path / "go", "also explain it"
    wants = call("write_file", {"path": "new.txt", "content": "y"})
    held = {"text": "Let me see.", "hold": str(go)} | wants
    tmux.home.script(ECHO, rules=[{"when": r"write\Z", "answers": [held, "Written."]}])
    tmux.start()
    tmux.sees(READY)
    for comes_at in pick((0, 1, 9), tuple(range(len(said) + 2))):
        go.unlink(missing_ok=True)
        tmux.say("write")
        tmux.sees("Let me")
        for number, letter in enumerate([*said, ""]):
            if number == comes_at:
                go.touch()
            tmux.type(letter) if letter else tmux.press("Enter")
        go.touch()
        tmux.sees("? Create a file: new.txt", "Yes, once")
        tmux.until(lambda _: said in str(tmux.home.store(waiting)), "the message waits")
        assert not (tmux._work / "new.txt").exists()
        assert "allow" not in (tmux.home.path / "config.toml").read_text()
        choose(tmux, "Tab")
        tmux.press("Enter")
        tmux.until(lambda _: (tmux._work / "new.txt").exists(), "an answer that is taken")
        tmux.misses("working")
        (tmux._work / "new.txt").unlink()
    tmux.leave()


async def waiting(store: Store) -> list[dict[str, Any]]:
    return [each.payload for each in await store.list_inbound()]


def test_ctrl_c_in_the_picker_leaves_and_the_terminal_is_as_before(tmux: Tmux, work: Path) -> None:
    add(tmux.home, work, "Alpha", "apples")
    tmux.start()
    tmux.sees(READY)
    tmux.press("C-r")
    tmux.sees("Sessions of this directory", "Alpha")
    tmux.press("C-c")
    assert tmux.ended() == 0
    modes = "#{alternate_on}#{mouse_any_flag}"
    assert tmux.run("display-message", "-p", modes).strip() == "00"


def stop(tmux: Tmux, number: int) -> None:
    """Ctrl+C, and so many turns have been stopped."""
    tmux.press("C-c")
    tmux.until(lambda _: tmux.home.store(turns) == ["aborted"] * number, "another end")
    tmux.until(lambda shown: "Stopped" in shown and "Ctrl+C stops" not in shown, "Stopped")


async def turns(store: Store) -> list[str]:
    (session,) = (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions
    return [each.status for each in await store.list_turns(session.id)]


def call(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def test_killed_in_the_middle_it_comes_back_with_all_that_was_said(
    tmux: Tmux, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    tmux.home.script(
        rules=[
            {"when": "first", "answers": ["An answer that is whole."]},
            {"when": "second", "answers": [{"text": "The reason is that", "hold": str(go)}]},
        ]
    )
    tmux.start()
    tmux.sees(READY)
    tmux.say("the first")
    tmux.sees("An answer that is whole.")
    tmux.misses("working")
    tmux.say("the second")
    tmux.sees("The reas")
    tmux.type("a draft")
    os.kill(tmux.pid, signal.SIGKILL)
    assert tmux.ended() == 128 + signal.SIGKILL
    tmux.start()
    tmux.sees(READY, "An answer that is whole.", "the second", "The last turn was interrupted")
    go.touch()
    tmux.say("/retry")
    tmux.sees("The reason is that")
    tmux.misses("working")
    said = [each.content for each in messages(tmux.home)]
    assert said == ["the first", "An answer that is whole.", "the second", "The reason is that"]
    tmux.leave()


def test_a_turn_of_another_process_appears(tmux: Tmux, work: Path) -> None:
    session = add(tmux.home, work, "Shared", "hello")
    tmux.start("-r", session.id)
    tmux.sees(READY, "About hello")
    tmux.type("a draft of mine")
    asked = subprocess.run(
        [sys.executable, "-c", CLEW, "ask", "-r", session.id, "from far away"],
        env=os.environ | {"CLEW_HOME": str(tmux.home.path)},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "You said: from far away" in asked.stdout
    tmux.sees("▌ from far away", "You said: from far away", "a draft of mine")
    tmux.press("Enter")
    tmux.sees("You said: a draft of mine")
    tmux.leave()
    assert len(messages(tmux.home, session.id)) == 6


def test_the_shell_and_an_editor_get_the_terminal_and_give_it_back(
    tmux: Tmux, tmp_path: Path
) -> None:
    editor = tmp_path / "an editor"
    editor.write_text('#!/bin/sh\ncat "$1"; read line; echo and "$line" >> "$1"\n', "utf-8")
    editor.chmod(0o700)
    shell = "env PS1='shell$ ' bash --norc --noprofile -i"
    known = [f"-eVISUAL='{editor}'", f"-eCLEW_HOME={tmux.home.path}"]
    tmux.run("new-session", "-d", "-x80", "-y24", *known, f"-c{tmux._work}", shell)
    tmux.sees("shell$")
    tmux.type(f"{shlex.join([sys.executable, '-c', CLEW])}; echo code $?")
    tmux.press("Enter")
    tmux.sees(READY)
    tmux.say("hello")
    tmux.sees("You said: hello")
    tmux.type("one")
    tmux.sees("one")
    before = tmux.misses("working")
    tmux.press("C-z")
    tmux.sees("Stopped", "shell$")
    tmux.misses("You said: hello")
    tmux.type("fg")
    tmux.press("Enter")
    tmux.until(lambda shown: shown == before, before)
    tmux.press("C-g")
    tmux.until(lambda shown: shown.startswith("one") or "\none" in shown, "the message")
    tmux.misses("You said: hello")
    tmux.type("two")
    tmux.press("Enter")
    tmux.sees("You said: hello", "and two")
    tmux.press("Enter")
    tmux.sees("▌ one\n▌ and two")
    tmux.press("C-d")
    tmux.sees("Resume this session with")
