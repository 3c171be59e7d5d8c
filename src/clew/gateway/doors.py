"""Doors: what is behind an address, and who may open it.

Every address of the gateway is a door, those of the operations table and the few others (`login`,
`live`, webhooks), so that all of them go through the same `Gate` and stand in the same OpenAPI
document. An open door asks for no credential, or for one of its own.
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
from clew.gateway.auth import Gate, Pass
from clew.gateway.problems import WORDS, Refused

Enter: TypeAlias = Callable[[Request, Pass], Awaitable[Response]]
"""Answer a request of somebody who was let in."""
EnterOpen: TypeAlias = Callable[[Request, None], Awaitable[Response]]
"""The same at an open door, where nobody is known."""
EnterSocket: TypeAlias = Callable[[WebSocket, Pass], Awaitable[None]]
"""Accept a socket of somebody who was let in, and serve it to its end."""


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """One address: what it takes and gives, in the words of the table, and who answers there.

    `is_open`: no credential is asked for. `is_socket`: it is a WebSocket, found with GET.
    """

    operation: Operation[Any, Any]
    enter: Enter | EnterOpen | EnterSocket
    is_open: bool = False
    is_socket: bool = False


def make_routes(gate: Gate, doors: Iterable[Door]) -> list[BaseRoute]:
    """Routes to all doors; those of one path are one place."""
    places: dict[str, dict[str, Door]] = {}
    routes: list[BaseRoute] = []
    for door in doors:
        # Whoever comes to a socket's door without one is answered too.
        behind = places.setdefault(door.operation.path, {})
        if door.operation.method in behind:
            raise TypeError(f"two doors at {door.operation.method} {door.operation.path}")
        behind[door.operation.method] = door
        if door.is_socket:
            routes.append(WebSocketRoute(door.operation.path, _SocketPlace(gate, door)))
    return routes + [Route(path, _Place(gate, behind)) for path, behind in places.items()]


class _Place:
    """All that is behind one path."""

    def __init__(self, gate: Gate, doors: Mapping[str, Door]) -> None:
        self._gate = gate
        self._doors = doors
        self._allow = ", ".join([*doors, *(["HEAD"] if "GET" in doors else [])])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the door of this method."""
        door = self._doors.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if door is None:
            raise Refused(405, *WORDS[405], {"Allow": self._allow})
        request = Request(scope, receive)
        given = await _admit(self._gate, door, request)
        if door.is_socket:
            detail = "This address is a WebSocket: connect to it as one."
            raise Refused(426, "upgrade_required", detail, {"Upgrade": "websocket"})
        enter: Any = door.enter
        response: Response = await enter(request, given)
        await response(scope, receive, send)


class _SocketPlace:
    """A socket."""

    def __init__(self, gate: Gate, door: Door) -> None:
        self._gate = gate
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, or refuse it as any request."""
        socket = WebSocket(scope, receive, send)
        given = await _admit(self._gate, self._door, socket)
        enter: Any = self._door.enter
        await enter(socket, given)


async def _admit(gate: Gate, door: Door, connection: HTTPConnection) -> Pass | None:
    return None if door.is_open else await gate.admit(connection, door.operation.scope)
