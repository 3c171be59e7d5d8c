"""The status line: what is said, and what goes first where it is narrow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.core.text import columns, strip_controls
from clew.terminal.screen.statusline import SEPARATOR, Facts, fit

WORK = Facts(
    title="Mend the login",
    model="anthropic/claude-sonnet",
    context_tokens=24_000,
    context_window=200_000,
    cost=12_300_000,
    calls=3,
)


def line(facts: Facts, width: int = 200) -> str:
    title, parts = fit(facts, width)
    return SEPARATOR.join([title, *(part.text for part in parts)])


def change(**facts: object) -> Facts:
    from msgspec.structs import replace

    return replace(WORK, **facts)


def test_title_model_context_and_cost_are_told() -> None:
    assert line(WORK) == "Mend the login · anthropic/claude-sonnet · 12% context · $0.0123"


def test_a_cost_that_nobody_knows_is_told_in_short() -> None:
    assert line(change(cost=None)).endswith(" · $?")


def test_nothing_is_said_of_costs_before_the_first_call() -> None:
    assert "$" not in line(change(calls=0, cost=0))


def test_a_turn_that_runs_says_how_long_and_how_to_stop_it() -> None:
    assert "working 12 s, Ctrl+C stops" in line(change(working=12))
    assert "working 2 min 5 s, Ctrl+C stops" in line(change(working=125))


def test_queue_mode_thinking_and_others_are_told() -> None:
    facts = change(queued=2, mode="plan", thinking="high", elsewhere="runs elsewhere")
    for words in ("2 queued", "plan mode", "thinking high", "runs elsewhere"):
        assert words in line(facts)
    quiet = line(change(mode="default", thinking="off"))
    assert "mode" not in quiet
    assert "thinking" not in quiet


def test_a_question_is_more_urgent_than_the_time_it_takes() -> None:
    assert "waits for your answer" in line(change(working=12, waiting=1))
    assert "working" not in line(change(working=12, waiting=1))


def test_what_matters_least_goes_first() -> None:
    facts = change(working=12, queued=2, elsewhere="runs elsewhere", thinking="high")
    narrow = line(facts, 80)
    assert "working 12 s, Ctrl+C stops" in narrow
    assert "2 queued" in narrow
    assert "runs elsewhere" in narrow
    assert "thinking" not in narrow
    assert "$" not in narrow


@given(
    st.text(max_size=120),
    st.integers(1, 200),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 10_000)),
)
def test_it_never_gets_wider_than_the_screen_nor_drives_it(
    title: str, width: int, queued: int, working: int | None
) -> None:
    facts = change(title=title, queued=queued, working=working, elsewhere="runs elsewhere")
    shown, parts = fit(facts, width)
    used = columns(shown) + sum(columns(part.text) for part in parts)
    used += len(SEPARATOR) * max(0, len(parts) - 1)
    assert used <= width
    assert shown == strip_controls(shown, keep_newlines=False)
