"""The application: doors made from the operations table, and the few that are no operation.

What comes in is read in `asking`, who it is from is settled in `auth` and `guard`, what it does is
`api.handlers`. Live events and webhooks come as doors of others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.api.chat import SendChat
from clew.api.handlers.parts import check_handlers
from clew.api.local import Calls
from clew.api.operation import NoParams, Operation, Params, read_params
from clew.api.table import OPERATIONS, get_operation
from clew.core.jsontext import to_wire
from clew.errors import ClewError, InvalidInput
from clew.gateway.asking import MAX_UPLOAD, read_json, read_query, read_request
from clew.gateway.auth import Gate, Pass
from clew.gateway.doors import Door, make_routes
from clew.gateway.guard import Guard, security_headers
from clew.gateway.lingering import Lingering
from clew.gateway.login import make_login_doors
from clew.gateway.openapi import make_document
from clew.gateway.pages import make_page_routes
from clew.gateway.problems import WORDS, Refused, handle, respond_to_bug

JSON: Final = "application/json"
EXPECTED: Final[tuple[Any, ...]] = (ClewError, Refused, HTTPException, ClientDisconnect)

StreamChat: TypeAlias = Callable[[SendChat, Pass], Awaitable[Response]]
"""What `chat.send` answers to `stream=true`: events until the message is answered."""


class Rpc(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation by its name."""

    method: str
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class Health(msgspec.Struct, frozen=True):
    """That it is there."""

    status: str = "ok"


RPC: Final[Operation[Any, Any]] = Operation(
    name="rpc",
    method="POST",
    path="/v1/rpc",
    scope="read",
    takes=Rpc,
    gives=Any,
    help="Any operation by its name; it needs the scope that the operation needs.",
)
HEALTH: Final[Operation[Any, Any]] = Operation(
    name="health",
    method="GET",
    path="/health",
    scope="read",
    takes=NoParams,
    gives=Health,
    help="Whether the gateway is there. Tells nothing else.",
)
DOCUMENT: Final[Operation[Any, Any]] = Operation(
    name="openapi",
    method="GET",
    path="/v1/openapi.json",
    scope="read",
    takes=NoParams,
    gives=dict[str, Any],
    help="This document.",
)


def build_app(
    calls: Calls,
    gate: Gate,
    *,
    doors: Sequence[Door] = (),
    stream_chat: StreamChat | None = None,
) -> Starlette:
    """The whole API. `doors` are more than the table has: live events, webhooks, pages."""
    check_handlers(OPERATIONS)
    desk = _Desk(calls, stream_chat)
    own = (
        *(desk.make_door(each) for each in OPERATIONS),
        Door(operation=RPC, enter=desk.call_by_name),
        *make_login_doors(gate),
        Door(operation=HEALTH, enter=_tell_health, is_open=True),
        Door(operation=DOCUMENT, enter=desk.tell_document),
        *doors,
    )
    desk.document = to_wire(make_document(own, gate.setup))
    app = Starlette(
        routes=[*make_routes(gate, own), *make_page_routes()],
        middleware=[
            Middleware(Lingering),
            Middleware(
                Guard,
                hosts=gate.setup.hosts,
                tls=gate.setup.tls,
                behind_proxy=gate.setup.behind_proxy,
            ),
        ],
        exception_handlers=dict.fromkeys(EXPECTED, handle) | {Exception: _handle_bug},
    )
    # An address is one address: with a slash behind it, it is another one.
    app.router.redirect_slashes = False
    app.router.default = _find_nothing
    return app


class _Desk:
    """Answers for the operations."""

    def __init__(self, calls: Calls, stream_chat: StreamChat | None) -> None:
        self.document = b""
        self._calls = calls
        self._stream_chat = stream_chat

    def make_door(self, operation: Operation[Any, Any]) -> Door:
        """The door to an operation."""

        async def enter(request: Request, given: Pass) -> Response:
            return await self._do(operation, await read_request(operation, request), given)

        return Door(operation=operation, enter=enter)

    async def call_by_name(self, request: Request, given: Pass) -> Response:
        """`POST /v1/rpc`: the same, and the answer is JSON whatever the operation is."""
        asked: Any = read_params(RPC, await read_json(request, MAX_UPLOAD))
        if read_query(request):
            raise InvalidInput("The parameters of an operation go into `params`.")
        operation = get_operation(asked.method)
        given.caller.check(operation)
        plain = msgspec.structs.replace(
            operation, answer="json" if operation.answer == "file" else operation.answer
        )
        return await self._do(plain, read_params(operation, asked.params), given)

    async def _do(self, operation: Operation[Any, Any], params: Params, given: Pass) -> Response:
        if isinstance(params, SendChat) and params.stream:
            if self._stream_chat is None:
                raise InvalidInput("This gateway has no streams: send it without `stream`.")
            return await self._stream_chat(params, given)
        result = await self._calls.call(operation, params, given.caller)
        if operation.answer == "file":
            return _send_file(result.name, result.media_type, result.content)
        headers = {} if operation.etag is None else {"ETag": f'"{operation.etag(result)}"'}
        return Response(
            to_wire(result), status_code=operation.status, headers=headers, media_type=JSON
        )

    async def tell_document(self, request: Request, _given: Pass) -> Response:
        """`GET /v1/openapi.json`."""
        await read_request(DOCUMENT, request)
        return Response(self.document, media_type=JSON)


def _send_file(name: str, media_type: str, content: str) -> Response:
    # Never shown by a browser as a page of ours: it is what models and strangers have written.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": media_type}
    return Response(content.encode("utf-8", "replace"), headers=headers)


async def _tell_health(request: Request, _: None) -> Response:
    await read_request(HEALTH, request)
    return Response(to_wire(Health()), media_type=JSON)


async def _find_nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Refused(404, *WORDS[404])


async def _handle_bug(request: Request, _error: Exception) -> Response:
    """Outside of the guard, so the headers are put on here. Starlette lets the error go on."""
    response = respond_to_bug()
    response.headers.update(security_headers(request.url.path))
    return response
