"""Errors as problem documents (RFC 9457), and back: the same classes on both ends of a wire.

An error's `code` names its class, its attributes travel as `about`. Errors of HTTP itself (a
method, a body that is too long) are made by the gateway, in the same form.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec

from clew import errors
from clew.errors import ClewError

MEDIA_TYPE: Final = "application/problem+json"


_STATUSES: Final[tuple[tuple[type[ClewError], int], ...]] = (
    (errors.StaleRevision, 412),
    (errors.StaleMemory, 412),
    (errors.StoreBusy, 503),
    (errors.Draining, 503),
    (errors.StoreFull, 507),
    (errors.InvalidInput, 400),
    (errors.NotATranscript, 400),
    (errors.NotFound, 404),
    (errors.Unauthorized, 401),
    (errors.Forbidden, 403),
    (errors.TooManyRequests, 429),
    (errors.AmbiguousId, 409),
    (errors.Conflict, 409),
    (errors.Locked, 423),
    (errors.TurnFailed, 502),
    (errors.GatewayUnavailable, 502),
    (errors.NotDelivered, 502),
    (errors.ChannelRefused, 502),
    (errors.StoreUnusable, 503),
)
"""The first class that matches counts; any other error is a 500."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error. `code` is stable and for programs, `detail` is for people."""

    title: str
    status: int
    code: str
    detail: str = ""
    type: str = "about:blank"
    about: dict[str, Any] = {}


def status_of(error: ClewError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def problem_of(error: ClewError) -> Problem:
    """An error as a document."""
    from http import HTTPStatus  # noqa: PLC0415  # keeps `clew list` fast

    status = status_of(error)
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=error.code,
        detail=str(error),
        about={
            name: msgspec.to_builtins(value)
            for name, value in vars(error).items()
            if _is_plain(value)
        },
    )


def error_of(problem: Problem) -> ClewError:
    """The error of a document; a code without a class here becomes a `ClewError` with that code."""
    kind = _kinds().get(problem.code, ClewError)
    # Not by their constructors, which make the message from its parts: here it is complete.
    error = kind.__new__(kind)
    Exception.__init__(error, problem.detail or problem.title)
    vars(error).update(_read_about(kind, problem.about))
    if problem.code != kind.code:
        vars(error)["code"] = problem.code
    return error


def _read_about(kind: type[ClewError], about: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The attributes that the error class declares; values of wrong types are left out."""
    declared = get_type_hints(kind)
    for name, value in about.items():
        if name in declared:
            with contextlib.suppress(msgspec.ValidationError):
                yield name, msgspec.convert(value, declared[name])
        else:
            yield name, tuple(value) if isinstance(value, list) else value


def _is_plain(value: object) -> bool:
    """Whether a value can be sent: text, numbers, and lists of text or of structs."""
    if isinstance(value, tuple):
        return all(isinstance(each, str | msgspec.Struct) for each in value)
    return value is None or isinstance(value, str | int | float | bool)


@cache
def _kinds() -> dict[str, type[ClewError]]:
    return {kind.code: kind for kind in _walk(ClewError) if "code" in vars(kind)}


def _walk(kind: type[ClewError]) -> Iterator[type[ClewError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _walk(each)
