"""That a gateway runs for a state directory, as other processes there can tell.

`gateway.lock` is locked as long as it runs, whatever becomes of it; only then does what
`gateway.json` says count. Light, since a chat looks here before anything else is loaded.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from clew.errors import ClewError, Locked
from clew.files.durable import find_bytes, make_directory, put_bytes
from clew.files.locks import FileLock

LOCK: Final = "gateway.lock"
FACTS: Final = "gateway.json"
TOKEN: Final = "gateway.token"  # noqa: S105  # the name of a file
PATIENCE: Final = 1.0
"""Seconds to wait for those who only look."""


class Running(msgspec.Struct, frozen=True):
    """A gateway that runs. `store` is a digest of the address of what it serves."""

    url: str
    pid: int
    instance: str
    store: str
    started_at: int


def find_running(state_dir: Path, store_url: str | None = None) -> Running | None:
    """The gateway that runs for this state directory, and for this store if one is given."""
    path = state_dir / LOCK
    if not path.exists():
        return None
    lock = FileLock(path)
    try:
        if lock.acquire(shared=True):
            return None
    except OSError:
        return None  # it is not ours to look at
    finally:
        lock.release()
    found = _read_facts(state_dir)
    if found is not None and store_url is not None and found.store != digest_url(store_url):
        return None
    return found


def _read_facts(state_dir: Path) -> Running | None:
    """What is told; None while one is only starting."""
    try:
        data = find_bytes(state_dir / FACTS)
        return None if data is None else msgspec.json.decode(data, type=Running)
    except (OSError, ClewError, msgspec.DecodeError):
        return None


def find_own_token(state_dir: Path) -> str | None:
    """The owner's token, which the first start has made."""
    try:
        data = find_bytes(state_dir / TOKEN)
    except (OSError, ClewError):
        return None
    return None if data is None else data.decode("ascii", "replace").strip() or None


def instance_of(state_dir: Path) -> str:
    """A short name for this installation, the same after every start."""
    return hashlib.sha256(os.fsencode(state_dir.absolute())).hexdigest()[:8]


def digest_url(store_url: str) -> str:
    """A store's address as it may be written down: without what it says."""
    return hashlib.sha256(store_url.encode("utf-8", "surrogateescape")).hexdigest()[:16]


@contextmanager
def claim(state_dir: Path) -> Iterator[Path]:
    """Be the gateway of this state directory; `Locked` if there is one. The path is for `tell`."""
    make_directory(state_dir)
    lock = FileLock(state_dir / LOCK)
    end = time.monotonic() + PATIENCE
    while not lock.acquire():
        if time.monotonic() >= end:
            raise _occupied(state_dir)
        time.sleep(0.02)
    facts = state_dir / FACTS
    try:
        facts.unlink(missing_ok=True)
        yield facts
    finally:
        facts.unlink(missing_ok=True)
        lock.release()


def tell(facts: Path, running: Running) -> None:
    """Let others find it."""
    put_bytes(facts, msgspec.json.encode(running))


def _occupied(state_dir: Path) -> Locked:
    found = _read_facts(state_dir)
    where = "" if found is None else f" at {found.url} (pid {found.pid})"
    return Locked(
        f"A gateway already runs for this data directory{where}. "
        "Use that one, stop it first, or start another one with its own --home."
    )
