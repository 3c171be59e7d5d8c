"""Errors on their way over a wire."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from clew import errors
from clew.api.problems import Problem, error_of, problem_of, status_of
from clew.core.text import to_wire
from clew.errors import ClewError

SPELLED: dict[str, Any] = {
    "session_id": "s1", "blob_hash": "b1", "kind": "turn", "record_id": "r1", "typed": "55",
    "found": (errors.Candidate("s1", "s", "One", "/srv", 1),), "expected": 1, "actual": 2,
    "epoch": 1, "current": 2, "seq": 3,
    "target": "x.db", "holder": "h", "expires_at": 5, "pid": 1, "host": "h", "since": 2,
    "local_time": "now", "purpose": "A restore", "holders": ("a", "b"), "why": "Not now.",
}  # fmt: skip
KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ClewError) and kind.__module__ == errors.__name__
]


def example(kind: type[ClewError]) -> ClewError:
    """One of a kind, made as clew makes it."""
    if "__init__" not in vars(kind):
        return kind("What happened. What to do.")
    wanted = list(inspect.signature(kind).parameters.values())
    required = [each for each in wanted if each.default is each.empty]
    positional = [SPELLED[each.name] for each in required if each.kind is not each.KEYWORD_ONLY]
    named = {each.name: SPELLED[each.name] for each in required if each.kind is each.KEYWORD_ONLY}
    return kind(*positional, **named)


def there_and_back(error: ClewError) -> ClewError:
    return error_of(msgspec.json.decode(to_wire(problem_of(error)), type=Problem))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_comes_out_as_it_went_in(kind: type[ClewError]) -> None:
    error = example(kind)
    back = there_and_back(error)
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert back.code == error.code


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_whoever_asks_wrongly_is_told_so_with_a_four_hundred(kind: type[ClewError]) -> None:
    blames_caller = (
        errors.InvalidInput, errors.NotFound, errors.Forbidden, errors.Unauthorized,
        errors.AmbiguousId, errors.Conflict, errors.TooManyRequests, errors.NotATranscript,
    )  # fmt: skip
    status = status_of(example(kind))
    assert (400 <= status < 500) == (
        issubclass(kind, (*blames_caller, errors.Locked)) and kind is not errors.StoreBusy
    )


class LostIt(errors.NotFound):
    """An error of a room, without a code of its own."""


def test_an_error_of_a_room_comes_out_as_the_one_that_everybody_knows() -> None:
    back = there_and_back(LostIt("It is gone."))
    assert type(back) is errors.NotFound
    assert str(back) == "It is gone."


def test_candidates_of_another_version_are_left_out() -> None:
    about = {"typed": "55", "candidates": ["s1"], "sessions": [{"number": 1}]}
    back = error_of(Problem(title="Odd", status=409, code="ambiguous_id", about=about))
    assert isinstance(back, errors.AmbiguousId)
    assert (back.candidates, back.sessions) == (("s1",), ())


def test_a_code_that_is_not_known_here_is_an_error_all_the_same() -> None:
    back = error_of(Problem(title="Odd", status=418, code="from_the_future", detail="Wait."))
    assert type(back) is ClewError
    assert str(back) == "Wait."
    assert back.code == "from_the_future"
