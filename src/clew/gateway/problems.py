"""Errors as answers: `application/problem+json`.

The errors of clew have their statuses in `api.problems`; here is what HTTP adds to them. Anything
malformed is a 4xx. A 5xx means that the store or the model failed, or that clew has a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
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


OPENAI: Final = "/v1/openai/"
"""Where errors also have the member that OpenAI's libraries read."""
_OPENAI_TYPES: Final = {
    401: "authentication_error", 403: "permission_error", 429: "rate_limit_error",
}  # fmt: skip


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


def respond(error: ClewError | Refused, path: str = "") -> Response:
    """An error as an answer to a request for this path."""
    if isinstance(error, Refused):
        problem = _problem(error.status, error.code, error.detail)
        return _response(problem, path, error.headers)
    return _response(problem_of(error), path)


def respond_to_bug(path: str = "") -> Response:
    """The answer after a bug in clew, without any detail of it."""
    detail = "Something in clew went wrong. This is a bug; the log of the gateway says more."
    return _response(_problem(500, "internal", detail), path)


def openai_error(problem: Problem) -> dict[str, Any]:
    """A problem as OpenAI's libraries read it."""
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    return {
        "message": problem.detail or problem.title,
        "type": _OPENAI_TYPES.get(problem.status, kind),
        "param": None,
        "code": problem.code,
    }


async def handle(connection: HTTPConnection, error: Exception) -> Any:
    """The answer to an error; a socket is refused with it before it opens."""
    match error:
        case ClewError() | Refused():
            response = respond(error, connection.url.path)
        case HTTPException():
            code, detail = WORDS.get(error.status_code, ("refused", error.detail))
            refused = Refused(error.status_code, code, detail, error.headers)
            response = respond(refused, connection.url.path)
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


def _response(
    problem: Problem, path: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    more = HEADERS.get(problem.status, {}) | dict(headers or {})
    told: dict[str, Any] = msgspec.to_builtins(problem)
    if path.startswith(OPENAI):
        told["error"] = openai_error(problem)
    return Response(to_wire(told), status_code=problem.status, headers=more, media_type=MEDIA_TYPE)
