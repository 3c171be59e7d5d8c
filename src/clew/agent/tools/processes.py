"""A child process with limits: bounded in time and output, and ended with everything it started.

It has a process group of its own, no input, and an environment of known names. What it prints is
read as it comes and only the beginning and the end are kept. If clew itself is killed, a watcher
ends the group, and on Linux also what has left it (`setsid`) with its environment. `Lifeline` does
the same for a process that another library starts. POSIX only.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
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


MARK = "CLEW_RUN"
"""The variable by which a watcher knows what a command has started."""


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
        try:
            watched = await _start_watched(words, cwd, environment, writing)
        finally:
            os.close(writing)
        try:
            async with asyncio.timeout(seconds):
                code: int | None = await watched.process.wait()
        except TimeoutError:
            code = None
        finally:
            await watched.end()
        # A child that left the group may hold the pipe for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await output.closed.wait()
    finally:
        pipe.close()
    return Ended(code, output.spool.text, output.spool.size)


_END_MARKED = (
    f'for each in $(grep -lsz "^{MARK}=$run\\$" /proc/[0-9]*/environ); do '
    'each=${each#/proc/}; kill -KILL "${each%/environ}"; done'
)
# Its input is a pipe that clew alone can write to: the number of the group, and then nothing. When
# that ends, clew is gone. A parent-death signal would not reach what a command has started.
_WATCHER = (
    "read -r group run || exit; read -r _ && exit\n"
    'kill -TERM "-$group"; sleep 0.1; kill -KILL "-$group"\n' + _END_MARKED
)
_BEGIN = 'read -r _ && exec "$@" </dev/null'
"""Begins when the watcher knows the group; ends if clew is gone before."""


class _Watched:
    """A process, and the watcher that ends its group if clew is killed."""

    def __init__(
        self, process: asyncio.subprocess.Process, watcher: asyncio.subprocess.Process, line: int
    ) -> None:
        self.process = process
        self._watcher = watcher
        self._line = line

    async def end(self) -> None:
        """End the process with its group, and then the watcher."""
        try:
            await _end(self.process)
        finally:
            await _end(self._watcher)
            os.close(self._line)


async def _start_watched(
    words: Sequence[str], cwd: Path, environment: Mapping[str, str], output: int
) -> _Watched:
    """Start a process, which begins when its watcher watches."""
    with ExitStack() as closing:
        told, line = os.pipe()
        held, go = os.pipe()
        for each in (told, held, go):
            closing.callback(os.close, each)
        closing.push(failing := ExitStack())
        failing.callback(os.close, line)
        watcher = await _start(("/bin/sh", "-c", _WATCHER), cwd, environment, told)
        run = secrets.token_hex(8)
        try:
            begun = ("/bin/sh", "-c", _BEGIN, "sh", *words)
            process = await _start(begun, cwd, {**environment, MARK: run}, held, output)
        except BaseException:
            await _end(watcher)
            raise
        failing.pop_all()
        with suppress(BrokenPipeError):  # one of them was killed already
            os.write(line, f"{process.pid} {run}\n".encode())
            os.write(go, b"\n")
        return _Watched(process, watcher, line)


async def _start(
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    stdin: int,
    output: int = asyncio.subprocess.DEVNULL,
) -> asyncio.subprocess.Process:
    """Start a process. A start that is cancelled half-way would leave its children behind."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words, cwd=cwd, env=dict(environment), stdin=stdin, stdout=output, stderr=output,
            start_new_session=True,
        )
    )  # fmt: skip
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await _end(await starting)
        raise


# The named pipe is not needed once it is open. The watcher is in the group of the command, without
# its mark, and must not hold its input and output open.
_GUARD = f"""exec 3<"$1"; rm -f "$1"; rmdir "${{1%/*}}"; run=$2; shift 2
( read -r _ <&3; trap "" TERM; kill -TERM "-$$"; sleep 0.1
  {_END_MARKED}
  kill -KILL "-$$" ) </dev/null >/dev/null 2>&1 &
exec env "{MARK}=$run" "$@" 3<&-"""


class Lifeline:
    """Ends a process that another library starts in a session of its own, if clew is killed."""

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="clew-")) / "lifeline"
        os.mkfifo(self._path, 0o600)
        self._line = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    def tie(self, words: Sequence[str]) -> list[str]:
        """The command that runs these words, and ends when this ends."""
        run = secrets.token_hex(8)
        return ["/bin/sh", "-c", _GUARD, "sh", str(self._path), run, *words]

    def close(self) -> None:
        """End what is left of the command."""
        os.close(self._line)
        shutil.rmtree(self._path.parent, ignore_errors=True)


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
