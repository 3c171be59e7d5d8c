"""Locks of the operating system on small files of clew's own, never on the database.

They end with the process that holds them, however it ends: no time-outs, no stale pids.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from clew.errors import Locked

if sys.platform == "win32":  # pragma: no cover  # written for, not tested here
    import msvcrt
    import random

    # Far behind the content: on Windows, a locked byte can't be read by others.
    _START, _RANGE = 1 << 30, 1 << 20

    def _lock(descriptor: int, *, shared: bool) -> bool:
        """Exclusive is the whole range, shared one random byte of it."""
        start, length = (_START + random.randrange(_RANGE), 1) if shared else (_START, _RANGE)  # noqa: S311  # a position, no secret
        os.lseek(descriptor, start, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, length)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(descriptor: int, *, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _open(path: Path, *, make: bool) -> int:
    try:
        return os.open(path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
    except OSError:
        # Where nothing can be written, a file that is there can be locked all the same.
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY)
        raise


class FileLock:
    """A lock on one file.

    The file is made if it is not there (mode 0600); with `make=False` that is a FileNotFoundError.
    """

    def __init__(self, path: Path, *, make: bool = True) -> None:
        self.path = path
        self._make = make
        self._descriptor: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Take the lock, or change its kind; False, at once, if another process has it.

        A failed change from shared to exclusive gives up the shared one for a moment, as the
        operating system does, and takes it back.
        """
        held = self._descriptor is not None
        if self._descriptor is None:
            self._descriptor = _open(self.path, make=self._make)
        if _lock(self._descriptor, shared=shared):
            return True
        if not (held and _lock(self._descriptor, shared=True)):
            self.release()
        return False

    def write(self, content: bytes) -> None:
        """Replace the content of the file. Only for a holder."""
        assert self._descriptor is not None  # noqa: S101  # for the type checker
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, content)

    def release(self) -> None:
        """Release the lock; does nothing when none is held."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):
                os.close(descriptor)


@contextlib.contextmanager
def held(
    path: Path, *, patience: float | None = None, pause: float = 0.005, told: str = ""
) -> Iterator[None]:
    """Hold the lock alone, in this thread; `Locked` after that many seconds of waiting.

    The file is never removed: a lock on a removed file would exclude no one.
    """
    lock = FileLock(path)
    start = time.monotonic()
    while not lock.acquire():
        if patience is not None and time.monotonic() - start >= patience:
            raise Locked(told or f"Another process holds {path}. Try again shortly.")
        time.sleep(pause)
    try:
        yield
    finally:
        lock.release()
