"""Lines of sessions and of previews: as wide as they may be, whatever is in them."""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.message import Message, Role
from clew.core.search.hits import Snippet
from clew.core.text import columns
from clew.terminal.picker.lines import BADGES, Piece, RowDetails, cut_front, draw_row, mark_words
from clew.terminal.picker.preview import draw_end, draw_hit, find_words, wrap
from clew.terminal.picker.rows import make_row
from tests.terminal.picker.test_name_match import name

anything = st.text(
    st.one_of(st.characters(), st.sampled_from("日本語👩‍👩‍👧🏳️‍🌈e\u0301\u200b\x1b\u202e\t\n ab/")),
    max_size=60,
)
clean = st.text(st.sampled_from("ab /.日語👩é"), max_size=60)


def width_of(pieces: list[Piece]) -> int:
    return columns("".join(text for text, _ in pieces))


def said(content: str, seq: int = 1, role: Role = "user") -> Message:
    return Message(
        id=seq,
        session_id="s",
        seq=seq,
        turn_id=None,
        role=role,
        content=content,
        parts=(),
        tool_call_id=None,
        tool_name=None,
        tool_calls=(),
        is_error=False,
        model=None,
        usage=None,
        at=0,
    )


@example("", "a\tb", 48, "waiting", False)
@given(anything, anything, st.integers(20, 200), st.sampled_from(["", *BADGES]), st.booleans())
def test_a_row_fills_its_line_exactly(
    title: str, directory: str, width: int, badge: str, has_hit: bool
) -> None:
    row = make_row(name(title, cwd=directory, message_count=1_234_567))
    snippet = Snippet("some words around a match in a message", 20, 25) if has_hit else None
    pieces = draw_row(row, RowDetails("2026-11-16", badge, ("a",), snippet), width)
    assert width_of(pieces) == width


@given(anything, st.lists(st.sampled_from(["a", "b ", "日", "e"]), max_size=3))
def test_marking_words_changes_no_letter(text: str, words: list[str]) -> None:
    assert "".join(piece for piece, _ in mark_words(text, tuple(words))) == text


@given(clean, st.integers(2, 40))
def test_a_path_is_cut_in_front(path: str, width: int) -> None:
    shown = cut_front(path, width)
    assert columns(shown) <= width
    assert path.endswith(shown.removeprefix("…"))


@given(clean, st.integers(4, 40))
def test_wrapping_loses_nothing_but_spaces_and_keeps_the_width(text: str, width: int) -> None:
    lines = list(wrap(text, width))
    assert all(columns(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


roles = st.sampled_from(["user", "assistant", "tool"])


@given(
    st.lists(st.tuples(anything, roles), max_size=6),
    anything,
    st.integers(0, 8),
    st.integers(4, 60),
    st.integers(1, 12),
)
def test_a_preview_fits_its_pane(
    told: list[tuple[str, Role]], query: str, seq: int, width: int, height: int
) -> None:
    messages = [said(text, number, role) for number, (text, role) in enumerate(told)]
    for lines in (
        draw_end(messages, width, height),
        draw_hit(messages, seq, query, width, height),
    ):
        assert len(lines) <= height
        assert all(width_of(line) <= width for line in lines)


def test_the_words_of_a_hit_are_marked_as_they_are_written() -> None:
    for content, query, marked in (
        ("He runs daily", "running", "runs"),
        ("the Größe of it", "grosse", "Größe"),
        ("これはデータベースです", "データ", "データ"),
        ("one  two\nthree", '"two three"', "two\nthree"),
    ):
        pattern = find_words(content, query)
        assert pattern is not None
        found = pattern.search(content)
        assert found is not None
        assert found[0] == marked


def test_what_matches_nowhere_gives_no_pattern() -> None:
    assert find_words("nothing of that kind", "palimpsest") is None


def test_a_hit_in_a_very_long_message_is_shown() -> None:
    long = said("filler words " * 3_000 + "the palimpsest " + "and on " * 3_000)
    lines = draw_hit([long], 1, "palimpsest", 60, 8)
    assert ("palimpsest", "match") in [piece for line in lines for piece in line]


def test_messages_beside_the_hit_are_shown_with_it() -> None:
    told = [said(f"remark {number}", number) for number in range(10)]
    told[5] = msgspec.structs.replace(told[5], content="the palimpsest")
    text = "\n".join(
        "".join(piece for piece, _ in line) for line in draw_hit(told, 5, "palimpsest", 60, 8)
    )
    assert "remark 4" in text
    assert "the palimpsest" in text
    assert "remark 6" in text
