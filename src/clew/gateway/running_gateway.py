"""Find the gateway that runs for a state directory, from another process.

`gateway.lock` is locked for as long as the gateway runs, however it ends; `gateway.json` is valid
only while it is. Quick to import, since a chat looks here before anything else is loaded.
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

LOCK_FILE: Final = "gateway.lock"
FACTS_FILE: Final = "gateway.json"
PATIENCE: Final = 1.0
"""Seconds to wait for processes that only look at the lock."""


class Running(msgspec.Struct, frozen=True):
    """A gateway that runs. `store` is a digest of the address of its store."""

    url: str
    pid: int
    instance: str
    store: str
    started_at: int


def find_running(state_dir: Path, store_url: str | None = None) -> Running | None:
    """The gateway that runs for this state directory, and for this store if one is given."""
    path = state_dir / LOCK_FILE
    if not path.exists():
        return None
    lock = FileLock(path)
    try:
        if lock.acquire(shared=True):
            return None
    except OSError:
        return None  # the file belongs to another user
    finally:
        lock.release()
    found = _read_facts(state_dir)
    if found is not None and store_url is not None and found.store != digest_url(store_url):
        return None
    return found


def _read_facts(state_dir: Path) -> Running | None:
    """What `gateway.json` says; None while the gateway is starting."""
    try:
        data = find_bytes(state_dir / FACTS_FILE)
        return None if data is None else msgspec.json.decode(data, type=Running)
    except (OSError, ClewError, msgspec.DecodeError):
        return None


def instance_of(state_dir: Path) -> str:
    """A short name for this installation, the same after every start."""
    return hashlib.sha256(os.fsencode(state_dir.absolute())).hexdigest()[:8]


def digest_url(store_url: str) -> str:
    """A digest of a store's address, which may have a password in it."""
    return hashlib.sha256(store_url.encode("utf-8", "surrogateescape")).hexdigest()[:16]


@contextmanager
def claim(state_dir: Path) -> Iterator[Path]:
    """Become the gateway of this state directory, for this block; `Locked` if one runs.

    Gives the path for `tell`.
    """
    make_directory(state_dir)
    lock = FileLock(state_dir / LOCK_FILE)
    end = time.monotonic() + PATIENCE
    while not lock.acquire():
        if time.monotonic() >= end:
            raise _occupied(state_dir)
        time.sleep(0.02)
    facts = state_dir / FACTS_FILE
    try:
        facts.unlink(missing_ok=True)
        yield facts
    finally:
        facts.unlink(missing_ok=True)
        lock.release()


def tell(facts: Path, running: Running) -> None:
    """Write down how other processes reach the gateway."""
    put_bytes(facts, msgspec.json.encode(running))


def _occupied(state_dir: Path) -> Locked:
    found = _read_facts(state_dir)
    where = "" if found is None else f" at {found.url} (pid {found.pid})"
    return Locked(
        f"A gateway already runs for this data directory{where}. "
        "Use that one, stop it first, or start another one with its own --home."
    )
