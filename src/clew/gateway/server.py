"""The HTTP server (uvicorn) around the application: listen, run, and stop gracefully.

It runs in its caller's loop, and the caller says when to stop. It does not log requests, and does
not trust the headers of proxies: `middleware` reads those if `--behind-proxy` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from clew.errors import ClewError, InvalidInput
from clew.gateway.auth import Gate
from clew.gateway.client_queue import WIRE
from clew.gateway.log_file import limited_logs
from clew.gateway.middleware import LOOPBACK, split_host
from clew.gateway.unknown_senders import STATE, OpenConnection, UnknownSenders
from clew.runtime.runtime import Runtime

PORT: Final = 7717
GRACE: Final = 10.0
"""Seconds that turns and answers get to finish."""
SILENCE: Final = 60.0
"""Seconds after which a client that reads nothing is dropped."""
MAX_FRAME: Final = 1_000_000
BACKLOG: Final = 2_048
ACCEPTED: Final = 64
"""Connections that wait in the kernel, and how many of them are taken at once."""
TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
ANYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # names only
"""Addresses that mean all interfaces, and the address to use on this machine."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen. `cert` and `key` are files in PEM."""

    host: str = "127.0.0.1"
    port: int = PORT
    cert: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False

    @property
    def tls(self) -> bool:
        """Whether it speaks TLS itself."""
        return self.cert is not None

    def check(self) -> None:
        """`InvalidInput` for an address where tokens would travel unencrypted."""
        if (self.cert is None) is not (self.key is None):
            raise InvalidInput("--tls-cert and --tls-key go together: give both.")
        if not (is_loopback(self.host) or self.tls or self.behind_proxy):
            raise InvalidInput(
                f"{self.host} can be reached from other machines, so tokens would travel "
                "unencrypted. Give --tls-cert and --tls-key, or --behind-proxy if a proxy in "
                "front of it speaks TLS."
            )

    @property
    def is_public(self) -> bool:
        """Whether it is meant for other machines, under names of its own."""
        return self.behind_proxy or not is_loopback(self.host)

    def public_url(self, port: int, name: str) -> str:
        """The address to tell others, under one of its names; that may bring its own port."""
        host, own_port = _read_host(name)
        host = f"[{host}]" if ":" in host else host
        chosen = own_port or (None if self.behind_proxy else port)
        return f"https://{host}" if chosen is None else f"https://{host}:{chosen}"

    def url(self, port: int) -> str:
        """The address to tell people on this machine."""
        host = ANYWHERE.get(self.host, self.host)
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls else 'http'}://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host.lower() in LOOPBACK:
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def own_hosts(address: Address, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The host names that the gateway answers to, without ports; `InvalidInput` for a wrong one."""
    own = () if address.host in ANYWHERE else (address.host,)
    return tuple(dict.fromkeys((*LOOPBACK, *own, *(_read_host(each)[0] for each in more))))


def _read_host(text: str) -> tuple[str, int | None]:
    bare = text.count(":") > 1 and "[" not in text  # an address of IPv6, as people type it
    found = split_host(f"[{text}]" if bare else text)
    if found is None:
        raise InvalidInput(f'"{text[:200]}" is not a host name. Use one like clew.example.org.')
    return found


@contextmanager
def listen(address: Address) -> Iterator[socket.socket]:
    """A socket that listens there; a `ClewError` says why not."""
    try:
        found = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, place = found[0]
        made = socket.create_server(place[:2], family=family, backlog=BACKLOG)
        # Connections inherit it. asyncio sets it only where it knows that a socket is TCP, and
        # without it the second half of an answer waits 40 ms for an acknowledgement.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Drops a client that reads nothing, with what waits for it in the kernel.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(SILENCE * 1000))
    except (OSError, OverflowError, UnicodeError) as error:
        raise _explain(address, error) from error
    with made:
        yield made


def _explain(address: Address, error: Exception) -> ClewError:
    number = error.errno if isinstance(error, OSError) else None
    place = f"port {address.port} of {address.host}"
    if number == errno.EADDRINUSE:
        return ClewError(
            f"Another program listens on {place}. Choose another one with --port, "
            "or --port 0 for any that is free."
        )
    if number == errno.EACCES:
        return ClewError(f"You are not allowed to listen on {place}. Choose a --port above 1023.")
    if isinstance(error, socket.gaierror) or number == errno.EADDRNOTAVAIL:
        return InvalidInput(f"This machine has no address {address.host[:200]}.")
    return ClewError(f"clew can't listen on {place}: {error}.")


class FrameSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which also takes frames that are encoded already, several at once.

    An ASGI server encodes each frame for each client, and writes each by itself. With hundreds
    of clients that is most of what a frame costs. Any other server gets frames one by one (`live`).
    """

    async def run_asgi(self) -> None:
        """Offer the extension, then serve."""
        self.scope["extensions"][WIRE] = {}
        await super().run_asgi()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        entry = self.app_state.get(STATE)
        if entry is not None:
            entry.leave()
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        """See ASGI."""
        if WIRE not in message:
            await super().send(message)
            if message["type"] == "websocket.http.response.body":
                # A refused client has its answer: uvicorn would log that it has none.
                self.handshake_complete = self.handshake_complete or self.close_sent
            return
        await self.writable.wait()
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(message[WIRE])


class HttpConnection(H11Protocol):
    """uvicorn's connection, which tells `UnknownSenders` what it waits for."""

    def __init__(self, *args: Any, unknown: UnknownSenders, **more: Any) -> None:
        super().__init__(*args, **more)
        self._unknown = unknown
        self._entry: OpenConnection | None = None
        self._is_made = False
        self._is_socket = False
        self._early = b""

    def enter(self, transport: asyncio.Transport) -> bool:
        """Be counted; False if there are too many, and the connection is over."""
        address = (transport.get_extra_info("peername") or ("unknown",))[0]
        self._entry = self._unknown.enter(address, lambda: self._hang_up(transport))
        if self._entry is None:
            transport.abort()
            return False
        # Each request's scope gets a copy of this.
        self.app_state = {**self.app_state, STATE: self._entry}
        return True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio. With TLS this is after the handshake, and `enter` was before it."""
        if self._entry is None and not self.enter(transport):
            return
        self._is_made = True
        super().connection_made(transport)
        if self._early:
            self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._entry is not None:
            self._entry.leave()
        if self._is_made:  # else it was refused, or never finished its handshake
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if not self._is_made:
            if self._entry is not None:
                self._early += data  # right behind the handshake
            return
        super().data_received(data)
        self._note()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Go on as a `FrameSocket`, which leaves for both."""
        self._is_socket = True
        if self._entry is not None:
            self._entry.ask()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """See uvicorn: it begins the next request, if that is there already."""
        super().on_response_complete()
        self._note()

    def _note(self) -> None:
        if self._is_socket or self._entry is None:
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self._entry.wait()
        else:
            self._entry.ask()

    def _hang_up(self, transport: asyncio.Transport) -> None:
        if self._is_made and self.conn.our_state is h11.IDLE:
            unread, _ = self.conn.trailing_data
            if unread:
                transport.write(TOO_SLOW)
        transport.abort()


class TlsHandshake(asyncio.Protocol):
    """A connection before its TLS handshake: counted, and closed, like one without TLS."""

    def __init__(
        self, http: HttpConnection, context: ssl.SSLContext, tasks: set[asyncio.Task[None]]
    ) -> None:
        self._http = http
        self._context = context
        self._tasks = tasks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        if isinstance(transport, asyncio.Transport) and self._http.enter(transport):
            task = asyncio.get_running_loop().create_task(self._shake(transport))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio. Once the handshake has begun, this is told to the other one."""
        self._http.connection_lost(exc)

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport, self._http, self._context, server_side=True
            )
        except OSError:  # also an `SSLError`, and a connection that was closed meanwhile
            secure = None
        if secure is None:
            self._http.connection_lost(None)
            transport.abort()
        else:
            self._http.connection_made(secure)


class _UvicornServer(uvicorn.Server):
    """uvicorn with limits on its connections, that leaves the signals of the process alone."""

    def __init__(self, config: uvicorn.Config, unknown: UnknownSenders) -> None:
        super().__init__(config)
        self._unknown = unknown
        self._handshakes: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at sockets that are there already."""
        loop = asyncio.get_running_loop()
        self.servers = []
        for each in sockets or ():
            # asyncio accepts so many at once before it hears that there are too many.
            server = await loop.create_server(self._make_protocol, sock=each, backlog=ACCEPTED)
            each.listen(BACKLOG)
            self.servers.append(server)
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        for each in tuple(self._handshakes):
            each.cancel()
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        http = HttpConnection(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            unknown=self._unknown,
        )
        context = self.config.ssl
        return http if context is None else TlsHandshake(http, context, self._handshakes)


@asynccontextmanager
async def serving(
    app: ASGIApp,
    gate: Gate,
    address: Address,
    listener: socket.socket,
    *,
    grace: float = GRACE,
    hurry: asyncio.Event | None = None,
) -> AsyncIterator[str]:
    """Serve until the block ends; then accept nothing more, and answer what was asked.

    Gives the address with its real port. Endless streams end by `Gate.closed`; `hurry` cuts all of
    that short.
    """
    try:
        config = uvicorn.Config(
            app,
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            http=HttpConnection,
            ws=FrameSocket,
            ws_max_size=MAX_FRAME,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=max(1, round(grace)),
            ssl_certfile=address.cert,
            ssl_keyfile=address.key,
        )
        config.load()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The TLS certificate or its key can't be used: {error}.") from error
    server = _UvicornServer(config, gate.unknown)
    with limited_logs():
        running = asyncio.create_task(server.serve(sockets=[listener]), name="gateway server")
        tending = asyncio.create_task(gate.unknown.tend(), name="gateway connections")
        try:
            while not server.started and not running.done():  # noqa: ASYNC110  # it has no event
                await asyncio.sleep(0.01)
            if running.done():
                await running
                raise ClewError("The server ended while it was starting. Its log may say why.")
            yield address.url(listener.getsockname()[1])
        finally:
            gate.closed.set()
            server.should_exit = True
            if not await _finish(running, hurry):
                server.force_exit = True
                await asyncio.wait({running})
            tending.cancel()
            await asyncio.wait({tending})
    running.result()


async def wind_down(
    runtime: Runtime, grace: float | None = GRACE, hurry: asyncio.Event | None = None
) -> None:
    """Let running turns finish, for so many seconds, or however long that takes (None).

    Waiting messages stay in the inbox.

    Closing the runtime afterwards aborts the rest, and records that.
    """
    sessions = runtime.list_running()
    for session_id in sessions:
        await runtime.put_back(session_id)
    if sessions:
        ends = asyncio.create_task(_join_all(runtime, sessions))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await _finish(ends, hurry)
        ends.cancel()
        await asyncio.wait({ends})


async def _join_all(runtime: Runtime, sessions: Sequence[str]) -> None:
    # A task of its own: a cancelled `gather` that nobody awaits is logged as an error.
    await asyncio.gather(*map(runtime.join, sessions))


async def _finish(work: asyncio.Future[Any], hurry: asyncio.Event | None) -> bool:
    """Wait for something; False if `hurry` is set before it is done."""
    signal = asyncio.create_task((hurry or asyncio.Event()).wait())
    try:
        await asyncio.wait({work, signal}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        signal.cancel()
        await asyncio.wait({signal})
    return work.done()
