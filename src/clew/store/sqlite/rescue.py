"""Rescue copies of a store whose file was moved, replaced or deleted while clew had it open.

The connection that is still open knows every acknowledged message; it is copied beside the path of
the store. `database` notices that the file is gone (`connection.Anchor`), and `repair` puts a copy
back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw

from clew.errors import ClewError
from clew.store.diagnosis import FIX, Finding
from clew.store.sqlite import schema
from clew.store.sqlite.connection import fetch
from clew.store.sqlite.errors import DRIVER_ERRORS

RESCUED = ".rescued-"
RESTORED = ".restored-"
"""Part of the name of a rescue copy, and of one that was put back."""


# --- making one -------------------------------------------------------------------------------


def write_rescue(connection: apsw.Connection, path: Path, *, now: int) -> Path:
    """Copy all that the connection knows; where the copy is. An error if there is room nowhere."""
    try:
        return _write(connection, path.parent, path, now)
    except (ClewError, OSError, *DRIVER_ERRORS):
        from tempfile import mkdtemp  # noqa: PLC0415  # only if the directory can't be written

        return _write(connection, Path(mkdtemp(prefix="clew-rescue-")), path, now)


def _write(connection: apsw.Connection, directory: Path, path: Path, now: int) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    target = directory / f"{path.name}{RESCUED}{stamp}-{os.getpid()}"
    private = target.with_name(f"{target.name}.lock")
    private.touch(0o600)  # the copy gets the permissions of this one
    try:
        return schema.verified_copy(connection, target, lock=private)
    finally:
        private.unlink(missing_ok=True)


# --- finding them ------------------------------------------------------------------------------


def check_rescues(path: Path) -> Iterator[Finding]:
    """The rescue copies that nobody has put back yet."""
    for rescue in list_rescues(path):
        what = (
            f"the store was moved, replaced or deleted while clew had it open, and {rescue} has "
            "what was acknowledged until then"
        )
        if may_replace(rescue, path):
            yield Finding("rescue copy", "problem", what, FIX, "rescue")
        else:
            advice = (
                "The store has messages that it lacks. `clew restore COPY --replace` puts it in "
                "place and keeps the store beside it; delete it if you need it no more."
            )
            yield Finding("rescue copy", "problem", what, advice)


def list_rescues(path: Path) -> list[Path]:
    """The rescue copies beside the store, the fullest first."""
    found = [
        each
        for each in path.parent.glob(f"{path.name}{RESCUED}*")
        if not each.name.endswith((".part", ".lock", "-journal"))
    ]
    return sorted(found, key=lambda each: (-sum(_heads(each).values()), each.name))


def may_replace(rescue: Path, path: Path) -> bool:
    """Whether the copy has every message that the store has, and so can take its place."""
    kept = _heads(rescue)
    there = _heads(path) if path.exists() else {}
    return bool(kept) and all(kept.get(each, -1) >= head for each, head in there.items())


def mark_restored(rescue: Path, path: Path) -> None:
    """Let nobody find the copies any more that have nothing beyond the one that was put back."""
    for each in [rescue, *(other for other in list_rescues(path) if may_replace(rescue, other))]:
        if each.exists():
            each.rename(each.with_name(each.name.replace(RESCUED, RESTORED)))


def _heads(path: Path) -> dict[str, int]:
    """The number of the last message of each session; nothing for what is no store."""
    with suppress(*DRIVER_ERRORS), closing(_open(path)) as connection:
        return dict(fetch(connection, "SELECT id, head FROM sessions"))
    return {}


def _open(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READONLY
    return apsw.Connection(f"{path.as_uri()}?mode=ro", flags=flags)
