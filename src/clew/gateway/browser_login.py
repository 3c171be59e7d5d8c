"""Browsers: how the code of a one-time link becomes a cookie.

The code travels in a link's fragment, which browsers never send: the page reads it and posts it
here. The page itself is in `pages`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from clew.api.operation import NoParams, Operation, Params
from clew.core.text import to_wire
from clew.core.tokens import Scopes
from clew.gateway.auth import BROWSER_MS, Credential, Gate
from clew.gateway.endpoints import Endpoint, read_request
from clew.gateway.middleware import is_encrypted
from clew.gateway.unknown_senders import UnknownRequest

MAX_LOGIN: Final = 1_000
"""Bytes of a body with a code."""


class Login(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The code of a one-time link."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class LoggedIn(msgspec.Struct, frozen=True):
    """Who the browser is from now on."""

    person: str
    scopes: Scopes
    expires_at: int


class Link(msgspec.Struct, frozen=True):
    """A one-time code, and the page's path with it."""

    code: str
    path: str


LOGIN: Final[Operation[Any, Any]] = Operation(
    name="login",
    method="POST",
    path="/v1/login",
    scope="read",
    takes=Login,
    gives=LoggedIn,
    who="guest",
    help="Exchange the code of a one-time link for a cookie.",
)
LOGOUT: Final[Operation[Any, Any]] = Operation(
    name="logout",
    method="POST",
    path="/v1/logout",
    scope="read",
    takes=NoParams,
    gives=None,
    who="guest",
    help="End this browser's cookie. A token stays as it is.",
    status=204,
)
MAKE_LINK: Final[Operation[Any, Any]] = Operation(
    name="links.create",
    method="POST",
    path="/v1/links",
    scope="admin",
    takes=NoParams,
    gives=Link,
    help="Make a one-time link for a browser of the owner.",
    status=201,
)


def make_login_endpoints(gate: Gate) -> tuple[Endpoint, ...]:
    """Log in, log out, and make a link."""
    setup = gate.setup

    def set_cookie(request: Request, response: Response, value: str, seconds: int) -> Response:
        secure = is_encrypted(request.scope, tls=setup.tls, behind_proxy=setup.behind_proxy)
        response.set_cookie(
            setup.cookie,
            value,
            max_age=seconds,
            path="/",
            secure=secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def log_in(request: Request, unknown: UnknownRequest) -> Response:
        given: Any = await read_request(LOGIN, request, unknown, limit=MAX_LOGIN)
        token, secret = await gate.redeem(request, given.code)
        body = LoggedIn(token.person, token.scopes, token.expires_at or 0)
        response = Response(to_wire(body), media_type="application/json")
        return set_cookie(request, response, secret, BROWSER_MS // 1000)

    async def log_out(request: Request, given: Credential) -> Response:
        await read_request(LOGOUT, request)
        await gate.leave(given)
        return set_cookie(request, Response(status_code=204), "", 0)

    async def make_link(request: Request, _given: Credential) -> Response:
        await read_request(MAKE_LINK, request)
        code = gate.make_code()
        body = to_wire(Link(code, f"/#code={code}"))
        return Response(body, status_code=201, media_type="application/json")

    return (
        Endpoint(operation=LOGIN, respond=log_in, is_open=True),
        Endpoint(operation=LOGOUT, respond=log_out),
        Endpoint(operation=MAKE_LINK, respond=make_link),
    )
