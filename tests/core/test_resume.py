from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.keys import Identity, Place, id_prefix
from clew.core.resume import (
    check_value,
    exported_id,
    id_part,
    is_path_like,
    is_transcript_of,
    needs_question,
    read_answer,
    settle,
    word_question,
    word_refusal,
)
from clew.core.session import Session
from clew.core.usage import Usage
from clew.errors import InvalidInput

ID = "550e8400-e29b-41d4-a716-446655440000"
HERE = Place("/srv/api", "/srv/api", "api", Identity(1, 42))
REQUIRED: dict[str, Any] = {
    field.name: None
    for field in msgspec.structs.fields(Session)
} | {
    "id": ID, "key": "cli:api", "agent": "main", "person": "owner", "platform": "cli",
    "kind": "cli", "revision": 1, "origin": {}, "pinned": False, "usage": Usage(),
    "compactions": 0, "message_count": 2, "content_bytes": 0, "head": 2, "created_at": 1,
    "updated_at": 1, "metadata": {}, "title": "Fix the login", "cwd": "/srv/web",
}  # fmt: skip


def session(**fields: Any) -> Session:
    return Session(**(REQUIRED | fields))


# --- reading the value ------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", " ", "\t\n"])
def test_an_empty_value_is_an_error(value: str) -> None:
    with pytest.raises(InvalidInput):
        check_value(value)


@pytest.mark.parametrize(
    ("value", "like"),
    [
        ("talk.jsonl", True),
        ("TALK.JSONL", True),
        ("./talk", True),
        ("a/b", True),
        ("a\\b", True),
        ("talk.md", False),
        ("550e", False),
        ("jsonl", False),
        ("talk.jsonl.bak", False),
    ],
)
def test_what_looks_like_a_path(value: str, like: bool) -> None:
    assert is_path_like(value) == like


@given(st.text(), st.sampled_from("/\\"), st.text())
def test_whatever_has_a_slash_looks_like_a_path(before: str, slash: str, after: str) -> None:
    assert is_path_like(before + slash + after)


@given(st.text(st.characters(exclude_characters="/\\")))
def test_what_has_neither_slash_nor_ending_does_not(value: str) -> None:
    assert is_path_like(value) == value.lower().endswith(".jsonl")


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("550e", "550e"),
        ("550E8400E29B", "550e8400-e29b"),
        ("e29b-41d4", "e29b41d4"),
        ("0000", "0000"),
        (f"session-{ID}.md", ID),
        (f"Session-{ID.upper()}.HTML", ID),
        (f"session-{ID.replace('-', '')}", ID),
        ("session-550e8400.jsonl", "550e8400"),
        (f"some/where/session-{ID}.md", ID),
        ("550", None),
        ("5-5-0", None),
        ("login", None),
        ("session-", None),
        ("session-fix.md", None),
    ],
)
def test_what_may_be_a_part_of_an_id(value: str, part: str | None) -> None:
    assert id_part(value) == part


@given(st.text())
def test_any_text_may_be_asked_about(value: str) -> None:
    for answer in (id_part(value), exported_id(value)):
        assert answer is None or id_prefix(answer) == answer
    is_transcript_of(value, session(transcript_path=value))


def test_the_file_that_a_session_is_written_to_names_it() -> None:
    written = session(transcript_path="/tmp/Talks/notes.jsonl")
    for value in ("notes", "notes.jsonl", "NOTES", "elsewhere/notes.jsonl"):
        assert is_transcript_of(value, written)
    for value in ("note", "Talks", "", "/"):
        assert not is_transcript_of(value, written)
    assert not is_transcript_of("notes", session())


# --- choosing ---------------------------------------------------------------------------------


def test_this_directory_s_sessions_come_first_and_the_others_are_rejected() -> None:
    old = session(id="1", cwd="/srv/api", updated_at=1)
    new = session(id="2", cwd="/srv/api", updated_at=2)
    other = session(id="3", cwd="/srv/web", updated_at=3)
    decided = settle("x", "title", [old, other, new, old], HERE)
    assert [each.id for each in decided.matches] == ["2", "1"]
    assert [(each.session_id, each.step) for each in decided.rejected] == [("3", "title")]
    assert decided.session is None


def test_elsewhere_all_are_candidates_newest_first() -> None:
    found = [session(id=str(n), updated_at=n) for n in (2, 3, 1)]
    assert [each.id for each in settle("x", "title", found, HERE).matches] == ["3", "2", "1"]


def test_a_project_is_what_counts_with_scope_git() -> None:
    place = Place("/srv/api/src", "/srv/api", "api", Identity(1, 42), "git")
    inside = session(id="1", cwd="/srv/api/docs", project="/srv/api")
    outside = session(id="2", cwd="/srv/api/src", project="/srv/api/src")
    assert settle("x", "title", [inside, outside], place).session == inside


# --- questions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "exists", "question"),
    [
        ("/srv/api", True, None),
        ("/srv/web", True, "other_project"),
        ("/srv/web", False, "directory_gone"),
        (None, False, None),
    ],
)
def test_when_to_ask_before_a_session_is_opened(
    cwd: str | None, exists: bool, question: str | None
) -> None:
    assert needs_question(session(cwd=cwd), HERE, exists=exists) == question


def test_the_question_and_the_refusal_name_session_and_directory() -> None:
    found = session()
    assert word_question(found, HERE, "other_project") == (
        'Session "Fix the login" belongs to /srv/web. [f]ork it here, [o]pen it there, [n]o'
    )
    refusal = 'Session "Fix the login" is in another project (/srv/web).'
    assert word_refusal(found, HERE, "other_project") == refusal
    assert "[m]ove it here" in word_question(found, HERE, "directory_gone")
    assert word_refusal(found, HERE, "directory_gone").startswith(refusal)


def test_a_directory_s_name_can_t_drive_the_terminal() -> None:
    odd = session(cwd="/srv/\x1b]0;x\x07web", title="\x1b[31mred")
    assert "\x1b" not in word_question(odd, HERE, "other_project")


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("f", "fork"),
        (" Fork ", "fork"),
        ("O", "open"),
        ("y", "fork"),
        ("Yes ", "fork"),
        ("n", "no"),
        ("", "no"),
        ("m", "no"),
    ],
)
def test_yes_is_the_first_offer_and_what_is_not_offered_is_a_no(typed: str, answer: str) -> None:
    assert read_answer("other_project", typed) == answer


def test_a_session_without_its_directory_can_be_moved_or_forked_but_not_opened_there() -> None:
    answers = [read_answer("directory_gone", each) for each in ("y", "m", "f", "o")]
    assert answers == ["move", "move", "fork", "no"]
