"""Endpoints: what each address of the gateway answers, and who may call it.

The rows of the operations table and the few other addresses (login, live events, webhooks) are all
endpoints, so that every one of them goes through the same `Gate` and stands in the same OpenAPI
document. An open endpoint asks for no credential, or for a kind of its own, like a signature.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from clew.api.operation import Operation
from clew.gateway.auth import Credential, Gate
from clew.gateway.problems import WORDS, Refused

Respond: TypeAlias = Callable[[Request, Credential], Awaitable[Response]]
"""Answer a request with an accepted credential."""
RespondOpen: TypeAlias = Callable[[Request, None], Awaitable[Response]]
"""Answer a request at an open endpoint, where the caller is not known."""
ServeSocket: TypeAlias = Callable[[WebSocket, Credential], Awaitable[None]]
"""Accept a socket with an accepted credential, and serve it to its end."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One address and method: what it takes and gives, as a row of the table, and what answers.

    `is_open`: no credential is asked for. `is_socket`: it is a WebSocket, found with GET.
    """

    operation: Operation[Any, Any]
    respond: Respond | RespondOpen | ServeSocket
    is_open: bool = False
    is_socket: bool = False


def make_routes(gate: Gate, endpoints: Iterable[Endpoint]) -> list[BaseRoute]:
    """A route for each path, and one for each socket."""
    paths: dict[str, dict[str, Endpoint]] = {}
    routes: list[BaseRoute] = []
    for endpoint in endpoints:
        # A request without a socket at a socket's endpoint is answered too.
        operation = endpoint.operation
        methods = paths.setdefault(operation.path, {})
        if operation.method in methods:
            raise TypeError(f"two endpoints at {operation.method} {operation.path}")
        methods[operation.method] = endpoint
        if endpoint.is_socket:
            routes.append(WebSocketRoute(endpoint.operation.path, _SocketRoute(gate, endpoint)))
    return routes + [Route(path, _PathRoute(gate, methods)) for path, methods in paths.items()]


class _PathRoute:
    """The endpoints of one path."""

    def __init__(self, gate: Gate, endpoints: Mapping[str, Endpoint]) -> None:
        self._gate = gate
        self._endpoints = endpoints
        self._allow = ", ".join([*endpoints, *(["HEAD"] if "GET" in endpoints else [])])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the endpoint of this method."""
        endpoint = self._endpoints.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if endpoint is None:
            raise Refused(405, *WORDS[405], {"Allow": self._allow})
        request = Request(scope, receive)
        given = await _admit(self._gate, endpoint, request)
        if endpoint.is_socket:
            detail = "This address is a WebSocket: connect to it as one."
            raise Refused(426, "upgrade_required", detail, {"Upgrade": "websocket"})
        respond: Any = endpoint.respond
        response: Response = await respond(request, given)
        await response(scope, receive, send)


class _SocketRoute:
    """The endpoint of a socket."""

    def __init__(self, gate: Gate, endpoint: Endpoint) -> None:
        self._gate = gate
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the socket, or refuse it like a request."""
        socket = WebSocket(scope, receive, send)
        given = await _admit(self._gate, self._endpoint, socket)
        serve: Any = self._endpoint.respond
        await serve(socket, given)


async def _admit(gate: Gate, endpoint: Endpoint, connection: HTTPConnection) -> Credential | None:
    return None if endpoint.is_open else await gate.admit(connection, endpoint.operation.scope)
