"""The transport to a gateway: operations as HTTP requests, problem documents as errors.

Requests are made from the rows of the operations. httpx is loaded with the first transport, not
with this module. Live events are in `client.live`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from clew.api.blobs import BlobFile
from clew.api.chat import SEND, SendChat
from clew.api.frames import DoneFrame, ErrorFrame, Frame, StreamFrame, read_frame
from clew.api.operation import Operation, P, Params, R
from clew.api.problems import Problem, error_of
from clew.api.sessions import DAMAGED, Exported
from clew.api.transport import Live
from clew.core.text import to_wire
from clew.errors import ClewError, GatewayUnavailable, InvalidInput
from clew.version import __version__

if TYPE_CHECKING:
    import httpx

PATIENCE: Final = 30.0
"""Seconds in which a gateway has to answer."""
FILE_PATIENCE: Final = 600.0
"""Seconds for a file, since a session may be very long."""

_FILE_NAME: Final = re.compile(r'filename="([^"]*)"')


class HttpTransport:
    """`Transport` to a gateway."""

    def __init__(self, url: str, token: str | None, *, timeout: float = PATIENCE) -> None:
        """Proxies and certificates come from the environment; no proxy to this machine."""
        import ssl  # noqa: PLC0415  # httpx loads it

        import httpx  # noqa: PLC0415  # slow to load

        self.url = check_url(url)
        if token is not None:
            check_private(self.url)
        self._headers = {"User-Agent": f"clew/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        # Reading the certificates takes 20 ms; without https, redirects and proxies none is used.
        is_plain = self.url.startswith("http:") and is_here(self.url)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=self._headers,
            timeout=timeout,
            follow_redirects=False,
            trust_env=not is_here(self.url),
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
        )

    async def call(self, operation: Operation[P, R], params: P) -> R:
        """See `Transport`."""
        from httpx import HTTPError, Timeout  # noqa: PLC0415  # slow to load

        request = self._request(operation, params)
        if operation.answer == "file":
            request.extensions["timeout"] = Timeout(FILE_PATIENCE).as_dict()
        try:
            response = await self._http.send(request)
        except HTTPError as error:
            raise unreachable(self.url, error) from error
        if not response.is_success:
            raise read_problem(response.status_code, response.content)
        if operation.answer == "file":
            exported: Any = (_blob if operation.gives is BlobFile else _file)(response)
            return exported  # type: ignore[no-any-return]  # as the row says
        try:
            answer: R = msgspec.json.decode(response.content, type=operation.gives)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise GatewayUnavailable(
                f"The answer of {self.url} to {operation.name} can't be read: {error}. "
                "Check that it runs the same version of clew."
            ) from error
        return answer

    async def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        """See `Transport`."""
        from httpx import HTTPError, Timeout  # noqa: PLC0415  # slow to load

        asked = msgspec.structs.replace(params, stream=True)
        request = self._request(SEND, asked)
        # Two events may be far apart, but the gateway sends a heartbeat every 15 seconds.
        request.extensions["timeout"] = Timeout(PATIENCE, read=60.0).as_dict()
        try:
            response = await self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise read_problem(response.status_code, await response.aread())
                async for frame in read_events(response.aiter_bytes()):
                    if isinstance(frame, ErrorFrame):
                        raise error_of(frame.problem)
                    yield frame  # type: ignore[misc]  # the others are for the socket
                    if isinstance(frame, DoneFrame):
                        return
            finally:
                await response.aclose()
        except HTTPError as error:
            raise unreachable(self.url, error) from error
        raise GatewayUnavailable(
            "The gateway ended the stream before the message was answered. The turn goes on there; "
            "send it again with the same idempotency key to see what became of it."
        )

    def live(self) -> AbstractAsyncContextManager[Live]:
        """See `Transport`."""
        from clew.client.live import open_live  # noqa: PLC0415  # slow to load

        return open_live(self.url, self._headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _request(self, operation: Operation[Any, Any], params: Params) -> httpx.Request:
        values: dict[str, Any] = msgspec.to_builtins(params)
        path = operation.path
        for name in operation.path_fields:
            path = path.replace(f"{{{name}}}", quote(str(values[name]), safe=""))
        headers = {}
        if values.get("if_match") is not None:
            headers["If-Match"] = f'"{values["if_match"]}"'
        others = {name: values[name] for name in operation.other_fields if name in values}
        if operation.has_body:
            headers["Content-Type"] = "application/json"
            return self._http.build_request(
                operation.method, path, headers=headers, content=to_wire(others)
            )
        return self._http.build_request(
            operation.method, path, headers=headers, params=_query(others)
        )


def check_url(url: str) -> str:
    """The address of a gateway, without query and fragment; `InvalidInput` for another text."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(
            f'"{url[:200]}" is not the address of a gateway. Use one like http://127.0.0.1:7717.'
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def check_private(url: str) -> None:
    """`InvalidInput` for an address to which a token would travel in plain sight."""
    if urlsplit(url).scheme == "http" and not is_here(url):
        raise InvalidInput(
            f"{url} is plain http to another machine: everybody on the way could read the token. "
            "It was not sent. Use https, or a tunnel to this machine (ssh -L)."
        )


def is_here(url: str) -> bool:
    """Whether an address is on this machine; then no proxy may see the token."""
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _query(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _file(response: httpx.Response) -> Exported:
    named = _FILE_NAME.search(response.headers.get("content-disposition", ""))
    media_type = response.headers.get("content-type", "application/octet-stream")
    name = named[1] if named else "session"
    damaged = response.headers.get(DAMAGED, "").split()
    return Exported(
        name, media_type, response.content.decode("utf-8", "replace"), tuple(map(int, damaged))
    )


def _blob(response: httpx.Response) -> BlobFile:
    named = _FILE_NAME.search(response.headers.get("content-disposition", ""))
    kind = response.headers.get("content-type", "application/octet-stream")
    return BlobFile(named[1] if named else "file", kind, response.content)


def read_problem(status: int, content: bytes) -> ClewError:
    """The error in an answer; `GatewayUnavailable` for one without a problem document."""
    try:
        return error_of(msgspec.json.decode(content, type=Problem))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return GatewayUnavailable(
            f"The gateway answered with {status} and no reason. Its log may say more."
        )


def unreachable(url: str, error: Exception) -> GatewayUnavailable:
    """The error for a gateway that does not answer."""
    reason = str(error) or type(error).__name__
    return GatewayUnavailable(
        f"No gateway answers at {url}: {reason}. Start one with `clew serve`, or check the address."
    )


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """The frames of an event stream. Only LF and CRLF end a line; other breaks are text."""
    rest, data = b"", []
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in (each.removesuffix(b"\r") for each in lines):
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield read_frame(b"\n".join(data))
                data = []
