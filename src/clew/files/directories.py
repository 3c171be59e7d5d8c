"""Directories as the disk knows them: their identity, their repository, and what a path leads to.

Nothing inside a directory is read but whether there is a `.git`; git is never run. What is decided
with the answers is in `core.keys` and `core.resume`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Literal


def identify(path: Path) -> tuple[int, int, int | None]:
    """Device, inode and time of birth (in nanoseconds, where the system tells) of a directory.

    Raises what the system says about one that is gone or can't be looked at.
    """
    status = path.stat()
    return status.st_dev, status.st_ino, _read_birth(path, status)


def _read_birth(path: Path, status: os.stat_result) -> int | None:
    born = getattr(status, "st_birthtime", None)
    if born is not None:
        return int(born * 1e9) or None
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  # Python's own stat leaves it out on Linux

    buffer = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(-100, bytes(path), 0, 0x800, buffer)
    except (OSError, AttributeError):
        return None
    if failed or not int.from_bytes(buffer.raw[0:4], sys.byteorder) & 0x800:
        return None
    seconds = int.from_bytes(buffer.raw[80:88], sys.byteorder, signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(buffer.raw[88:92], sys.byteorder) or None


def find_repository(directory: Path) -> Path | None:
    """The root of the repository that a directory is in; a worktree's `.git` is a file."""
    for each in (directory, *directory.parents):
        if (each / ".git").exists():
            return each
    return None


def directory_exists(path: str) -> bool:
    """Whether a directory is still there; one that may not be looked at counts as there."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def expand(typed: str, cwd: str | None = None) -> Path:
    """The path that a person typed, seen from a directory."""
    path = Path(typed)
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        path = path.expanduser()
    return path if cwd is None else Path(cwd) / path


def look_at_file(path: Path) -> Literal["file", "missing", "odd"]:
    """What a path leads to: a file, nothing, or something that can't be opened as a file."""
    try:
        if path.is_dir():
            return "odd"
        return "file" if path.exists() or path.is_symlink() else "missing"
    except (OSError, ValueError, RuntimeError):
        return "odd"
