"""One executable, run to its end: what it gets, what it prints, how it is stopped.

It knows no events and judges no answers; `runtime.hooks` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Final, NamedTuple, cast

from clew.errors import HookFailed

OUTPUT_BYTES: Final = 64 * 1024
"""What is kept of each stream of a program; the rest is read and forgotten."""
_GRACE_S: Final = 0.5


class Ended(NamedTuple):
    """How a program ended, and the beginning of what it printed to stdout and stderr."""

    code: int | None
    said: str
    complained: str


async def execute(line: str, given: bytes, *, cwd: str | None) -> Ended:
    """Run a command line to its end; killed with all it started if this is cancelled.

    `HookFailed` if it can't be started. A directory that is not there is not gone to.
    """
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _Program,
            *_arguments(line),
            cwd=cwd if cwd and Path(cwd).is_dir() else None,  # noqa: ASYNC240  # one look
            start_new_session=True,
        )
    )
    try:
        # A start that is cancelled half-way would leave the program's own children behind.
        transport, program = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError, ValueError):
            await _end(*await starting)
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise HookFailed(f"can't be started: {why}") from error
    try:
        program.say(given)
        await program.exited.wait()
        with contextlib.suppress(TimeoutError):
            # What it left running in the background may hold the pipes for ever.
            async with asyncio.timeout(_GRACE_S):
                await program.silent.wait()
        return program.ended()
    finally:
        await _end(transport, program)


async def _end(transport: asyncio.SubprocessTransport, program: _Program) -> None:
    """Kill it with all it started, if it still runs, and let go of it."""
    if not program.exited.is_set():
        _kill(transport)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await program.exited.wait()
    transport.close()


def _arguments(line: str) -> list[str]:
    """A command line in words; the path of a file is one word, blanks or not."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        whole = Path(line).expanduser()
        if whole.is_file():
            return [str(whole)]
    try:
        words = shlex.split(line)
        return [str(Path(words[0]).expanduser()) if "~" in words[0] else words[0], *words[1:]]
    except (ValueError, IndexError, RuntimeError) as error:
        raise HookFailed(f"is no command line: {error}") from error


def _kill(transport: asyncio.SubprocessTransport) -> None:
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":  # pragma: no cover  # written for, not tested here
            transport.kill()
        else:
            os.killpg(transport.get_pid(), signal.SIGKILL)


class _Program(asyncio.SubprocessProtocol):
    """A program while it runs: its end, and the beginning of what it prints."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()
        self._printed = {1: bytearray(), 2: bytearray()}
        self._open = {1, 2}
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        room = OUTPUT_BYTES - len(self._printed[fd])
        self._printed[fd] += data[:room]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._open.discard(fd)
        if not self._open:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()

    def say(self, data: bytes) -> None:
        """Give it all of its stdin; it need not read it."""
        assert self._transport is not None  # noqa: S101  # asyncio makes the connection first
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(data + b"\n")
        stdin.close()

    def ended(self) -> Ended:
        """What is known of it by now."""
        assert self._transport is not None  # noqa: S101  # likewise
        printed = (bytes(each).decode("utf-8", "replace") for each in self._printed.values())
        return Ended(self._transport.get_returncode(), *printed)
