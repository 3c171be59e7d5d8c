"""Ctrl+C, SIGTERM, a closed terminal at any moment of a turn: `aborted`, nothing half-written."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import Home, Process, Terminal, is_there
from tests.patience import PATIENCE

NEVER = "/nonexistent/never"


class Moment:
    """A question whose turn stays at one moment, and how to see that it is there."""

    def __init__(self, name: str, answer: dict[str, Any], shown: str, event: str) -> None:
        self.name = name
        self.answer = answer
        self.shown = shown
        self.event = event

    @property
    def question(self) -> str:
        return f"Stay at {self.name}"


SLEEP = "echo $$ > pid; exec sleep 600"
MOMENTS = [
    Moment("waiting", {"text": "Too late.", "delay": 600, "touch": "asked"}, "", ""),
    Moment("streaming", {"text": "Half of a sentence.", "hold": NEVER}, "Hal", '"type":"text"'),
    Moment(
        "running",
        {"tool_calls": [{"id": "c1", "name": "shell", "arguments": {"command": SLEEP}}]},
        "",
        "",
    ),
    Moment(
        "counting",
        {"error": {"status": 503, "headers": {"retry-after": "50"}}},
        "Trying again in",
        '"type":"retrying"',
    ),
]
ASKING = Moment(
    "asking",
    {
        "tool_calls": [
            {
                "id": "c2",
                "name": "write_file",
                "arguments": {"path": "made.txt", "content": "no"},
            }
        ]
    },
    "y (yes, once)",
    "",
)
FILES = {"waiting": "asked", "running": "pid"}


@pytest.fixture
def staying(home: Home) -> Home:
    rules = [
        {"when": f"{moment.question}$", "answers": [moment.answer | _absolute(home, moment.answer)]}
        for moment in (*MOMENTS, ASKING)
    ]
    home.answer(rules=rules, answers=["Fine."], allow=[f"shell={SLEEP}"])
    return home


def _absolute(home: Home, answer: dict[str, Any]) -> dict[str, Any]:
    return {"touch": str(home.work / answer["touch"])} if "touch" in answer else {}


def _arrive(home: Home, process: Process, moment: Moment) -> None:
    """Wait until the turn is at its moment."""
    if moment.name in FILES:
        file = home.work / FILES[moment.name]
        process.wait_until(
            lambda: file.exists() and (file.name == "asked" or bool(_pid(file))), moment.name
        )
    else:
        signs = [sign for sign in (moment.shown, moment.event) if sign]
        process.wait_until(lambda: any(sign in process.output for sign in signs), moment.name)


def _pid(file: Path) -> str:
    return file.read_text().strip()


def _check(home: Home, moment: Moment, key: str | None = None) -> None:
    """The turn has its end, the thread nothing that is half, and no process is left."""
    session = home.session(key)
    turn = home.turns(session)[-1]
    assert (moment.name, turn.status) == (moment.name, "aborted")
    assert turn.partial == ("Half of " if moment.name == "streaming" else None)
    rows = [row for row in home.thread(session) if row.turn_id == turn.id]
    called = moment.name in ("running", "asking")
    assert [row.role for row in rows] == ["user", *(["assistant"] if called else [])]
    assert home.store(lambda store: store.find_lease(session.id)) is None
    assert home.store(lambda store: store.list_inbound(session.id)) == ()
    assert home.store(lambda store: store.list_approvals(session.id)) == ()
    assert not (home.work / "made.txt").exists()
    if moment.name == "running":
        assert not is_there(int(_pid(home.work / "pid")))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_what_was_asked_aborted(staying: Home, number: int) -> None:
    asked = [
        (moment, staying.start("ask", "--json", "--key", moment.name, moment.question))
        for moment in MOMENTS
    ]
    for moment, process in asked:
        process.end_input()
        _arrive(staying, process, moment)
        process.signal(number)
    for moment, process in asked:
        assert process.finish() == 130
        assert '"status":"aborted"' in process.output
        assert "Traceback" not in process.output
        _check(staying, moment, moment.name)
    code, output = staying.run("ask", "--key", "running", "And now?")
    assert (code, output.strip()) == (0, "Fine.")


def test_ctrl_c_stops_the_turn_and_the_chat_goes_on(staying: Home) -> None:
    terminal = staying.open("chat", "--plain")
    for count, moment in enumerate((*MOMENTS, ASKING), 1):
        terminal.say(moment.question)
        _arrive(staying, terminal, moment)
        terminal.type("\x03")
        terminal.wait_for("Stopped. /retry goes on", count=count)
        _check(staying, moment)
    terminal.say("And now?")
    terminal.wait_for("Fine.")
    terminal.wait_until(lambda: terminal.output.endswith("> "), "a prompt")
    assert terminal.leave_by_ctrl_c() == 0
    assert "Traceback" not in terminal.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_chat_that_is_told_to_end_aborts_its_turn_first(staying: Home, number: int) -> None:
    talking: list[tuple[Moment, Terminal]] = []
    for moment in (*MOMENTS, ASKING):
        terminal = staying.open("chat", "--plain", "--key", moment.name)
        talking.append((moment, terminal))
    for moment, terminal in talking:
        terminal.say(moment.question)
    for moment, terminal in talking:
        _arrive(staying, terminal, moment)
        terminal.signal(number)
    for moment, terminal in talking:
        assert terminal.finish() == 130
        assert "Traceback" not in terminal.output
        assert "Resume this session with: clew -r " in terminal.output
        _check(staying, moment, moment.name)
        session = staying.session(moment.name)
        assert staying.store(lambda store: store.find_attachment(session.id)) is None  # noqa: B023  # at once


def test_a_closed_terminal_leaves_a_session_that_goes_on(staying: Home) -> None:
    terminal = staying.open("chat", "--plain")
    moment = MOMENTS[1]
    terminal.say(moment.question)
    _arrive(staying, terminal, moment)
    assert terminal.close() == 130
    _check(staying, moment)
    staying.answer(answers=["The whole sentence."])
    code, output = staying.run("chat", "--plain", stdin="/retry\n")
    assert (code, output.count("The whole sentence.")) == (0, 1), output
    roles = [row.role for row in staying.thread(staying.session())]
    assert roles == ["user", "assistant"]


FAMILY = "sleep 600 & echo $! > child; echo $$ > pid; trap '' TERM; while :; do sleep 600; done"


def test_what_a_tool_runs_ends_when_clew_is_killed(home: Home) -> None:
    shell = {"tool_calls": [{"id": "c1", "name": "shell", "arguments": {"command": FAMILY}}]}
    home.answer(answers=[shell], allow=["shell"])
    process = home.start("ask", "Run it")
    process.end_input()
    files = [home.work / "child", home.work / "pid"]
    process.wait_until(lambda: all(each.exists() and _pid(each) for each in files), "running")
    process.signal(signal.SIGKILL)
    assert process.finish() == -signal.SIGKILL
    limit = time.monotonic() + PATIENCE
    while any(is_there(int(_pid(each))) for each in files):
        assert time.monotonic() < limit
        time.sleep(0.01)
