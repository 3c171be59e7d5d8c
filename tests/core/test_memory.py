"""Edits of a memory text, what has to go when it is too long, and whose file it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.memory import (
    AddLine,
    RemoveText,
    ReplaceText,
    add_line,
    apply_edit,
    find_directory,
    name_directory,
    remove_text,
    replace_text,
    split_overflow,
)
from clew.core.models import Personality
from clew.core.session import OWNER
from clew.errors import InvalidInput

words = st.text(alphabet="ab é\n", max_size=30)
lines = st.text(alphabet="abc é", min_size=1).filter(lambda line: line.strip() == line)


@given(words, lines)
def test_an_added_line_is_the_last_and_what_was_there_stays(text: str, line: str) -> None:
    added = add_line(text, line)
    assert added.startswith(text)
    assert added.split("\n")[-2:] == [line, ""]


@given(words, lines, lines)
def test_replacing_back_gives_the_text_again(text: str, old: str, new: str) -> None:
    before = add_line(text, f"<{old}>")
    changed = replace_text(before, f"<{old}>", f"[{new}]")
    assert replace_text(changed, f"[{new}]", f"<{old}>") == before


@given(words, lines)
def test_removing_an_added_line_leaves_nothing_of_it(text: str, line: str) -> None:
    text = add_line(text, "first")
    assert remove_text(add_line(text, f"<{line}>"), f"<{line}>") == text


@pytest.mark.parametrize(
    ("text", "old", "left"),
    [
        ("a\nb\nc\n", "b", "a\nc\n"),
        ("a\nb\nc\n", "b\n", "a\nc\n"),
        ("a b c\n", " b", "a c\n"),
        ("a b\nc\n", "b", "a \nc\n"),
        ("a\nb", "b", "a\n"),
        ("a\nb\nc\nd\n", "b\nc", "a\nd\n"),
        ("- a\n  - b\n- c\n", "b", "- a\n- c\n"),
        ("a\n- b\n\nc\n", "- b\n", "a\n\nc\n"),
    ],
)
def test_removing_takes_the_line_with_it_only_if_nothing_else_is_on_it(
    text: str, old: str, left: str
) -> None:
    assert remove_text(text, old) == left


@pytest.mark.parametrize("text", ["aaa", "x\nx\n", "aXa\naXa"])
def test_a_text_that_is_there_twice_is_refused(text: str) -> None:
    old = {"aaa": "aa", "x\nx\n": "x", "aXa\naXa": "X"}[text]
    for edit in (ReplaceText(old, "y"), RemoveText(old)):
        with pytest.raises(InvalidInput, match="more than once"):
            apply_edit(text, edit)


@pytest.mark.parametrize("old", ["gone", "A"])
def test_a_text_that_is_not_there_is_refused(old: str) -> None:
    with pytest.raises(InvalidInput, match="is not in the file"):
        apply_edit("a\n", RemoveText(old))


@pytest.mark.parametrize("edit", [AddLine(" \n"), ReplaceText("", "x"), RemoveText("")])
def test_an_empty_text_is_refused(edit: AddLine | ReplaceText | RemoveText) -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        apply_edit("a\n", edit)


def test_windows_line_ends_stay_what_they_are() -> None:
    text = "a\r\nb\r\n"
    assert apply_edit(text, AddLine("c")) == "a\r\nb\r\nc\r\n"
    assert apply_edit(text, ReplaceText("a\nb", "c\nd")) == "c\r\nd\r\n"
    assert apply_edit(text, RemoveText("a")) == "b\r\n"


@given(st.lists(st.text(alphabet="ab é漢"), min_size=1), st.integers(0, 40))
def test_overflow_and_rest_are_the_text_and_the_rest_fits(parts: list[str], limit: int) -> None:
    text = "\n".join(parts)
    try:
        moved, kept = split_overflow(text, limit)
    except InvalidInput:
        last = text[:-1].rpartition("\n")[2] + text[-1:]
        assert len(last.encode()) > limit
        return
    assert moved + kept == text
    assert len(kept.encode()) <= limit
    assert moved == "" or moved.endswith("\n")
    # No more than has to go: with its last line the rest would not fit.
    if moved:
        last_moved = moved[:-1].rpartition("\n")[2] + "\n"
        assert len((last_moved + kept).encode()) > limit


# --- whose file it is ---------------------------------------------------------------------------

COACH = Personality(id="coach", name="Coach", memory_scope="per-personality")


def test_the_personality_comes_before_the_person_and_only_user_md_is_personal() -> None:
    assert find_directory("user") == find_directory("memory") == ()
    assert find_directory("user", person=OWNER) == ()
    assert find_directory("memory", person="telegram:7") == ()
    theirs = name_directory("telegram:7")
    assert find_directory("user", person="telegram:7") == ("people", theirs)
    assert find_directory("memory", COACH, "telegram:7") == ("personalities", "coach")
    assert find_directory("user", COACH, "telegram:7") == (
        "personalities", "coach", "people", theirs,
    )  # fmt: skip


@pytest.mark.parametrize(
    "person",
    ["../../x", "..", "/etc", "a/b", "a\\b", "CON", "x" * 300, "\0", "owner ", "é:ü", "🫖"],
)
def test_no_id_of_a_person_is_a_path(person: str) -> None:
    name = name_directory(person)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert 16 <= len(name) <= 60


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_two_people_never_share_a_directory_even_where_case_does_not_count(
    one: str, two: str
) -> None:
    if one.strip() and two.strip() and one != two:
        assert name_directory(one).casefold() != name_directory(two).casefold()
    for each in (one.upper(), one.lower()):
        if each != one and each.strip() and one.strip() and len(each) <= 300:
            assert name_directory(each) != name_directory(one)


@pytest.mark.parametrize("person", ["", "  ", "x" * 301])
def test_an_id_that_is_none_is_refused(person: str) -> None:
    with pytest.raises(InvalidInput, match="A person's name has 1 to 300 characters"):
        name_directory(person)
