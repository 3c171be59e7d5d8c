"""The sentry: looks again and again whether those who listen may still do so, and do.

A credential can end, a client can stop reading, and the gateway can close. Whoever listens is told
in each case why it is over; how that goes out is `live`'s and `sse`'s work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from clew.api.frames import CLOSING, STALLED, UNAUTHORIZED, Ending
from clew.errors import ClewError, TooManyRequests, Unauthorized
from clew.gateway.auth import Gate, Pass

LOOK: Final = 0.25
"""Seconds between two looks: an ended credential is noticed in well under a second."""
STALL: Final = 30.0
"""Seconds in which a client has to take what is sent to it."""
MAX_GUESTS: Final = 1_000
MAX_OF_ONE: Final = 256
"""Streams that one credential may have open."""


class Guest:
    """Somebody who listens, until `ended` says why not any more."""

    def __init__(self, given: Pass) -> None:
        self.given = given
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.sending_since: float | None = None

    def end(self, ending: Ending) -> None:
        """It is over; the first reason stays."""
        if not self.ended.done():
            self.ended.set_result(ending)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Something is on its way to them: that must not take too long."""
        self.sending_since = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.sending_since = None


class Sentry:
    """Knows everybody who listens."""

    def __init__(self, gate: Gate, *, stall: float = STALL) -> None:
        self._gate = gate
        self._stall = stall
        self._guests: set[Guest] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def enter(self, given: Pass) -> Iterator[Guest]:
        """Listen; `TooManyRequests` if too many do."""
        same = sum(each.given.digest == given.digest for each in self._guests)
        if len(self._guests) >= MAX_GUESTS or same >= MAX_OF_ONE:
            raise TooManyRequests(
                "Too many live connections are open here. Close some, then try again."
            )
        guest = Guest(given)
        self._guests.add(guest)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="sentry")
        try:
            yield guest
        finally:
            self._guests.discard(guest)

    def count_stuck(self, seconds: float) -> int:
        """How many have not taken what was sent to them for so long."""
        now = asyncio.get_running_loop().time()
        begun = (each.sending_since for each in self._guests)
        return sum(since is not None and now - since > seconds for since in begun)

    async def _run(self) -> None:
        """Until nobody listens any more."""
        while self._guests:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._gate.closed.wait()
                for guest in tuple(self._guests):
                    guest.end(CLOSING)
                return
            self._end_stalled()
            await self._end_unauthorized()

    def _end_stalled(self) -> None:
        now = asyncio.get_running_loop().time()
        for guest in tuple(self._guests):
            if guest.sending_since is not None and now - guest.sending_since > self._stall:
                guest.end(STALLED)

    async def _end_unauthorized(self) -> None:
        for given in {each.given.digest: each.given for each in self._guests}.values():
            try:
                await self._gate.check_again(given)
            except Unauthorized as error:
                for guest in tuple(self._guests):
                    if guest.given.digest == given.digest:
                        guest.end(Ending(UNAUTHORIZED, str(error)[:100]))
            except ClewError:
                # The store is away: that ends nobody's credential.
                return
