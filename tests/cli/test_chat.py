"""A conversation through the real command line: in a terminal where one matters, else in a pipe."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from clew.core.commands import ALIASES, COMMANDS
from clew.core.text import columns
from tests.cli.conftest import Home
from tests.cli.screens import Terminal
from tests.sizes import pick

ECHO = {"text": "You said: ", "echo": "user"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def rule(when: str, *answers: Any) -> dict[str, Any]:
    """What is answered to a message that ends with this."""
    return {"when": rf"\b{when}\Z", "answers": answers}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def open_chat(home: Home, work: Path, *args: str, **more: Any) -> Terminal:
    terminal = Terminal(home, "chat", "--plain", *args, cwd=work, **more)
    terminal.wait_for_prompt()
    return terminal


# --- in a terminal ----------------------------------------------------------------------------


def test_an_answer_is_seen_while_it_is_still_coming(home: Home, work: Path, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    home.script(rules=[rule("slow", {"text": "First words, and last.", "hold": str(go_on)})])
    chat = open_chat(home, work)
    chat.type("slow\n")
    chat.wait_for("First")
    assert "last" not in chat.text
    go_on.touch()
    assert "last.\n" in chat.wait_for_prompt()
    assert chat.leave() == 0
    assert "Traceback" not in chat.text


def test_what_is_typed_while_a_turn_runs_is_queued_and_said_so(
    home: Home, work: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    home.script(ECHO, rules=[rule("slow", {"text": "One two three", "hold": str(go_on)})])
    chat = open_chat(home, work)
    chat.type("slow\n")
    chat.wait_for("One")
    chat.type("next\n")
    chat.wait_for("Queued; it is next when this turn is done.\n")
    go_on.touch()
    chat.wait_for("three\n")
    chat.wait_for("> next\nYou said: next\n")
    chat.wait_for_prompt()
    assert chat.leave() == 0


def test_ctrl_c_stops_a_turn_and_twice_leaves(home: Home, work: Path, tmp_path: Path) -> None:
    never = str(tmp_path / "never")
    home.script(ECHO, rules=[rule("slow", {"text": "One two three", "hold": never})])
    chat = open_chat(home, work)
    chat.type("slow\n")
    chat.wait_for("One")
    chat.type("\x03")
    chat.wait_for("Stopped. /retry goes on, /undo takes it back.\n")
    chat.wait_for_prompt()
    assert "hello\n" in chat.say("hello")
    assert chat.leave_by_ctrl_c() == 0
    assert "Nothing is running. Ctrl+C again, or Ctrl+D, leaves.\n" in chat.text
    assert "Resume this session with: clew -r " in chat.text


ASKED = "  y (yes, once), session, always or n (no): "
WHY = "  Why not? The model is told (Enter alone: no reason): "
WRITES = call("shell", command="echo done > out")


def test_a_question_is_answered_by_a_whole_line(home: Home, work: Path) -> None:
    home.script(rules=[rule("shell", WRITES, {"echo": "results"})])
    chat, out = open_chat(home, work), work / "out"
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.type("n\n")
    chat.wait_for(WHY)
    assert 'The owner said no, so it was not done: "use another file"' in chat.say(
        "use another file"
    )
    assert not out.exists()
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.say("y")
    assert out.exists()
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.say("session")
    out.unlink()
    chat.say("shell")  # without a question
    assert out.exists()
    assert chat.leave() == 0
    assert "allow" not in (home.path / "config.toml").read_text()


def test_always_shows_its_rule_and_asks_once_more(home: Home, work: Path) -> None:
    home.script(rules=[rule("shell", WRITES, {"echo": "results"})])
    chat, out = open_chat(home, work), work / "out"
    confirm = "written to tools.allow, for every session:\n    shell=echo done > out\n"
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.type("always\n")
    chat.wait_for(confirm)
    chat.wait_for("Write it? y or n: ")
    chat.type("n\n")
    chat.wait_for(ASKED)
    chat.type("always\n")
    chat.wait_for(confirm)
    chat.wait_for("Write it? y or n: ")
    assert not out.exists()
    chat.say("y")
    assert out.exists()
    chat.say("/new")
    out.unlink()
    chat.say("shell")
    assert out.exists()
    assert chat.leave() == 0
    assert "echo done > out" in (home.path / "config.toml").read_text()


@pytest.mark.parametrize("line", ["also explain it", "a", "s", "yes please", "y n", "always!"])
def test_any_other_line_is_a_message_and_the_question_stays(
    home: Home, work: Path, line: str
) -> None:
    home.script(ECHO, rules=[rule("shell", WRITES, "Done.")])
    chat = open_chat(home, work)
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.type(f"{line}\n")
    chat.wait_for("Queued; it is next when this turn is done.\n")
    chat.wait_for(ASKED)
    assert not (work / "out").exists()
    chat.type("y\n")
    chat.wait_for(f"You said: {line}\n")
    chat.wait_for_prompt()
    assert (work / "out").exists()
    assert chat.leave() == 0
    assert "allow" not in (home.path / "config.toml").read_text()


def test_a_line_that_was_entered_before_the_question_is_no_answer(
    home: Home, work: Path, tmp_path: Path
) -> None:
    """At every delay: only what is entered after the question was shown can answer it."""
    go = tmp_path / "go"
    held = {"text": "Let me see.", "hold": str(go)} | WRITES
    home.script(ECHO, rules=[rule("shell", held, "Done.")])
    chat = open_chat(home, work)
    for delay in pick((0.0, 0.03), (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)):
        go.unlink(missing_ok=True)
        (work / "out").unlink(missing_ok=True)
        chat.type("shell\n")
        chat.wait_for("Let me")
        chat.type("y\n")
        chat.wait_for("y\n")  # the terminal has the line
        time.sleep(delay)
        go.touch()
        chat.wait_for(ASKED)
        assert not (work / "out").exists()
        chat.type("y\n")
        chat.wait_for("You said: y\n")
        chat.wait_for_prompt()
        assert (work / "out").exists()
    assert chat.leave() == 0


def test_ask_takes_only_what_is_typed_after_its_question(
    home: Home, work: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    held = {"text": "Let me see.", "hold": str(go)} | WRITES
    home.script(rules=[rule("shell", held, {"echo": "results"})])
    asking = Terminal(home, "ask", "shell", cwd=work)
    asking.wait_for("Let me")
    asking.type("y\nalways\n")
    go.touch()
    asking.wait_for(ASKED)
    asking.type("maybe\n")
    asking.wait_for("Please answer y (yes, once), session, always or n (no).\n")
    asking.wait_for(ASKED)
    assert not (work / "out").exists()
    asking.type("n\n")
    asking.wait_for(WHY)
    asking.type("not here\n")
    assert asking.finish() == 0
    assert 'The owner said no, so it was not done: "not here"' in asking.text
    assert not (work / "out").exists()


def test_a_question_is_answered_by_a_command_too(home: Home, work: Path) -> None:
    home.script(
        rules=[rule("shell", call("shell", command="echo done > out"), {"echo": "results"})]
    )
    chat = open_chat(home, work)
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.type("/deny not now\n")
    chat.wait_for("Not allowed.\n")
    chat.wait_for_prompt()
    assert not (work / "out").exists()
    assert 'The owner said no, so it was not done: "not now"' in chat.text
    chat.type("shell\n")
    chat.wait_for(ASKED)
    chat.type("/approve session\n")
    chat.wait_for("Allowed for this session: shell=echo done > out.\n")
    chat.wait_for_prompt()
    assert (work / "out").exists()
    assert chat.leave() == 0


def test_lines_that_are_pasted_or_continued_are_one_message(home: Home, work: Path) -> None:
    home.script(ECHO)
    chat = open_chat(home, work)
    assert "You said: one\ntwo\nthree\n" in chat.say("one\ntwo\nthree")
    chat.type("four\\\n")
    chat.wait_for("four\\\n")
    assert "You said: four\nfive\n" in chat.say("five")
    chat.say("/status")
    chat.type("/exit\n")
    assert chat.finish() == 0
    assert "2 messages sent, 4 in all." in chat.text


def test_nothing_from_a_model_or_a_tool_drives_the_terminal(home: Home, work: Path) -> None:
    evil = "a\x1b]52;c;aGVsbG8=\x07b\x1b[2Jc\x1b]0;title\x1b\\d\x9b31me\u202ef\x07g\rh"
    (work / "evil.txt").write_text(evil)
    rules = [rule(f"in {size}", {"text": evil, "chunk": size}) for size in (1, 2, 3, 7, 50)]
    rules += [
        rule("call", call("read_file", path="evil.txt"), {"text": evil}),
        rule("ask", call("write_file", path="x\x1b[2J", content=evil), {"text": evil}),
        rule("fail", {"error": {"status": 400, "body": {"error": {"message": evil}}}}),
        rule("think", {"thinking": evil, "text": "thought"}),
    ]
    home.script(rules=rules, title=evil)
    chat = open_chat(home, work, NO_COLOR="1")
    for size in (1, 2, 3, 7, 50):
        assert "\nabcdefg\nh\n" in chat.say(f"in {size}")
    chat.say("/verbose on")
    for text in ("call", "fail", "think"):
        chat.say(text)
    chat.type("ask\n")
    chat.wait_for(ASKED)
    chat.type("n\n")
    chat.wait_for(WHY)
    chat.say("")
    for text in ("/status", "/title", "/search a"):
        chat.say(text)
    assert chat.leave() == 0
    again = open_chat(home, work, NO_COLOR="1")
    assert again.leave() == 0
    for shown in (chat.output, again.output):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.replace("\r", ""))
        # In a question it is written out, as what will be in the file.
        assert "52;c" not in shown.replace("echo", "").replace(r"\x1b]52;c", "")


def test_a_countdown_is_shown_until_the_next_attempt(home: Home, work: Path) -> None:
    later = {"status": 429, "headers": {"retry-after": "1"}}
    home.script(rules=[rule("busy", {"errors": [later], "text": "At last."})])
    chat = open_chat(home, work)
    chat.type("busy\n")
    chat.wait_for("Trying again in 1 s (")
    assert "At last.\n" in chat.wait_for_prompt()
    assert chat.leave() == 0
    assert not any("Trying again" in line for line in chat.screen)  # overwritten


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_are_broken_between_words_and_code_is_not(home: Home, work: Path, width: int) -> None:
    code = "x = " + "1 + " * 40 + "1"
    prose = "several words that go on " * 12
    home.script({"text": f"{prose}\n\n```\n{code}\n```\n- {prose}end", "chunk": 5})
    chat = open_chat(home, work, width=width)
    chat.say("hello")
    for line in ("/help", "/status", "/memory", "/model"):
        chat.say(line)
    assert chat.leave() == 0
    assert code in chat.text
    words = " ".join(chat.screen)
    assert prose.strip() in words
    for line in chat.text.replace(code, "").splitlines():
        if " " in line.strip() and str(work.parent) not in line:
            assert columns(line) <= width, line


def test_without_colours_nothing_but_text_is_written(home: Home, work: Path) -> None:
    home.script(ECHO, rules=[rule("look", call("list_files"), ECHO)])
    chat = open_chat(home, work, NO_COLOR="1")
    chat.say("hello")
    chat.say("look")
    chat.say("/nope")
    assert chat.leave() == 0
    assert "\x1b" not in chat.output


def test_a_closed_terminal_leaves_an_aborted_turn(home: Home, work: Path, tmp_path: Path) -> None:
    never = str(tmp_path / "never")
    home.script({"text": "One two three", "hold": never})
    chat = open_chat(home, work)
    chat.type("slow\n")
    chat.wait_for("One")
    os.kill(chat.process.pid, signal.SIGHUP)
    assert chat.finish() == 130
    assert "Traceback" not in chat.text
    result = home.chat("/status", cwd=work)
    assert "interrupted" not in result.stderr


# --- every command ----------------------------------------------------------------------------


def test_help_lists_every_command_and_each_one_answers(home: Home, work: Path) -> None:
    home.script(ECHO, rules=[rule("list", call("list_files"), {"text": "Nothing there."})])
    lines = [
        "hello", "list", "/help", "/undo", "/redo", "/retry", "/title A good name", "/title",
        "/pin", "/pin off", "/status", "/usage", "/model", "/model script/y", "/thinking",
        "/thinking low", "/tier", "/mode", "/mode plan", "/mode default", "/personality",
        "/personality coach", "/personality nobody", "/memory", "/search hello", "/todos",
        "/scratchpad", "/compact", "/uncompact", "/context", "/context detail", "/verbose on",
        "/verbose off", "/queue", "/queue followup", "/send", "/send off", "/link", "/pair",
        "/stop", "/approve", "/deny", "/export talk.md", "/fork Branch",
        "/resume A good name", "/reset", "/new", "/exti", "/exit", "never read",
    ]  # fmt: skip
    used = {line.split()[0][1:] for line in lines if line.startswith("/")}
    # The one is another word for the end, the other asks questions that take the next lines.
    assert used >= {*COMMANDS, *ALIASES} - {"quit", "setup"}
    result = home.chat(*lines, cwd=work)
    assert result.exit_code == 0, result.output
    for name, command in COMMANDS.items():
        assert re.search(rf"^/{name}\b.*{re.escape(command.help)}$", result.stdout, re.MULTILINE)
    for shown in (
        'Took back "list" (4 messages). /redo brings it back.',
        'Brought back "list" (4 messages).',
        "The title is now: A good name",
        "The title is: A good name",
        "Pinned.",
        "No longer pinned.",
        "The model is now script/y.",
        "The mode is now plan: looks and proposes, and changes nothing.",
        "The mode is now default: works, and asks before it changes things.",
        "Nothing is running.",
        "Nothing waits for your yes or no.",
        'Now in the branch "Branch".',
        "A new session begins with your next message. /resume goes back.",
    ):
        assert shown in result.stdout, shown
    assert "hello" in (work / "talk.md").read_text()
    for told in ("nobody", "There is no command /exti. Did you mean /exit?", "Resumed session"):
        assert told in result.stderr, told
    assert "never read" not in result.stdout
    assert "bug" not in result.stderr


def test_undo_takes_back_a_whole_turn_with_its_tools(home: Home, work: Path) -> None:
    home.script(
        {"text": "", "echo": "thread"},
        rules=[rule("list", call("list_files"), {"text": "Nothing there."})],
    )
    result = home.chat("list", "/undo", "what did I say", cwd=work)
    thread = result.stdout[result.stdout.index("Took back") :]
    assert "what did I say" in thread
    assert "list_files" not in thread
    assert "Nothing there" not in thread


# --- in a pipe --------------------------------------------------------------------------------


def test_each_line_of_a_pipe_is_answered_before_the_next(home: Home, work: Path) -> None:
    home.script(ECHO)
    result = home.chat("one", "", "two\\", "and two", "three", args=["--plain"], cwd=work)
    assert result.exit_code == 0
    assert result.stdout == "You said: one\nYou said: two\nand two\nYou said: three\n"
    assert "\x1b" not in result.output


def test_a_pipe_says_no_where_it_would_be_asked(home: Home, work: Path) -> None:
    home.script(rules=[rule("shell", call("shell", command="touch x"), {"echo": "results"})])
    result = home.chat("shell", "again", cwd=work)
    assert result.exit_code == 0
    assert not (work / "x").exists()
    assert "The owner can't be asked here, so it was not done." in result.stdout


def test_a_chat_is_not_json(home: Home) -> None:
    assert home.clew("--json").exit_code == 2


# --- what goes wrong --------------------------------------------------------------------------


def test_whatever_goes_wrong_is_told_and_the_session_goes_on(home: Home, work: Path) -> None:
    flood = "head -c 100000000 /dev/zero | tr '\\0' x"
    rules = [
        rule("key", {"error": {"status": 401, "body": {"error": {"message": "bad key"}}}}),
        rule("unknown", {"error": {"status": 404}}),
        rule("long", {"error": {"status": 413}}),
        rule("hang", call("shell", command="sleep 60"), {"text": "It hung."}),
        rule("flood", call("shell", command=flood), {"text": "It flooded."}),
        rule("outside", call("read_file", path="/etc/hostname"), {"echo": "results"}),
    ]
    home.script(ECHO, rules=rules, more='[tools]\ntimeout = 1\nallow = ["shell"]\n')
    result = home.chat(
        "key", "one", "unknown", "two", "long", "three", "hang", "flood", "outside", "four",
        cwd=work,
    )  # fmt: skip
    assert result.exit_code == 0
    for told in (
        "did not accept the key",
        "providers.script",
        "script does not know the model script/x",
        "The conversation is longer than script/x can read.",
        "Your message is kept. /retry tries again.",
        "Stopped after its time limit of 1 s",
        "The owner can't be asked here",
    ):
        assert told in result.output, told
    for answered in ("one", "two", "three", "four"):
        assert re.search(rf"^(You said: )?{answered}$", result.stdout, re.MULTILINE), answered
    assert "It hung.\n" in result.stdout
    assert "It flooded.\n" in result.stdout
    assert "Traceback" not in result.output
    assert "bug" not in result.stderr
    assert len(result.output) < 20_000


def test_no_network_is_told_after_some_attempts(home: Home, work: Path) -> None:
    home.script(ECHO, rules=[rule("net", {"error": "connection"})], more="")
    result = home.chat("net", "then", cwd=work)
    assert result.exit_code == 0
    assert "Trying again in" in result.stderr
    assert "script can't be reached" in result.stderr
    assert "Your message is kept." in result.stderr
    assert "then\n" in result.stdout


def test_the_second_of_two_terminals_in_a_fresh_directory_is_told(home: Home, work: Path) -> None:
    home.script(ECHO)
    first, second = open_chat(home, work), open_chat(home, work)
    first.say("one")
    told = second.say("two")
    assert "Another terminal began a session here first (`clew -r " in told
    assert "leads there. Yours is a session of its own." in told
    assert "You said: two" in told
    assert second.leave() == 0
    assert "Another terminal" not in first.say("more")
    assert first.leave() == 0
    again = open_chat(home, work)
    assert "You said: more" in again.text, "the directory's key leads to the first one"
    assert again.leave() == 0
