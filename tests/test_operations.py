"""The table of operations, walked from end to end."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import msgspec
import pytest

from clew.api.handlers.parts import check_handlers, find_handler, list_handled
from clew.api.operation import Operation, Params, read_params
from clew.api.table import OPERATIONS, get_operation
from clew.core.tokens import SCOPES
from clew.errors import InvalidInput

NAMED = [pytest.param(each, id=each.name) for each in OPERATIONS]

SPECIFIED = [
    "sessions.list",
    "sessions.get",
    "sessions.fork",
    "sessions.update",
    "sessions.delete",
    "sessions.resolve",
    "sessions.preview",
    "chat.send",
    "chat.abort",
    "memory.get",
    "memory.write",
    "status",
]


def test_every_operation_that_the_specification_names_is_there() -> None:
    assert set(SPECIFIED) <= {each.name for each in OPERATIONS}


def test_names_are_unique() -> None:
    names = [each.name for each in OPERATIONS]
    assert len(names) == len(set(names))


def test_no_two_operations_share_a_method_and_a_path() -> None:
    places = [(each.method, re.sub(r"\{\w+\}", "{}", each.path)) for each in OPERATIONS]
    assert len(places) == len(set(places))


def test_no_fixed_path_can_be_taken_for_one_with_a_parameter() -> None:
    """A router that looks at them in any order finds the same."""
    for one in OPERATIONS:
        pattern = re.sub(r"\{\w+\}", "[^/]+", one.path)
        for other in OPERATIONS:
            if other.method == one.method and other.path != one.path:
                assert not re.fullmatch(pattern, other.path), (one.path, other.path)


def test_every_operation_is_done_by_somebody_and_nobody_does_anything_else() -> None:
    for each in OPERATIONS:
        find_handler(each)
    assert list_handled() == {each.name for each in OPERATIONS}


def test_an_operation_that_nothing_handles_is_refused_at_the_start() -> None:
    unhandled = msgspec.structs.replace(OPERATIONS[0], name="sessions.juggle")
    with pytest.raises(TypeError, match=r"nothing handles sessions\.juggle"):
        check_handlers((*OPERATIONS, unhandled))


def test_only_chat_send_and_jobs_take_what_is_said() -> None:
    """There is no way to write a message into a session but through a turn, now or later."""
    taking = {each.name for each in OPERATIONS if "text" in each.takes.__struct_fields__}
    assert taking == {"chat.send", "cron.add"}


@pytest.mark.parametrize("operation", NAMED)
def test_an_operation_has_a_scope_a_sentence_and_a_place_under_v1(
    operation: Operation[Any, Any],
) -> None:
    assert operation.scope in SCOPES
    assert operation.help.endswith(".")
    assert operation.path.startswith("/v1/")
    assert 200 <= operation.status < 300


@pytest.mark.parametrize("operation", NAMED)
def test_what_only_reads_is_a_get_and_needs_only_read_or_admin(
    operation: Operation[Any, Any],
) -> None:
    if operation.method == "GET":
        assert operation.scope in ("read", "admin")
    elif operation.name != "commands.run":  # what it needs is in the row of the command
        assert operation.scope != "read"


@pytest.mark.parametrize("operation", NAMED)
def test_the_parameters_in_the_path_are_required_ones(operation: Operation[Any, Any]) -> None:
    fields = {each.name: each for each in msgspec.structs.fields(operation.takes)}
    for name in operation.path_fields:
        assert fields[name].required
    parts = (*operation.path_fields, *operation.header_fields, *operation.other_fields)
    assert sorted(parts) == sorted(fields)


@pytest.mark.parametrize("operation", NAMED)
def test_parameters_are_frozen_and_refuse_unknown_fields(operation: Operation[Any, Any]) -> None:
    assert issubclass(operation.takes, Params)
    config = operation.takes.__struct_config__
    assert config.frozen
    assert config.forbid_unknown_fields
    with pytest.raises(InvalidInput):
        read_params(operation, {"no_such_field": 1})


@pytest.mark.parametrize("operation", NAMED)
def test_every_text_and_number_that_is_taken_is_bounded(operation: Operation[Any, Any]) -> None:
    (schema,), parts = msgspec.json.schema_components([operation.takes])
    for name, part in _walk({"": schema, **parts}):
        kind = part.get("type")
        if kind == "string" and not ({"enum", "contentEncoding"} & part.keys()):
            assert "maxLength" in part, (operation.name, name)
        if kind == "integer":
            assert {"minimum", "maximum"} <= part.keys(), (operation.name, name)
        if kind == "array":
            assert "maxItems" in part, (operation.name, name)


def _walk(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        if "type" in value:
            yield name, value
        for key, each in value.items():
            yield from _walk(each, f"{name}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each, name)


def test_the_schemas_of_all_parameters_and_answers_can_be_made_at_once() -> None:
    kinds = [kind for each in OPERATIONS for kind in (each.takes, each.gives)]
    schemas, parts = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    assert len(schemas) == len(kinds)
    assert {"Session", "SessionView"} & parts.keys()


@pytest.mark.parametrize("operation", NAMED)
def test_the_handler_takes_and_gives_what_the_table_says(operation: Operation[Any, Any]) -> None:
    hints = get_type_hints(find_handler(operation))
    assert hints["return"] is operation.gives
    given = [kind for name, kind in hints.items() if name.lstrip("_") == "params"]
    assert given == [operation.takes]


def test_a_query_is_read_from_texts() -> None:
    operation = get_operation("sessions.list")
    params = read_params(
        operation, {"q": "true", "limit": "5", "archived": "true", "active": "60"}, strict=False
    )
    assert (params.q, params.limit, params.archived, params.active) == ("true", 5, True, 60)


def test_a_body_is_read_strictly() -> None:
    with pytest.raises(InvalidInput):
        read_params(get_operation("sessions.list"), {"limit": "5"})


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(InvalidInput):
        get_operation("messages.write")


@pytest.mark.parametrize("name", ["approvals.decide", "outbox.retry", "tokens.revoke"])
def test_an_id_ends_where_it_ends(name: str) -> None:
    given = {"id": "abc", "decision": "yes"} if name == "approvals.decide" else {"id": "abc"}
    read_params(get_operation(name), given)
    with pytest.raises(InvalidInput):
        read_params(get_operation(name), given | {"id": "abc\n"})
