"""One lock of the operating system for everybody who writes memory files in a data directory.

It ends with the process that holds it, however it ends. The store's locks are its own: the two
rooms never meet.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clew.errors import Locked

PATIENCE_S: Final = 10.0
"""A write takes milliseconds: whoever holds the lock for longer has stopped."""
_PAUSE_S: Final = 0.005

if sys.platform == "win32":  # pragma: no cover  # written for, not tested here
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def writing_alone(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the lock, in this thread; `Locked` after waiting in vain. Waits: not for an event loop.

    The lock file is never removed: a lock on a removed file would exclude nobody.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + patience_s
        while not _lock(descriptor):
            if time.monotonic() >= deadline:
                raise Locked(
                    "Another clew has been writing the memory files for a while. "
                    "Try again shortly. Nothing was changed."
                )
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)
