"""Describes invalid parameters in a sentence: which one, what it must be, and what it was.

Pure: the validator's error, the type and the values give a sentence. A type explains its pattern
under `WORDS` of its `Meta.extra`. The callers decide what is refused, and as which problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from clew.api.fields import WORDS
from clew.core.text import cut, strip_controls

SHOWN: Final = 60


LONGEST_NUMBER: Final = 100
"""Longest value that is repeated: columns of a text, bits of a number."""


_AT: Final = re.compile(r" - at `\$(.*)`$", re.DOTALL)


_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(?:\d+|\.\.\.)\]")


_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)


_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


_LENGTH: Final = re.compile(r"Expected `(\w+)` of length (<=|>=|==) (\d+)")


_RANGE: Final = re.compile(r"Expected `\w+` (<=|>=|<|>) (\S+)")


_TYPE: Final = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")


_BOUNDS: Final = {
    "<=": "at most", ">=": "at least", "<": "less than", ">": "more than", "==": "exactly",
}  # fmt: skip


_KINDS: Final = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false",
    "array": "a list", "object": "an object", "null": "null", "bytes": "base64 text",
}  # fmt: skip


_UNITS: Final = {"str": "character", "array": "entry", "bytes": "byte", "object": "field"}


_MANY: Final = {"entry": "entries"}


def explain(
    error: msgspec.ValidationError, takes: Any, values: Any, *, whole: str = "What is given"
) -> str:
    """The sentence, with the name of the parameter and without a full stop.

    `whole` is the name for all parameters together.
    """
    text = str(error)
    at = _AT.search(text)
    path, what = (at[1], text[: at.start()]) if at else ("", text)
    kinds = _find_kinds(inspect.type_info(takes), path)
    missing, unknown = _MISSING.fullmatch(what), _UNKNOWN.fullmatch(what)
    if missing:
        return f"{_name(path, missing[1])} is missing"
    if unknown:
        known = [name for kind in kinds for name in _list_fields(kind)]
        name = _clean(_name(path, unknown[1]))
        return f'There is no parameter "{name}" here (known: {", ".join(known) or "none"})'
    found, value = _find_value(values, path)
    return f"{_name(path) or whole} {_demand(what, kinds, value, found=found)}"


def _demand(what: str, kinds: list[inspect.Type], value: Any, *, found: bool) -> str:
    """The part of the sentence that says what a value must be, and what it was."""
    was = _show(value) if found else ""
    words = next((each for kind in kinds for each in _list_words(kind)), None)
    options = [str(each) for kind in kinds for each in _list_options(kind)]
    if words is not None or options:
        return f"must be {words or 'one of ' + ', '.join(options)}{was}"
    if length := _LENGTH.fullmatch(what):
        return _demand_length(length[1], length[2], int(length[3]), value)
    if span := _RANGE.fullmatch(what):
        return f"must be {_BOUNDS[span[1]]} {span[2]}{was}"
    if kind := _TYPE.fullmatch(what):
        wanted = [_KINDS.get(each, each) for each in kind[1].split(" | ")]
        told = was or f", not {_KINDS.get(kind[2], kind[2])}"
        return f"must be {' or '.join(wanted)}{told}"
    return "must be base64 text" if "base64" in what else f"can't be read: {what}"


def _demand_length(kind: str, bound: str, limit: int, value: Any) -> str:
    unit = _UNITS.get(kind, "character")
    units = unit if limit == 1 else _MANY.get(unit, f"{unit}s")
    if bound == ">=" and limit == 1:
        return "can't be empty"
    # Bytes come as base64, whose length says little.
    has = f" (it has {len(value):,})" if kind in ("str", "array") and value is not None else ""
    return f"can have {_BOUNDS[bound]} {limit:,} {units}{has}"


# --- where it is --------------------------------------------------------------------------------
def _name(path: str, more: str = "") -> str:
    return f"{path}.{more}".strip(".") if more else path.strip(".")


def _find_value(values: Any, path: str) -> tuple[bool, Any]:
    """The value at a path, and whether it was found."""
    for step in _STEP.finditer(path):
        try:
            values = values[step[1]] if step[1] is not None else values[int(step[0][1:-1])]
        except (LookupError, TypeError, ValueError):
            return False, None
    return True, values


def _show(value: Any) -> str:
    """A value in brackets, if it is short enough to repeat."""
    if isinstance(value, str):
        return f' (it was "{_clean(value)}")'
    if isinstance(value, bool):
        return f" (it was {str(value).lower()})"
    if isinstance(value, float) or (
        isinstance(value, int) and value.bit_length() <= LONGEST_NUMBER
    ):
        return f" (it was {value})"
    return ""


def _clean(text: str) -> str:
    return cut(strip_controls(text[: SHOWN * 4], keep_newlines=False), SHOWN)


# --- what it is ---------------------------------------------------------------------------------
def _find_kinds(kind: inspect.Type, path: str) -> list[inspect.Type]:
    """The types that a value at this path may have."""
    kinds = [kind]
    for step in _STEP.finditer(path):
        kinds = [each for kind in kinds for each in _go_into(kind, step[1])]
    return kinds


def _go_into(kind: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    for each in _open(kind):
        match each:
            case inspect.StructType(fields=fields) if name is not None:
                yield from (field.type for field in fields if field.encode_name == name)
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                yield item
            case inspect.DictType(value_type=item):
                yield item
            case _:
                pass


def _open(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The types that a type consists of, without wrappers such as `Annotated`."""
    match kind:
        case inspect.Metadata(type=inner):
            yield from _open(inner)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _open(each)
        case _:
            yield kind


def _list_fields(kind: inspect.Type) -> Iterator[str]:
    for each in _open(kind):
        if isinstance(each, inspect.StructType):
            yield from (field.encode_name for field in each.fields)


def _list_options(kind: inspect.Type) -> Iterator[Any]:
    for each in _open(kind):
        if isinstance(each, inspect.LiteralType):
            yield from each.values


def _list_words(kind: inspect.Type) -> Iterator[str]:
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            if extra and WORDS in extra:
                yield str(extra[WORDS])
            yield from _list_words(inner)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _list_words(each)
        case _:
            pass
