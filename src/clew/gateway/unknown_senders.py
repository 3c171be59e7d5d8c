"""What senders without a credential may take: connections, requests, memory and time.

A connection is unknown until a request on it has an accepted credential. Opening one costs an
attacker nothing, so unknown ones are few, have seconds to ask, and give way to newer ones: whoever
has a credential sends it at once and is not counted any more. `server` reports what happens to each
connection, `endpoints` reads the bodies of unknown senders within these limits.

Behind a proxy all connections come from the proxy, which waits for whole requests itself. There
only the number in all is limited here, and bodies are counted by the address that it forwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import msgspec
from starlette.types import Scope

from clew.gateway.problems import Refused

log = logging.getLogger(__name__)

STATE: Final = "clew.connection"
"""Where the state of an ASGI scope has the `OpenConnection`."""
RESERVED: Final = 300
"""Descriptors that are left to the store, tools and channels."""
REPORT_EVERY: Final = 60.0
"""Seconds between two lines of the log about connections that were closed."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything. Times are in seconds, `bodies` in bytes.

    `in_all` counts known connections too. A connection younger than `young` is closed only if there
    are too many in all: a program may open a hundred at once, and ask on each of them.
    """

    patience: float = 10.0
    young: float = 1.0
    check_every: float = 0.5
    in_all: int = 4_000
    unknown: int = 1_000
    of_one: int = 100
    readers_of_one: int = 50
    bodies: int = 16_000_000
    bodies_of_one: int = 8_000_000


def find_limits(descriptors: int) -> Limits:
    """The limits for a process that may have so many descriptors."""
    usual = Limits()
    room = max(16, descriptors - RESERVED)
    return msgspec.structs.replace(
        usual, in_all=min(usual.in_all, room), unknown=min(usual.unknown, room // 2)
    )


def network_of(address: str) -> str:
    """What counts as one address: this machine, an IPv4 address, or a network of IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    parsed = mapped or parsed
    if parsed.is_loopback:
        return "loopback"
    return f"{int(parsed) >> 64:x}/64" if isinstance(parsed, IPv6Address) else str(parsed)


class OpenConnection:
    """An open connection: whether it is known, and whether it is still to ask something."""

    def __init__(self, owner: UnknownSenders, network: str, close: Callable[[], None]) -> None:
        self.network = network
        self.close = close
        self.is_known = False
        self.is_waiting = True
        self.since = owner.now()
        self._owner = owner

    def wait(self) -> None:
        """Its next request has not come yet. Called again, it changes nothing."""
        if not self.is_waiting:
            self._owner.begin_waiting(self)

    def ask(self) -> None:
        """The headers of a request are there."""
        if self.is_waiting:
            self._owner.begin_asking(self)

    def recognize(self) -> None:
        """The credential of its request was accepted."""
        self._owner.recognize(self)

    def leave(self) -> None:
        """It is closed."""
        self._owner.forget(self)


def recognize(scope: Scope) -> None:
    """Say that the request of an ASGI scope has an accepted credential."""
    connection = scope.get("state", {}).get(STATE)
    if connection is not None:
        connection.recognize()


class UnknownRequest:
    """A request of an unknown sender, and its part of the memory for bodies."""

    def __init__(self, owner: UnknownSenders, network: str) -> None:
        self.network = network
        self.size = 0
        self._owner = owner
        self._timer: asyncio.Timeout | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read its body in this block. `TimeoutError` after some seconds, or for newer requests."""
        with self._owner.count_reading(self):
            async with asyncio.timeout(self._owner.limits.patience) as self._timer:
                yield

    def take(self, size: int) -> None:
        """Take memory for a piece of its body; `Refused` if there is none left."""
        self._owner.take(self, size)

    def give_up(self) -> None:
        """End its reading."""
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(asyncio.get_running_loop().time())


class UnknownSenders:
    """All connections of a gateway, and the requests of senders that it does not know."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        behind_proxy: bool = False,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.body_bytes = 0
        self._behind_proxy = behind_proxy
        self._now = now
        # In the order in which they began to wait, or to ask.
        self._waiting: dict[OpenConnection, None] = {}
        self._unknown: dict[OpenConnection, None] = {}
        self._open: set[OpenConnection] = set()
        self._readers: dict[UnknownRequest, None] = {}
        self._readers_of: Counter[str] = Counter()
        self._bytes_of: Counter[str] = Counter()
        self._closed = 0
        self._reported_at: float | None = None

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return asyncio.get_running_loop().time() if self._now is None else self._now()

    def count(self) -> int:
        """How many unknown connections are open."""
        return len(self._unknown)

    def count_open(self) -> int:
        """How many connections there are in all."""
        return len(self._open)

    # --- connections ----------------------------------------------------------------------------

    def enter(self, address: str, close: Callable[[], None]) -> OpenConnection | None:
        """Count a new connection; None if it has to be refused.

        `close` is called if it has to end: from here for another newcomer, or from `tend`.
        """
        is_full = len(self._open) >= self.limits.in_all
        if (is_full or len(self._unknown) >= self.limits.unknown) and not self._make_room():
            self._closed += 1
            return None
        network = "" if self._behind_proxy else network_of(address)
        made = OpenConnection(self, network, close)
        self._open.add(made)
        self._waiting[made] = self._unknown[made] = None
        return made

    def begin_waiting(self, connection: OpenConnection) -> None:
        """See `OpenConnection.wait`."""
        if connection not in self._open:
            return
        connection.is_waiting, connection.since = True, self.now()
        self._waiting[connection] = None
        if self._behind_proxy:
            connection.is_known = False  # its next request may be of another client
        if not connection.is_known:
            self._unknown.pop(connection, None)
            self._unknown[connection] = None

    def begin_asking(self, connection: OpenConnection) -> None:
        """See `OpenConnection.ask`."""
        connection.is_waiting, connection.since = False, self.now()
        self._waiting.pop(connection, None)

    def recognize(self, connection: OpenConnection) -> None:
        """See `OpenConnection.recognize`."""
        connection.is_known = True
        self._unknown.pop(connection, None)

    def forget(self, connection: OpenConnection) -> None:
        """See `OpenConnection.leave`."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self._unknown.pop(connection, None)

    async def tend(self) -> None:
        """Close what waits for too long, and what one address has too much of; until cancelled."""
        while True:
            await asyncio.sleep(self.limits.check_every)
            self._close_late()
            self._close_surplus()
            self._report()

    def _make_room(self) -> bool:
        """Close the connection that is missed least. False if all are busy, and none is old.

        First those that wait for a request, the unknown ones before the known ones; then unknown
        ones whose request takes long.
        """
        waiting = (each for each in self._waiting if not each.is_known)
        oldest = next(waiting, None) or next(iter(self._waiting), None)
        if oldest is None:
            oldest = next(iter(self._unknown), None)
            if oldest is None or self.now() - oldest.since < self.limits.young:
                return False
        self._close(oldest)
        return True

    def _close_late(self) -> None:
        latest = self.now() - self.limits.patience
        for each in tuple(self._waiting):
            if each.since > latest:
                return
            self._close(each)

    def _close_surplus(self) -> None:
        if self._behind_proxy:
            return
        grown = self.now() - self.limits.young
        of_one: dict[str, list[OpenConnection]] = defaultdict(list)
        for each in self._waiting:
            if not each.is_known and each.since <= grown:
                of_one[each.network].append(each)
        for waiting in of_one.values():
            for each in waiting[: max(0, len(waiting) - self.limits.of_one)]:
                self._close(each)

    def _close(self, connection: OpenConnection) -> None:
        self.forget(connection)
        self._closed += not connection.is_known
        connection.close()

    def _report(self) -> None:
        """One line a minute, however many there were."""
        now = self.now()
        is_due = self._reported_at is None or now - self._reported_at >= REPORT_EVERY
        if self._closed and is_due:
            log.warning(
                "Closed %s connections that sent no whole request and no credential.", self._closed
            )
            self._closed, self._reported_at = 0, now

    # --- requests -------------------------------------------------------------------------------

    def open_request(self, address: str) -> UnknownRequest:
        """A request of an unknown sender. It is counted while its body is read."""
        return UnknownRequest(self, network_of(address))

    @contextmanager
    def count_reading(self, request: UnknownRequest) -> Iterator[None]:
        """Count a body that is read. If its address has too many, the oldest of them gives way."""
        network = request.network
        if self._readers_of[network] >= self.limits.readers_of_one:
            self._stop_oldest(network)
        self._readers[request] = None
        _step(self._readers_of, network, 1)
        try:
            yield
        finally:
            self._forget_reader(request)

    @property
    def readers(self) -> int:
        """How many bodies are being read."""
        return len(self._readers)

    def take(self, request: UnknownRequest, size: int) -> None:
        """See `UnknownRequest.take`. Older ones give way to it."""
        limits, network = self.limits, request.network
        while self._bytes_of[network] + size > limits.bodies_of_one:
            self._make_memory(request, network)
        while self.body_bytes + size > limits.bodies:
            self._make_memory(request, None)
        request.size += size
        self.body_bytes += size
        _step(self._bytes_of, network, size)

    def _make_memory(self, request: UnknownRequest, network: str | None) -> None:
        if request not in self._readers or self._stop_oldest(network) in (request, None):
            detail = "Too many bodies arrive at once. Nothing was changed; try again in a moment."
            raise Refused(503, "busy", detail)

    def _stop_oldest(self, network: str | None) -> UnknownRequest | None:
        for each in self._readers:
            if network in (None, each.network):
                self._forget_reader(each)
                each.give_up()
                return each
        return None

    def _forget_reader(self, request: UnknownRequest) -> None:
        if request in self._readers:
            del self._readers[request]
            _step(self._readers_of, request.network, -1)
            self.body_bytes -= request.size
            _step(self._bytes_of, request.network, -request.size)


def _step(counts: Counter[str], key: str, step: int) -> None:
    """Change a count; one that is zero is not kept."""
    counts[key] += step
    if not counts[key]:
        del counts[key]


def raise_descriptor_limit(wanted: int = 65_536) -> int:
    """Allow this process more descriptors, as far as the system lets it; returns how many."""
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ImportError:  # pragma: no cover
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited: Any = resource.RLIM_INFINITY
    if soft == unlimited:
        return wanted
    more = wanted if hard == unlimited else min(wanted, hard)
    if more <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
    except (OSError, ValueError):  # pragma: no cover  # a system with a limit of its own
        return soft
    return more
