from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.context.compaction import (
    LEAST_MESSAGES,
    SECTIONS,
    ask_summary,
    count_after,
    is_due,
    is_pressing,
    last_input,
    merge,
    pack,
    parse_sections,
    plan,
    show,
    since,
    summary_message,
    summary_room,
    tail_room,
    wants_flush,
    write_out,
)
from clew.core.context.size import estimate_text, estimate_thread
from clew.core.context.thread import INTERRUPTED, repair
from clew.core.message import Message
from clew.core.notes import Compaction
from clew.core.usage import Usage
from tests.core.test_thread import THREADS, assert_valid, assistant, result, user


def numbered(thread: Sequence[Message], first: int = 1) -> list[Message]:
    return [
        msgspec.structs.replace(each, seq=first + place, id=first + place)
        for place, each in enumerate(thread)
    ]


def exchanges(count: int, characters: int = 2_000) -> list[Message]:
    thread: list[Message] = []
    for number in range(count):
        thread += [user(f"{number} " + "q" * characters), assistant("a" * characters)]
    return numbered(thread)


def compaction(keep_from: int, summary: str = "## Goal\nship it", **more: Any) -> Compaction:
    return Compaction("c", "s", keep_from, keep_from + 3, summary, None, None, None, 5, **more)


# --- when -----------------------------------------------------------------------------------------


def test_it_is_due_above_eighty_percent_of_the_window_and_not_at_it() -> None:
    assert not is_due(12_800, 16_000)
    assert is_due(12_801, 16_000)
    assert not is_due(None, 16_000)
    assert not is_due(12_801, None)


def test_after_an_uncompact_it_waits_until_it_is_pressing() -> None:
    assert not is_due(13_000, 16_000, held=True)
    assert is_due(15_300, 16_000, held=True)


def test_a_message_that_would_not_fit_any_more_is_pressing() -> None:
    assert not is_pressing(12_000, 1_000, 16_000)
    assert is_pressing(12_000, 4_000, 16_000)
    assert not is_pressing(None, 4_000, 16_000)


def test_the_memory_is_flushed_within_24000_tokens_of_the_mark() -> None:
    assert not wants_flush(135_999, 200_000)
    assert wants_flush(136_000, 200_000)
    assert wants_flush(13_000, 16_000)
    assert not wants_flush(None, 200_000)


def test_the_last_input_is_the_newest_answers_unless_a_compaction_came_after_it() -> None:
    thread = exchanges(3)
    thread[3] = msgspec.structs.replace(thread[3], usage=Usage(900, 10))
    thread[5] = msgspec.structs.replace(thread[5], usage=Usage(1_000, 10))
    assert last_input(thread, None) == 1_000
    assert last_input(thread[:5], None) == 900
    made_after = msgspec.structs.replace(compaction(3), made_at_seq=6)
    assert last_input(thread, made_after) is None


# --- what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "room"),
    [(8_000, 4_000), (16_000, 4_000), (100_000, 10_000), (1_000_000, 16_000), (1_024, 512)],
)
def test_the_tail_is_a_tenth_of_the_window_within_its_bounds(window: int, room: int) -> None:
    assert tail_room(window) == room


def test_the_newest_exchanges_that_fit_stay_and_the_rest_is_summarised() -> None:
    thread = exchanges(10)  # some 1,010 tokens each
    found = plan(thread, 16_000)
    assert found is not None
    assert found.kept == tuple(thread[14:])
    assert found.old == tuple(thread[:14])
    assert found.keep_from == 15


def test_fewer_than_four_messages_are_not_worth_it() -> None:
    assert plan(exchanges(4), 16_000) is None, "two would go"
    assert plan(exchanges(5), 16_000) is not None
    assert plan([], 16_000) is None


def test_a_last_exchange_longer_than_the_tail_stays_if_it_fits_half_the_window() -> None:
    thread = numbered([*exchanges(3), user("long " + "x" * 20_000), assistant("ok")])
    found = plan(thread, 16_000)
    assert found is not None
    assert found.kept == tuple(thread[6:])


def test_a_last_exchange_that_fills_the_window_is_summarised_too() -> None:
    work: list[Message] = []
    for number in range(20):
        work += [assistant("", calls=[f"{number}"]), result(f"{number}", "x" * 4_000)]
    thread = numbered([*exchanges(3), user("do it"), *work, assistant("done")])
    found = plan(thread, 16_000)
    assert found is not None
    assert found.kept == ()
    assert found.keep_from == thread[-1].seq + 1


def test_an_unanswered_message_stays_however_long_it_is() -> None:
    thread = numbered([*exchanges(3), user("x" * 90_000)])
    found = plan(thread, 16_000)
    assert found is not None
    assert found.kept == (thread[-1],)


def test_messages_that_nobody_answered_stay_together_with_what_was_begun() -> None:
    begun = [assistant("", calls=["a"]), result("a", "x" * 60_000)]
    thread = numbered([*exchanges(3), user("first try"), user("second try"), *begun])
    found = plan(thread, 16_000)
    assert found is not None
    assert found.kept == tuple(thread[6:])


LONGER = st.sampled_from([1, 10, 8_000])


@given(THREADS, LONGER, st.sampled_from([100, 1_024, 16_000]))
def test_no_cut_ever_separates_a_call_from_its_result(
    thread: list[Message], factor: int, window: int
) -> None:
    thread = numbered([
        msgspec.structs.replace(each, content=each.content * factor) for each in thread
    ])  # fmt: skip
    found = plan(thread, window)
    if found is None:
        return
    assert found.old + found.kept == tuple(thread)
    assert len(found.old) >= LEAST_MESSAGES
    assert found.keep_from == (found.kept[0].seq if found.kept else len(thread) + 1)
    if found.kept:
        assert found.kept[0].role == "user"
    answered = [m.id for m in repair(thread) if m.role == "tool" and m.content != INTERRUPTED]
    apart = [*repair(found.old), *repair(found.kept)]
    assert answered == [m.id for m in apart if m.role == "tool" and m.content != INTERRUPTED]
    last = max((m.seq for m in thread if m.role == "user"), default=0)
    after = [m for m in thread if m.seq > last and m.role == "assistant" and not m.tool_calls]
    if last and not after:
        assert any(m.seq == last for m in found.kept), "an unanswered message stays"


def test_tokens_after_keep_what_stands_around_the_messages() -> None:
    assert count_after(13_000, seen=10_000, shown=4_000) == 7_000
    assert count_after(9_000, seen=10_000, shown=4_000) == 4_000


# --- how it is shown ------------------------------------------------------------------------------


def test_the_summary_comes_first_as_the_users_and_then_what_was_kept() -> None:
    thread = exchanges(4)
    shown = show(thread, compaction(5), 200)
    assert shown[1:] == tuple(thread[4:])
    assert shown[0].role == "user"
    assert "ship it" in shown[0].content
    assert show(thread, compaction(5), 200) == shown, "the same bytes every time"
    assert_valid(repair(shown))


def test_the_cap_is_about_the_messages_and_the_summary_stays() -> None:
    thread = exchanges(10)
    shown = show(thread, compaction(5), 4)
    assert shown[0] == summary_message(compaction(5))
    assert shown[1:] == tuple(thread[-4:])


def test_without_a_compaction_it_is_the_window_and_with_nothing_kept_the_summary_alone() -> None:
    thread = exchanges(3)
    assert show(thread, None, 2) == tuple(thread[-2:])
    assert since(thread, compaction(7)) == ()
    assert show(thread, compaction(7), 200) == (summary_message(compaction(7)),)


@given(THREADS, st.integers(1, 16), st.integers(1, 16))
def test_what_is_shown_can_always_be_sent(
    thread: list[Message], keep_from: int, limit: int
) -> None:
    assert_valid(repair(show(numbered(thread), compaction(keep_from), limit)))


# --- what a summary says --------------------------------------------------------------------------

WHOLE = """Summary: Fixing the login of the shop

## Goal
Users can log in again.

## Key files
- src/login.py

## Decisions
- keep sessions in cookies

## Errors and fixes
(none)

## User preferences
- answers in German

## Open work
- tests
"""


def test_a_summary_in_shape_is_kept_with_all_its_sections() -> None:
    summary, short = merge(WHOLE, previous=None, messages=[], room=2_000)
    assert short == "Fixing the login of the shop"
    assert parse_sections(summary)["Goal"] == "Users can log in again."
    assert [line[3:] for line in summary.split("\n") if line.startswith("## ")] == list(SECTIONS)
    assert "Summary:" not in summary


@pytest.mark.parametrize(
    "heading", ["# Goal", "### goal:", "**Goal**", "**Goal:**", "Goal:", "1. Goal", "## 1. Goal"]
)
def test_headings_are_known_in_whatever_dress(heading: str) -> None:
    assert parse_sections(f"{heading}\nship it\n\n## Open work\n- tests")["Goal"] == "ship it"


def test_a_sentence_that_begins_like_a_heading_is_none() -> None:
    found = parse_sections("## Open work\nGoal setting is next.\nDecisions were made.")
    assert found["Open work"] == "Goal setting is next.\nDecisions were made."
    assert "Goal" not in found


def test_a_missing_section_is_taken_from_the_summary_before() -> None:
    summary, _ = merge("## Open work\n- ship", previous=WHOLE, messages=[], room=2_000)
    found = parse_sections(summary)
    assert found["Goal"] == "Users can log in again."
    assert found["User preferences"] == "- answers in German"
    assert found["Open work"] == "- ship"


def test_a_section_that_is_said_to_be_empty_is_cleared_but_never_the_goal() -> None:
    said = "## Goal\n(none)\n## User preferences\n(none)"
    found = parse_sections(merge(said, previous=WHOLE, messages=[], room=2_000)[0])
    assert found["Goal"] == "Users can log in again."
    assert found["User preferences"] == "(none)"


def test_text_without_headings_is_open_work_and_the_goal_is_what_was_asked_first() -> None:
    summary, short = merge(
        "They talked.", previous=None, messages=[user("Fix the login")], room=500
    )
    found = parse_sections(summary)
    assert (found["Goal"], found["Open work"]) == ("Fix the login", "They talked.")
    assert short == "Fix the login"


@given(st.text(max_size=300), st.one_of(st.none(), st.text(max_size=200)))
def test_whatever_a_model_says_becomes_a_summary_that_fits(said: str, previous: str | None) -> None:
    summary, short = merge(said * 30, previous=previous, messages=[], room=300)
    assert set(SECTIONS) <= set(parse_sections(summary))
    assert estimate_text(summary) <= 320
    assert short is None or "\n" not in short


def test_updating_again_and_again_does_not_make_it_grow() -> None:
    summary = None
    for number in range(30):
        said = f"## Decisions\n{'- decided ' * 400}{number}"
        summary, _ = merge(said, previous=summary, messages=[user("the goal")], room=500)
        assert parse_sections(summary)["Goal"] == "the goal"
        assert estimate_text(summary) <= 500


def test_the_conversation_is_written_out_with_its_tools_and_cut_in_the_middle() -> None:
    thread = [user("x" * 500), assistant("", calls=["a"]), result("a"), assistant("")]
    texts = write_out(thread, 100)
    assert texts[0].startswith("User: xxx")
    assert "400 characters" in texts[0]
    assert texts[1:] == ["Assistant: [calls look {}]", "Tool look: 42"]


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(20, 200))
def test_pieces_hold_everything_in_order_and_fit(texts: list[str], room: int) -> None:
    pieces = pack(texts, room)
    assert "\n\n".join(pieces) == "\n\n".join(texts)
    for piece in pieces:
        assert estimate_text(piece) <= room + 1 or piece in texts


def test_the_request_names_the_summary_so_far_and_what_the_user_wants() -> None:
    asked = ask_summary("User: hi", previous="## Goal\nship", instructions="keep the numbers")
    assert "<summary-so-far>\n## Goal\nship\n</summary-so-far>" in asked
    assert "keep the numbers" in asked
    assert "summary-so-far" not in ask_summary("User: hi")


def test_a_summary_has_room_for_an_eighth_of_the_window() -> None:
    assert summary_room(16_000) == 2_000
    assert summary_room(1_000_000) == 4_000


def test_what_stays_is_within_the_tail() -> None:
    for count in range(6, 40):
        found = plan(exchanges(count), 16_000)
        assert found is not None
        assert estimate_thread(found.kept) <= 4_000
