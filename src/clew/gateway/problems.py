"""Errors as answers: `application/problem+json`.

The errors of clew have their statuses in `api.problems`; here is what HTTP adds to them. Anything
malformed is a 4xx. A 5xx means that the store or the model failed, or that clew has a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket

from clew.api.problems import MEDIA_TYPE, Problem, problem_of
from clew.core.text import to_wire
from clew.errors import ClewError

WORDS: Final = {
    404: (
        "no_such_route",
        "There is nothing at this address. /v1/openapi.json lists all addresses.",
    ),
    405: (
        "method_not_allowed",
        "This address does not have that method. The header Allow lists those it has.",
    ),
}
HEADERS: Final = {
    401: {"WWW-Authenticate": 'Bearer realm="clew"'},
    429: {"Retry-After": "60"},
    503: {"Retry-After": "1"},
}


class Refused(Exception):
    """A request that is wrong as HTTP, before any operation is asked."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})


def respond(error: ClewError | Refused) -> Response:
    """An error as an answer."""
    if isinstance(error, Refused):
        problem = _problem(error.status, error.code, error.detail)
        return _response(problem, error.headers)
    return _response(problem_of(error))


def respond_to_bug() -> Response:
    """The answer after a bug in clew, without any detail of it."""
    detail = "Something in clew went wrong. This is a bug; the log of the gateway says more."
    return _response(_problem(500, "internal", detail))


async def handle(connection: HTTPConnection, error: Exception) -> Any:
    """The answer to an error; a socket is refused with it before it opens."""
    match error:
        case ClewError() | Refused():
            response = respond(error)
        case HTTPException():
            code, detail = WORDS.get(error.status_code, ("refused", error.detail))
            response = respond(Refused(error.status_code, code, detail, error.headers))
        case ClientDisconnect():
            # The client has gone; without an answer it would count as a bug.
            response = Response(status_code=400)
        case _:
            raise error
    if isinstance(connection, WebSocket):
        await connection.send_denial_response(response)
        return None
    return response


def _problem(status: int, code: str, detail: str) -> Problem:
    return Problem(title=HTTPStatus(status).phrase, status=status, code=code, detail=detail)


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    more = HEADERS.get(problem.status, {}) | dict(headers or {})
    return Response(
        to_wire(problem), status_code=problem.status, headers=more, media_type=MEDIA_TYPE
    )
