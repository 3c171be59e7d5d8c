"""Narrowing and scoring, over all kinds of names."""

from __future__ import annotations

import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.session import SessionName
from clew.core.text import fold
from clew.terminal.picker.name_match import (
    FEW,
    NEAR,
    SHOWN,
    Narrowed,
    Steps,
    T,
    Typed,
    list_near,
    narrow,
    rank,
    read_typed,
)
from clew.terminal.picker.rows import Row, make_row
from tests.sizes import pick


def name(title: str | None, number: int = 0, **fields: object) -> SessionName:
    values: dict[str, object] = {
        "id": str(uuid.UUID(int=number * 7919 + 1)),
        "title": title,
        "short_summary": None,
        "preview": None,
        "cwd": None,
        "project": None,
        "platform": "cli",
        "kind": "cli",
        "person": "owner",
        "updated_at": number,
        "pinned": False,
        "message_count": 2,
        "archived": False,
    }
    return SessionName(**values | fields)  # type: ignore[arg-type]


def rows_of(*titles: str) -> list[Row]:
    """The first is the newest."""
    return [make_row(name(title, len(titles) - at)) for at, title in enumerate(titles)]


def finish(steps: Steps[T]) -> T:
    """Do all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            value: T = stop.value
            return value


def look_for(rows: list[Row], text: str) -> list[str]:
    narrowed = finish(narrow(rows, read_typed(text)))
    found = finish(rank(narrowed))
    if len(found) < FEW:
        found += finish(list_near(rows, narrowed))
    return [row.title for row in found]


letters = st.text(st.sampled_from("abc de日本é-\"'/.ßẞİ\u0301\x1b\u202e"), max_size=12)
titles = st.lists(letters, max_size=12)


@given(titles, letters)
def test_what_has_every_word_is_found_and_what_has_not_is_not(names: list[str], text: str) -> None:
    rows = rows_of(*names)
    typed = read_typed(text)
    found = {row.id for row in finish(narrow(rows, typed)).rows}
    for row in rows:
        fits = all(word in row.key for word in typed.words)
        unwanted = any(word in row.key for word in typed.unwanted)
        assert (row.id in found) == (fits and not unwanted)


@given(titles, letters, st.integers(0, 12), st.integers(0, 12))
def test_step_by_step_is_the_same_as_at_once(
    names: list[str], text: str, some: int, first: int
) -> None:
    """Whatever was typed before, and however few names were there then."""
    rows = rows_of(*names)
    before = finish(narrow(rows[:first], read_typed(text[:some])))
    stepwise = finish(narrow(rows, read_typed(text), before))
    at_once = finish(narrow(rows, read_typed(text)))
    assert {row.id for row in stepwise.rows} == {row.id for row in at_once.rows}
    assert [row.id for row in finish(rank(stepwise))] == [row.id for row in finish(rank(at_once))]


@given(titles, letters, letters)
def test_what_was_left_of_something_else_does_no_harm(
    names: list[str], text: str, other: str
) -> None:
    rows = rows_of(*names)
    before = finish(narrow(rows, read_typed(other)))
    after = finish(narrow(rows, read_typed(text), before))
    assert {row.id for row in after.rows} == {
        row.id for row in finish(narrow(rows, read_typed(text))).rows
    }


@given(titles, st.text(max_size=60))
def test_any_text_is_an_answerable_question(names: list[str], text: str) -> None:
    rows = rows_of(*names)
    narrowed = finish(narrow(rows, read_typed(text)))
    exact = [row.id for row in finish(rank(narrowed))]
    near = [row.id for row in finish(list_near(rows, narrowed))]
    assert len(set(exact + near)) == len(exact) + len(near)


@given(st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=20))
def test_a_title_is_found_by_itself(title: str) -> None:
    rows = rows_of("something else", title, "another one")
    assert fold(look_for(rows, title)[0]) in {fold(title), fold(rows[1].title)}


@given(
    st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=6, max_size=14),
    st.data(),
)
@settings(max_examples=pick(60, 200))
def test_one_slip_is_forgiven(word: str, data: st.DataObject) -> None:
    """A letter left out, or two that changed places."""
    at = data.draw(st.integers(1, len(word) - 2))
    if data.draw(st.booleans()):
        typed = word[:at] + word[at + 1 :]
    else:
        typed = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    rows = rows_of("0000 0000", f"the {word} 0000", "1111")
    assert look_for(rows, typed)[:1] == [f"the {word} 0000"]


def test_letters_may_be_left_out() -> None:
    rows = rows_of("Buy milk", "Login bug", "Legible glyphs of old books, gathered")
    assert look_for(rows, "lgbg")[0] == "Login bug"


def test_the_name_counts_more_than_the_directory_and_that_more_than_the_prompt() -> None:
    rows = [
        make_row(name("first", 3, preview="about parsers")),
        make_row(name("second", 2, cwd="/home/ada/parsers")),
        make_row(name("parsers", 1)),
    ]
    assert look_for(rows, "parsers") == ["parsers", "second", "first"]


def test_of_equal_names_the_newest_comes_first_and_the_pinned_before_it() -> None:
    rows = [
        make_row(name("pinned api", 1, pinned=True)),
        make_row(name("newest api", 9)),
        make_row(name("oldest api", 2)),
    ]
    assert look_for(rows, "api") == ["pinned api", "newest api", "oldest api"]


def test_an_id_finds_its_session() -> None:
    rows = rows_of("one", "two", "three")
    assert look_for(rows, rows[1].id[:12])[0] in {row.title for row in rows}
    assert look_for(rows, rows[1].id) == ["two"]


def test_two_characters_of_an_id_find_it_among_very_many() -> None:
    """They stand somewhere in the ids of thousands of newer sessions."""
    rows = [make_row(name("other", 9_000 - at, id=str(uuid.UUID(int=0x3F)))) for at in range(5_000)]
    rows.append(make_row(name("Alpha", 1, id=f"3f{uuid.UUID(int=7)}"[:36])))
    assert look_for(rows, "3f")[0] == "Alpha"
    assert look_for(rows, "3F")[0] == "Alpha"


def test_an_unwanted_word_leaves_out() -> None:
    assert look_for(rows_of("api tests", "api docs"), "api -tests") == ["api docs"]


def test_marks_alone_are_looked_for_as_they_are() -> None:
    assert look_for(rows_of("what?", "that"), "?") == ["what?"]


def test_case_width_and_accents_do_not_matter() -> None:
    assert look_for(rows_of("Größe des ＣＡＦÉ"), "grosse") == ["Größe des ＣＡＦÉ"]
    assert look_for(rows_of("Größe des ＣＡＦÉ"), "grö cafe") == ["Größe des ＣＡＦÉ"]


def test_of_very_many_the_named_are_scored_and_not_all_are_shown() -> None:
    rows = [make_row(name("other", 9_000 - at, preview="the parser")) for at in range(5_000)]
    rows += [make_row(name("Parser", 1))]
    found = look_for(rows, "parser")
    assert found[0] == "Parser"
    assert len(found) == SHOWN


def test_near_ones_are_not_endless() -> None:
    rows = rows_of(*(f"login number {at}" for at in range(500)))
    assert len(finish(list_near(rows, Narrowed(Typed(("lgoin",)))))) == NEAR
