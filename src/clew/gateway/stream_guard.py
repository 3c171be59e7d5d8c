"""Ends streams whose credential has ended, whose client stopped reading, or whose gateway closes.

It checks all open streams several times a second, and tells each why it ends. `live` and
`event_streams` send that to the client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from clew.api.frames import CLOSING, STALLED, UNAUTHORIZED, Ending
from clew.errors import ClewError, TooManyRequests, Unauthorized
from clew.gateway.auth import Credential, Gate

CHECK_EVERY: Final = 0.25
"""Seconds between two checks: an ended credential is noticed in well under a second."""
STALL: Final = 30.0
"""Seconds that a client has to read what is sent to it."""
MAX_LISTENERS: Final = 1_000
MAX_OF_ONE: Final = 256
"""Streams that may be open in all, and with one credential."""


class Listener:
    """One open stream. `ended` is done when the stream has to end, and says why."""

    def __init__(self, given: Credential) -> None:
        self.given = given
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.sending_since: float | None = None

    def end(self, ending: Ending) -> None:
        """End the stream; the first reason stays."""
        if not self.ended.done():
            self.ended.set_result(ending)

    async def run(
        self, send: Coroutine[Any, Any, None], receive: Coroutine[Any, Any, None]
    ) -> None:
        """Send and receive until one of the two is done, or the stream has to end."""
        works: set[asyncio.Future[Any]] = {
            asyncio.create_task(send, name="stream out"),
            asyncio.create_task(receive, name="stream in"),
        }
        try:
            await asyncio.wait({*works, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in works:
                each.cancel()
            await asyncio.wait(works)
        for each in works:
            if not each.cancelled():
                each.result()  # raises what went wrong

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Measure how long the client takes to read what this block sends."""
        self.sending_since = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.sending_since = None


class StreamGuard:
    """Knows all open streams, and ends those that have to end."""

    def __init__(self, gate: Gate, *, stall: float = STALL) -> None:
        self._gate = gate
        self._stall = stall
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def enter(self, given: Credential) -> Iterator[Listener]:
        """Register a stream for this block; `TooManyRequests` if too many are open."""
        same = sum(each.given.digest == given.digest for each in self._listeners)
        if len(self._listeners) >= MAX_LISTENERS or same >= MAX_OF_ONE:
            raise TooManyRequests(
                "Too many live connections are open here. Close some, then try again."
            )
        listener = Listener(given)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="stream guard")
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def count_stuck(self, seconds: float) -> int:
        """How many clients have not read what was sent to them for so many seconds."""
        now = asyncio.get_running_loop().time()
        begun = (each.sending_since for each in self._listeners)
        return sum(since is not None and now - since > seconds for since in begun)

    async def _run(self) -> None:
        """Check until no stream is open."""
        while self._listeners:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY):
                    await self._gate.closed.wait()
                for listener in tuple(self._listeners):
                    listener.end(CLOSING)
                return
            self._end_stalled()
            await self._end_unauthorized()

    def _end_stalled(self) -> None:
        now = asyncio.get_running_loop().time()
        for listener in tuple(self._listeners):
            if listener.sending_since is not None and now - listener.sending_since > self._stall:
                listener.end(STALLED)

    async def _end_unauthorized(self) -> None:
        for given in {each.given.digest: each.given for each in self._listeners}.values():
            try:
                await self._gate.check_again(given)
            except Unauthorized as error:
                for listener in tuple(self._listeners):
                    if listener.given.digest == given.digest:
                        listener.end(Ending(UNAUTHORIZED, str(error)[:100]))
            except ClewError:
                # The store can't be reached; the credential may still be good.
                return
