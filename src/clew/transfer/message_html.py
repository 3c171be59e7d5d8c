"""The HTML of messages for a web page, within limits on the work for one page.

Markdown is rendered by a child process, started with the first page: colouring hostile text can
take any time, and would block every turn of a gateway. If a text takes too long, that process is
killed and the text is shown without colours, or as plain text.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import BinaryIO, Final

from clew.api.sessions import MessageHtml
from clew.core.message import Message
from clew.core.text import strip_controls
from clew.transfer.plain_html import to_paragraph, to_preformatted
from clew.transfer.thread import thoughts

LONGEST: Final = 50_000
"""Characters of a text; a longer one is shown as plain text."""
PAGE: Final = 500_000
"""Characters of Markdown in a page, newest messages first; the rest is shown as plain text."""
COLOUR_S: Final = 10.0
"""Seconds for colouring code in a page."""
LOSSES: Final = 6
"""Killed processes in a page; after that its rest is shown as plain text."""
CPU_S: Final = 2.0
"""Seconds of processor time for a text."""
HANG_S: Final = 60.0
"""Seconds without an answer after which a process is killed: far more than it needs."""
SHORT: Final = 2_000
"""A longer text is escaped in another thread; in characters."""

_HEADER: Final = struct.Struct(">?I")
"""Before each text and each answer: whether code is coloured, and how many bytes follow."""

log = logging.getLogger(__name__)


class MessageRenderer:
    """Renders messages in a child process, one text at a time. `close` ends the process."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def render(self, messages: Sequence[Message]) -> tuple[MessageHtml, ...]:
        """The HTML of each message, in the same order."""
        allowance = _Allowance()
        made = [await self._render(message, allowance) for message in reversed(messages)]
        return tuple(reversed(made))

    async def close(self) -> None:
        """End the child process."""
        async with self._turn:
            await self._end()

    async def _render(self, message: Message, allowance: _Allowance) -> MessageHtml:
        if message.role == "assistant":
            html = await self._render_text(message.content, allowance)
        else:
            draw = to_paragraph if message.role == "user" else to_preformatted
            html = await _escape(draw, message.content)
        thinking = await self._render_text("\n\n".join(thoughts(message.parts)), allowance)
        return MessageHtml(message.seq, html, thinking or None)

    async def _render_text(self, text: str, allowance: _Allowance) -> str:
        if not text.strip():
            return ""
        if len(text) > min(LONGEST, allowance.characters) or allowance.losses >= LOSSES:
            return await _escape(to_preformatted, text)
        allowance.characters -= len(text)
        for colours in (True, False) if allowance.seconds > 0 else (False,):
            html = await self._ask(text, colours, allowance)
            if html is not None:
                return html
        return await _escape(to_preformatted, text)

    async def _ask(self, text: str, colours: bool, allowance: _Allowance) -> str | None:
        """The child process's answer; None if the process was lost."""
        data = strip_controls(text).encode()
        async with self._turn:
            began = monotonic()
            answered = False
            try:
                async with asyncio.timeout(HANG_S):
                    process = await self._get_process()
                    assert process.stdin is not None  # noqa: S101  # for the type checker
                    process.stdin.write(_HEADER.pack(colours, len(data)) + data)
                    await process.stdin.drain()
                    html = await _read(process)
                answered = True
                return html
            except (OSError, EOFError, TimeoutError):
                log.warning("A message could not be made HTML in time (colours: %s).", colours)
                return None
            finally:
                allowance.seconds -= monotonic() - began
                if not answered:  # else the rest of this answer would be read as the next one
                    allowance.losses += 1
                    await self._end()

    async def _get_process(self) -> Process:
        if self._process is not None:
            if self._process.returncode is None:
                return self._process
            await self._end()  # it has exited
        # Without our environment: it reads text of strangers and must see no secrets.
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", __name__),
            env={}, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
        )  # fmt: skip
        await _read(self._process)
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


class _Allowance:
    """The work that is still allowed for a page."""

    def __init__(self) -> None:
        self.characters = PAGE
        self.seconds = COLOUR_S
        self.losses = 0


async def _read(process: Process) -> str:
    assert process.stdout is not None  # noqa: S101  # for the type checker
    _, size = _HEADER.unpack(await process.stdout.readexactly(_HEADER.size))
    return (await process.stdout.readexactly(size)).decode()


async def _escape(draw: Callable[[str], str], text: str) -> str:
    if not text.strip():
        return ""
    if len(text) <= SHORT:
        return draw(strip_controls(text))
    return await asyncio.to_thread(lambda: draw(strip_controls(text)))


# --- the process ------------------------------------------------------------------------------
def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """Render texts until the input ends; the first, empty answer says that it is ready.

    The signal of the timer is not caught, so it kills the process even inside a regular expression,
    and also when the parent is gone.
    """
    from clew.transfer.markdown_html import render  # noqa: PLC0415  # only the child process needs it

    _answer(answers, "")
    while header := asked.read(_HEADER.size):
        colours, size = _HEADER.unpack(header)
        text = asked.read(size).decode()
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
        html = render(text, colours=colours)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        _answer(answers, html)


def _answer(answers: BinaryIO, html: str) -> None:
    data = html.encode()
    answers.write(_HEADER.pack(True, len(data)) + data)
    answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
