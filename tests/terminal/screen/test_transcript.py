"""The transcript as a person sees it: opening, following, scrolling, folding, finding."""

from __future__ import annotations

import asyncio

import pytest

from clew.api.sessions import MessagePage
from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Notice,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from clew.core.message import ToolCall
from clew.core.turn import Approval, Turn
from clew.errors import StoreBusy
from clew.terminal.screen.transcript import PAGE
from tests.patience import PATIENCE
from tests.terminal.screen.stage import Stage, say, session, talk, turn

CALL = ToolCall("c1", "shell", '{"command": "make test"}')
EDIT = ToolCall("c2", "edit_file", '{"path": "a.py", "old": "one\\ntwo", "new": "one\\nthree"}')


# --- opening ------------------------------------------------------------------------------------


async def test_a_session_opens_at_its_newest_message() -> None:
    app = Stage(talk(30))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        await pilot.pause()
        assert "in two paragraphs" in app.picture.rstrip()[-20:]
        assert "answer 30" in app.picture


async def test_a_long_session_is_opened_with_one_page_and_only_its_end_is_drawn() -> None:
    app = Stage(talk(10_000))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        await pilot.pause()
        assert app.loads == [(None, PAGE)]
        assert app.transcript.virtual_size.height < 200
        assert "answer 10000" in app.picture


async def test_the_top_says_how_many_messages_are_earlier() -> None:
    app = Stage(talk(1_000))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        transcript = app.transcript
        transcript.scroll_to(y=0, animate=False, force=True)
        shown = app.seen[0]
        first = next(line for line in app.seen if "question" in line or "answer" in line)
        assert shown.strip() == f"… {int(first.split()[-1]) - 1:,} earlier messages"
        await pilot.pause()


async def test_results_of_tools_are_counted_among_the_earlier_messages() -> None:
    pairs = [
        (
            say(seq, "assistant", tool_calls=(ToolCall(f"c{seq}", "shell", "{}"),)),
            say(seq + 1, "tool", "fine", tool_call_id=f"c{seq}"),
        )
        for seq in range(1, 500, 2)
    ]
    app = Stage([message for pair in pairs for message in pair])
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        laid_out = app.transcript.virtual_size.height - 2
        app.transcript.scroll_to(y=0, animate=False, force=True)
        assert app.seen[0].strip() == f"… {500 - 2 * laid_out} earlier messages"
        await pilot.pause()


async def test_earlier_messages_come_when_one_scrolls_up_and_what_is_seen_stays() -> None:
    app = Stage(talk(300))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        transcript = app.transcript
        for _ in range(200):
            if transcript.scroll_offset.y <= 2:
                break
            transcript.scroll_to(y=transcript.scroll_offset.y - 5, animate=False, force=True)
            before = app.seen
            await app.workers.wait_for_complete()
            # Once the count at the top is out of sight, nothing moves.
            if not any("earlier" in line for line in before):
                assert app.seen == before
        await pilot.pause()
        assert "question 1" in app.seen[0]
        assert not any("earlier" in line for line in app.seen)
        assert len(app.loads) > 4


async def test_results_whose_calls_are_on_the_page_before_find_them_there() -> None:
    messages = talk(300)
    for at in (239, 240):  # the newest page begins in the midst of the results
        messages[at] = say(at + 1, "tool", "fine", tool_call_id=f"c{at}", tool_name="shell")
    messages[238] = say(
        239,
        "assistant",
        tool_calls=tuple(ToolCall(f"c{at}", "shell", '{"command": "ls"}') for at in (239, 240)),
    )
    app = Stage(messages)
    async with app.run_test(size=(80, 24)):
        await app.open()
        assert await app.transcript.find("shell") == 2
        assert "✓ shell ls" in app.picture


async def test_earlier_messages_that_cannot_be_loaded_are_told_once() -> None:
    app = Stage(talk(300))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()

        async def fail(before: int | None, limit: int) -> MessagePage:
            raise StoreBusy("The disk is gone.")

        app.transcript._load = fail
        app.transcript.focus()
        for _ in range(25):
            await pilot.press("pageup")
        await pilot.press("end")
        assert app.picture.count("Earlier messages can't be shown: The disk is gone.") == 1


async def test_the_session_that_was_opened_last_is_shown_even_if_the_other_loads_longer() -> None:
    app = Stage(talk(4))
    async with app.run_test(size=(80, 24)) as pilot:
        go = asyncio.Event()
        load = app.transcript._load

        async def slowly(before: int | None, limit: int) -> MessagePage:
            await go.wait()
            return await load(before, limit)

        app.transcript._load = slowly
        first = asyncio.create_task(app.transcript.open(session(4)))
        await pilot.pause()
        await app.transcript.open(None)
        app.transcript.note("a new one")
        go.set()
        await first
        await pilot.pause()
        assert app.picture.strip() == "a new one"


async def test_nothing_is_drawn_before_there_is_a_size_and_everything_afterwards() -> None:
    app = Stage(talk(4))
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.display = False
        await pilot.pause()
        await app.open()
        app.transcript.note("hello")
        app.transcript.display = True
        await pilot.pause()
        assert "answer 4" in app.picture
        assert "hello" in app.picture


# --- what happens -------------------------------------------------------------------------------


async def test_an_answer_streams_and_its_message_takes_its_place() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        transcript = app.transcript
        await transcript.open(None)
        transcript.sent("hello")
        transcript.show(TextDelta("I am *he"))
        transcript.show(TextDelta("re*"))
        transcript.draw()
        assert "I am here" in app.picture
        transcript.show(Committed(say(1, "user", "hello")))
        transcript.show(Committed(say(2, "assistant", "I am *here* now")))
        await pilot.pause()
        assert [line.strip() for line in app.seen if line] == ["▌ hello", "I am here now"]


async def test_a_stream_is_drawn_a_few_times_in_a_second_by_itself() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.open(None)
        app.transcript.show(TextDelta("by itself"))
        assert "by itself" not in app.picture
        async with asyncio.timeout(PATIENCE):
            while "by itself" not in app.picture:
                await pilot.pause(0.02)


async def test_a_message_that_was_shown_already_is_not_shown_again() -> None:
    app = Stage(talk(4))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        for message in app.messages:
            app.transcript.show(Committed(message))
        await pilot.pause()
        assert app.picture.count("question 3") == 1


async def test_a_message_that_was_never_sent_does_not_hide_the_next() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.sent("lost")
        app.transcript.sent("kept")
        app.transcript.show(Committed(say(1, "user", "kept")))
        app.transcript.show(Committed(say(2, "user", "from elsewhere")))
        await pilot.pause()
        said = [line.strip() for line in app.seen if line]
        assert said == ["▌ lost", "▌ kept", "▌ from elsewhere"]


async def test_a_tool_runs_shows_its_progress_and_its_end() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        transcript = app.transcript
        transcript.show(Committed(say(1, "assistant", "Testing.", tool_calls=(CALL,))))
        transcript.show(ToolStarted("c1", "shell", {"command": "make test"}))
        transcript.show(ToolProgress("c1", "one\nha"))
        transcript.show(ToolProgress("c1", "lf\n"))
        transcript.draw()
        assert "◌ shell make test\n    │ half\n" in app.picture + "\n"
        transcript.show(ToolEnded("c1", "shell"))
        transcript.show(Committed(say(2, "tool", "1\n2\n3", tool_call_id="c1", tool_name="shell")))
        await pilot.pause()
        assert "✓ shell make test  3 lines" in app.picture
        assert "half" not in app.picture
        assert app.picture.count("shell") == 1


async def test_what_a_running_tool_prints_is_seen_when_it_is_unfolded() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.show(ToolStarted("c1", "shell", {"command": "make test"}))
        for at in range(50):
            app.transcript.show(ToolProgress("c1", f"line {at}\n"))
        app.transcript.focus()
        await pilot.press("up", "enter")
        assert "line 49" in app.picture
        assert "line 30" in app.picture
        assert "line 29" not in app.picture


async def test_a_tool_that_waits_for_the_person_says_so() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        asked = Approval("q", "s", "t", "c1", "shell", {}, asked_at=0, expires_at=1)
        app.transcript.show(ToolStarted("c1", "shell", {"command": "make test"}))
        app.transcript.show(ApprovalAsked(asked))
        assert "│ waits for your approval" in app.picture
        app.transcript.show(ApprovalDecided(asked))
        await pilot.pause()
        assert "waits" not in app.picture


async def test_a_failed_tool_says_why() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.show(Committed(say(1, "assistant", tool_calls=(CALL,))))
        failed = say(2, "tool", "no such\ncommand", tool_call_id="c1", is_error=True)
        app.transcript.show(Committed(failed))
        await pilot.pause()
        assert "✗ shell make test" in app.picture
        assert "│ no such command" in app.picture


async def test_thinking_is_folded_away_unless_the_chat_is_verbose() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        transcript = app.transcript
        transcript.show(ThinkingDelta("deep thoughts"))
        transcript.draw()
        assert "thinking …" in app.picture
        transcript.show(TextDelta("well"))
        transcript.draw()
        assert "thought for a moment" in app.picture
        assert "deep" not in app.picture
        app.verbose = True
        transcript.tell("Verbose is on.")
        await pilot.pause()
        assert "deep thoughts" in app.picture


async def test_another_attempt_begins_anew_and_counts_down_in_one_place() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        transcript = app.transcript
        transcript.show(TextDelta("half an ans"))
        transcript.show(Retrying(2, 4, 2.0, "The provider is busy."))
        transcript.show(Retrying(2, 4, 1.0, "The provider is busy."))
        await pilot.pause()
        assert "half" not in app.picture
        assert app.picture.count("busy") == 1
        assert "Trying again in 1 s (2 of 4)" in app.picture
        transcript.show(TextDelta("an answer"))
        transcript.draw()
        assert app.picture.strip() == "an answer"


@pytest.mark.parametrize(
    ("ended", "shown"),
    [
        (turn("done"), ""),
        (turn("failed", "No key."), "No key.\n  Your message is kept. /retry tries again."),
        (turn("failed", "No. /retry."), "No. /retry.\n  Your message is kept."),
        (turn("aborted"), "Stopped. /retry goes on, /undo takes it back."),
    ],
)
async def test_the_end_of_a_turn_is_told_as_in_line_mode(ended: Turn, shown: str) -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.show(TurnEnded(ended))
        await pilot.pause()
        assert app.picture.strip() == shown


async def test_what_was_said_and_run_when_a_turn_is_stopped_stays() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        transcript = app.transcript
        transcript.show(Committed(say(1, "assistant", tool_calls=(CALL,))))
        transcript.show(ToolStarted("c1", "shell", {"command": "make test"}))
        transcript.show(TextDelta("so far"))
        transcript.show(TurnEnded(turn("aborted")))
        await pilot.pause()
        assert "· shell make test" in app.picture
        assert "so far" in app.picture
        transcript.show(TextDelta("another"))
        transcript.draw()
        assert "so far\n" in app.picture + "\n"


async def test_a_notice_a_note_and_a_reply_are_shown() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.show(Notice("Mind the gap."))
        app.transcript.note("By the way")
        app.transcript.tell("a  table\nof  words")
        await pilot.pause()
        assert app.picture.strip() == "Mind the gap.\n  By the way\n\n  a  table\n  of  words"


# --- following ----------------------------------------------------------------------------------


async def test_the_end_is_followed_until_one_scrolls_up_and_again_after_end() -> None:
    app = Stage(talk(40))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        transcript = app.transcript
        transcript.note("one")
        await pilot.pause()
        assert "one" in app.seen[-1]
        transcript.focus()
        await pilot.press("pageup")
        before = app.seen
        transcript.show(TextDelta("two\n\nthree"))
        transcript.draw()
        assert app.seen[:-1] == before[:-1]
        assert app.seen[-1].endswith("↓ new")
        await pilot.press("end")
        assert "three" in app.seen[-1]
        assert "↓ new" not in app.picture
        transcript.note("four")
        assert "four" in app.seen[-1]


async def test_a_click_on_the_hint_goes_to_the_news() -> None:
    app = Stage(talk(40))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        app.transcript.focus()
        await pilot.press("pageup")
        app.transcript.note("news")
        await pilot.pause()
        await pilot.click("Transcript", offset=(73, app.transcript.size.height - 1))
        assert "news" in app.seen[-1]


async def test_what_the_person_sends_is_seen_wherever_they_were() -> None:
    app = Stage(talk(400))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        assert await app.transcript.find("answer 80") == 1
        assert "answer 80" in app.picture
        app.transcript.sent("here I am")
        await pilot.pause()
        assert "here I am" in app.seen[-1]


async def test_a_resize_keeps_what_is_at_the_top() -> None:
    messages = [say(seq, "assistant", f"number {seq} " + "word " * 60) for seq in range(1, 41)]
    app = Stage(messages)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        transcript = app.transcript
        for _ in range(4):
            transcript.scroll_to(y=transcript.scroll_offset.y - 25, animate=False, force=True)
            await app.workers.wait_for_complete()
        place = transcript.get_place()
        assert place is not None
        for size in ((50, 24), (120, 40), (40, 10), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            now = transcript.get_place()
            assert now is not None
            assert now.block is place.block


async def test_a_resize_at_the_end_stays_at_the_end() -> None:
    app = Stage(talk(40))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        for size in ((40, 10), (120, 50), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert "in two paragraphs" in app.seen[-1]


@pytest.mark.parametrize("size", [(40, 10), (12, 5), (4, 4), (3, 1), (1, 1)])
async def test_no_window_is_too_small(size: tuple[int, int]) -> None:
    app = Stage([*talk(4), say(5, "assistant", "| a | b |\n|-|-|\n| c | d |", tool_calls=(EDIT,))])
    async with app.run_test(size=size) as pilot:
        app.transcript.styles.height = "100%"
        await app.open()
        app.verbose = True
        app.transcript.note("hello")
        await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "hello" in app.picture


# --- folding, copying, finding ------------------------------------------------------------------


async def test_keys_choose_a_block_unfold_and_copy_it() -> None:
    app = Stage([say(1, "user", "change it"), say(2, "assistant", tool_calls=(EDIT,))])
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        app.transcript.focus()
        await pilot.press("up")
        assert "▌ · edit_file a.py" in app.picture
        await pilot.press("enter")
        assert "│   one" in app.picture
        assert "│ - two" in app.picture
        assert "│ + three" in app.picture
        await pilot.press("space")
        assert "three" not in app.picture
        await pilot.press("up", "c")
        assert app.copied == ["change it"]


async def test_a_click_on_its_head_folds_a_block() -> None:
    app = Stage([say(1, "assistant", tool_calls=(EDIT,))])
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        await pilot.click("Transcript", offset=(5, 0))
        assert "│ + three" in app.picture
        await pilot.click("Transcript", offset=(5, 2))
        assert "│ + three" in app.picture
        await pilot.click("Transcript", offset=(5, 0))
        assert "│ + three" not in app.picture


async def test_a_pasted_message_of_many_lines_is_shown_in_short() -> None:
    app = Stage([say(1, "user", "\n".join(f"line {at}" for at in range(5_000)))])
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        await pilot.pause()
        assert "… 4,990 more lines" in app.picture
        app.transcript.focus()
        await pilot.press("up", "enter")
        assert app.transcript.virtual_size.height == 5_000


async def test_finding_goes_to_the_newest_hit_and_round() -> None:
    app = Stage(talk(20))
    async with app.run_test(size=(80, 24)):
        await app.open()
        transcript = app.transcript
        assert await transcript.find("QUESTION 1") == 6
        seen = []
        for _ in range(7):
            assert transcript._search is not None
            assert transcript._search.current is not None
            seen.append(transcript._search.current.seq)
            assert f"question {seen[-1]}" in app.picture
            transcript.action_find(-1)
        assert seen == [19, 17, 15, 13, 11, 1, 19]
        transcript.action_find(1)
        assert transcript._search is not None
        assert transcript._search.current is not None
        assert transcript._search.current.seq == 19
        assert await transcript.find("nowhere") == 0
        assert await transcript.find("") == 0


async def test_finding_looks_into_what_is_not_loaded_and_one_can_come_back() -> None:
    app = Stage(talk(3_000))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        transcript = app.transcript
        assert await transcript.find("question 1235") == 1
        assert "question 1235" in app.picture
        assert transcript.virtual_size.height < 400
        transcript.focus()
        for _ in range(12):
            await pilot.press("pagedown")
        numbers = [int(line.split()[-1]) for line in app.seen if "question" in line]
        assert min(numbers) > 1_250
        await pilot.press("end")
        assert "answer 3000" in app.picture


async def test_a_hit_in_a_folded_block_unfolds_it() -> None:
    app = Stage([say(1, "assistant", tool_calls=(EDIT,)), *talk(60)[1:]])
    async with app.run_test(size=(80, 24)):
        await app.open()
        assert await app.transcript.find("three") == 1
        assert "│ + three" in app.picture


async def test_text_that_is_marked_with_the_mouse_comes_without_the_margin() -> None:
    app = Stage([say(1, "user", "first line\nsecond line"), say(2, "assistant", "third")])
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        await pilot.pause()
        await pilot.mouse_down("Transcript", offset=(8, 0))
        await pilot.hover("Transcript", offset=(7, 1))
        await pilot.mouse_up("Transcript", offset=(7, 1))
        await pilot.pause()
        assert app.screen.get_selected_text() == "line\nsecond"
        marked = [each for each in app.transcript.render_line(1) if each.text == "second"]
        assert len(marked) == 1
        style = marked[0].style
        assert style is not None
        assert style.color != style.bgcolor


async def test_another_theme_changes_the_colours_and_nothing_else() -> None:
    app = Stage(talk(6))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open()
        await pilot.pause()
        words, dark = app.picture, app.transcript.render_line(0)
        app.theme = "textual-light"
        await pilot.pause()
        assert app.picture == words
        assert app.transcript.render_line(0) != dark
