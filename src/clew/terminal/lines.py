"""Lines of a terminal, a pipe or a file, as they arrive.

One reader for the whole run, so that no line is lost between a question and the chat. The bytes
are read in a thread of their own: a terminal, a pipe and a file then behave alike.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator

PASTE = 0.02
"""Seconds within which the next line of a paste arrives; nobody types that fast."""

_CHUNK = 65_536


class Lines:
    """The lines of a file descriptor. `is_terminal`: a person types there."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._queue: asyncio.Queue[tuple[str | None, float]] = asyncio.Queue()
        self._next: tuple[str, float] | None = None
        self.came_at = 0.0
        """When the line or message that was returned last was entered, by `time.monotonic`."""
        self._ended = False
        self._started = False
        self._reading = threading.Lock()
        """Held while something is read."""
        self._take: Callable[[], None] | None = None
        self._is_read = False
        self.heard: Callable[[], None] = lambda: None
        """Called with each line, at once: the cursor of a terminal has gone to a new line."""
        try:
            self.is_terminal = os.isatty(descriptor)
        except OSError:
            self.is_terminal = False

    async def get(self) -> str | None:
        """The next line without its end; None when there are no more."""
        kept, self._next = self._next, None
        if kept is not None:
            self.came_at = kept[1]
            return kept[0]
        if self._ended:
            return None
        self.start()
        line, self.came_at = await self._queue.get()
        self._ended = line is None
        if line is not None:
            self.heard()
        return line

    async def get_message(self) -> str | None:
        """The next message: a line, those that it continues with a backslash, or a paste."""
        text = await self.get()
        if text is None:
            return None
        began = self.came_at
        while not self._ended:
            if text.endswith("\\"):
                line = await self.get()
                text = text[:-1] + ("" if line is None else f"\n{line}")
            elif (line := await self._get_pasted(text)) is not None:
                text += f"\n{line}"
            else:
                break
        self.came_at = began
        return text

    async def _get_pasted(self, text: str) -> str | None:
        """The next line, if it came together with the last one and is no command."""
        if not self.is_terminal or text.startswith("/"):
            return None
        try:
            async with asyncio.timeout(PASTE):
                line = await self.get()
        except TimeoutError:
            return None
        if line is not None and line.startswith("/"):
            self._next = (line, self.came_at)
            return None
        return line

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """What is typed in this block is not shown."""
        if not self.is_terminal:
            yield
            return
        import termios  # noqa: PLC0415  # POSIX only, and rarely needed

        before = termios.tcgetattr(self._descriptor)
        silent = [*before[:3], before[3] & ~termios.ECHO | termios.ECHONL, *before[4:]]
        termios.tcsetattr(self._descriptor, termios.TCSANOW, silent)
        try:
            yield
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSANOW, before)

    def drop_unread(self) -> None:
        """Drop lines that were entered and are not read yet, as before a question."""
        if self.is_terminal and not self._started:
            import termios  # noqa: PLC0415  # POSIX only, and rarely needed

            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def start(self) -> None:
        """Read from now on, so that it is known when each line was entered."""
        if not self._started:
            self._started = True
            self._take = self._make_taker(asyncio.get_running_loop())
            # A daemon: a read that nobody answers must not keep the process alive.
            threading.Thread(target=self._read, daemon=True, name="lines").start()

    def mark(self) -> float:
        """The time now. Whatever was entered in the terminal before has an earlier `came_at`.

        The thread that reads may be late on a busy machine, so what waits is read here.
        """
        if self.is_terminal and self._take is not None and self._reading.acquire(timeout=1.0):
            try:
                while not self._is_read and _is_readable(self._descriptor, 0, unsure=False):
                    self._take()
            finally:
                self._reading.release()
        return time.monotonic()

    def _read(self) -> None:
        while True:
            _is_readable(self._descriptor, None, unsure=True)
            with self._reading:  # where `mark` may have been quicker
                if self._is_read:
                    return
                if self._take and _is_readable(self._descriptor, 0, unsure=True):
                    self._take()

    def _make_taker(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Returns what reads once, and passes on the lines with their time."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        rest = ""

        def take() -> None:
            nonlocal rest
            try:
                data = os.read(self._descriptor, _CHUNK)
            except OSError:  # the terminal is gone
                data = b""
            rest += decoder.decode(data, final=not data)
            *lines, rest = rest.split("\n")
            if not data and rest:
                lines.append(rest)
            now = time.monotonic()
            try:
                for line in lines:
                    came = (line.removesuffix("\r"), now)
                    loop.call_soon_threadsafe(self._queue.put_nowait, came)
                if not data:
                    self._is_read = True
                    loop.call_soon_threadsafe(self._queue.put_nowait, (None, now))
            except RuntimeError:  # the loop is closed: nobody reads any more
                self._is_read = True

        return take


def _is_readable(descriptor: int, seconds: float | None, *, unsure: bool) -> bool:
    """Whether a read would return at once; waits so long for it, None: for ever.

    `unsure`: the answer for what can't be asked, such as a descriptor that is closed.
    """
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    except (OSError, ValueError):
        return unsure


class SingleLines(Lines):
    """Lines that are read one at a time: between two of them the terminal is somebody else's.

    For questions before a full screen, which reads the keys itself.
    """

    async def get(self) -> str | None:
        """The next line that the terminal has; None for Ctrl+D."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            try:
                data = os.read(self._descriptor, _CHUNK)  # a terminal gives one line
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(settle, data)

        def settle(data: bytes) -> None:
            if not heard.done():
                heard.set_result(data)

        threading.Thread(target=read, daemon=True, name="line").start()
        data = await heard
        if not data:
            return None
        self.heard()
        return data.decode(errors="surrogateescape").rstrip("\r\n")
