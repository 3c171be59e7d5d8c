"""New stores, copied from one that was made once: making the tables takes longer than most tests.

Tests of how a store is made or updated let clew make theirs.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from functools import cache
from pathlib import Path

from clew.store import open_store


@cache
def _read_new() -> bytes:
    """The bytes of a store that nothing was done in."""

    async def make(path: Path) -> None:
        await (await open_store(str(path))).close()

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sessions.db"
        # In a thread, since the caller may be in an event loop.
        maker = threading.Thread(target=lambda: asyncio.run(make(file)))
        maker.start()
        maker.join()
        assert not file.with_name("sessions.db-wal").exists(), "something is not in the file yet"
        return file.read_bytes()


def lay_store(path: Path) -> None:
    """Put an empty store at this path, if there is none yet."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(_read_new())
