"""Processes of clew that begin where its imports are done.

Loading the agent's library takes a second of CPU, many times what most tests are about. So one
process per test run loads everything and forks: each of the others is a process like any other,
with its own descriptors, directory, environment, session and terminal, and its own end. Tests of
what a process loads, and when, start an interpreter of their own.

As a script this is the process that forks. It reads requests from the socket whose descriptor is
its argument, and ends with the socket.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
CLEW = "from clew.cli import main; main(prog_name='clew')"

_lock = threading.Lock()
_parent: tuple[subprocess.Popen[bytes], socket.socket] | None = None


class Forked:
    """A process that was forked; as much of `subprocess.Popen` as tests need."""

    def __init__(self, pid: int, ends: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ends = ends

    def poll(self) -> int | None:
        """The exit code, if it has ended: negative after a signal."""
        return self._look(0)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code, when it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def _look(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._ends], [], [], timeout)[0]:
            self.returncode = int(os.read(self._ends, 16))
            os.close(self._ends)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_clew(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    streams: tuple[int, int, int],
    terminal: bool = False,
) -> Forked:
    """`clew` with these arguments; `terminal`: the first stream is the terminal that it runs in."""
    request = {
        "arguments": list(arguments),
        "env": dict(env),
        "cwd": str(cwd or Path.cwd()),
        "terminal": terminal,
    }
    reading, writing = os.pipe()
    try:
        with _lock:
            control = _get_parent()
            data = json.dumps(request).encode()
            socket.send_fds(control, [len(data).to_bytes(4, "big")], [*streams, writing])
            control.sendall(data)
            pid = int.from_bytes(_receive(control, 4), "big")
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Forked(pid, reading)


def run_clew(
    arguments: Sequence[str], *, env: Mapping[str, str], given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run `clew` to its end, without a terminal: what `subprocess.run` would return."""
    with (
        tempfile.TemporaryFile() as read,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
    ):
        read.write(given)
        read.seek(0)
        streams = (read.fileno(), output.fileno(), complaints.fileno())
        process = start_clew(arguments, env=env, cwd=None, streams=streams)
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        output.seek(0)
        complaints.seek(0)
        return subprocess.CompletedProcess(arguments, code, output.read(), complaints.read())


def _get_parent() -> socket.socket:
    global _parent  # noqa: PLW0603  # one for the whole run, made when it is first needed
    if _parent is None:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
        )
        theirs.close()
        _parent = process, ours
    return _parent[1]


def close() -> None:
    """End the process that forks. Those that it has forked are their tests' business."""
    global _parent  # noqa: PLW0603  # see above
    if _parent is not None:
        process, control = _parent
        control.close()
        process.wait(PATIENCE)
        _parent = None


def _receive(control: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = control.recv(count - len(data))
        if not piece:
            raise EOFError("The process that forks has ended.")
        data += piece
    return data


# --- the process that forks ----------------------------------------------------------------------


def serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request. Returns in each fork what it is to do, and at the end nothing."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1024)
            _report(running)
        if control.fileno() in ready:
            size, streams, _, _ = socket.recv_fds(control, 4, 4)
            if not size:
                return None
            request = json.loads(_receive(control, int.from_bytes(size, "big")))
            *streams, ends = streams
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (woken, waking, ends, *running.values()):
                    os.close(each)
                control.close()
                return request, streams
            running[pid] = ends
            for each in streams:
                os.close(each)
            control.sendall(pid.to_bytes(4, "big"))


def _report(running: dict[int, int]) -> None:
    """Tell of those that have ended how they did."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with contextlib.suppress(BrokenPipeError), os.fdopen(running.pop(pid), "wb") as ends:
                ends.write(str(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Be the process that was asked for: what it has from its parent is made its own."""
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["terminal"]:
        os.close(os.open(os.ttyname(0), os.O_RDWR))  # which makes it the terminal of the session
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    tempfile.tempdir = None
    random.seed()
    sys.stdin = _open_text(0, "r")
    sys.stdout = _open_text(1, "w")
    sys.stderr = _open_text(2, "w", errors="backslashreplace")
    sys.argv = ["-c", *request["arguments"]]


def _open_text(descriptor: int, mode: str, errors: str = "surrogateescape") -> io.TextIOWrapper:
    """A standard stream as an interpreter opens it."""
    raw = open(descriptor, f"{mode}b", closefd=False)  # noqa: SIM115  # until the process ends
    lines = mode == "w" and (descriptor == 2 or os.isatty(descriptor))
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=lines)


def main(descriptor: str) -> None:
    """Load everything, then fork on request, and run clew in the forks."""
    importlib.import_module("benchmarks.processes.preload")
    assert threading.active_count() == 1, "a library has started a thread; forking is not safe"
    asked = serve(socket.socket(fileno=int(descriptor)))
    if asked is not None:
        become(*asked)
        exec(CLEW, {"__name__": "__main__"})  # what `python -c` does


if __name__ == "__main__":
    main(sys.argv[1])
