"""Questions on the full screen: what tools want, and what the chat itself must know."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from textual import events

from clew.core.delivery import NewInbound
from clew.core.session import NewSession
from clew.core.turn import Approval
from clew.terminal.plain_output import question_lines
from clew.terminal.screen.approvals import detail_lines
from clew.terminal.screen.dialogs import list_keys
from tests.terminal.screen.chats import Chat, Stage, call, open_chat


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.script(call("write_file", path="new.txt", content="one\ntwo\n"), "Written.")
    return stage


def writes_twice(stage: Stage) -> None:
    """Two turns that want the same thing."""
    one = call("write_file", path="new.txt", content="one\n")
    two = call("write_file", path="new.txt", content="two\n")
    stage.script(one, "First.", two, "Second.")


def burst(chat: Chat, *keys: str) -> None:
    """Press keys faster than anything can happen in between."""
    for key in keys:
        chat.app.post_message(events.Key(key, key if len(key) == 1 else None))


async def asked(chat: Chat, text: str = "write") -> None:
    await chat.say(text)
    await chat.sees("? Create a file: new.txt", "y yes once")


@pytest.mark.parametrize(("key", "written"), [("y", True), ("n", False)])
async def test_y_lets_it_happen_once_and_n_does_not(stage: Stage, key: str, written: bool) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.sees("+one", "+two", "waits for your answer")
        await chat.press(key)
        await chat.sees("Written.")
        await chat.misses("yes once")
        assert (stage.work / "new.txt").exists() == written
        assert chat.draft == ""


async def test_s_allows_it_for_the_session(stage: Stage) -> None:
    writes_twice(stage)
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("s")
        await chat.sees("First.")
        await chat.is_idle()
        await chat.say("again")
        await chat.sees("Second.")
        assert "tools" not in (stage.home / "config.toml").read_text(encoding="utf-8")


async def test_a_allows_it_always(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("a")
        await chat.sees("Written.")
        assert "write_file" in (stage.home / "config.toml").read_text(encoding="utf-8")


async def test_esc_lets_it_wait_and_tab_goes_back_to_it(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("escape")
        await chat.sees("Tab goes back to it")
        await chat.misses("+one")
        await chat.type("yes")
        assert chat.draft == "yes"
        await chat.press("tab")
        await chat.sees("+one")
        await chat.press("y")
        await chat.sees("Written.")
        assert chat.draft == "yes"


async def test_keys_right_behind_tab_are_for_the_question_until_it_is_answered(
    stage: Stage,
) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("escape")
        await chat.sees("Tab goes back to it")
        await chat.type("so")
        burst(chat, "tab", "x", "n", "u", "p")  # x is no answer, and no letter of the message
        await chat.sees("Written.")
        await chat.until(lambda: chat.draft == "soup", "the draft")
        assert not (stage.work / "new.txt").exists()


async def test_keys_right_behind_a_second_tab_are_for_the_message(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        burst(chat, "tab", "tab", "n", "o", "w")
        await chat.until(lambda: chat.draft == "now", "the draft")
        assert chat.app.chat.approvals.waiting
        await chat.sees("Tab goes back to it")


async def test_a_half_typed_message_is_never_taken_for_an_answer(stage: Stage) -> None:
    wants = call("write_file", path="new.txt", content="one\n")
    stage.script(stage.hold("Let me write.") | wants, "Written.")
    async with open_chat(stage) as chat:
        await chat.say("write")
        await chat.sees("Let me")
        await chat.type("sa")
        stage.release()
        await chat.sees("y yes once")
        await chat.type("yna")
        assert chat.draft == "sayna"
        assert chat.app.chat.approvals.waiting
        await chat.press("tab", "n")
        await chat.sees("Written.")
        assert not (stage.work / "new.txt").exists()
        assert chat.draft == "sayna"


async def test_a_key_that_was_on_its_way_when_the_question_came_is_text(stage: Stage) -> None:
    async with open_chat(stage, settles=60) as chat:
        await asked(chat)
        await chat.type("y")
        assert chat.draft == "y"
        assert chat.app.chat.approvals.waiting


async def test_a_question_goes_when_the_turn_is_stopped(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("ctrl+c")
        await chat.sees("Stopped.")
        await chat.misses("y yes once")
        assert not chat.app.chat.approvals.waiting
        assert "Answered" not in chat.text  # it was no answer


async def test_an_answer_from_elsewhere_takes_the_question_away(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        (approval,) = chat.app.chat.approvals.waiting
        await chat.house.runtime.decide(approval.id, "no", by="owner")
        await chat.sees("Written.")
        await chat.misses("y yes once")


def make_approval(name: str, **request: object) -> Approval:
    given = {"summary": f"Use {name}", "rule": name} | request
    return Approval(secrets.token_hex(4), "s", "t", "c", name, given, 0, 1)


async def test_several_questions_wait_behind_each_other(stage: Stage) -> None:
    first, second, third = (make_approval(name) for name in ("one", "two", "three"))
    async with open_chat(stage) as chat:
        for approval in (first, second, third):
            chat.app.put_question(approval)
        await chat.sees("? Use one  (2 more behind it)")
        chat.app.withdraw_question(second)
        await chat.sees("? Use one  (1 more behind it)")
        await chat.press("n")
        await chat.sees("? Use three")
        assert "behind it" not in chat.text


async def test_what_can_not_be_remembered_offers_only_once(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        chat.app.put_question(make_approval("plan", rule=None, detail="1. look\n2. write"))
        await chat.sees("y yes once, n no", "2. write")
        await chat.press("a")
        assert chat.draft == "a"


def test_what_a_tool_wants_is_shown_without_what_drives_a_terminal() -> None:
    approval = make_approval("write_file", detail="+\x1b[2Jone\n-two\n@@ x\n+++ b/x\n three")
    assert list(detail_lines(approval)) == [
        ("+one", "added"),
        ("-two", "removed"),
        ("@@ x", "head"),
        ("+++ b/x", "head"),
        (" three", ""),
    ]


def test_a_detail_that_says_no_more_than_the_question_is_left_out() -> None:
    assert list(detail_lines(make_approval("shell", summary="Run: ls", detail="ls"))) == []


def test_a_command_of_several_lines_is_shown_as_such() -> None:
    """In one line, `rm` would look like a part of the comment."""
    said = {"summary": "Run: echo tidy # rm -rf src", "detail": "echo tidy #\nrm -rf src"}
    approval = make_approval("shell", **said)
    assert list(detail_lines(approval)) == [("echo tidy #", ""), ("rm -rf src", "")]
    assert ("    rm -rf src", None) in list(question_lines(approval))


# --- questions of the chat itself -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("[f]ork it here, [o]pen it there, [n]o: ", ("f", "o", "n")),
        ("Answer it now? [y/N] ", ("y", "n")),
        ("Anything [1-10, Enter for none]", ()),
        ('Session "[x]" belongs to /a. [m]ove it', ("x", "m")),
    ],
)
def test_the_keys_of_a_question_are_those_it_names(question: str, keys: tuple[str, ...]) -> None:
    assert list_keys(question) == keys


@pytest.mark.parametrize(("key", "left"), [("y", 1), ("n", 0), ("escape", 0), ("enter", 0)])
async def test_a_message_that_a_crash_left_is_asked_about(
    stage: Stage, key: str, left: int
) -> None:
    stage.script({"text": "You said: ", "echo": "user"})
    async with open_chat(stage) as chat:
        where = str(stage.work)
        session = await chat.store.create_session(
            NewSession(key="cli:work", cwd=where, project=where), route="cli:work"
        )
        await chat.store.accept(
            NewInbound(
                id="a1",
                channel="cli",
                key=session.key,
                session_id=session.id,
                payload={"text": "left behind"},
            )
        )
        await chat.press("ctrl+r")
        await chat.sees("1 session")
        await chat.press("enter")
        await chat.sees('Not answered yet: "left behind".', "Press y or n;")
        await chat.press(key)
        await chat.sees("Resumed session")
        if left:
            await chat.sees("You said: left behind")
        assert len(await chat.store.get_messages(session.id)) == 2 * left
