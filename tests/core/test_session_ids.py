from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from clew.core.keys import id_ending, id_prefix

ids = st.uuids().map(str)


@given(ids, st.integers(4, 36), st.booleans(), st.booleans())
def test_however_it_is_typed_an_ending_is_the_end_of_its_id(
    session_id: str, length: int, hyphens: bool, capitals: bool
) -> None:
    typed = (session_id if hyphens else session_id.replace("-", ""))[-length:]
    digits = typed.replace("-", "")
    ending = id_ending(typed.upper() if capitals else typed)

    if len(digits) < 4:
        assert ending is None
    else:
        assert ending is not None
        assert session_id.endswith(ending)
        assert ending.replace("-", "") == digits
        assert ending[0] != "-"


@given(ids)
def test_a_whole_id_is_its_own_beginning_and_ending(session_id: str) -> None:
    assert id_ending(session_id) == id_prefix(session_id) == session_id
    assert id_ending(uuid.UUID(session_id).hex) == session_id


@given(st.text())
def test_any_text_is_an_ending_in_its_one_spelling_or_none(text: str) -> None:
    ending = id_ending(text)

    assert ending is None or id_ending(ending) == ending
