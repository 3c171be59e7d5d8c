from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.context.thread import CONTINUE, INTERRUPTED, plain, repair, window
from clew.core.message import Message, Role, ToolCall

IMAGE = {"blob": "ab" * 32, "media_type": "image/png"}


def message(
    role: Role,
    content: str = "",
    *,
    calls: Sequence[str] = (),
    answers: str | None = None,
    parts: tuple[dict[str, Any], ...] = (),
    seq: int = 0,
) -> Message:
    return Message(
        id=seq,
        session_id="s",
        seq=seq,
        turn_id=None,
        role=role,
        content=content,
        parts=parts,
        tool_call_id=answers,
        tool_name="look" if role == "tool" else None,
        tool_calls=tuple(ToolCall(call, "look", "{}") for call in calls),
        is_error=False,
        model=None,
        usage=None,
        at=1000 + seq,
    )


def user(text: str = "hello", **more: Any) -> Message:
    return message("user", text, **more)


def assistant(text: str = "hi", **more: Any) -> Message:
    return message("assistant", text, **more)


def result(call: str, text: str = "42") -> Message:
    return message("tool", text, answers=call)


def outline(thread: Sequence[Message]) -> list[str]:
    """Who says what, in a form that is easy to compare."""
    return [
        f"{row.role}:{row.tool_call_id or ''}{row.content}"
        + "".join(f"<{call.id}>" for call in row.tool_calls)
        for row in thread
    ]


def assert_valid(thread: Sequence[Message]) -> None:
    """What providers insist on, written down without a look at how `repair` does it."""
    ids = [call.id for row in thread for call in row.tool_calls]
    assert len(ids) == len(set(ids)), "call ids are unique"
    assert all(ids), "and not empty"
    if thread:
        assert thread[0].role == "user", "the first word is the user's"
    place = 0
    before: Role | None = None
    while place < len(thread):
        row = thread[place]
        assert row.role != "tool", "a result without its call before it"
        assert row.content.strip() or row.parts or row.tool_calls, "nothing is empty"
        assert row.role != before, "user and assistant alternate"
        before = row.role
        place += 1
        for call in row.tool_calls:
            answer = thread[place]
            assert (answer.role, answer.tool_call_id) == ("tool", call.id)
            before = "tool"  # results are said in the user's place: either may follow
            place += 1


IDS = st.sampled_from(["a", "b", "c", ""])
TEXTS = st.sampled_from(["", " ", "one", "two", "three\n"])
PARTS = st.sampled_from([(), (IMAGE,), ({"type": "response"},)])
USERS = st.builds(user, TEXTS, parts=st.sampled_from([(), (IMAGE,)]))
ASSISTANTS = st.builds(assistant, TEXTS, calls=st.lists(IDS, max_size=3), parts=PARTS)
RESULTS = st.builds(result, IDS, TEXTS)
THREADS = st.lists(st.one_of(USERS, ASSISTANTS, RESULTS), max_size=14)


@st.composite
def sound_threads(draw: st.DrawFn) -> list[Message]:
    """Threads as the loop leaves them: turns of a user, rounds of tools, an answer."""
    thread: list[Message] = []
    for number in range(draw(st.integers(1, 5))):
        thread.append(user(f"question {number}"))
        for turn in range(draw(st.integers(0, 3))):
            calls = [f"{number}.{turn}.{n}" for n in range(draw(st.integers(1, 3)))]
            thread.append(assistant(draw(st.sampled_from(["", "let me see"])), calls=calls))
            thread += [result(call) for call in calls]
        thread.append(assistant(f"answer {number}"))
    return thread


@given(THREADS)
def test_a_repaired_thread_is_valid_for_every_provider(thread: list[Message]) -> None:
    assert_valid(repair(thread))


@given(THREADS)
def test_repairing_twice_changes_nothing_more(thread: list[Message]) -> None:
    once = repair(thread)
    assert repair(once) == once


@given(sound_threads())
def test_a_sound_thread_comes_back_as_it_is(thread: list[Message]) -> None:
    assert repair(thread) == tuple(thread)


@given(THREADS)
def test_nothing_that_the_user_said_is_lost(thread: list[Message]) -> None:
    said = "\n\n".join(row.content for row in thread if row.role == "user" and row.content.strip())
    kept = [row for row in repair(thread) if row.role == "user"]
    shown = "\n\n".join(row.content for row in kept if row.content not in {CONTINUE, ""})
    assert shown == said or shown.split() == said.split()
    pictures = [part for row in thread if row.role == "user" for part in row.parts]
    assert [part for row in kept for part in row.parts] == pictures


@given(THREADS)
def test_every_call_that_was_answered_keeps_its_first_answer(thread: list[Message]) -> None:
    calls = [call for row in thread for call in row.tool_calls]
    shown = [row for row in repair(thread) if row.role == "tool"]
    assert len(shown) == len(calls)
    real = [row for row in shown if row.content != INTERRUPTED]
    assert all(row in thread or row.tool_call_id not in {"a", "b", "c"} for row in real)


@given(THREADS)
def test_a_thread_without_tools_is_valid_too(thread: list[Message]) -> None:
    spoken = plain(thread)
    assert_valid(spoken)
    assert not [row for row in spoken if row.role == "tool" or row.tool_calls]


def test_results_stand_next_to_their_calls_in_the_order_of_the_calls() -> None:
    thread = [
        user(),
        assistant("", calls=["a", "b"]),
        result("b", "second"),
        user("wait"),
        result("a", "first"),
    ]
    assert outline(repair(thread)) == [
        "user:hello",
        "assistant:<a><b>",
        "tool:afirst",
        "tool:bsecond",
        "user:wait",
    ]


def test_a_missing_result_is_an_error_that_says_interrupted() -> None:
    mended = repair([user(), assistant("", calls=["a"]), user("go on")])
    assert outline(mended)[2] == f"tool:a{INTERRUPTED}"
    assert mended[2].is_error
    assert mended[2].tool_name == "look"


def test_orphan_and_second_results_are_left_out() -> None:
    thread = [result("x"), user(), assistant("", calls=["a"]), result("a", "1"), result("a", "2")]
    assert outline(repair(thread)) == ["user:hello", "assistant:<a>", "tool:a1"]


def test_an_id_that_comes_again_belongs_to_the_later_call() -> None:
    thread = [
        user(),
        assistant("", calls=["a"]),
        result("a", "1"),
        assistant("", calls=["a"]),
        result("a", "2"),
    ]
    mended = repair(thread)
    assert outline(mended)[2] == "tool:a1"
    assert outline(mended)[4] == "tool:a_22"


def test_user_messages_of_failed_turns_are_one_for_the_provider() -> None:
    mended = repair([user("one"), user("two", parts=(IMAGE,)), assistant()])
    assert outline(mended) == ["user:one\n\ntwo", "assistant:hi"]
    assert mended[0].parts == (IMAGE,)


def test_two_answers_in_a_row_get_a_word_between_them() -> None:
    mended = repair([assistant("welcome"), assistant("still here")])
    assert outline(mended) == [
        f"user:{CONTINUE}",
        "assistant:welcome",
        f"user:{CONTINUE}",
        "assistant:still here",
    ]


def test_an_answer_that_is_only_a_file_is_not_empty() -> None:
    assert len(repair([user(), assistant("", parts=(IMAGE,))])) == 2
    assert len(repair([user(), assistant("", parts=({"type": "response"},))])) == 1


@given(sound_threads(), st.integers(1, 12))
def test_a_window_never_separates_a_call_from_its_result(thread: list[Message], limit: int) -> None:
    shown = window(thread, limit)
    assert list(shown) == thread[len(thread) - len(shown) :]
    assert shown[0].role == "user"
    assert repair(shown) == shown
    tail = thread[-limit:]
    if any(row.role == "user" for row in tail):
        assert len(shown) <= limit


def test_a_window_begins_at_the_next_user_message() -> None:
    thread = [user("1"), assistant("1"), user("2"), assistant("2")]
    assert outline(window(thread, 3)) == ["user:2", "assistant:2"]
    assert window(thread, 4) == tuple(thread)
    assert window(thread, 400) == tuple(thread)


def test_a_window_inside_one_long_chain_goes_back_to_its_user_message() -> None:
    thread = [user("old"), assistant(), user("go")]
    for number in range(5):
        thread += [assistant("", calls=[str(number)]), result(str(number))]
    assert outline(window(thread, 3))[0] == "user:go"


def test_a_window_does_not_begin_between_a_call_and_its_late_result() -> None:
    thread = [user("1"), assistant("", calls=["a"]), user("and this"), result("a"), user("2")]
    assert outline(window(thread, 3)) == ["user:2"]


@given(THREADS, st.integers(1, 8))
def test_a_window_of_any_thread_is_its_end(thread: list[Message], limit: int) -> None:
    shown = window(thread, limit)
    assert list(shown) == thread[len(thread) - len(shown) :]
    assert_valid(repair(shown))
