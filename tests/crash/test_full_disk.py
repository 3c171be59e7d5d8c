"""A disk that fills up in the middle of a turn: it is said, and the session goes on with room."""

from __future__ import annotations

import resource

import pytest

from tests.crash.conftest import Home, Terminal

LONG = "A long answer. " * 5_000


def _limit(terminal: Terminal, size: int) -> None:
    """How large a file that process may make; the hard limit stays where it was."""
    _, hard = resource.prlimit(terminal.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(terminal.pid, resource.RLIMIT_FSIZE, (size, hard))


def _largest(home: Home) -> int:
    return max(each.stat().st_size for each in home.path.glob("sessions.db*"))


@pytest.mark.parametrize(
    ("room", "kept"),
    [
        (0, []),  # not even the message
        (25_000, []),  # the message waits in the inbox, its turn can't begin
        (400_000, ["Go on at length"]),  # the turn has begun, its answer can't be kept
    ],
)
def test_a_store_that_can_not_grow_says_so_and_goes_on_when_it_can(
    home: Home, room: int, kept: list[str]
) -> None:
    home.answer(answers=["Fine.", {"text": LONG, "chunk": 60_000}])
    terminal = home.open("chat", "--plain")
    terminal.say("Hello")
    terminal.wait_for("Fine.")
    terminal.wait_until(lambda: terminal.output.endswith("> "), "a prompt")
    terminal.wait_until(lambda: home.session().title is not None, "a title")
    _limit(terminal, _largest(home) + room)
    terminal.say("Go on at length")
    # The words, however long the path before them has made the lines.
    said = "sessions.db can't be used"
    terminal.wait_until(lambda: said in " ".join(terminal.output.split()), said)
    terminal.wait_until(lambda: terminal.output.endswith("> "), "a prompt")
    assert "Traceback" not in terminal.output
    session = home.session()
    assert [row.content for row in home.thread(session)] == ["Hello", "Fine.", *kept]

    _limit(terminal, resource.RLIM_INFINITY)
    shown = len(terminal.output)
    was_sent = "not sent" not in terminal.output
    # In the middle either may be: a title that the model gave meanwhile takes some of the room.
    assert was_sent == (room > 0) or room == 25_000
    terminal.say("/retry" if was_sent else "Go on at length")
    terminal.wait_until(lambda: terminal.output[shown:].count("long answer") > 4_000, "the answer")
    terminal.wait_until(lambda: terminal.output.endswith("> "), "a prompt")
    terminal.type("\x04")
    assert terminal.finish() == 0
    rows = [row.content.strip() for row in home.thread(session)]
    assert rows == ["Hello", "Fine.", "Go on at length", LONG.strip()]
    assert {turn.status for turn in home.turns(session)} <= {"done", "failed", "interrupted"}
    assert home.store(lambda store: store.list_inbound(session.id)) == ()
