"""A terminal at a gateway: the same talk and the same screens, over a real gateway process."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from textual.pilot import Pilot

from clew.cli.app import App as Command
from clew.cli.conversation import Choice, Parts, conversation
from clew.terminal.screen.app import ChatApp, Start
from clew.terminal.screen.history import History, history_file
from clew.terminal.startup import Flags
from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway
from tests.cli.screens import FullScreen, Terminal
from tests.patience import PATIENCE
from tests.terminal.screen.chats import Chat, Nobody

ECHO = {"text": "You said: ", "echo": "user"}


def rule(when: str, *answers: Any) -> dict[str, Any]:
    return {"when": rf"\b{when}\Z", "answers": answers}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    work(made).mkdir()
    script(made, *list_rules(made))
    return made


def list_rules(home: Home) -> list[dict[str, Any]]:
    """What is answered beside an echo. It is said before a gateway starts, which reads it then."""
    write = call("write_file", path="note.txt", content="hi")
    return [
        rule("write", write, {"text": "Written."}),
        rule("scribble", write, {"text": "I could not."}),
        rule("endless", {"text": "On and on and on", "hold": str(home.path / "never")}),
        rule("slowly", {"text": "Piece by piece it comes", "hold": str(home.path / "go on")}),
    ]


def work(home: Home) -> Path:
    return home.path.parent / "work"


def script(home: Home, *rules: Any, more: str = "") -> None:
    # Where a token that is not the owner's own may open a terminal.
    listed = f'[gateway]\nworkspaces = ["{work(home)}"]\n'
    home.script(ECHO, rules=rules, more=listed + more)


@pytest.fixture
def gateway(home: Home) -> Iterator[GatewayProcess]:
    with run_gateway(home) as running:
        yield running


def open_chat(home: Home, *args: str) -> Terminal:
    return Terminal(home, "chat", "--plain", *args, cwd=work(home))


def list_said(gateway: GatewayProcess, session: str) -> list[str]:
    page = gateway.ask("GET", f"/v1/sessions/{session}/messages").json()
    return [f"{each['role']}: {each['content']}" for each in page["messages"]]


def list_sessions(gateway: GatewayProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gateway.ask("GET", "/v1/sessions").json()["sessions"]
    return found


def say_by_api(gateway: GatewayProcess, session: str, text: str) -> None:
    answer = gateway.ask("POST", "/v1/chat", json={"session": session, "text": text})
    assert answer.status_code == 202, answer.text


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- line by line -----------------------------------------------------------------------------


def test_a_chat_uses_the_gateway_that_runs_here_and_looks_the_same(
    home: Home, gateway: GatewayProcess
) -> None:
    chat = open_chat(home)
    chat.wait_for_prompt()
    assert "You said: hello" in chat.say("hello")
    assert "The title is now: Plans" in chat.say("/title Plans")
    assert "title        Plans" in chat.say("/status")
    code = chat.leave()
    session = list_sessions(gateway)[0]
    assert code == 0, chat.text
    assert (session["key"], session["platform"], session["cwd"]) == (
        "cli:work", "cli", str(work(home)),
    )  # fmt: skip
    assert list_said(gateway, session["id"]) == ["user: hello", "assistant: You said: hello"]
    assert f"clew -r {session['short_id']}" in chat.text
    # The turn ran in the gateway, which took it from the API.
    rows = gateway.ask("GET", f"/v1/sessions/{session['id']}").json()
    assert rows["session"]["status"] is None, "nobody has it open"


def test_no_gateway_keeps_the_chat_in_its_own_process(home: Home, gateway: GatewayProcess) -> None:
    chat = open_chat(home, "--no-gateway")
    chat.wait_for_prompt()
    chat.say("hello")
    session = list_sessions(gateway)[0]
    assert session["status"] == "open", "a terminal in its own process holds the session"
    assert chat.leave() == 0


def test_a_chat_elsewhere_names_the_gateway_and_a_token(
    home: Home, gateway: GatewayProcess, tmp_path: Path
) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    elsewhere.path.mkdir()
    secret = tmp_path / "token"
    secret.write_text(gateway.token)
    by_flags = Terminal(
        elsewhere, "chat", "--plain", "--url", gateway.url, "--token", f"file:{secret}",
        cwd=work(home),
    )  # fmt: skip
    by_flags.wait_for_prompt()
    assert "You said: hello" in by_flags.say("hello")
    assert by_flags.leave() == 0
    assert f"clew --url {gateway.url} -r " in by_flags.text
    by_environment = Terminal(
        elsewhere, "-c", "--plain", cwd=work(home), CLEW_URL=gateway.url,
        CLEW_TOKEN="env:THE_TOKEN", THE_TOKEN=gateway.token,
    )  # fmt: skip
    by_environment.wait_for_prompt()
    assert "You said: hello" in by_environment.text, "what was said there is shown"
    assert by_environment.leave() == 0
    assert not (elsewhere.path / "sessions.db").exists()


def test_commands_of_a_switch_go_there_and_back(home: Home, gateway: GatewayProcess) -> None:
    chat = open_chat(home)
    chat.wait_for_prompt()
    chat.say("hello")
    chat.say("/title First")
    assert "A new session begins" in chat.say("/new")
    chat.say("/title Second")
    chat.say("over there")
    assert "You said: hello" in chat.say("/resume First")
    assert 'Now in the branch "Third"' in chat.say("/fork Third")
    assert "There is no command /nonsense" in chat.say("/nonsense")
    assert "Took back" in chat.say("/undo")
    assert "You said: hello" in chat.say("hello again")
    assert chat.leave() == 0
    titles = {each["title"]: each for each in list_sessions(gateway)}
    assert titles.keys() == {"First", "Second", "Third"}
    assert titles["Second"]["previous_id"] == titles["First"]["id"]
    again = open_chat(home, "-c")
    assert "hello again" in again.wait_for_prompt(), "this terminal was in the third one"
    assert again.leave() == 0


def test_a_token_for_a_terminal_talks_approves_and_makes_no_rule_for_always(
    home: Home, gateway: GatewayProcess
) -> None:
    secret = home.clew("token", "create", "--name", "laptop", "--for", "terminal").stdout.strip()
    chat = open_chat(home, "--url", gateway.url, "--token", secret)
    chat.wait_for_prompt()
    chat.type("please write\n")
    chat.wait_for("always or n (no): ")
    chat.type("always\n")
    chat.wait_for("Write it? y or n: ")
    chat.type("y\n")
    assert "scope admin" in chat.wait_for("always or n (no): ")
    assert not (work(home) / "note.txt").exists()
    chat.type("y\n")
    chat.wait_for("Written.")
    chat.wait_for_prompt()
    assert (work(home) / "note.txt").read_text() == "hi"
    assert "The title is now: Plans" in chat.say("/title Plans")
    assert chat.leave() == 0


def test_a_tool_asks_here_and_ctrl_c_stops_there(home: Home, gateway: GatewayProcess) -> None:
    chat = open_chat(home)
    chat.wait_for_prompt()
    chat.type("please write\n")
    chat.wait_for("always or n (no): ")
    chat.type("y\n")
    chat.wait_for("Written.")
    chat.wait_for_prompt()
    assert (work(home) / "note.txt").read_text() == "hi"
    assert "already answered" not in chat.text
    chat.type("endless\n")
    chat.wait_for("On and")
    chat.type("\x03")
    chat.wait_for_prompt()
    session = list_sessions(gateway)[0]
    assert session["status"] is None
    assert chat.leave() == 0
    again = open_chat(home)
    again.wait_for("> endless\nOn and")
    again.wait_for("(stopped)\n")
    assert again.leave() == 0


def test_ctrl_c_takes_back_what_waits_from_here_and_nothing_else(
    home: Home, gateway: GatewayProcess
) -> None:
    chat = open_chat(home)
    chat.wait_for_prompt()
    chat.type("endless\n")
    chat.wait_for("On and")
    session = list_sessions(gateway)[0]["id"]
    chat.type("mine\n")
    chat.wait_for("Queued; it is next when this turn is done.")
    say_by_api(gateway, session, "of somebody else")
    chat.type("\x03")
    chat.wait_for("Took back 1 message that waited:\n  mine\n")
    chat.wait_for("You said: endless\n\nof somebody else\n")
    chat.wait_for_prompt()
    said = list_said(gateway, session)
    assert said[:2] == ["user: endless", "user: of somebody else"]
    assert len(said) == 3, "and its answer"
    assert gateway.ask("GET", "/v1/queue").json()["messages"] == []
    assert chat.leave() == 0


def test_what_the_api_says_streams_into_a_terminal_and_the_other_way_round(
    home: Home, gateway: GatewayProcess
) -> None:
    held = home.path / "go on"
    chat = open_chat(home)
    chat.wait_for_prompt()
    chat.say("hello")
    session = list_sessions(gateway)[0]["id"]
    say_by_api(gateway, session, "slowly")
    chat.wait_for("slowly")
    chat.wait_for("Piece")
    assert "assistant: Piece by piece it comes" not in list_said(gateway, session)
    held.touch()
    chat.wait_for("by piece it comes")
    chat.wait_for_prompt()
    with httpx.stream(
        "GET",
        f"{gateway.url}/v1/sessions/{session}/events",
        headers={"Authorization": f"Bearer {gateway.token}"},
        timeout=PATIENCE,
    ) as events:
        lines = events.iter_lines()
        chat.say("from the terminal")
        for line in lines:
            if line.startswith("data:") and "You said: from the terminal" in line:
                break
    assert chat.leave() == 0


def test_a_gateway_that_is_killed_and_comes_back_goes_on_with_the_chat(home: Home) -> None:
    held = home.path / "go on"
    with run_gateway(home) as first:
        chat = open_chat(home)
        chat.wait_for_prompt()
        chat.say("hello")
        chat.type("slowly\n")
        chat.wait_for("Piece")
        port = first.url.rpartition(":")[2]
        first.end(signal.SIGKILL)
    chat.wait_for("The connection to the gateway is lost")
    held.touch()
    with run_gateway(home, "--port", port) as second:
        chat.wait_for("The gateway is there again")
        session = list_sessions(second)[0]["id"]
        wait_until(lambda: list_said(second, session)[-1] == "assistant: Piece by piece it comes")
        assert "You said: and now" in _say_when_free(chat, "and now")
        assert chat.leave() == 0
        said = list_said(second, session)
    assert said == [
        "user: hello", "assistant: You said: hello",
        "user: slowly", "assistant: Piece by piece it comes",
        "user: and now", "assistant: You said: and now",
    ]  # fmt: skip
    assert chat.text.count("You said: and now") == 1


def _say_when_free(chat: Terminal, text: str) -> str:
    chat.type(f"{text}\n")
    return chat.wait_for(f"You said: {text}")


def test_a_gateway_that_is_gone_for_good_leaves_the_input_usable(home: Home) -> None:
    with run_gateway(home) as gateway:
        chat = open_chat(home)
        chat.wait_for_prompt()
        chat.say("hello")
        gateway.end(signal.SIGKILL)
    chat.wait_for("The connection to the gateway is lost")
    chat.wait_for_prompt()
    chat.type("is anybody there\n")
    chat.wait_for("Your message was not sent.")
    chat.type("/help\n")
    chat.wait_for("Begin a new session")
    assert chat.leave() == 0
    assert "Session " in chat.text
    alone = open_chat(home)
    assert "You said: hello" in alone.wait_for_prompt()
    assert "You said: on my own" in alone.say("on my own")
    assert alone.leave() == 0


# --- refusals ---------------------------------------------------------------------------------


def test_nobody_at_the_address_is_an_error(home: Home) -> None:
    result = home.chat("hello", args=("--url", "http://127.0.0.1:9", "--token", "x"))
    assert result.exit_code == 1
    assert "No gateway answers at http://127.0.0.1:9" in result.stderr


def test_a_wrong_token_and_a_revoked_one_are_errors(home: Home, gateway: GatewayProcess) -> None:
    made = gateway.ask("POST", "/v1/tokens", json={"name": "t", "scopes": ["chat"]}).json()
    gateway.ask("DELETE", f"/v1/tokens/{made['token']['id']}")
    for token in ("nonsense", made["secret"]):
        result = home.chat("hello", args=("--url", gateway.url, "--token", token))
        assert result.exit_code == 1, result.output
        assert "token" in result.stderr.lower()
        assert "hello" not in result.output
    assert list_sessions(gateway) == []


def test_a_token_that_is_revoked_in_the_middle_ends_the_chat(
    home: Home, gateway: GatewayProcess
) -> None:
    made = gateway.ask("POST", "/v1/tokens", json={"name": "t", "scopes": ["chat"]}).json()
    args = ("chat", "--plain", "--url", gateway.url, "--token", made["secret"])
    chat = Terminal(home, *args, width=200, cwd=work(home))
    chat.wait_for_prompt()
    chat.say("hello")
    gateway.ask("DELETE", f"/v1/tokens/{made['token']['id']}")
    assert chat.finish() == 1
    session = list_sessions(gateway)[0]
    assert f"Session {session['id']}\n" in chat.text
    assert chat.text.endswith("Come back with another token (--token, CLEW_TOKEN).\n")
    assert chat.text.count("revoked") == 1
    assert "Traceback" not in chat.text


def test_a_token_that_is_revoked_in_a_turn_ends_the_chat_and_not_the_turn(
    home: Home, gateway: GatewayProcess
) -> None:
    held = home.path / "go on"
    made = gateway.ask("POST", "/v1/tokens", json={"name": "t", "scopes": ["chat"]}).json()
    args = ("chat", "--plain", "--url", gateway.url, "--token", made["secret"])
    chat = Terminal(home, *args, width=200, cwd=work(home))
    chat.wait_for_prompt()
    chat.type("slowly\n")
    chat.wait_for("Piece")
    gateway.ask("DELETE", f"/v1/tokens/{made['token']['id']}")
    assert chat.finish() == 1
    assert chat.text.count("revoked") == 1
    held.touch()
    session = list_sessions(gateway)[0]["id"]
    wait_until(lambda: len(list_said(gateway, session)) == 2)


def test_a_token_that_is_revoked_ends_a_full_screen_and_keeps_the_draft(
    home: Home, gateway: GatewayProcess
) -> None:
    made = gateway.ask("POST", "/v1/tokens", json={"name": "t", "scopes": ["chat"]}).json()
    args = ("chat", "--url", gateway.url, "--token", made["secret"])
    chat = FullScreen(home, *args, width=120, cwd=work(home))
    chat.sees("Write a message")
    chat.type("half a thought")
    chat.sees("half a thought")
    gateway.ask("DELETE", f"/v1/tokens/{made['token']['id']}")
    assert chat.finish() == 1
    assert "Come back with another token (--token, CLEW_TOKEN).\n" in chat.text
    again = FullScreen(home, "chat", width=120, cwd=work(home))
    again.sees("Write a message")
    again.type("\x1b[A")
    again.sees("half a thought")
    again.type("\x03\x03")
    assert again.finish() == 0


def test_options_that_contradict_each_other_are_wrong_usage(home: Home) -> None:
    both = home.clew("chat", "--url", "http://127.0.0.1:9", "--no-gateway")
    alone = home.clew("chat", "--token", "x")
    assert (both.exit_code, alone.exit_code) == (2, 2)


# --- transcripts ------------------------------------------------------------------------------


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A talk of another home, as a file, with a line that can't be read."""
    other, path = Home(tmp_path / "other"), tmp_path / "work" / "talk.jsonl"
    other.script(ECHO)
    assert other.chat("first", "second", cwd=path.parent).exit_code == 0
    (session,) = other.json("list")["sessions"]
    assert other.clew("export", session["id"], "-o", str(path)).exit_code == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, "{no json"]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("is_named", [False, True])
def test_a_transcript_is_resumed_at_the_gateway_of_this_data_directory(
    home: Home, gateway: GatewayProcess, transcript: Path, is_named: bool
) -> None:
    before = transcript.read_bytes()
    named = ("--url", gateway.url, "--token", gateway.token) if is_named else ()
    for text in ("third", "fourth"):
        chat = open_chat(home, "-r", "talk.jsonl", *named)
        chat.wait_for("1 line of")
        chat.wait_for_prompt()
        assert f"You said: {text}" in chat.say(text)
        assert chat.leave() == 0
    (session,) = list_sessions(gateway)
    said = list_said(gateway, session["id"])
    assert [each for each in said if each.startswith("user")] == [
        "user: first", "user: second", "user: third", "user: fourth",
    ]  # fmt: skip
    assert transcript.read_bytes() == before


def test_a_transcript_can_not_be_resumed_at_a_gateway_elsewhere_and_an_error_says_what_to_do(
    home: Home, gateway: GatewayProcess, transcript: Path, tmp_path: Path
) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    elsewhere.path.mkdir()
    args = ("-r", "talk.jsonl", "--url", gateway.url, "--token", gateway.token)
    result = elsewhere.chat("hello", args=args, cwd=transcript.parent)
    assert result.exit_code == 2, result.output
    assert "clew import talk.jsonl" in result.stderr
    assert "clew --no-gateway -r talk.jsonl" in result.stderr
    assert list_sessions(gateway) == []


@pytest.mark.parametrize("is_here", [True, False])
def test_a_new_session_of_a_gateway_is_written_to_the_file_it_began_with(
    home: Home, gateway: GatewayProcess, tmp_path: Path, is_here: bool
) -> None:
    user = home if is_here else Home(tmp_path / "elsewhere")
    user.path.mkdir(exist_ok=True)
    named = () if is_here else ("--url", gateway.url, "--token", gateway.token)
    file = work(home) / "new.jsonl"
    assert user.chat("/help", args=("-r", "new.jsonl", *named), cwd=file.parent).exit_code == 0
    assert not file.exists()
    result = user.chat("hello", args=("-r", "new.jsonl", *named), cwd=file.parent)
    assert result.exit_code == 0, result.output
    (session,) = list_sessions(gateway)
    kept = Home(tmp_path / "kept")
    kept.path.mkdir()
    assert kept.clew("import", str(file)).exit_code == 0
    shown = kept.json("show", session["id"])["messages"]
    assert [each["content"] for each in shown] == ["hello", "You said: hello"]


def test_a_path_that_is_no_transcript_goes_on_to_the_gateways_sessions(
    home: Home, gateway: GatewayProcess
) -> None:
    chat = open_chat(home)
    chat.wait_for_prompt()
    chat.say("hello")
    chat.say("/title either/or")
    assert chat.leave() == 0
    session = list_sessions(gateway)[0]["id"]
    for value in ("either/or", f"session-{session}.jsonl"):
        again = open_chat(home, "-r", value)
        assert "You said: hello" in again.wait_for_prompt()
        assert again.leave() == 0
    folder = home.chat(args=("-r", "./"), cwd=work(home))
    assert folder.exit_code == 1
    assert "is a directory" in folder.stderr


# --- one question -----------------------------------------------------------------------------


def test_one_question_is_answered_by_the_gateway(home: Home, gateway: GatewayProcess) -> None:
    plain = home.ask("hello", "there", cwd=work(home))
    assert (plain.exit_code, plain.stdout) == (0, "You said: hello there\n")
    named = ("--url", gateway.url, "--token", gateway.token)
    told = home.ask("--json", *named, "-c", "again", cwd=work(home))
    lines = [msgspec.json.decode(line) for line in told.stdout.splitlines()]
    said = [each["message"]["content"] for each in lines if each["type"] == "message"]
    assert said == ["again", "You said: again"]
    assert [each["type"] for each in lines[-2:]] == ["turn_ended", "result"]
    assert lines[-1]["answer"] == "You said: again"
    session = list_sessions(gateway)[0]
    assert lines[-1]["session_id"] == session["id"]
    assert session["message_count"] == 4
    assert session["key"].startswith("cli:work:ask:")
    home.ask("another thing", cwd=work(home))
    assert len(list_sessions(gateway)) == 2


def test_a_question_from_a_script_waits_for_nobodys_word(
    home: Home, gateway: GatewayProcess
) -> None:
    result = home.ask("please scribble", cwd=work(home))
    assert result.stdout == "I could not.\n"
    assert not (work(home) / "note.txt").exists()


# --- the full screen --------------------------------------------------------------------------


class Screens:
    """Full screens over one gateway."""

    def __init__(self, home: Home, gateway: GatewayProcess) -> None:
        self.home = home
        self.gateway = gateway

    @asynccontextmanager
    async def open(self, monkeypatch: pytest.MonkeyPatch, **flags: Any) -> AsyncIterator[Chat]:
        monkeypatch.chdir(work(self.home))
        command = Command()
        command.configure(home=str(self.home.path), store=None, file=None, verbose=False)
        async with AsyncExitStack() as stack:
            how = conversation(command, Choice(), holds=True, attended=True)
            parts = await stack.enter_async_context(how)
            app = await self._sit(parts, Flags(**flags))
            pilot: Pilot[int] = await stack.enter_async_context(app.run_test(size=(100, 30)))
            stack.push_async_callback(app.close_chat)
            async with asyncio.timeout(PATIENCE):
                await app.is_there.wait()
            yield Chat(app, pilot, None, None)  # type: ignore[arg-type]  # they are elsewhere

    async def _sit(self, parts: Parts, flags: Flags) -> ChatApp:
        startup = parts.start_up(Nobody())
        opening, _ = await startup.open(flags, parts.located.session, parts.breadcrumb)
        history = History(history_file(self.home.path, "owner"))
        return ChatApp(parts.seat, startup, Start(opening=opening, settles=0), history)


@pytest.fixture
def screens(home: Home, gateway: GatewayProcess) -> Screens:
    return Screens(home, gateway)


async def test_a_full_screen_talks_over_a_gateway(
    screens: Screens, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with screens.open(monkeypatch) as chat:
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        await chat.say("/title Plans")
        await chat.sees("The title is now: Plans")
        await chat.until(lambda: "Plans" in chat.status, "the title below")
        await chat.say("/undo")
        await chat.sees("Took back")
        assert chat.text.count("You said: hello") == 1


async def test_what_others_say_streams_onto_the_screen(
    screens: Screens, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = home.path / "go on"
    async with screens.open(monkeypatch) as chat:
        await chat.say("hello")
        await chat.is_idle()
        await asyncio.to_thread(say_by_api, screens.gateway, chat.session.id, "slowly")
        await chat.sees("slowly", "Piece")
        await chat.until(lambda: "working" in chat.status, "that it works")
        held.touch()
        await chat.sees("Piece by piece it comes")
        await chat.is_idle()


async def test_what_is_said_meanwhile_waits_and_is_seen_to_wait(
    screens: Screens, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = home.path / "go on"
    async with screens.open(monkeypatch) as chat:
        await chat.say("slowly")
        await chat.sees("Piece")
        await chat.say("and then")
        await chat.sees("queued: and then")
        held.touch()
        await chat.sees("You said: and then")
        await chat.misses("queued: and then")
        await chat.is_idle()


def add_two(home: Home) -> None:
    here = str(work(home))
    home.add("Apples", "about fruit", cwd=here, project=here)
    home.add("Pears", "about zebras", cwd=here, project=here)


async def test_the_picker_lists_and_searches_what_the_gateway_has(
    screens: Screens, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(add_two, home)
    async with screens.open(monkeypatch) as chat:
        await chat.press("ctrl+r")
        await chat.sees("Apples", "Pears")
        await chat.type("zebras")
        await chat.sees("in messages", "Pears")
        await chat.misses("Apples")
        await chat.press("enter")
        await chat.sees("about zebras", "Resumed session")
        assert chat.session.title == "Pears"


async def test_a_question_of_a_tool_is_answered_on_the_screen(
    screens: Screens, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with screens.open(monkeypatch) as chat:
        await chat.say("write")
        await chat.sees("write_file", "note.txt")
        await chat.until(lambda: bool(chat.app.conversation.questions), "the question")
        await chat.press("tab", "enter")
        await chat.sees("Written.")
        assert (work(home) / "note.txt").read_text() == "hi"


async def test_a_screen_outlives_its_gateway(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as stack:
        first = stack.enter_context(run_gateway(home))
        chat = await stack.enter_async_context(Screens(home, first).open(monkeypatch))
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        await asyncio.to_thread(first.end, signal.SIGKILL)
        await chat.sees("The connection to the gateway is lost")
        await chat.say("/help")
        await chat.sees("Leave the chat; Ctrl+D does too.")
        port = first.url.rpartition(":")[2]
        stack.enter_context(run_gateway(home, "--port", port))
        await chat.sees("The gateway is there again")
        await chat.say("once more")
        await chat.sees("You said: once more")
        await chat.is_idle()
        page = await chat.seat.client.sessions.messages(chat.session.id)
        assert [each.content for each in page.messages] == [
            "hello", "You said: hello", "once more", "You said: once more",
        ]  # fmt: skip


def test_a_gateway_that_runs_here_and_lets_nobody_in_is_done_without(
    home: Home, gateway: GatewayProcess
) -> None:
    (home.path / "gateway.token").write_text("nonsense")
    result = home.ask("hello", cwd=work(home))
    assert (result.exit_code, result.stdout) == (0, "You said: hello\n")
    assert "goes on without" in result.stderr
