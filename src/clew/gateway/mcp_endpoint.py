"""`/v1/mcp`: the MCP server at a gateway, over MCP's streamable HTTP.

Each request is answered on its own by a server for the caller of its token: nothing is remembered
between two, so there is no session that another token could take over. The server is made by the
wiring; what its caller may see is decided behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from clew.api.handlers.parts import Caller
from clew.api.operation import NoParams, Operation
from clew.errors import InvalidInput
from clew.gateway.auth import Credential
from clew.gateway.call_limits import RunningCalls
from clew.gateway.endpoints import Endpoint, read_body, read_query
from clew.gateway.problems import Refused

MAX_REQUEST: Final = 200_000

MakeServer = Callable[[Caller], Any]
"""Makes the MCP server of a caller; `ModuleNotFoundError` without the extra."""

MCP: Final[Operation[Any, Any]] = Operation(
    name="mcp",
    method="POST",
    path="/v1/mcp",
    scope="read",
    takes=NoParams,
    gives=dict[str, Any],
    who="guest",
    help="MCP (streamable HTTP): lists, searches and reads sessions; adds to the memory.",
    also="the tool `remember` is the owner's, and needs `write`",
)


def make_mcp_endpoint(make_server: MakeServer, running: RunningCalls) -> Endpoint:
    """The endpoint of MCP."""

    async def respond(request: Request, given: Credential) -> Response:
        if read_query(request):
            raise InvalidInput("Nothing is taken from the query here.")
        async with running.receive(MCP, given):
            body = await read_body(request, MAX_REQUEST)
        try:
            server = make_server(given.caller)
        except ModuleNotFoundError as error:
            detail = "MCP needs an extra where the gateway runs: pip install 'clew[mcp]'."
            raise Refused(501, "not_installed", detail) from error
        return _Answer(server, body, running, given)

    return Endpoint(operation=MCP, respond=respond)


class _Answer(Response):
    """The answer of an MCP server to one request."""

    def __init__(self, server: Any, body: bytes, running: RunningCalls, given: Credential) -> None:
        super().__init__()
        self._server = server
        self._request = body
        self._running = running
        self._given = given

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the server answer, from the body that was read."""
        is_read = False

        async def receive_again() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": self._request, "more_body": False}

        # Its hosts and origins are checked by the gateway, for all endpoints.
        self._server.streamable_http_app(stateless_http=True, json_response=True, host="0.0.0.0")  # noqa: S104
        manager = self._server.session_manager
        async with self._running.run(MCP, NoParams(), self._given), manager.run():
            await manager.handle_request(scope, receive_again, send)
