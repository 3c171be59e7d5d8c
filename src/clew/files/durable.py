"""Files that are wholly there or not at all, after any crash.

Bytes and paths only. The caller holds the lock, so the name of a draft can be fixed: what a killed
process left behind is overwritten by the next.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final

from clew.errors import ClewError

DRAFT: Final = ".clew-draft"


def find_bytes(path: Path) -> bytes | None:
    """The content of a file; None if there is none. Only a regular file is read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ClewError(f"{path} is not a file. Move it away, then try again.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


class FileChanged(Exception):
    """The file was changed by another program since it was read."""


def put_bytes(path: Path, data: bytes, *, over: bytes | None = None) -> None:
    """Put a file in place in one step, on the disk when this returns.

    A link stays a link: its target is replaced. A file keeps its mode, a new one is 0600. With
    `over`, raises `FileChanged` if the content is no longer that: editors take no lock.
    """
    target = path.resolve()
    make_directory(target.parent)
    draft = target.with_name(f".{target.name}{DRAFT}")
    try:
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    try:
        _write_draft(draft, data, mode)
        _check(target, over)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def _check(target: Path, over: bytes | None) -> None:
    if over is not None and (find_bytes(target) or b"") != over:
        raise FileChanged


def _write_draft(draft: Path, data: bytes, mode: int) -> None:
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    draft.chmod(mode)


def append_lines(path: Path, data: bytes) -> None:
    """Add lines to a file, on the disk when this returns; all of them, or an error and none."""
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, length - 1))
        gap = b"" if stream.read(1) in (b"", b"\n") else b"\n"
        stream.seek(length)
        try:
            stream.write(gap + data)
            stream.flush()
            os.fsync(stream.fileno())
        except OSError:
            os.ftruncate(stream.fileno(), length)
            raise
    if new:
        sync_directory(path.parent)


def rename(path: Path, name: str) -> None:
    """Give a file another name in its directory, on the disk when this returns."""
    path.replace(path.with_name(name))
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory that only its owner can read, and those above it, if they are missing."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the renames in a directory durable."""
    if sys.platform == "win32":  # pragma: no cover  # it has no such call
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
