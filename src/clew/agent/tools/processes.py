"""A child process with limits: bounded in time and output, and ended with everything it started.

It has a process group of its own, no input, and an environment of known names. What it prints is
read as it comes and only the beginning and the end are kept. POSIX only.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew.agent.tools.output import KEPT_BYTES, Spool

GRACE = 0.1
"""Seconds between SIGTERM and SIGKILL."""

_HARMLESS = frozenset({
    "PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE",
})  # fmt: skip
_FIXED = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Settings for programs that would wait for a key or a password."""


class Ended(msgspec.Struct, frozen=True):
    """How a process ended. `code` is None if it was stopped at its time limit."""

    code: int | None
    output: str
    size: int


def clean_environment(whole: Mapping[str, str], extra: Sequence[str] = ()) -> dict[str, str]:
    """The part of an environment that holds no secrets: known names, and those given."""
    kept = {
        name: value
        for name, value in whole.items()
        if name in _HARMLESS or name.startswith("LC_") or name in extra
    }
    return {"PATH": os.defpath} | _FIXED | kept


async def run_process(
    words: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    progress: Callable[[bytes], None] | None = None,
    keep: int = KEPT_BYTES,
) -> Ended:
    """Run a program to its end, to its time limit, or until this task is cancelled.

    Everything it has started ends with it. Raises `OSError` if it can't be started.
    """
    reading, writing = os.pipe()
    output = _Output(Spool(keep), progress)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: output, os.fdopen(reading, "rb", 0))
    try:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *words, cwd=cwd, env=dict(environment), stdin=asyncio.subprocess.DEVNULL,
                stdout=writing, stderr=writing, start_new_session=True,
            )
        )  # fmt: skip
        try:
            process = await _started(starting)
        finally:
            os.close(writing)
        try:
            async with asyncio.timeout(seconds):
                code: int | None = await process.wait()
        except TimeoutError:
            code = None
        finally:
            await _end(process)
        # A child that left the group may hold the pipe for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await output.closed.wait()
    finally:
        pipe.close()
    return Ended(code, output.spool.text, output.spool.size)


async def _started(
    starting: asyncio.Future[asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """Start the process. A start that is cancelled half-way would leave its children behind."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await _end(await starting)
        raise


class _Output(asyncio.Protocol):
    """Collects what comes through the pipe."""

    def __init__(self, spool: Spool, progress: Callable[[bytes], None] | None) -> None:
        self.spool = spool
        self.closed = asyncio.Event()
        self._progress = progress

    def data_received(self, data: bytes) -> None:
        self.spool.add(data)
        if self._progress is not None:
            self._progress(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # a protocol's name
        self.closed.set()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask the group to end, then kill it; being cancelled once more only makes that quicker."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await process.wait()
        finally:
            _signal_group(process.pid, signal.SIGKILL)
        await process.wait()
    else:
        _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
