"""The calls of a credential: how many run at once, and for how long.

A credential has a few that run, the others of it wait for them. Of the long ones, which may keep a
reader of the store busy for a second, there are so few at once that readers are left for the short
ones, and they give way to the short ones between the pieces of their work. Every read has a
deadline, and what the store does for it ends with it. Of calls that change something, only the
bodies that arrive at once are limited: each is in memory until it is whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import msgspec

from clew.api.operation import Operation, Params
from clew.api.transport import GIVE_WAY
from clew.errors import TooManyRequests
from clew.gateway.auth import Credential
from clew.gateway.problems import Refused

LONG: Final = frozenset({"mcp", "sessions.export", "sessions.search", "stats", "status", "usage"})
"""Operations whose work grows with the store, or with a session."""
LONG_IF: Final = frozenset({"q", "render"})
"""Parameters that make a call long."""
MANY: Final = 200
"""Rows; a call for more is long."""
READING: Final = frozenset({"mcp"})
"""Operations that read, though they are no GET."""
WAITING: Final = frozenset({"queue.wait"})
"""Reads that wait for something to happen. They cost nothing, and have a time of their own."""


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many of one credential run, how many of it wait; seconds until a call is given up.

    `bodies`: how many bodies of one credential are read at once.
    """

    of_one: int = 6
    bodies: int = 8
    waiting: int = 100
    long: int = 2
    deadline: float = 30.0
    courtesy: float = 0.005
    """Seconds that a long call waits for short ones, between two pieces of its work."""


class _Share:
    """The calls of one credential."""

    def __init__(self, limits: CallLimits) -> None:
        self.running = asyncio.Semaphore(limits.of_one)
        self.long = asyncio.Semaphore(max(1, limits.long - 1))
        self.bodies = asyncio.Semaphore(limits.bodies)
        self.count = 0


class RunningCalls:
    """The calls at a gateway."""

    def __init__(self, limits: CallLimits | None = None) -> None:
        self._limits = limits or CallLimits()
        self._long = asyncio.Semaphore(self._limits.long)
        self._shares: dict[bytes, _Share] = {}
        self._short = 0
        self._no_short = asyncio.Event()

    @asynccontextmanager
    async def run(
        self, operation: Operation[Any, Any], params: Params, given: Credential
    ) -> AsyncIterator[None]:
        """Wait for a turn, and do the call in this block. `TooManyRequests`, or a 503 if late."""
        reads = operation.method == "GET" or operation.name in READING
        if not reads or operation.name in WAITING:
            yield
            return
        try:
            async with asyncio.timeout(self._limits.deadline), AsyncExitStack() as stack:
                share = stack.enter_context(self._join(given))
                await stack.enter_async_context(share.running)
                if is_long(operation, params):
                    await stack.enter_async_context(share.long)
                    await stack.enter_async_context(self._long)
                    stack.callback(GIVE_WAY.reset, GIVE_WAY.set(self._give_way))
                else:
                    stack.enter_context(self._go_first())
                yield
        except TimeoutError as error:
            detail = (
                f"This took longer than {self._limits.deadline:.0f} seconds and was given up. "
                "Ask for less, or with fewer calls at once."
            )
            raise Refused(503, "deadline", detail) from error

    @contextmanager
    def _go_first(self) -> Iterator[None]:
        """Long calls wait for a short one, in this block."""
        self._short += 1
        self._no_short.clear()
        try:
            yield
        finally:
            self._short -= 1
            if not self._short:
                self._no_short.set()

    async def _give_way(self) -> None:
        if self._short:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.courtesy):
                    await self._no_short.wait()

    @asynccontextmanager
    async def receive(
        self, operation: Operation[Any, Any], given: Credential
    ) -> AsyncIterator[None]:
        """Wait for a turn to read the body of a call, and read it in this block."""
        if not operation.has_body:
            yield
            return
        with self._join(given) as share:
            async with share.bodies:
                yield

    @contextmanager
    def _join(self, given: Credential) -> Iterator[_Share]:
        share = self._shares.setdefault(given.digest, _Share(self._limits))
        if share.count >= self._limits.of_one + self._limits.waiting:
            raise TooManyRequests("Too many calls with this token wait already. Wait for them.")
        share.count += 1
        try:
            yield share
        finally:
            share.count -= 1
            if not share.count:
                del self._shares[given.digest]


def is_long(operation: Operation[Any, Any], params: Params) -> bool:
    """Whether a call may keep a reader busy for long, or much has to be encoded for it."""
    if operation.name in LONG or any(getattr(params, each, None) for each in LONG_IF):
        return True
    return any((getattr(params, each, None) or 0) > MANY for each in ("limit", "messages"))
