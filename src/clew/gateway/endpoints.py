"""Endpoints: what each address of the gateway answers, and who may call it.

The rows of the operations table and the few other addresses (login, live events, webhooks) are all
endpoints, so that every one of them goes through the same `Gate` and stands in the same OpenAPI
document. An open endpoint asks for no credential, or for a kind of its own, like a signature.

`read_request` turns a request into the parameters of an operation: path, query, header and body,
each bounded. A path and a query are text, so numbers are parsed from them; in a JSON body a number
must be a number. Unknown parameters are refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from clew.api.complaints import explain
from clew.api.operation import Operation, P, R, read_params
from clew.errors import InvalidInput
from clew.gateway.auth import Credential, Gate
from clew.gateway.middleware import address_of
from clew.gateway.problems import WORDS, Refused
from clew.gateway.unknown_senders import UnknownRequest, recognize

Respond: TypeAlias = Callable[[Request, Credential], Awaitable[Response]]
"""Answer a request with an accepted credential."""
RespondOpen: TypeAlias = Callable[[Request, UnknownRequest], Awaitable[Response]]
"""Answer a request at an open endpoint, where the caller is not known."""
ServeSocket: TypeAlias = Callable[[WebSocket, Credential], Awaitable[None]]
"""Accept a socket with an accepted credential, and serve it to its end."""

MAX_BODY: Final = 4_000_000
MAX_UPLOAD: Final = 32_000_000
"""For operations that take files: one of 20 MB in base64, and the message."""
PATIENCE: Final = 300.0
"""Seconds for a whole body to arrive, if its sender has a credential."""
MAX_FIELDS: Final = 100
_ETAG: Final = re.compile(r'"([^"]+)"')


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One address and method: what it takes and gives, as a row of the table, and what answers.

    `is_open`: no credential is asked for. `is_socket`: it is a WebSocket, found with GET. `frames`
    is what its event stream consists of, if that is not clew's own.
    """

    operation: Operation[Any, Any]
    respond: Respond | RespondOpen | ServeSocket
    is_open: bool = False
    is_socket: bool = False
    frames: Any = None


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
        respond: Any = endpoint.respond
        if endpoint.is_open:
            address = address_of(scope, behind_proxy=self._gate.setup.behind_proxy)
            unknown = self._gate.unknown.open_request(address)
            response: Response = await respond(request, unknown)
        else:
            given = await _admit(self._gate, endpoint, request)
            if endpoint.is_socket:
                detail = "This address is a WebSocket: connect to it as one."
                raise Refused(426, "upgrade_required", detail, {"Upgrade": "websocket"})
            response = await respond(request, given)
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


async def _admit(gate: Gate, endpoint: Endpoint, connection: HTTPConnection) -> Credential:
    given = await gate.admit(connection, endpoint.operation)
    recognize(connection.scope)
    return given


async def read_request(
    operation: Operation[P, R],
    request: Request,
    unknown: UnknownRequest | None = None,
    *,
    limit: int = MAX_BODY,
) -> P:
    """The parameters of an operation; `InvalidInput` or `Refused` for a wrong request."""
    values: dict[str, Any] = {}
    query = read_query(request)
    if operation.has_body:
        _know(query, ())
        values = await read_json(request, MAX_UPLOAD if operation.uploads else limit, unknown)
    else:
        values = dict(query)
    _know(values, operation.other_fields)
    values |= {name: request.path_params[name] for name in operation.path_fields}
    values |= _read_headers(operation, request)
    return read_params(operation, values, strict=operation.has_body)


def read_query(request: Request) -> dict[str, str]:
    """The query, every name once."""
    text = request.scope["query_string"]
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as error:
        raise InvalidInput("The query can't be read: it has to be URL-encoded UTF-8.") from error
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidInput("A parameter is in the query twice. Give it once.")
    return query


async def read_json(
    request: Request, limit: int, unknown: UnknownRequest | None = None
) -> dict[str, Any]:
    """A body that is a JSON object; a missing body is an empty object."""
    body = await read_body(request, limit, unknown)
    if not body:
        return {}
    kind, _, more = request.headers.get("content-type", "").partition(";")
    charset = more.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
        raise Refused(
            415,
            "unsupported_media_type",
            "The body has to be JSON in UTF-8, sent as `Content-Type: application/json`.",
        )
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(400, "malformed_json", f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        detail = "The JSON of the body is nested too deeply."
        raise Refused(400, "malformed_json", detail) from error
    if not isinstance(value, dict):
        raise Refused(400, "malformed_json", "The body has to be a JSON object: {…}.")
    return value


async def read_body(request: Request, limit: int, unknown: UnknownRequest | None = None) -> bytes:
    """The whole body. One that is too long is refused as soon as that is known.

    An unknown sender has less time for it, and shares the memory for it with all the others.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        detail = "A compressed body is not accepted. Send it without a Content-Encoding."
        raise Refused(415, "unsupported_media_type", detail)
    told = request.headers.get("content-length", "")
    if told.isdecimal() and (len(told) > len(str(limit)) or int(told) > limit):
        raise _too_long(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE) if unknown is None else unknown.reading():
            async for chunk in request.stream():
                if len(body) + len(chunk) > limit:
                    raise _too_long(limit)
                if unknown is not None:
                    unknown.take(len(chunk))
                body += chunk
    except TimeoutError as error:
        detail = "The body did not arrive in time. Nothing was changed."
        raise Refused(408, "request_timeout", detail, {"Connection": "close"}) from error
    return bytes(body)


def _too_long(limit: int) -> Refused:
    detail = f"The body is too long: at most {limit:,} bytes are allowed. Nothing was changed."
    return Refused(413, "body_too_large", detail)


def _know(given: Iterable[str], known: tuple[str, ...]) -> None:
    unknown = [each for each in given if each not in known]
    if unknown:
        names = ", ".join(known) or "none"
        raise InvalidInput(
            f'There is no parameter "{unknown[0][:100]}" here (known: {names}). '
            "Nothing was changed."
        )


def _read_headers(operation: Operation[Any, Any], request: Request) -> dict[str, Any]:
    given = request.headers.getlist("if-match")
    if not given or given == ["*"]:
        return {}
    if not operation.header_fields:
        if request.method in ("GET", "HEAD"):
            return {}
        raise InvalidInput(f"{operation.name} does not take If-Match. Nothing was changed.")
    tag = _ETAG.fullmatch(given[0].strip())
    if len(given) > 1 or tag is None:
        raise InvalidInput('If-Match has to be one ETag in quotes, as in If-Match: "5".')
    # A header is text; where the parameter is a number, it is read as one.
    kinds = {each.name: each.type for each in msgspec.structs.fields(operation.takes)}
    try:
        return {"if_match": msgspec.convert(tag[1], kinds["if_match"], strict=False)}
    except msgspec.ValidationError as error:
        told = explain(error, kinds["if_match"], tag[1], whole="If-Match")
        raise InvalidInput(f"{told}. Nothing was changed.") from error
