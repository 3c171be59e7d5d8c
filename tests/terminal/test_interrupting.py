"""Ctrl+C line by line, in a terminal of its own process."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Home
from tests.cli.screens import Terminal

ECHO = {"text": "You said: ", "echo": "user"}


def test_ctrl_c_takes_back_what_waits_and_says_which(tmp_path: Path) -> None:
    home, work = Home(tmp_path / "home"), tmp_path / "work"
    work.mkdir()
    endless = {"text": "One two three", "hold": str(tmp_path / "never")}
    home.script(ECHO, rules=[{"when": r"\bslow\Z", "answers": [endless]}])
    chat = Terminal(home, "chat", "--plain", cwd=work)
    chat.wait_for_prompt()
    chat.type("slow\n")
    chat.wait_for("One")
    for text in ("first", "second"):
        chat.type(f"{text}\n")
        chat.wait_for("Queued; it is next when this turn is done.\n")
    chat.type("\x03")
    chat.wait_for("Took back 2 messages that waited:\n  first\n  second\n")
    chat.wait_for("Stopped. /retry goes on, /undo takes it back.\n")
    chat.wait_for_prompt()
    assert "\nhello\n> " in chat.say("hello")
    assert "You said: first" not in chat.text
    assert chat.leave() == 0


def test_what_a_stopped_turn_had_said_is_shown_again_in_chat_and_show(
    tmp_path: Path,
) -> None:
    home, work = Home(tmp_path / "home"), tmp_path / "work"
    work.mkdir()
    slow = {"text": "One two three", "hold": str(tmp_path / "never")}
    home.script(ECHO, rules=[{"when": r"\bslow\Z", "answers": [slow]}])
    chat = Terminal(home, "chat", "--plain", cwd=work)
    chat.wait_for_prompt()
    chat.type("slow\n")
    chat.wait_for("One")
    chat.type("\x03")
    chat.wait_for("Stopped.")
    chat.wait_for_prompt()
    assert chat.leave() == 0
    again = Terminal(home, "chat", "--plain", cwd=work)
    assert "> slow\nOne" in again.wait_for_prompt().replace("\r", "")
    assert "(stopped)\n" in again.text
    assert "\nhello\n> " in again.say("hello")
    assert again.leave() == 0
    session = home.json("list")["sessions"][0]["id"]
    shown = home.clew("show", session).output
    assert "\n\nassistant  stopped\nOne" in shown
    (turn,) = home.json("show", session)["unfinished"]
    assert (turn["status"], turn["partial"][:3]) == ("aborted", "One")
