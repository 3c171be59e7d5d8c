"""What is wrong with parameters, in words for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from clew.api.complaints import explain
from clew.api.fields import WORDS
from clew.api.operation import Operation, read_params
from clew.api.table import OPERATIONS, get_operation
from clew.errors import InvalidInput

ID = "3f0c6f1e-9a4b-4c7d-8e21-5b6a7c8d9e0f"
PNG = {"media_type": "image/png", "data": "aaaa"}
A_SESSION = "must be a whole session id, like"


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("sessions.get", {"id": "x"}, f'id {A_SESSION} {ID} (it was "x")'),
        ("sessions.get", {"id": ID[:-1]}, f'id {A_SESSION} {ID} (it was "{ID[:-1]}")'),
        ("sessions.get", {"id": 5}, f"id {A_SESSION} {ID} (it was 5)"),
        ("sessions.get", {}, "id is missing"),
        ("sessions.list", {"limit": 5000}, "limit must be at most 200 (it was 5000)"),
        ("sessions.list", {"limit": -1}, "limit must be at least 0 (it was -1)"),
        ("sessions.list", {"limit": 10**5000}, "limit must be at most 200"),
        ("sessions.list", {"limit": "many"}, 'limit must be a whole number (it was "many")'),
        ("sessions.list", {"limit": None}, "limit must be a whole number, not null"),
        ("sessions.list", {"trashed": 1}, "trashed must be true or false (it was 1)"),
        ("sessions.update", {"id": ID, "title": "x" * 201},
         "title can have at most 200 characters (it has 201)"),
        ("tokens.create", {"name": "", "scopes": ["read"]}, "name can't be empty"),
        ("tokens.create", {"name": "x", "scopes": ["read", "all"]},
         'scopes[1] must be one of admin, approve, chat, read, store, write (it was "all")'),
        ("tokens.create", {"name": "x", "scopes": []}, "scopes can't be empty"),
        ("chat.send", {"text": "x", "attachments": [PNG, PNG | {"media_type": "PNG"}]},
         'attachments[1].media_type must be a media type, like image/png (it was "PNG")'),
        ("chat.send", {"text": "x", "attachments": [PNG | {"data": "!"}]},
         "attachments[0].data must be base64 text"),
        ("chat.send", {"text": "x", "attachments": [PNG] * 11},
         "attachments can have at most 10 entries (it has 11)"),
        ("chat.send", {"text": "x", "attachments": [{"data": "aaaa"}]},
         "attachments[0].media_type is missing"),
        ("chat.send", {"text": "x", "attachments": "all"},
         'attachments must be a list (it was "all")'),
        ("sessions.stop", {"id": ID, "queu": 5},
         'There is no parameter "queu" here (known: id, queue, only, message, anywhere)'),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_told_in_words(name: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_params(get_operation(name), values)
    assert str(caught.value) == f"{said}. Nothing was changed."


def test_what_is_no_object_at_all_is_told_too() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert([], OPERATIONS[0].takes)
    assert (
        explain(caught.value, OPERATIONS[0].takes, [])
        == "What is given must be an object, not a list"
    )


FIELDS = [(each, name) for each in OPERATIONS for name in each.takes.__struct_fields__]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
) | st.text(min_size=300, max_size=300)


@given(st.sampled_from(FIELDS), ANYTHING, st.booleans())
def test_whatever_is_given_the_complaint_names_its_place_and_no_machinery(
    field: tuple[Operation, str], value: Any, strict: bool
) -> None:
    operation, name = field
    try:
        read_params(operation, {name: value}, strict=strict)
    except InvalidInput as error:
        said = str(error)
    else:
        return
    assert said.endswith(". Nothing was changed.")
    assert any(said.startswith(each) for each in operation.takes.__struct_fields__) or (
        said.startswith('There is no parameter "')
    )
    told = said.partition(" (it was")[0].partition(" (known:")[0].partition('"')[0]
    for machinery in ("`", "Expected", "regex", "Object", "Invalid", "$", "can't be read"):
        assert machinery not in told


def list_kinds(kind: inspect.Type, words: bool = False) -> Iterator[tuple[inspect.StrType, bool]]:
    """Every text in a type, and whether words say what it must be."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from list_kinds(inner, words or WORDS in (extra or {}))
        case inspect.UnionType(types=types):
            for each in types:
                yield from list_kinds(each, words)
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from list_kinds(field.type)
        case inspect.VarTupleType(item_type=inner):
            yield from list_kinds(inner)
        case inspect.StrType():
            yield kind, words


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_pattern_has_words_for_people(operation: Operation) -> None:
    patterned = [
        (kind.pattern, words)
        for kind, words in list_kinds(inspect.type_info(operation.takes))
        if kind.pattern is not None
    ]
    assert [pattern for pattern, words in patterned if not words] == []
