"""The application: an endpoint for each row of the operations table, and the few others.

Requests are read in `endpoints`; what an operation does is in `api.handlers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, partial
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.api.blobs import BlobFile
from clew.api.chat import SendChat
from clew.api.handlers.parts import check_handlers
from clew.api.local import Calls
from clew.api.operation import NoParams, Operation, Params, read_params
from clew.api.sessions import DAMAGED, MOST_DAMAGED, Exported
from clew.api.table import OPERATIONS, get_operation
from clew.core.text import to_wire
from clew.errors import ClewError, InvalidInput
from clew.gateway.auth import Credential, Gate
from clew.gateway.browser_login import make_login_endpoints
from clew.gateway.call_limits import CallLimits, RunningCalls, is_long
from clew.gateway.endpoints import (
    MAX_UPLOAD,
    Endpoint,
    make_routes,
    read_json,
    read_query,
    read_request,
)
from clew.gateway.event_streams import (
    HEARTBEAT,
    make_events_endpoint,
    stream_chat,
    until_gone,
)
from clew.gateway.feeds import Feeds
from clew.gateway.live import make_live_endpoint
from clew.gateway.mcp_endpoint import MakeServer, make_mcp_endpoint
from clew.gateway.middleware import BodyDrain, HostGuard, security_headers
from clew.gateway.openai_door import make_openai_endpoints
from clew.gateway.openapi import make_document
from clew.gateway.pages import make_page_routes
from clew.gateway.problems import WORDS, Refused, handle, respond_to_bug
from clew.gateway.stream_guard import StreamGuard
from clew.gateway.unknown_senders import UnknownRequest

JSON: Final = "application/json"
EXPECTED: Final[tuple[Any, ...]] = (ClewError, Refused, HTTPException, ClientDisconnect)


class Rpc(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation by its name."""

    method: str
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class Health(msgspec.Struct, frozen=True):
    """The gateway runs."""

    status: str = "ok"


RPC: Final[Operation[Any, Any]] = Operation(
    name="rpc",
    method="POST",
    path="/v1/rpc",
    scope="read",
    takes=Rpc,
    gives=Any,
    who="guest",
    help="Any operation by its name.",
    also="what the operation needs",
)
HEALTH: Final[Operation[Any, Any]] = Operation(
    name="health",
    method="GET",
    path="/health",
    scope="read",
    takes=NoParams,
    gives=Health,
    who="guest",
    help="Whether the gateway runs, and nothing else.",
)
DOCUMENT: Final[Operation[Any, Any]] = Operation(
    name="openapi",
    method="GET",
    path="/v1/openapi.json",
    scope="read",
    takes=NoParams,
    gives=dict[str, Any],
    who="guest",
    help="This document.",
)


def build_app(
    calls: Calls,
    gate: Gate,
    *,
    endpoints: Sequence[Endpoint] = (),
    stream_guard: StreamGuard | None = None,
    heartbeat: float = HEARTBEAT,
    call_limits: CallLimits | None = None,
    make_mcp_server: MakeServer | None = None,
) -> Starlette:
    """The whole API. `endpoints` are added to it, webhooks for example."""
    check_handlers(OPERATIONS)
    guard = stream_guard or StreamGuard(gate)
    feeds = Feeds(calls.parts)
    stream = partial(stream_chat, calls, guard, heartbeat=heartbeat)
    running = RunningCalls(call_limits)
    operations = _Operations(calls, stream, running)
    all_endpoints = (
        # First, as routes are tried in their order: the page and the terminal call it all the time.
        Endpoint(operation=RPC, respond=operations.call_by_name),
        *(operations.make_endpoint(each) for each in OPERATIONS),
        *make_login_endpoints(gate),
        Endpoint(operation=HEALTH, respond=_send_health, is_open=True),
        Endpoint(operation=DOCUMENT, respond=operations.send_document),
        make_live_endpoint(feeds, guard),
        make_events_endpoint(feeds, guard, heartbeat=heartbeat),
        *make_openai_endpoints(calls, guard, running, heartbeat=heartbeat),
        *([make_mcp_endpoint(make_mcp_server, running)] if make_mcp_server else []),
        *endpoints,
    )
    # Made when it is first asked for: few ask, and it takes longer than all else here.
    operations.document = cache(lambda: to_wire(make_document(all_endpoints, gate.setup)))
    app = Starlette(
        routes=[*make_routes(gate, all_endpoints), *make_page_routes()],
        middleware=[
            Middleware(BodyDrain),
            Middleware(
                HostGuard,
                hosts=gate.setup.hosts,
                tls=gate.setup.tls,
                behind_proxy=gate.setup.behind_proxy,
            ),
        ],
        exception_handlers=dict.fromkeys(EXPECTED, handle) | {Exception: _handle_bug},
    )
    # An address with a slash at its end is another address.
    app.router.redirect_slashes = False
    app.router.default = _refuse_unknown
    return app


class _Operations:
    """Responds for the operations of the table. `document` makes the OpenAPI document."""

    def __init__(
        self,
        calls: Calls,
        stream_chat: Callable[[SendChat, Credential], Response],
        running: RunningCalls,
    ) -> None:
        self.document: Callable[[], bytes] = bytes
        self._calls = calls
        self._running = running
        self._stream_chat = stream_chat

    def make_endpoint(self, operation: Operation[Any, Any]) -> Endpoint:
        """The endpoint of an operation."""

        async def respond(request: Request, given: Credential) -> Response:
            async with self._running.receive(operation, given):
                params = await read_request(operation, request)
            work = self._do(operation, params, given)
            if operation.method == "GET" and is_long(operation, params):
                return await _while_connected(request, work)
            return await work

        return Endpoint(operation=operation, respond=respond)

    async def call_by_name(self, request: Request, given: Credential) -> Response:
        """`POST /v1/rpc`: any operation by its name; the answer is always JSON."""
        async with self._running.receive(RPC, given):
            asked: Any = read_params(RPC, await read_json(request, MAX_UPLOAD))
        if read_query(request):
            raise InvalidInput(
                "Put the parameters of the operation into `params`, not into the query."
            )
        operation = get_operation(asked.method)
        given.caller.check(operation)
        plain = msgspec.structs.replace(
            operation, answer="json" if operation.answer == "file" else operation.answer
        )
        return await self._do(plain, read_params(operation, asked.params), given)

    async def _do(
        self, operation: Operation[Any, Any], params: Params, given: Credential
    ) -> Response:
        if isinstance(params, SendChat) and params.stream:
            return self._stream_chat(params, given)
        async with self._running.run(operation, params, given):
            result = await self._calls.call(operation, params, given.caller)
        if operation.answer == "file":
            return _send_file(result)
        headers = {} if operation.etag is None else {"ETag": f'"{operation.etag(result)}"'}
        return Response(
            to_wire(result), status_code=operation.status, headers=headers, media_type=JSON
        )

    async def send_document(self, request: Request, _given: Credential) -> Response:
        """`GET /v1/openapi.json`."""
        await read_request(DOCUMENT, request)
        return Response(self.document(), media_type=JSON)


async def _while_connected(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer of a long call. It is given up if the client leaves before it is there."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(until_gone(request.receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for each in (working, leaving):
            each.cancel()
        await asyncio.wait({working, leaving})


def _send_file(file: Exported | BlobFile) -> Response:
    if isinstance(file, BlobFile):
        return _send_blob(file)
    # As a download: no browser may show what models and strangers wrote as a page of ours.
    headers = {
        "Content-Disposition": f'attachment; filename="{file.name}"',
        "Content-Type": file.media_type,
    }
    if file.damaged:
        headers[DAMAGED] = " ".join(map(str, file.damaged[:MOST_DAMAGED]))
    return Response(file.content.encode("utf-8", "replace"), headers=headers)


def _send_blob(file: BlobFile) -> Response:
    # Even a picture gets a page of its own that may do nothing, should somebody open it alone.
    shown = "inline" if file.is_picture else "attachment"
    headers = {
        "Content-Disposition": f'{shown}; filename="{file.name}"',
        "Content-Type": file.media_type,
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(file.content, headers=headers)


async def _send_health(request: Request, _unknown: UnknownRequest) -> Response:
    await read_request(HEALTH, request)
    return Response(to_wire(Health()), media_type=JSON)


async def _refuse_unknown(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Refused(404, *WORDS[404])


async def _handle_bug(request: Request, _error: Exception) -> Response:
    """Answer after a bug. `middleware` is inside of this, so its headers are added here."""
    response = respond_to_bug(request.url.path)
    response.headers.update(security_headers(request.url.path))
    return response
