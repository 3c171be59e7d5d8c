"""ASGI middleware: foreign hosts and pages are refused before any credential is read.

A browser sends requests for any page that asks it to. So requests to a host name that is not ours
(421) or from a page that is not ours (403) end here, for HTTP and for sockets; and every answer has
headers that restrict what the browser may do with it. `BodyDrain` lets a refused client read its
answer. Credentials are checked in `auth`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import MutableMapping
from http import HTTPStatus
from ipaddress import IPv6Address
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.gateway.problems import Refused, respond

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
API: Final = "/v1/"
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(
    r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[1-9][0-9]{0,4}))?",
    re.ASCII | re.IGNORECASE,
)
_HIGHEST_PORT: Final = 65_535

ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
FOR_PAGES: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types clew"
)
FOR_DATA: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox"

DRAIN_SECONDS: Final = 5.0
"""Seconds for the rest of a body that is thrown away."""


def security_headers(path: str) -> dict[str, str]:
    """The headers of every answer."""
    is_page = not is_api(path)
    policy = {"Content-Security-Policy": FOR_PAGES if is_page else FOR_DATA}
    return ALWAYS | policy | ({} if is_page else {"Cache-Control": "no-store"})


def is_api(path: str) -> bool:
    """Whether the path is of the API, and no page."""
    return path.startswith(API) or path in ("/health", "/metrics")


class HostGuard:
    """Checks host and origin, and adds the security headers. Plain ASGI, so streams flow."""

    def __init__(
        self, app: ASGIApp, *, hosts: tuple[str, ...], tls: bool, behind_proxy: bool
    ) -> None:
        self._app = app
        self._hosts = frozenset(map(_spell_host, hosts))
        self._tls = tls
        self._behind_proxy = behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message.setdefault("headers", [])
                add_headers(message, scope["path"])
            await send(message)

        try:
            self._check(scope)
        except Refused as error:
            await respond(error, scope["path"])(scope, receive, send_safely)
        else:
            await self._app(scope, receive, send_safely)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (host := split_host(hosts[0])) is None or host[0] not in self._hosts:
            raise Refused(
                421,
                "wrong_host",
                "This gateway does not answer to that host name. "
                "`clew serve --allow-host NAME` allows it.",
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, host, scope, headers):
            raise Refused(
                403, "foreign_origin", "A page of another site may not call this gateway."
            )
        site = headers.get("sec-fetch-site", "none").lower()
        if site not in ("none", "same-origin") and not _is_navigation(scope, headers):
            raise Refused(403, "cross_site", "A page of another site may not call this gateway.")

    def _is_own(
        self, origin: str, host: tuple[str, int | None], scope: Scope, headers: Headers
    ) -> bool:
        # An origin is a scheme, a host and a port, and nothing behind them.
        given, separator, rest = origin.partition("://")
        named = split_host(rest) if separator else None
        scheme = self._scheme(scope, headers)
        if named is None or given not in _PORTS or scheme not in (None, given):
            return False
        default = _PORTS[given]
        return (named[0], named[1] or default) == (host[0], host[1] or default)

    def _scheme(self, scope: Scope, headers: Headers) -> str | None:
        """The scheme that the browser uses; None where a proxy does not say."""
        if self._behind_proxy:
            return _last(headers, "x-forwarded-proto") or None
        return "https" if self._tls or scope["scheme"] in ("https", "wss") else "http"


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """Whether it is a link to a page of ours: the linking page can't read the answer."""
    return (
        scope["type"] == "http"
        and scope["method"] in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and not is_api(scope["path"])
    )


def split_host(text: str) -> tuple[str, int | None] | None:
    """The name and port of a Host header, in small letters; None if it is not valid."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    port = None if match["port"] is None else int(match["port"])
    if port is not None and port > _HIGHEST_PORT:
        return None
    if match["six"] is None:
        return match["name"].lower().removesuffix("."), port
    try:
        return str(IPv6Address(match["six"])), port
    except ValueError:
        return None


def _spell_host(name: str) -> str:
    """A host of ours as `split_host` spells it."""
    bare = name.lower().strip("[]")
    found = split_host(f"[{bare}]" if ":" in bare else bare)
    return bare if found is None else found[0]


def add_headers(message: MutableMapping[str, Any], path: str) -> None:
    """Add the security headers to an answer; headers that it has stay."""
    headers = MutableHeaders(raw=message["headers"])
    for name, value in security_headers(path).items():
        headers.setdefault(name, value)
    message["headers"] = headers.raw


def address_of(scope: Scope, *, behind_proxy: bool) -> str:
    """The client's address; behind a proxy, the last one named, which the proxy itself added."""
    if behind_proxy:
        named = _last(Headers(scope=scope), "x-forwarded-for")
        if named:
            return named
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def is_encrypted(scope: Scope, *, tls: bool, behind_proxy: bool) -> bool:
    """Whether the browser speaks TLS, to us or to the proxy."""
    if behind_proxy:
        return _last(Headers(scope=scope), "x-forwarded-proto") == "https"
    return tls


def _last(headers: Headers, name: str) -> str:
    """The last value of a header: our proxy added it, a client may have sent the others."""
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip().lower()


class BodyDrain:
    """Reads the rest of a request's body after its answer, and throws it away.

    A client that is refused in the middle of a long body still sends. If the connection ended then,
    many clients would report only that, and never read the answer. Plain ASGI, so streams flow.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; before the end of the answer, drop the rest of the body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_whole = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"

        async def receive_part() -> Message:
            nonlocal is_whole
            message = await receive()
            is_whole = is_whole or not message.get("more_body", False)
            return message

        async def send_part(message: Message) -> None:
            nonlocal is_whole
            if message.get("status") == HTTPStatus.REQUEST_TIMEOUT:
                is_whole = True  # as much of it as is waited for
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if not is_last or is_whole:
                await send(message)
                return
            await send({**message, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    while not is_whole:
                        await receive_part()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receive_part, send_part)
