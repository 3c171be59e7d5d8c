"""What is refused before anybody is asked who they are: foreign hosts, foreign pages.

A browser sends requests for any page that asks it to. So a name that is not ours (421) and a page
that is not ours (403) end here, for HTTP and for sockets; and every answer tells the browser how
little it may do with it. Credentials are `auth`'s work.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.gateway.problems import Refused, respond

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
API: Final = "/v1/"
_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")

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
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
FOR_DATA: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox"


def security_headers(path: str) -> dict[str, str]:
    """What every answer carries."""
    is_page = not is_api(path)
    policy = {"Content-Security-Policy": FOR_PAGES if is_page else FOR_DATA}
    return ALWAYS | policy | ({} if is_page else {"Cache-Control": "no-store"})


def is_api(path: str) -> bool:
    """Whether it is data that is asked for, and no page."""
    return path.startswith(API) or path == "/health"


class Guard:
    """Middleware: hosts, origins, and the headers of every answer. Plain ASGI, so streams flow."""

    def __init__(
        self, app: ASGIApp, *, hosts: tuple[str, ...], tls: bool, behind_proxy: bool
    ) -> None:
        self._app = app
        self._hosts = frozenset(each.lower().strip("[]") for each in hosts)
        self._tls = tls
        self._behind_proxy = behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse it, or let it pass."""
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
            await respond(error)(scope, receive, send_safely)
        else:
            await self._app(scope, receive, send_safely)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (host := split_host(hosts[0])) is None or host[0] not in self._hosts:
            raise Refused(
                421,
                "wrong_host",
                "This gateway does not answer to that name. "
                "`clew serve --allow-host NAME` makes it.",
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, host, scope, headers):
            raise Refused(403, "foreign_origin", "Another site's page may not ask for this.")
        site = headers.get("sec-fetch-site", "none").lower()
        if site not in ("none", "same-origin") and not _is_navigation(scope, headers):
            raise Refused(403, "cross_site", "Another site's page may not ask for this.")

    def _is_own(
        self, origin: str, host: tuple[str, int | None], scope: Scope, headers: Headers
    ) -> bool:
        try:
            parts = urlsplit(origin)
            port = parts.port
        except ValueError:
            return False
        scheme = self._scheme(scope, headers)
        if parts.scheme not in _PORTS or (scheme is not None and parts.scheme != scheme):
            return False
        default = _PORTS[parts.scheme]
        return (parts.hostname, port or default) == (host[0], host[1] or default)

    def _scheme(self, scope: Scope, headers: Headers) -> str | None:
        """What the browser speaks; None where only a proxy knows, and does not say."""
        if self._behind_proxy:
            return _last(headers, "x-forwarded-proto") or None
        return "https" if self._tls or scope["scheme"] in ("https", "wss") else "http"


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """A link that somebody followed to a page of ours: nothing is told to where it was."""
    return (
        scope["type"] == "http"
        and scope["method"] in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and not is_api(scope["path"])
    )


def split_host(text: str) -> tuple[str, int | None] | None:
    """The name and port of a Host header; None for what is none."""
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if name is None or _NAME.fullmatch(name) is None or parts.netloc != text or "@" in text:
        return None
    return name.removesuffix("."), port


def add_headers(message: MutableMapping[str, Any], path: str) -> None:
    """Put the security headers on an answer that begins; what it says itself stays."""
    headers = MutableHeaders(raw=message["headers"])
    for name, value in security_headers(path).items():
        headers.setdefault(name, value)
    message["headers"] = headers.raw


def address_of(scope: Scope, *, behind_proxy: bool) -> str:
    """Who is at the other end: behind a proxy, whom it names last, as that is its own word."""
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
    """What the proxy next to us has said; before it may stand what anybody sent."""
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip().lower()
