"""The full-screen chat, key by key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual import events

from clew.core.session import NewSession, SessionEdit
from clew.core.text import strip_controls
from clew.terminal.screen.history import History, history_file
from tests.terminal.screen.chats import ECHO, Chat, Stage, call, open_chat, rule


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def has_ended(chat: Chat) -> int:
    """Wait until the app is over; its exit code."""
    await chat.until(lambda: chat.app._exit, "the end")
    return chat.app.exit_code


# --- messages -----------------------------------------------------------------------------------


async def test_enter_sends_and_the_answer_is_shown(stage: Stage) -> None:
    async with open_chat(stage, notes=(("A first word.", "dim"),)) as chat:
        await chat.sees("A first word.")
        await chat.say("hello")
        await chat.sees("You said: hello")
        assert chat.draft == ""


async def test_the_id_of_a_new_session_is_told(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("Session ")
        assert chat.session.id in chat.text


async def test_an_answer_is_seen_while_it_is_still_coming(stage: Stage) -> None:
    stage.script(stage.hold("First words, and the last."))
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("First wo", "working")
        assert "last" not in chat.text
        stage.release()
        await chat.sees("and the last.")
        await chat.is_idle()


async def test_what_is_sent_while_a_turn_runs_is_queued_and_seen(stage: Stage) -> None:
    stage.script(ECHO, rules=[rule("slow", stage.hold("One two three"))])
    async with open_chat(stage) as chat:
        await chat.say("slow")
        await chat.sees("One two")
        await chat.say("next")
        await chat.sees("queued: next", "1 queued")
        stage.release()
        await chat.sees("You said: next")
        await chat.misses("queued")


async def test_what_steers_is_seen_until_the_turn_has_it(stage: Stage) -> None:
    (stage.work / "notes.txt").touch()
    looks = stage.hold("Let me look.") | call("read_file", path="notes.txt")
    stage.script("Hi.", looks, ECHO)
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("Hi.")
        await chat.is_idle()
        await chat.say("/queue steer")
        await chat.sees("steer")
        await chat.say("look")
        await chat.sees("Let me")
        await chat.say("quickly")
        await chat.sees("goes into this turn: quickly")
        stage.release()
        await chat.sees("You said: quickly")
        await chat.misses("goes into this turn:")


async def test_what_is_sent_while_a_command_takes_its_time_is_seen_and_not_lost(
    stage: Stage,
) -> None:
    slow = asyncio.Event()

    async def take_time() -> None:
        await slow.wait()

    async with open_chat(stage) as chat:
        chat.app._do(take_time)
        await chat.say("meanwhile")
        await chat.sees("queued: meanwhile")
        slow.set()
        await chat.sees("You said: meanwhile")
        await chat.is_idle()
        slow.clear()
        chat.app._do(take_time)
        await chat.say("too late")
        await chat.sees("queued: too late")
        await chat.press("ctrl+d")
        await has_ended(chat)
    async with open_chat(stage) as chat:
        await chat.press("up")
        assert chat.draft == "too late"


async def test_a_failure_is_shown_with_what_to_do(stage: Stage) -> None:
    stage.script({"error": {"status": 401, "body": {"error": "no such key"}}})
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("Your message is kept.", "/retry")


async def test_a_session_that_is_resumed_shows_what_was_said(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("remember me")
        await chat.sees("You said: remember me")
        await chat.is_idle()
        session = chat.session.id
    async with open_chat(stage, session=session) as chat:
        await chat.sees("remember me", "You said: remember me")


# --- Ctrl+C and Ctrl+D ----------------------------------------------------------------------------


async def test_ctrl_c_stops_the_turn_and_keeps_the_draft(stage: Stage) -> None:
    stage.script(stage.hold("One two three"))
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("One two")
        await chat.type("unsent")
        await chat.press("ctrl+c")
        await chat.sees("Stopped.")
        await chat.is_idle()
        assert chat.draft == "unsent"
        assert not chat.app._exit


async def test_ctrl_c_puts_what_waits_back_into_the_draft(stage: Stage) -> None:
    stage.script(stage.hold("One two three"))
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("One two")
        await chat.say("first")
        await chat.say("second")
        await chat.sees("queued: first", "queued: second")
        await chat.type("third")
        await chat.press("ctrl+c")
        await chat.sees("Your waiting messages are in the editor again.", "Stopped.")
        await chat.is_idle()
        await chat.misses("queued:")
        assert chat.draft == "first\nsecond\nthird"
        said = [each.content for each in await chat.store.get_messages(chat.session.id)]
        assert said == ["go"]
        assert await chat.store.list_inbound(chat.session.id) == ()


async def test_what_a_stopped_turn_had_said_is_there_when_the_session_is_opened_again(
    stage: Stage,
) -> None:
    stage.script(
        rules=[
            rule("go", call("read_file", path="a.txt"), stage.hold("Half *an* answer")),
            rule("on", "Whole."),
            rule("again", stage.hold("More of it")),
        ]
    )
    async with open_chat(stage) as chat:
        for text, said, is_held in (
            ("go", "Half", True),
            ("on", "Whole.", False),
            ("again", "More", True),
        ):
            await chat.say(text)
            await chat.sees(said)
            if is_held:
                await chat.press("ctrl+c")
            await chat.is_idle()
        session = chat.session.id
        first, last = (await chat.store.list_turns(session))[0::2]
        assert first.partial is not None
        assert last.partial is not None
    async with open_chat(stage, session=session) as chat:
        await chat.sees("(stopped)")
        lines = [line.strip() for line in chat.lines if line.strip()]
        at = [lines.index(f"▌ {text}") for text in ("go", "again")]
        stopped = [index for index, line in enumerate(lines) if line == "(stopped)"]
        assert at[0] < stopped[0] < lines.index("Whole.") < at[1] < stopped[1]
        assert lines[stopped[0] - 1] == first.partial.strip()
        assert lines[stopped[1] - 1] == last.partial.strip()


async def test_ctrl_c_right_behind_a_message_takes_it_back_too(stage: Stage) -> None:
    stage.script(stage.hold("One two three"))
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("One two")
        for key in (*"later", "enter", "ctrl+c"):
            chat.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await chat.sees("Stopped.")
        await chat.until(lambda: chat.draft == "later", "the draft")
        await chat.is_idle()
        assert len(await chat.store.get_messages(chat.session.id)) == 1


async def test_ctrl_c_twice_leaves_where_nothing_runs(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("ctrl+c")
        await chat.sees("Ctrl+C again, or Ctrl+D, leaves.")
        await chat.press("ctrl+c")
        assert await has_ended(chat) == 0


async def test_a_question_mark_shows_the_keys_only_where_nothing_is_typed(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("question_mark")
        await chat.sees("Ctrl+G  write in $EDITOR", "Ctrl+Z  to the shell")
        assert chat.draft == ""
        await chat.type("why")
        await chat.press("question_mark")
        assert chat.draft == "why?"


async def test_a_long_paste_comes_back_from_the_history_whole(stage: Stage) -> None:
    text = "\n".join(f"line {number} of a paste" for number in range(2_000))
    async with open_chat(stage) as chat:
        chat.app.chat.editor.post_message(events.Paste(text))
        await chat.sees("[pasted 2,000 lines]")
        await chat.press("enter")
        await chat.until(lambda: not chat.draft, "an empty line")
        await chat.is_idle()
        await chat.press("up")
        await chat.until(lambda: chat.draft == text, "the paste")


async def test_ctrl_c_a_while_after_the_first_does_not_leave(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("ctrl+c")
        await chat.sees("Ctrl+C again")
        chat.app.conversation.now = lambda: 2.1
        await chat.press("ctrl+c")
        await chat.until(lambda: chat.text.count("Ctrl+C again") == 2, "the note once more")
        assert not chat.app._exit
        await chat.press("ctrl+c")
        assert await has_ended(chat) == 0


async def test_esc_closes_a_list_a_question_and_the_search_and_then_stops_the_turn(
    stage: Stage,
) -> None:
    stage.script(call("write_file", path="new.txt", content="one"))
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("Yes, once")
        await chat.type("draft /")
        await chat.press(
            "ctrl+f", "shift+tab", "tab"
        )  # the search is open, the editor has the keys
        await chat.press("ctrl+u")
        await chat.type("/he")
        await chat.sees("Find:", "Yes, once", "/help")
        await chat.press("escape")
        await chat.misses("/help")
        assert "Yes, once" in chat.text
        await chat.press("escape")
        await chat.misses("Yes, once")
        assert "Find:" in chat.text
        await chat.press("escape")
        await chat.misses("Find:")
        assert chat.app.conversation.is_running
        await chat.press("escape")
        await chat.sees("Stopped.")
        await chat.is_idle()
        assert chat.draft == "/he"
        await chat.press("escape")
        assert not chat.app._exit


async def test_alt_enter_that_a_slow_line_takes_apart_is_a_new_line(stage: Stage) -> None:
    stage.script(stage.hold("One two three"))
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("One two")
        await chat.type("a")
        for key in ("escape", "enter"):
            chat.app.post_message(events.Key(key, "\r" if key == "enter" else None))
        await chat.until(lambda: chat.draft == "a\n", "a new line")
        await chat.press("escape")
        await chat.sees("Stopped.")  # by the second Esc
        await chat.is_idle()


async def test_a_message_between_two_ctrl_c_keeps_the_chat(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("ctrl+c")
        await chat.sees("Ctrl+C again")
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        await chat.press("ctrl+c")
        await chat.pilot.pause()
        assert not chat.app._exit


async def test_ctrl_c_clears_the_line_first_and_up_brings_it_back(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("ctrl+c")
        await chat.sees("Ctrl+C again")
        await chat.type("half a thought")
        await chat.press("ctrl+c")
        await chat.until(lambda: not chat.draft, "an empty line")
        await chat.sees("Up brings back what you were typing.")
        assert not chat.app._exit
        await chat.press("up")
        assert chat.draft == "half a thought"
        await chat.press("ctrl+c")
        await chat.until(lambda: not chat.draft, "an empty line")
        await chat.press("ctrl+c")
        assert await has_ended(chat) == 0


async def test_what_was_being_typed_when_the_chat_ended_is_there_in_the_next(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.type("half a thought")
        chat.app.leave(130)
        await has_ended(chat)
    async with open_chat(stage) as chat:
        await chat.press("up")
        assert chat.draft == "half a thought"


async def test_ctrl_d_at_an_empty_line_leaves(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("a", "ctrl+d")
        assert not chat.app._exit
        await chat.press("backspace", "ctrl+d")
        assert await has_ended(chat) == 0


async def test_exit_leaves(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("/exit")
        assert await has_ended(chat) == 0


# --- other sessions -------------------------------------------------------------------------------


async def make_other(chat: Chat, stage: Stage, title: str, cwd: Path | None = None) -> str:
    where = str(cwd or stage.work)
    new = NewSession(key=f"cli:{title}", title=title, cwd=where, project=where)
    return (await chat.store.create_session(new)).id


async def test_ctrl_r_opens_the_picker_and_esc_comes_back_to_the_draft(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await make_other(chat, stage, "Another thread")
        await chat.type("unsent")
        await chat.press("ctrl+r")
        await chat.sees("Another thread")
        await chat.press("escape")
        await chat.sees("unsent")
        await chat.press("x")
        assert chat.draft == "unsentx"
        assert chat.seat.session is None


async def test_a_session_from_the_picker_is_resumed_and_the_draft_stays(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        other = await make_other(chat, stage, "Another thread")
        await chat.type("unsent")
        await chat.press("ctrl+r")
        await chat.sees("Another thread")
        await chat.press("enter")
        await chat.sees("Resumed session", "Another thread")
        assert chat.session.id == other
        assert chat.draft == "unsent"


async def test_to_and_fro_ten_times_everything_is_where_it_was(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("hello here")
        await chat.sees("You said: hello here")
        await chat.say("/mode plan")
        await chat.sees("plan mode")
        first, second = chat.session.id, await make_other(chat, stage, "Another thread")
        for _ in range(5):
            await chat.say(f"/resume {second}")
            await chat.until(lambda: chat.session.id == second, "the other")
            await chat.misses("You said: hello here")
            await chat.misses("plan mode")
            await chat.say(f"/resume {first}")
            await chat.sees("You said: hello here", "plan mode")
            assert chat.session.id == first
        assert chat.text.count("You said: hello here") == 1


async def test_ctrl_c_in_the_picker_leaves(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await make_other(chat, stage, "Another thread")
        await chat.press("ctrl+r")
        await chat.sees("Another thread")
        await chat.press("ctrl+c")
        assert await has_ended(chat) == 0


async def test_a_session_of_another_project_asks_first(stage: Stage, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with open_chat(stage) as chat:
        other = await make_other(chat, stage, "Far away", elsewhere)
        await chat.say("/resume Far away")
        await chat.sees("Press f, o or n;")
        await chat.press("escape")
        await chat.sees("is in another project")
        await chat.say("/resume Far away")
        await chat.sees("Press f, o or n;")
        await chat.press("f")
        await chat.sees("Now in a branch")
        assert chat.session.parent_id == other


async def test_new_clears_the_screen_and_keeps_the_draft_of_nobody(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        await chat.say("/new")
        await chat.sees("A new session begins with your next message.", "New session")
        assert "You said" not in chat.text


# --- keys around the conversation -----------------------------------------------------------------


async def test_ctrl_f_finds_in_the_conversation_and_esc_ends_it(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("a needle in hay")
        await chat.sees("You said: a needle in hay")
        await chat.press("ctrl+f")
        await chat.type("needle")
        await chat.press("enter")
        await chat.sees("Find:", "2 found")
        await chat.press("enter", "up", "down", "escape")
        await chat.misses("Find:")
        await chat.press("x")
        assert chat.draft == "x"


async def test_who_only_looks_is_told_so_and_keeps_what_could_not_be_sent(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        session = chat.session.id
    async with open_chat(stage, session=session, read_only=True) as chat:
        await chat.sees("This session is read-only here; /fork")
        await chat.say("may I?")
        await chat.sees("Your message was not sent.")
        assert chat.draft == "may I?"
        await chat.press("ctrl+c")
        await chat.until(lambda: not chat.draft, "an empty line")
        await chat.say("/fork")
        await chat.sees("Write a message")


async def test_what_is_not_there_is_not_found(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.press("ctrl+f")
        await chat.type("needle")
        await chat.press("enter")
        await chat.sees("not found")


async def test_ctrl_o_unfolds_the_tools_and_folds_them_again(stage: Stage) -> None:
    (stage.work / "notes.txt").write_text("first\nsecond line\n", encoding="utf-8")
    stage.script(call("read_file", path="notes.txt"), "Read.")
    async with open_chat(stage) as chat:
        await chat.say("read it")
        await chat.sees("read_file", "Read.")
        assert "second line" not in chat.text
        await chat.press("ctrl+o")
        await chat.sees("second line")
        await chat.press("ctrl+o")
        await chat.misses("second line")


async def test_todos_are_shown_when_there_are_any_and_ctrl_t_hides_them(stage: Stage) -> None:
    todos = [{"text": "Look", "status": "done"}, {"text": "Write", "status": "in_progress"}]
    stage.script(call("todo_write", todos=todos), "Planned.")
    async with open_chat(stage) as chat:
        await chat.press("ctrl+t")
        await chat.sees("There are no todos.")
        await chat.say("plan it")
        await chat.sees("Todos, 1 of 2 done", "● Look", "◐ Write")
        await chat.press("ctrl+t")
        await chat.misses("Todos, 1")
        await chat.press("ctrl+t")
        await chat.sees("Todos, 1")


async def test_f1_shows_the_commands_and_the_keys(stage: Stage) -> None:
    async with open_chat(stage, size=(90, 60)) as chat:
        await chat.press("f1")
        await chat.sees("/model [NAME]", "Ctrl+R", "Alt+Enter")


async def test_help_shows_the_keys_too_and_what_was_asked_stands_above(stage: Stage) -> None:
    async with open_chat(stage, size=(90, 60)) as chat:
        await chat.say("/help")
        await chat.sees("  /help\n", "/model [NAME]", "Alt+Enter")
        await chat.say("/help pin")
        await chat.sees("  /help pin\n", "/pin [off]")
        assert chat.text.count("Alt+Enter") == 1


async def test_f2_changes_between_dark_and_light(stage: Stage) -> None:
    async with open_chat(stage, dark=False) as chat:
        assert not chat.app.current_theme.dark
        await chat.press("f2")
        assert chat.app.current_theme.dark
        await chat.press("f2")
        assert not chat.app.current_theme.dark


async def test_page_up_scrolls_the_conversation_while_one_types(stage: Stage) -> None:
    stage.script("\n\n".join(f"Paragraph {number}." for number in range(40)))
    async with open_chat(stage) as chat:
        await chat.say("long")
        await chat.sees("Paragraph 39.")
        await chat.is_idle()
        await chat.type("x")
        await chat.press("pageup")
        await chat.misses("Paragraph 39.")
        await chat.press("pagedown")
        await chat.sees("Paragraph 39.")
        assert chat.draft == "x"


async def test_a_block_is_copied_and_typing_goes_back_to_the_message(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        await chat.press("shift+tab", "c")
        await chat.until(lambda: chat.app.clipboard == "You said: hello", "a copy")
        await chat.press("w")
        assert chat.draft == "w"
        await chat.press("shift+tab", "escape", "o")
        assert chat.draft == "wo"
        await chat.press("shift+tab", "ctrl+d")
        assert not chat.app._exit
        await chat.press("escape", "ctrl+u", "shift+tab", "ctrl+d")
        assert await has_ended(chat) == 0


async def test_history_is_there_in_the_next_chat(stage: Stage) -> None:
    History(history_file(stage.home, "owner")).keep("said before")
    async with open_chat(stage) as chat:
        await chat.press("up")
        assert chat.draft == "said before"
        await chat.press("enter")
        await chat.sees("You said: said before")
        await chat.press("up")
        assert chat.draft == "said before"


# --- completion -----------------------------------------------------------------------------------


async def test_commands_files_and_models_are_completed(stage: Stage) -> None:
    (stage.work / "notes.txt").touch()
    async with open_chat(stage) as chat:
        await chat.type("/thi")
        await chat.sees("Show or set how much the model")
        await chat.press("tab")
        await chat.sees("medium")
        await chat.press("ctrl+u")
        await chat.misses("medium")
        await chat.type("see @no")
        await chat.sees("notes.txt")
        await chat.press("enter")
        assert chat.draft == "see @notes.txt "
        await chat.press("ctrl+u")
        await chat.type("/model oth")
        await chat.sees("script/other")
        await chat.press("tab", "enter")
        await chat.sees("The model is now script/other.")
        await chat.until(lambda: "script/other" in chat.status, "the model")


# --- any terminal -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(20, 6), (2, 2), (300, 100)])
async def test_it_can_be_used_in_any_size_and_resized(stage: Stage, size: tuple[int, int]) -> None:
    stage.script(stage.hold("A long answer " * 20), ECHO)
    async with open_chat(stage, size=size) as chat:
        await chat.say("go")
        await chat.until(lambda: chat.app.conversation.is_running, "a turn")
        for width, height in ((80, 24), (40, 10), (120, 40), (80, 24)):
            await chat.pilot.resize_terminal(width, height)
        await chat.sees("A long", "working")
        stage.release()
        await chat.is_idle()
        await chat.sees("answer A long answer")


async def test_on_a_low_screen_message_and_status_stay_whatever_else_is_shown(stage: Stage) -> None:
    todos = [{"text": f"Step {number}", "status": "pending"} for number in range(5)]
    stage.script(
        ECHO,
        rules=[
            rule("plan", call("todo_write", todos=todos), "Planned."),
            rule("act", call("shell", command="echo hi"), "Done."),
        ],
    )
    async with open_chat(stage, size=(40, 10)) as chat:
        await chat.say("plan")
        await chat.sees("Planned.", "Todos, 0 of 5 done")
        await chat.is_idle()
        await chat.say("act")
        await chat.sees("Yes, once", "? Run: echo hi", "Write a message", "waits for your answer")
        await chat.press("escape")
        await chat.say("meanwhile")
        await chat.sees("queued: meanwhile", "Tab goes back to it.")
        await chat.type("/")
        await chat.sees("/new", "/fork")
        await chat.press("up")
        await chat.sees("/quit", "Todos,", "queued: meanwhile", "Tab goes", "waits for your")
        assert chat.lines[-2] == " /"
        await chat.pilot.resize_terminal(40, 5)
        await chat.until(lambda: chat.lines[-2:-1] == [" /"], "the message")
        await chat.pilot.resize_terminal(80, 30)
        await chat.sees("Step 4", "queued: meanwhile", "/status", "/quit")
        await chat.press("backspace", "tab", "left", "enter", "enter")
        await chat.is_idle()


async def test_what_others_named_drives_no_terminal(stage: Stage) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jtitle\u202e\u200b"
    todos = [{"text": evil, "status": "pending"}]
    stage.script(call("todo_write", todos=todos), ECHO)
    async with open_chat(stage, notes=((evil, "warning"),)) as chat:
        await chat.say("plan")
        await chat.sees("Todos, 0 of 1")
        await chat.store.edit_session(chat.session.id, SessionEdit(title=evil))
        await chat.until(lambda: chat.status.startswith(" title"), "the title")
        chat.app._do(chat.app.conversation.pick)
        await chat.sees("Esc")
        for line in chat.lines:
            assert line == strip_controls(line)
            assert "owned" not in line


# --- the status line ------------------------------------------------------------------------------


async def test_the_status_line_follows_title_mode_and_thinking(stage: Stage) -> None:
    async with open_chat(stage, size=(120, 24)) as chat:
        await chat.until(lambda: "New session" in chat.status, "new")
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.say("/title The long way")
        await chat.until(lambda: "The long way" in chat.status, "the title")
        await chat.say("/mode plan")
        await chat.until(lambda: "plan mode" in chat.status, "the mode")


async def test_an_error_of_a_command_changes_nothing(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("/modell x")
        await chat.sees("There is no command /modell. Did you mean /model?")
