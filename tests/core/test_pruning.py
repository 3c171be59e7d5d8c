from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clew.core.context.size import estimate_thread
from clew.core.context.thread import CLEARED, HEAD, LONG, TAIL, Pruning, prune
from clew.core.message import Message
from tests.core.test_thread import IMAGE, assistant, message, result, user

WINDOW = 16_000


def rounds(count: int, size: int, **more: Any) -> list[Message]:
    """A question, and so many rounds of one tool, each with a result of so many characters."""
    thread = [user("question")]
    for number in range(count):
        thread.append(assistant("", calls=[f"c{number}"]))
        text = f"<{number}" + "x" * (size - 12) + f"{number}>"
        thread.append(message("tool", text, answers=f"c{number}", **more))
    return thread


def results(thread: Sequence[Message]) -> list[str]:
    return [each.content for each in thread if each.role == "tool"]


def test_nothing_is_trimmed_below_thirty_percent() -> None:
    thread = rounds(4, 4_700)  # just under 4,800 tokens
    assert estimate_thread(thread) <= 0.3 * WINDOW
    assert prune(thread, window=WINDOW) == tuple(thread)
    assert prune(thread, window=WINDOW, overhead=200) != tuple(thread)


def test_above_thirty_percent_long_old_results_keep_head_tail_and_a_note_of_their_size() -> None:
    thread = rounds(5, 6_000)
    trimmed = results(prune(thread, window=WINDOW))
    whole = results(thread)
    assert trimmed[2:] == whole[2:], "those from the last three answers on stay"
    for short, text in zip(trimmed[:2], whole[:2], strict=True):
        assert short.startswith(text[:HEAD])
        assert short.endswith(text[-TAIL:])
        assert f"{len(text):,} characters" in short
        assert len(short) < LONG


def test_results_up_to_four_thousand_characters_stay_whole() -> None:
    thread = rounds(8, 4_000)
    thread += [message("tool", "y" * 4_001, answers="c0"), *(assistant("so") for _ in range(3))]
    pruned = prune(thread, window=WINDOW)
    changed = [place for place, each in enumerate(pruned) if each != thread[place]]
    assert changed == [len(thread) - 4]


def test_from_fifty_percent_the_oldest_are_cleared_until_it_is_below() -> None:
    thread = rounds(40, 3_500)
    pruned = prune(thread, window=WINDOW)
    cleared = [text == CLEARED for text in results(pruned)]
    assert cleared[0]
    assert cleared == sorted(cleared, reverse=True), "the oldest first, without gaps"
    assert estimate_thread(pruned) < 0.5 * WINDOW
    assert sum(cleared) < 37, "no more than needed"


def test_nothing_is_cleared_where_fewer_than_fifty_thousand_characters_can_go() -> None:
    thread = rounds(15, 3_900)  # twelve old ones: 46,800
    assert prune(thread, window=WINDOW) == tuple(thread)
    longer = rounds(17, 3_900)  # fourteen: 54,600
    assert CLEARED in results(prune(longer, window=WINDOW))


def test_results_with_pictures_stay() -> None:
    thread = rounds(40, 6_000, parts=(IMAGE,))
    assert prune(thread, window=WINDOW) == tuple(thread)


def test_off_is_off_and_a_window_that_nobody_knows_is_not_guessed() -> None:
    thread = rounds(40, 6_000)
    assert prune(thread, window=WINDOW, rules=Pruning(mode="off")) == tuple(thread)
    assert prune(thread, window=None) == tuple(thread)


def test_allow_and_deny_name_the_tools_by_pattern_and_deny_wins() -> None:
    thread = rounds(6, 6_000)
    untouched = tuple(thread)
    assert prune(thread, window=WINDOW, rules=Pruning(deny=("LO*",))) == untouched
    assert prune(thread, window=WINDOW, rules=Pruning(allow=("shell",))) == untouched
    assert prune(thread, window=WINDOW, rules=Pruning(allow=("look",))) != untouched
    both = Pruning(allow=("look",), deny=("look",))
    assert prune(thread, window=WINDOW, rules=both) == untouched


def test_fewer_than_three_answers_protect_everything() -> None:
    thread = rounds(2, 60_000)
    assert prune(thread, window=WINDOW) == tuple(thread)


def test_what_was_trimmed_stays_the_same_while_the_thread_grows() -> None:
    """So that the provider's cache of the beginning is good for the next request."""
    changes = 0
    before: tuple[Message, ...] = ()
    for count in range(8, 60):
        now = prune(rounds(count, 3_500), window=WINDOW)
        shared = min(len(before), len(now)) - 8
        changes += before[: max(shared, 0)] != now[: max(shared, 0)]
        before = now
    assert changes <= 60 * 3_500 // 4 // (WINDOW // 20) + 1, "in steps, not with every request"


SIZES = st.sampled_from([0, 10, 3_000, 4_000, 4_001, 9_000, 30_000])


@st.composite
def threads(draw: st.DrawFn) -> list[Message]:
    thread: list[Message] = []
    for number in range(draw(st.integers(1, 6))):
        thread.append(user("u" * draw(st.sampled_from([1, 5_000]))))
        for turn in range(draw(st.integers(0, 4))):
            calls = [f"{number}.{turn}.{n}" for n in range(draw(st.integers(1, 3)))]
            thread.append(assistant("a" * draw(st.sampled_from([0, 5_000])), calls=calls))
            for call in calls:
                text = draw(st.sampled_from("x使")) * draw(SIZES)
                each = result(call, text)
                if draw(st.booleans()):
                    each = msgspec.structs.replace(each, parts=(IMAGE,))
                thread.append(each)
        thread.append(assistant("done"))
    return thread


WINDOWS = st.sampled_from([1_000, 8_000, 16_000, 100_000])


@given(threads(), WINDOWS)
def test_only_the_text_of_tool_results_ever_changes(thread: list[Message], window: int) -> None:
    kept = tuple(thread)
    pruned = prune(thread, window=window)
    assert tuple(thread) == kept, "what was given is as it was"
    assert len(pruned) == len(thread)
    for before, after in zip(thread, pruned, strict=True):
        if before.role != "tool" or before.parts:
            assert after == before
        assert msgspec.structs.replace(after, content="") == msgspec.structs.replace(
            before, content=""
        ), "which call it belongs to, and all else"
    assert prune(thread, window=window) == pruned


@given(threads(), WINDOWS)
def test_pruning_twice_changes_nothing_more(thread: list[Message], window: int) -> None:
    once = prune(thread, window=window)
    assert prune(once, window=window) == once


@given(threads(), WINDOWS)
def test_it_ends_below_the_mark_or_with_nothing_left_that_may_go(
    thread: list[Message], window: int
) -> None:
    pruned = prune(thread, window=window)
    if estimate_thread(pruned) < 0.5 * window:
        return
    answers = [place for place, each in enumerate(pruned) if each.role == "assistant"]
    old = pruned[: answers[-3]] if len(answers) >= 3 else ()
    left = [each for each in old if each.role == "tool" and not each.parts]
    assert sum(len(each.content) for each in left if each.content != CLEARED) < 50_000
    assert all(len(each.content) <= LONG for each in left)
