"""Opens other agents' files: regular ones of this user, inside of their directory, of bounded size.

A history may have been written by anybody. A link that leaves the directory, a pipe, another
user's file and a line without end are refused or passed over. Nothing is ever written.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from clew.errors import InvalidInput

MAX_FILE: Final = 4 << 30
"""Bytes of the longest file that is read."""

MAX_LINE: Final = 64 << 20
"""Bytes of the longest line; a longer one is passed over."""

MAX_DOCUMENT: Final = 1 << 30
"""Bytes of the longest file that must be read as a whole."""

FIRST: Final = 65_536
"""Bytes from which an agent is guessed."""

_STEP: Final = 1 << 20


class Refused(InvalidInput):
    """A file that is not read, and why."""


def open_own(path: Path, root: Path) -> BinaryIO:
    """Open a file below `root` for reading; `Refused` unless it is a plain file of this user."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise Refused(f"{path} leads out of {root}. It was not read.")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(real, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        facts = os.fstat(descriptor)
        _check(facts, path)
        return os.fdopen(descriptor, "rb", buffering=_STEP)
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        raise


def check_own(path: Path, root: Path) -> Path:
    """The real path of a file that another library opens, with the same rules."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise Refused(f"{path} leads out of {root}. It was not read.")
    _check(real.stat(), path)
    return real


def _check(facts: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise Refused(f"{path} is not a plain file. It was not read.")
    if hasattr(os, "getuid") and facts.st_uid != os.getuid():
        raise Refused(f"{path} belongs to another user. It was not read.")
    if facts.st_size > MAX_FILE:
        raise Refused(f"{path} is longer than {MAX_FILE >> 30} GB. It was not read.")


class RawLine(NamedTuple):
    """A line, where it begins, and its length; `data` is None if it is too long."""

    offset: int
    size: int
    data: bytes | None


def split_lines(stream: BinaryIO) -> Iterator[RawLine]:
    r"""The lines of a file, split at `\n` only, without holding a line that is too long."""
    offset = 0
    while True:
        data = stream.readline(MAX_LINE + 1)
        if not data:
            return
        size = len(data)
        whole = data.endswith(b"\n") or size <= MAX_LINE
        while not data.endswith(b"\n") and len(data) > MAX_LINE:
            data = stream.readline(MAX_LINE + 1)
            size += len(data)
        yield RawLine(offset, size, data if whole else None)
        offset += size


def read_line_at(stream: BinaryIO, offset: int, size: int) -> bytes:
    """A line that was found before."""
    stream.seek(offset)
    return stream.read(size)


def parse_json(raw: bytes | str) -> Any:
    """A JSON value of any kind, lone surrogates included; `ValueError` if it can't be read."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_object(raw: bytes | str) -> dict[str, Any] | None:
    """A JSON object, or None."""
    try:
        value = parse_json(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_document(path: Path, root: Path) -> Any:
    """A whole JSON file; `Refused` if it is too long or no JSON."""
    with open_own(path, root) as stream:
        raw = stream.read(MAX_DOCUMENT + 1)
    if len(raw) > MAX_DOCUMENT:
        raise Refused(f"{path} is longer than {MAX_DOCUMENT >> 20} MB. It was not read.")
    try:
        return parse_json(raw)
    except ValueError as error:
        raise Refused(f"{path} is damaged: it can't be read as JSON.") from error


def read_first(path: Path) -> bytes:
    """The first bytes of a file that a person named; empty if it can't be opened."""
    try:
        with open_own(path, path.resolve().parent) as stream:
            return stream.read(FIRST)
    except (OSError, Refused):
        return b""


class Entry(NamedTuple):
    """A file of a directory, with its size and the time of its last change in milliseconds."""

    path: Path
    size: int
    at: int

    @property
    def stamp(self) -> str:
        """Changes whenever the file does."""
        return f"{self.size}:{self.at}"


def list_files(
    directory: Path, root: Path, fits: Callable[[str], bool], *, depth: int = 0
) -> Iterator[Entry]:
    """The files of a directory whose name fits, and of those below it, without reading any.

    Links that leave `root` and what can't be looked at are passed over.
    """
    try:
        entries = sorted(os.scandir(directory), key=lambda each: each.name)
    except OSError:
        return
    for each in entries:
        with suppress(OSError):
            if each.is_symlink() and not Path(each.path).resolve().is_relative_to(root.resolve()):
                continue
            if each.is_dir():
                if depth > 0:
                    yield from list_files(Path(each.path), root, fits, depth=depth - 1)
            elif each.is_file() and fits(each.name):
                facts = each.stat()
                yield Entry(Path(each.path), facts.st_size, facts.st_mtime_ns // 1_000_000)


def entry_of(path: Path) -> Entry | None:
    """The size and time of one file, if it is there."""
    try:
        facts = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return Entry(path, facts.st_size, facts.st_mtime_ns // 1_000_000)


def given_files(path: Path, fits: Callable[[str], bool], *, depth: int = 8) -> Iterator[Entry]:
    """The file that a person named, or those in the directory that they named."""
    path = path.resolve()
    if path.is_dir():
        yield from list_files(path, path, fits, depth=depth)
    elif (entry := entry_of(path)) is not None:
        yield entry


def text_of(value: object) -> str:
    """A text field of a record; empty if it is anything else."""
    return value if isinstance(value, str) else ""


def dicts_of(value: object) -> Iterable[dict[str, Any]]:
    """The objects in a list; nothing if it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()


def dict_of(value: object) -> dict[str, Any]:
    """An object; an empty one if it is anything else."""
    return value if isinstance(value, dict) else {}
