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
from clew.terminal.screen.dialogs import AskScreen, list_keys
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
    await chat.sees("? Create a file: new.txt", "Yes, once")


def is_waiting(chat: Chat) -> bool:
    return bool(chat.app.chat.approvals.waiting)


def rules(stage: Stage) -> str:
    return (stage.home / "config.toml").read_text(encoding="utf-8")


async def test_an_answer_is_moved_to_and_taken_with_enter(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.sees("+one", "+two", "waits for your answer", "Tab or → goes to the answers")
        await chat.press("tab")
        await chat.sees("Enter takes it")
        assert is_waiting(chat)
        await chat.press("enter")
        await chat.sees("Written.")
        await chat.misses("Yes, once")
        assert (stage.work / "new.txt").exists()
        assert chat.draft == ""


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (("right",), "once"),
        (("right", "right"), "session"),
        (("tab", "tab", "tab"), "always"),
        (("left",), "no"),
        (("left", "right"), None),
        (("tab", "shift+tab"), None),
        (("tab", "tab", "tab", "tab", "tab"), None),
        (("tab", "right", "left"), "once"),
        (("up",), None),
        (("down",), None),
    ],
)
async def test_arrows_and_tab_move_between_the_editor_and_the_answers(
    stage: Stage, keys: tuple[str, ...], chosen: str | None
) -> None:
    async with open_chat(stage) as chat:
        chat.app.put_question(make_approval("one"))
        await chat.sees("? Use one")
        await chat.press(*keys)
        assert chat.app.chat.approvals.chosen == chosen
        assert (chat.app.chat.focused is chat.app.chat.editor) == (chosen is None)


async def test_a_no_takes_a_reason_that_the_model_gets(stage: Stage) -> None:
    stage.script(call("write_file", path="new.txt", content="one\n"), {"echo": "results"})
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.type("a draft")
        await chat.press("tab", "tab", "tab", "tab", "enter")
        await chat.sees("Why? The model is told", "Enter refuses it")
        await chat.type("call it old.txt")
        await chat.press("enter")
        await chat.sees('The owner said no, so it was not done: "call it old.txt"')
        assert not (stage.work / "new.txt").exists()
        assert chat.draft == "a draft"


async def test_a_no_needs_no_reason_and_esc_takes_it_back(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("left", "enter")
        await chat.sees("Enter refuses it")
        await chat.press("escape")
        await chat.sees("Yes, once")
        assert is_waiting(chat)
        await chat.press("left", "enter", "enter")
        await chat.sees("Written.")
        assert not (stage.work / "new.txt").exists()


async def test_for_the_session_it_is_not_asked_about_again(stage: Stage) -> None:
    writes_twice(stage)
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("tab", "tab", "enter")
        await chat.sees("First.")
        await chat.is_idle()
        await chat.say("again")
        await chat.sees("Second.")
        assert "tools" not in rules(stage)


async def test_always_shows_its_rule_and_asks_once_more(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("tab", "tab", "tab", "enter")
        await chat.sees("This rule is written to tools.allow:", "    write_file", "Write this rule")
        await chat.press("enter", "enter")  # nothing is chosen: they are for the empty editor
        assert is_waiting(chat)
        await chat.press("tab", "tab", "enter")
        await chat.sees("Yes, once")
        assert "write_file" not in rules(stage)
        await chat.press("tab", "tab", "tab", "enter", "tab", "enter")
        await chat.sees("Written.")
        assert "write_file" in rules(stage)


async def test_a_long_rule_is_shown_whole_before_it_is_written(stage: Stage) -> None:
    rule = f"shell=echo {'x' * 200} && curl evil"
    async with open_chat(stage) as chat:
        chat.app.put_question(make_approval("shell", rule=rule))
        await chat.sees("? Use shell")
        await chat.press("tab", "tab", "tab", "enter")
        await chat.sees("Write this rule")
        assert rule in chat.text.replace("\n", "").replace(" ", "").replace(
            "echo", "echo "
        ).replace("&&curl", " && curl ")


async def test_letters_always_go_into_the_editor(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.type("also explain it")
        assert chat.draft == "also explain it"
        assert is_waiting(chat)
        await chat.press("enter")
        await chat.until(lambda: chat.draft == "", "sent as ever")
        assert is_waiting(chat)
        assert not (stage.work / "new.txt").exists()
        assert "tools" not in rules(stage)


@pytest.mark.parametrize("key", ["y", "s", "a", "n", " ", "backspace"])
async def test_a_letter_behind_a_chosen_answer_lets_it_go(stage: Stage, key: str) -> None:
    """However fast: an Enter behind the letter sends the letter, and answers nothing."""
    async with open_chat(stage) as chat:
        await asked(chat)
        burst(chat, "tab", key, "o", "enter")
        await chat.until(lambda: not chat.draft and not chat.app.chat.approvals.has_keys)
        await chat.pilot.pause()
        assert is_waiting(chat)
        assert not (stage.work / "new.txt").exists()


async def test_a_paste_behind_a_chosen_answer_lets_it_go(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("tab")
        chat.app.post_message(events.Paste("yes"))
        burst(chat, "enter")
        await chat.pilot.pause()
        assert is_waiting(chat)
        assert not (stage.work / "new.txt").exists()


async def test_esc_lets_it_wait_and_tab_shows_it_again(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("escape")
        await chat.sees("Tab goes back to it")
        await chat.misses("+one")
        await chat.type("yes")
        assert chat.draft == "yes"
        await chat.press("tab")
        await chat.sees("+one")
        assert not chat.app.chat.approvals.has_keys
        await chat.press("tab", "enter")
        await chat.sees("Written.")
        assert chat.draft == "yes"


@pytest.mark.parametrize("key", ["tab", "left", "right"])
async def test_a_key_that_was_on_its_way_when_the_question_came_chooses_nothing(
    stage: Stage, key: str
) -> None:
    async with open_chat(stage, settles=60) as chat:
        await asked(chat)
        await chat.press(key, "enter")
        assert not chat.app.chat.approvals.has_keys
        assert is_waiting(chat)


async def test_tab_completes_a_command_while_a_question_waits(stage: Stage) -> None:
    """Also before the list of commands is there: with Enter behind it, it must not answer."""
    async with open_chat(stage) as chat:
        await asked(chat)
        burst(chat, "/", "s", "t", "a", "t", "tab", "enter")
        await chat.until(lambda: not chat.draft and "/stat" in chat.text, "sent")
        assert is_waiting(chat)
        assert not (stage.work / "new.txt").exists()


async def test_up_and_enter_send_the_last_message_again(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("up")
        await chat.until(lambda: chat.draft == "write", "from the history")
        await chat.press("enter")
        await chat.until(lambda: not chat.draft, "sent")
        assert is_waiting(chat)


async def test_an_answer_is_for_the_question_that_it_was_given_to(stage: Stage) -> None:
    """A question that goes takes the chosen answer with it; the next one begins with nothing."""
    first, second = make_approval("one"), make_approval("two")
    async with open_chat(stage) as chat:
        chat.app.put_question(first)
        chat.app.put_question(second)
        await chat.sees("? Use one  (1 more behind it)")
        await chat.press("tab")
        chat.app.withdraw_question(first)
        await chat.press("enter")
        await chat.sees("? Use two")
        assert chat.app.chat.approvals.waiting == (second,)
        assert not chat.app.chat.approvals.has_keys


async def test_a_question_goes_when_the_turn_is_stopped(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        await chat.press("ctrl+c")
        await chat.sees("Stopped.")
        await chat.misses("Yes, once")
        assert not chat.app.chat.approvals.waiting
        assert "Answered" not in chat.text  # it was no answer


async def test_an_answer_from_elsewhere_takes_the_question_away(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await asked(chat)
        (approval,) = chat.app.chat.approvals.waiting
        await chat.house.runtime.decide(approval.id, "no", by="owner")
        await chat.sees("Written.")
        await chat.misses("Yes, once")


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
        await chat.press("left", "enter", "enter")
        await chat.sees("? Use three")
        assert "behind it" not in chat.text


async def test_what_can_not_be_remembered_offers_only_once(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        chat.app.put_question(make_approval("plan", rule=None, detail="1. look\n2. write"))
        await chat.sees(" Yes, once   No", "2. write")
        assert chat.app.chat.approvals.answers == ("once", "no")


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


@pytest.mark.parametrize(
    ("question", "key", "answer"),
    [
        ("[f]ork it here, [o]pen it there, [n]o", "Y", "y"),
        ("[f]ork it here, [o]pen it there, [n]o", "o", "o"),
        ("[1] or [2]", "y", None),
    ],
)
async def test_y_answers_a_question_that_offers_a_no(
    stage: Stage, question: str, key: str, answer: str | None
) -> None:
    async with open_chat(stage) as chat:
        given: list[str | None] = []
        await chat.app.push_screen(AskScreen(question), given.append)
        await chat.sees(question)
        await chat.press(key)
        if answer is None:
            await chat.press("escape")
        await chat.until(lambda: bool(given), "an answer")
        assert given == [answer or ""]


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
        assert chat.draft == ("" if left else "left behind")
        assert await chat.store.list_inbound(session.id) == ()
        assert len(await chat.store.get_messages(session.id)) == 2 * left
