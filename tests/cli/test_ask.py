"""`clew ask`: one question, one answer, for scripts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.session import Session, SessionFilter
from clew.ports import Store
from tests.cli.conftest import Home
from tests.cli.screens import Terminal
from tests.forks import CLEW
from tests.patience import PATIENCE

ECHO = {"text": "You said: ", "echo": "user"}
SHELL = {"tool_calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def only_session(home: Home) -> Session:
    async def look(store: Store) -> Session:
        (session,) = (await store.list_sessions(SessionFilter(viewer="owner"), limit=9)).sessions
        return session

    return home.store(look)


def events(text: str) -> list[Any]:
    return [msgspec.json.decode(line) for line in text.splitlines()]


def test_the_answer_alone_is_on_stdout(home: Home, work: Path) -> None:
    home.script({"tool_calls": [{"name": "list_files", "arguments": {}}]}, ECHO)
    result = home.ask("what", "is", "it", cwd=work)
    assert result.exit_code == 0
    assert result.stdout == "You said: what is it\n"
    assert f"Session {only_session(home).id}" in result.stderr
    assert "list_files" in result.stderr


@pytest.mark.parametrize(
    ("words", "stdin", "asked"),
    [
        (["one"], b"", "one"),
        ([], b"two\n", "two"),
        (["what", "is", "this"], b"three\nfour\n", "what is this\n\nthree\nfour"),
        ([], b"\xff bytes \x1b[31m", "\N{REPLACEMENT CHARACTER} bytes"),
    ],
)
def test_words_and_what_is_piped_in_are_the_question(
    home: Home, work: Path, words: list[str], stdin: bytes, asked: str
) -> None:
    home.script(ECHO)
    result = home.ask(*words, stdin=stdin, cwd=work)
    assert result.exit_code == 0
    assert result.stdout.rstrip() == f"You said: {asked}"


def test_events_are_lines_of_json_and_the_last_is_the_result(home: Home, work: Path) -> None:
    home.script(ECHO)
    result = home.ask("hello", "--json", cwd=work)
    assert result.exit_code == 0
    told = events(result.stdout)
    kinds = [each["type"] for each in told]
    assert kinds[0] == "message"
    assert {"turn_started", "text", "turn_ended"} < set(kinds)
    assert kinds.count("result") == 1
    last = told[-1]
    assert (last["type"], last["status"], last["answer"], last["error"]) == (
        "result", "done", "You said: hello", None,
    )  # fmt: skip
    assert last["session_id"] == only_session(home).id
    assert "".join(each["text"] for each in told if each["type"] == "text") == last["answer"]


def test_what_is_said_before_a_tool_is_called_is_no_answer(home: Home, work: Path) -> None:
    looks = {"text": "Let me look.", "tool_calls": [{"name": "list_files", "arguments": {}}]}
    home.script(looks, "Fixes the login.")
    plain = home.ask("write a commit message", cwd=work)
    assert plain.stdout == "Fixes the login.\n"
    assert "Let me look." in plain.stderr
    home.script(looks, {"error": {"status": 401}})
    failed = home.ask("another one", cwd=work)
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "Let me look." in failed.stderr
    # The way on is one that a script has.
    opens = next(each["id"] for each in home.json("list")["sessions"])
    assert f"`clew -r {opens}` opens its session" in failed.stderr
    assert events(home.ask("more", "--json", cwd=work).stdout)[-1]["answer"] is None


def test_a_question_brings_its_model_instructions_and_time(
    home: Home, work: Path, tmp_path: Path
) -> None:
    never = {"text": "Too late.", "hold": str(tmp_path / "never")}
    home.script({"text": "", "echo": "instructions"}, rules=[{"when": "slow$", "answers": [never]}])
    told = home.ask("--system", "Answer in French.", "hello", "--model", "script/y", cwd=work)
    assert "Answer in French." in told.stdout
    assert only_session(home).model == "script/y"
    # Instructions hold for one answer, the model for the session.
    again = home.ask("-c", "hello", cwd=work)
    assert "Answer in French." not in again.stdout
    assert only_session(home).model == "script/y"
    wrong = home.ask("hello", "--model", "nowhere/x", cwd=work)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "nowhere" in wrong.stderr
    assert home.ask("hello", "--personality", "nobody", cwd=work).exit_code == 2
    assert only_session(home).message_count == 4
    late = home.ask("--timeout", "0.2", "slow", cwd=work)
    assert (late.exit_code, late.stdout) == (124, "")
    assert "No answer after 0.2 s (--timeout)." in late.stderr
    assert home.ask("--timeout", "0", "slow", cwd=work).exit_code == 2


def test_a_chat_begins_with_a_model(home: Home, work: Path) -> None:
    home.script(ECHO)
    for model in ("script/y", "script/x"):
        assert home.chat("hello", args=["--model", model], cwd=work).exit_code == 0
        assert only_session(home).model == model
    assert home.chat("hello", args=["--model", "nowhere/x"], cwd=work).exit_code == 2


def test_a_failed_turn_is_code_1_and_says_why(home: Home, work: Path) -> None:
    home.script({"error": {"status": 401}})
    plain = home.ask("hello", cwd=work)
    assert (plain.exit_code, plain.stdout) == (1, "")
    assert "did not accept the key" in plain.stderr
    last = events(home.ask("hello", "--json", cwd=work).stdout)[-1]
    assert (last["type"], last["status"], last["answer"]) == ("result", "failed", None)
    assert "did not accept the key" in last["error"]


@pytest.mark.parametrize(
    "args", [[], [" "], ["/new"], ["/undo", "it"], ["hi", "-r"], ["hi", "-c", "-r", "x"]]
)
def test_wrong_usage_is_code_2(home: Home, work: Path, args: list[str]) -> None:
    home.script(ECHO)
    home.add("One", "hello", cwd=str(work))
    result = home.ask(*args, cwd=work)
    assert (result.exit_code, result.stdout) == (2, "")
    assert only_session(home).message_count == 1


def test_a_path_is_a_question_and_no_command(home: Home, work: Path) -> None:
    home.script(ECHO)
    assert home.ask("/etc/hosts", "is", "what?", cwd=work).stdout.startswith("You said: /etc")


def test_it_asks_in_the_session_that_is_meant(home: Home, work: Path, tmp_path: Path) -> None:
    home.script(ECHO)
    home.ask("hello", cwd=work)
    home.ask("-c", "again", cwd=work)
    home.ask("more", "-c", cwd=work)
    home.ask("more", "-r", only_session(home).id[:8], cwd=work)
    home.ask("more", "-r", "hello", cwd=work)
    assert only_session(home).message_count == 10
    assert home.ask("more", "-r", "nothing like it", cwd=work).exit_code == 1
    assert home.ask("more", "-r", only_session(home).id, cwd=tmp_path).exit_code == 1
    branch = events(home.ask("more", "-c", "--fork", "--json", cwd=work).stdout)[-1]["session_id"]
    keyed = events(home.ask("more", "--key", "k", "--json", cwd=work).stdout)[-1]["session_id"]
    assert len({branch, keyed}) == 2
    assert home.json("show", keyed)["session"]["key"] == "k"
    assert home.ask("--fork", "more", cwd=work).exit_code == 2


def test_it_begins_afresh_and_leaves_the_sessions_of_chats_alone(home: Home, work: Path) -> None:
    """Its session has a key of its own, to which nothing leads, and no chat goes on with it."""
    home.script(ECHO)
    home.chat("said in the chat", cwd=work)
    chat = only_session(home)
    for each in ("one", "two"):
        assert home.ask(each, cwd=work).stdout == f"You said: {each}\n"
    listed = home.json("list")["sessions"]
    assert [each["message_count"] for each in listed] == [2, 2, 2]
    two, one = (each for each in listed if each["id"] != chat.id)
    assert {each["key"].rpartition(":")[0] for each in (one, two)} == {"cli:work:ask"}
    # A question goes on with the last one, a chat with the chat; an id that is named leads nowhere.
    home.ask("-c", "three", cwd=work)
    home.ask("-r", one["id"], "four", cwd=work)
    home.chat("five", args=["-c"], cwd=work)
    home.chat("six", cwd=work)
    counts = {each["id"]: each["message_count"] for each in home.json("list")["sessions"]}
    assert counts == {chat.id: 6, one["id"]: 4, two["id"]: 4}
    # The chat is the newest now; a fork of a question is a chat like any other.
    home.ask("-c", "seven", cwd=work)
    assert home.json("show", chat.id)["session"]["message_count"] == 8
    home.chat("eight", args=["-r", one["id"], "--fork"], cwd=work)
    home.chat("nine", args=["-c"], cwd=work)
    assert home.json("list")["sessions"][0]["message_count"] == 8
    assert len(home.json("list")["sessions"]) == 4


def test_where_nobody_is_asked_the_answer_is_no_and_the_model_hears_it(
    home: Home, work: Path
) -> None:
    home.script(SHELL, {"echo": "results"})
    result = home.ask("do it", cwd=work)
    assert result.exit_code == 0
    assert "The owner can't be asked here, so it was not done." in result.stdout
    assert not (work / "made").exists()


def test_an_allowed_tool_runs_unasked(home: Home, work: Path) -> None:
    home.script(SHELL, "Done.", more='[tools]\nallow = ["shell=touch made"]')
    assert home.ask("do it", cwd=work).stdout == "Done.\n"
    assert (work / "made").exists()


def test_in_a_terminal_it_asks(home: Home, work: Path) -> None:
    home.script(SHELL, "Done.")
    terminal = Terminal(home, "ask", "do it", cwd=work)
    terminal.wait_for("n (no): ")
    terminal.type("y\n")
    assert terminal.finish() == 0
    assert terminal.text.endswith("Done.\n")
    assert (work / "made").exists()


def test_it_works_while_the_session_is_open_in_a_terminal(home: Home, work: Path) -> None:
    home.script(ECHO)
    chat = Terminal(home, "--plain", cwd=work)
    chat.wait_for_prompt()
    chat.say("hello")
    result = home.ask("-c", "from outside", cwd=work)
    assert (result.exit_code, result.stdout) == (0, "You said: from outside\n")
    chat.wait_for("> from outside\nYou said: from outside\n")
    chat.wait_for_prompt()
    assert "again\n" in chat.say("again")
    assert chat.leave() == 0
    assert only_session(home).message_count == 6


def test_an_interrupt_is_code_130_and_leaves_a_session_that_goes_on(
    home: Home, work: Path, tmp_path: Path
) -> None:
    never = str(tmp_path / "never")
    home.script(ECHO, rules=[{"when": "slow$", "answers": [{"text": "One two", "hold": never}]}])
    process = subprocess.Popen(
        [sys.executable, "-c", CLEW, "ask", "--json", "slow"],
        env={**os.environ, "CLEW_HOME": str(home.path)},
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        while b'"type":"text"' not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told = events(process.stdout.read().decode())
        assert process.wait(PATIENCE) == 130
    assert (told[-1]["type"], told[-1]["status"]) == ("result", "aborted")
    assert "go on" in home.ask("-c", "go on", cwd=work).stdout
    assert only_session(home).message_count > 2


def test_nothing_in_an_answer_drives_a_terminal(home: Home, work: Path) -> None:
    home.script({"text": "a\x1b]52;c;aGk=\x07b\x1b[31mc", "chunk": 2})
    assert home.ask("hello", cwd=work).stdout == "abc\n"


@pytest.mark.parametrize("how", ["text", "json", "failing"])
def test_its_own_answer_is_printed_and_not_that_of_the_turn_before(
    home: Home, work: Path, tmp_path: Path, how: str
) -> None:
    """It waits behind a turn of another process, whose words and end are not its own."""
    held = tmp_path / "go on"
    slow = {"text": "This is for the chat.", "hold": str(held)}
    refused = {"when": "failing", "answers": [{"error": {"status": 400}}]}
    home.script(ECHO, rules=[{"when": r"\bslow\Z", "answers": [slow]}, refused])
    chat = Terminal(home, "--plain", cwd=work)
    chat.wait_for_prompt()
    chat.type("slow\n")
    chat.wait_for("This is")
    said, options = f"{how} from outside", ["--json"] if how == "json" else []
    asking = subprocess.Popen(
        [sys.executable, "-c", CLEW, "ask", "-c", *options, said],
        env={**os.environ, "CLEW_HOME": str(home.path)},
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with asking:
        assert asking.stdout is not None
        assert asking.stderr is not None
        told = asking.stdout if how == "json" else asking.stderr
        assert b"Another process is busy" in told.readline()
        held.touch()
        printed = asking.stdout.read().decode()
        assert asking.wait(PATIENCE) == (1 if how == "failing" else 0)
    chat.wait_for(said)
    chat.wait_for_prompt()
    assert chat.leave() == 0
    if how == "json":
        check_events([msgspec.json.decode(line) for line in printed.splitlines()], said)
    else:
        assert printed == ("" if how == "failing" else f"You said: {said}\n")


def check_events(events: list[dict[str, Any]], said: str) -> None:
    """All events are those of one turn, which answers this."""
    result = events[-1]
    assert (result["type"], result["answer"]) == ("result", f"You said: {said}")
    started, ended = (
        next(each for each in events if each["type"] == kind)
        for kind in ("turn_started", "turn_ended")
    )
    assert started["turn_id"] == ended["turn"]["id"] == result["turn_id"]
    assert started["answers"] == ended["answers"]
    messages = [each["message"] for each in events if each["type"] == "message"]
    assert [each["content"] for each in messages] == [said, f"You said: {said}"]
    spoken = "".join(each["text"] for each in events if each["type"] == "text")
    assert spoken == f"You said: {said}"


def test_an_interrupt_while_it_waits_takes_it_back_and_leaves_the_other_turn_alone(
    home: Home, work: Path, tmp_path: Path
) -> None:
    held = tmp_path / "go on"
    slow = {"text": "This is for the chat.", "hold": str(held)}
    home.script(ECHO, rules=[{"when": r"\bslow\Z", "answers": [slow]}])
    chat = Terminal(home, "--plain", cwd=work)
    chat.wait_for_prompt()
    chat.type("slow\n")
    chat.wait_for("This is")
    asking = subprocess.Popen(
        [sys.executable, "-c", CLEW, "ask", "-c", "from outside"],
        env={**os.environ, "CLEW_HOME": str(home.path)},
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with asking:
        assert asking.stderr is not None
        assert b"Another process is busy" in asking.stderr.readline()
        asking.send_signal(signal.SIGINT)
        assert asking.wait(PATIENCE) == 130
    held.touch()
    chat.wait_for("for the chat.")
    chat.wait_for_prompt()
    assert chat.leave() == 0
    assert only_session(home).message_count == 2


def test_a_question_in_a_guests_session_says_who_reads_along(home: Home) -> None:
    home.script("Fine.")
    session = home.add("Theirs", "hello", person="telegram:5", platform="telegram")
    asked = home.ask("--resume", session.id, "how are you?")
    assert asked.stdout == "Fine.\n"
    assert "This session is telegram:5's, who can read what you say here." in asked.stderr
    linked = home.clew("link", "work", session.id)
    assert "telegram:5's, who can read" in linked.stderr


def test_a_chat_in_a_guests_session_says_it_too_and_a_fork_is_ones_own(home: Home) -> None:
    home.script("Fine.")
    session = home.add("Theirs", "hello", person="telegram:5", platform="telegram")
    result = home.chat("/fork Mine", "between us", args=["-r", session.id])
    shown = result.output
    assert shown.index("telegram:5's, who can read") < shown.index('branch "Mine"')
    assert shown.count("who can read") == 1
    forked = next(each for each in home.json("list")["sessions"] if each["title"] == "Mine")
    assert (forked["person"], forked["message_count"]) == ("owner", 3)


BREAKS = {"text": "An answer that breaks off, and comes again.", "break_after": 3}


@pytest.mark.parametrize("plain", [False, True])
def test_a_pipe_gets_the_whole_answer_only_when_a_stream_broke(
    home: Home, work: Path, plain: bool
) -> None:
    home.script(BREAKS)
    result = home.chat("hello", cwd=work) if plain else home.ask("hello", cwd=work)
    assert result.exit_code == 0
    assert result.stdout.count("An answer") == 1
    assert result.stdout.endswith("An answer that breaks off, and comes again.\n")
    assert "Trying again" in result.stderr


@pytest.mark.parametrize("args", [("ask", "hello"), ("--plain",)])
def test_a_terminal_is_told_what_is_not_part_of_the_answer(
    home: Home, work: Path, args: tuple[str, ...]
) -> None:
    home.script(BREAKS)
    terminal = Terminal(home, *args, cwd=work)
    if args == ("--plain",):
        terminal.wait_for_prompt()
        terminal.type("hello\n")
    terminal.wait_for("An answer that breaks of\n")
    terminal.wait_for("(This broke off, and is not part of the answer.)")
    terminal.wait_for("An answer that breaks off, and comes again.\n")
    if args == ("--plain",):
        terminal.wait_for_prompt()
        assert terminal.leave() == 0
    else:
        assert terminal.finish() == 0


def test_an_answer_that_never_comes_whole_is_no_output(home: Home, work: Path) -> None:
    home.script({"text": "An answer that never ends.", "break_after": 0, "error": {"status": 400}})
    result = home.ask("hello", cwd=work)
    assert (result.exit_code, result.stdout) == (1, "")


def test_silence_of_a_provider_is_told_and_ended_by_the_setting(
    home: Home, work: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    answer = {"text": "Hello there.", "hold": str(go)}
    home.script(answer, more="[models]\nstall_timeout = 1")
    terminal = Terminal(home, "ask", "hello", cwd=work)
    terminal.wait_for("no data for 1 s")
    go.touch()
    terminal.wait_for("Hello there.\n")
    assert terminal.finish() == 0
