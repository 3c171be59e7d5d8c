"""`MarkdownMemory`: USER.md and MEMORY.md in the data directory, and their last versions.

Every write is a read, a check and a rename under one lock, so that of two processes with the same
etag one is refused. The files belong to the person: clew finds edits by hand, keeps them in the
history before it writes, and never touches what it can't read. The history of a file is a directory
of plain text files. Which personality a caller may name is decided in the surfaces; how much of a
file a prompt gets, in `agent.system_prompt`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from clew.clock import host_clock
from clew.core.memory import (
    FILE_NAMES,
    MEMORY_BYTES,
    MEMORY_VERSIONS,
    MemoryEdit,
    MemoryFile,
    MemoryName,
    MemoryVersion,
    apply_edit,
    find_directory,
    split_overflow,
)
from clew.core.models import Personality
from clew.core.session import OWNER
from clew.errors import ClewError, InvalidInput, RecordNotFound, StaleMemory
from clew.files import durable
from clew.files.locks import held
from clew.ports import Clock

LOCK: Final = ".memory.lock"
PATIENCE: Final = 10.0
"""Seconds. A write takes milliseconds: a process that holds the lock for longer has stopped."""
HISTORY: Final = "memory-history"
ARCHIVE: Final = "memory-archive.md"
BY_HAND: Final = "hand"
ATTEMPTS: Final = 5
"""How often a change is repeated because an editor saved in the middle of it."""

_NAME: Final = re.compile(r"(?P<serial>[0-9]{8,}|next)\.(?P<at>-?[0-9]{1,18})\.(?P<by>[^/]*)\.md")
_WHO: Final = 60


class MemoryPaths(NamedTuple):
    """Where one memory file and what belongs to it are."""

    name: MemoryName
    file: Path
    archive: Path
    history: History


class MarkdownMemory:
    """The memory of one data directory. Any number of processes may use it at once."""

    def __init__(self, data_dir: Path, clock: Clock | None = None) -> None:
        """`clock` replaces the host's."""
        self._data_dir = data_dir
        self._clock = clock or host_clock

    async def read(
        self, name: MemoryName, personality: Personality | None = None, *, person: str = OWNER
    ) -> MemoryFile:
        """The file as it is now; a missing one is empty."""
        paths = self._paths(name, personality, person)
        return await asyncio.to_thread(_read, paths)

    async def write(
        self,
        name: MemoryName,
        text: str,
        personality: Personality | None = None,
        *,
        by: str,
        etag: str | None = None,
        person: str = OWNER,
    ) -> MemoryFile:
        """Replace the whole file in one step. `StaleMemory` if `etag` is not the current one.

        The oldest lines of a text that is too long go to the archive; what is left is returned.
        """
        paths = self._paths(name, personality, person)

        def change(present: MemoryFile) -> str:
            if etag is not None and etag != present.etag:
                raise StaleMemory(
                    f"{paths.file.name} was changed since you read it. "
                    "Read it again and repeat the change. Nothing was written."
                )
            return text

        return await asyncio.to_thread(self._change, paths, change, by)

    async def edit(
        self,
        name: MemoryName,
        edit: MemoryEdit,
        personality: Personality | None = None,
        *,
        by: str,
        person: str = OWNER,
    ) -> MemoryFile:
        """Edit the file as it is now, even if it was changed since it was read."""
        paths = self._paths(name, personality, person)
        return await asyncio.to_thread(
            self._change, paths, lambda present: apply_edit(present.text, edit), by
        )

    async def read_archive(self, personality: Personality | None = None) -> MemoryFile:
        """The last part of what overflowed from both files; empty if nothing has.

        It is in no prompt as a whole: it is there to be searched.
        """
        archive = self._paths("memory", personality, OWNER).archive
        data = await asyncio.to_thread(_read_tail, archive, MEMORY_BYTES)
        etag = hashlib.sha256(data).hexdigest()
        return MemoryFile("memory", data.decode("utf-8", "replace"), etag, str(archive))

    async def list_versions(
        self, name: MemoryName, personality: Personality | None = None, *, person: str = OWNER
    ) -> tuple[MemoryVersion, ...]:
        """The versions, newest first, the current text included if clew wrote it."""
        paths = self._paths(name, personality, person)

        def list_them() -> tuple[MemoryVersion, ...]:
            with self._reading_history(paths):
                return paths.history.list_versions()

        return await asyncio.to_thread(list_them)

    async def get_version(
        self,
        name: MemoryName,
        number: int,
        personality: Personality | None = None,
        *,
        person: str = OWNER,
    ) -> str:
        """The text of a version, or `RecordNotFound`."""
        paths = self._paths(name, personality, person)

        def get() -> bytes | None:
            with self._reading_history(paths):
                return paths.history.find_version(number)

        data = await asyncio.to_thread(get)
        if data is None:
            raise RecordNotFound(f"version of {paths.file.name}", str(number))
        return data.decode()

    def _paths(self, name: MemoryName, personality: Personality | None, person: str) -> MemoryPaths:
        """The paths of a file; known only here."""
        directory = self._data_dir.joinpath(*find_directory(name, personality, person))
        file = directory / FILE_NAMES[name]
        history = History(directory / HISTORY / file.name)
        return MemoryPaths(name, file, directory / ARCHIVE, history)

    def _change(
        self, paths: MemoryPaths, change: Callable[[MemoryFile], str], by: str
    ) -> MemoryFile:
        with _explain_errors(paths.file, "can't be written: {}. Nothing was changed."):
            durable.make_directory(self._data_dir)
            with writing_alone(self._data_dir):
                for _ in range(ATTEMPTS):
                    present = _read(paths)
                    moved, kept = split_overflow(_storable(change(present)))
                    if not moved and kept == present.text:
                        return present
                    with suppress(durable.FileChanged):
                        self._replace(paths, present, moved, kept, by)
                        return _read(paths)
        raise StaleMemory(
            f"{paths.file} is changed again and again by another program. Nothing was written."
        )

    def _replace(
        self, paths: MemoryPaths, present: MemoryFile, moved: str, kept: str, by: str
    ) -> None:
        """Replace the file. Each step is on the disk before the next: no crash loses anything."""
        durable.make_directory(paths.file.parent)
        history, before = paths.history, present.text.encode()
        history.settle(before)
        if before and history.newest() != before:
            edited_at = paths.file.stat().st_mtime_ns // 1_000_000
            history.keep(before, at=edited_at, by=BY_HAND)
        now = self._clock()
        if moved:
            durable.append_lines(paths.archive, _archived(paths, moved, now))
        history.announce(kept.encode(), at=now, by=by)
        try:
            durable.put_bytes(paths.file, kept.encode(), over=before)
        except durable.FileChanged:
            history.withdraw()
            raise
        finally:
            # Not worth an error: the next reader or writer settles what is left open.
            with suppress(OSError):
                history.settle(durable.find_bytes(paths.file))

    @contextmanager
    def _reading_history(self, paths: MemoryPaths) -> Iterator[None]:
        """The history, with what a crash left settled."""
        with _explain_errors(paths.file, "can't be read: {}."):
            if not paths.history.directory.is_dir():
                yield
                return
            with writing_alone(self._data_dir):
                paths.history.settle(durable.find_bytes(paths.file))
                yield


def writing_alone(data_dir: Path, patience: float = PATIENCE) -> AbstractContextManager[None]:
    """One writer at a time, for all memory files of a data directory."""
    told = (
        "Another clew has been writing the memory files for a while. "
        "Try again shortly. Nothing was changed."
    )
    return held(data_dir / LOCK, patience=patience, told=told)


def _read(paths: MemoryPaths) -> MemoryFile:
    with _explain_errors(paths.file, "can't be read: {}."):
        data = durable.find_bytes(paths.file) or b""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ClewError(
            f"{paths.file} is not UTF-8 text, so clew leaves it alone. "
            "Save it as UTF-8 in your editor, then try again."
        ) from error
    return MemoryFile(paths.name, text, hashlib.sha256(data).hexdigest(), str(paths.file))


def _read_tail(path: Path, limit: int) -> bytes:
    """The end of a file, from the beginning of a line; nothing if it can't be read."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - limit))
            data = stream.read(limit)
    except OSError:
        return b""
    return data if size <= limit else data.partition(b"\n")[2]


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "The text has half a character in it (a lone surrogate), which no file can hold. "
            "Nothing was changed."
        ) from error
    return text


def _archived(paths: MemoryPaths, moved: str, now: int) -> bytes:
    """The lines for the archive, under a line that says where they come from."""
    when = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"<!-- from {paths.file.name}, {when} -->\n{moved}".encode()


@contextmanager
def _explain_errors(file: Path, sentence: str) -> Iterator[None]:
    """Turn disk errors into a message: the file, and a sentence with a gap for the reason."""
    try:
        yield
    except OSError as error:
        raise ClewError(f"{file} {sentence.format(error.strerror or error)}") from error


class Entry(NamedTuple):
    """A version on disk. Serial 0 is one that is announced and perhaps not in place."""

    serial: int
    at: int
    by: str
    path: Path


class History:
    """The versions of one file.

    A version is announced before the file is replaced, then settled. A crash between the two leaves
    an announced one behind; `settle` finds out whether it got into place.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def announce(self, data: bytes, *, at: int, by: str) -> None:
        """Keep a version that is about to be put in place."""
        durable.put_bytes(self.directory / f"next.{at}.{_spelled(by)}.md", data)

    def withdraw(self) -> None:
        """Remove an announced version that was not put in place."""
        for entry in self._announced():
            entry.path.unlink(missing_ok=True)

    def settle(self, present: bytes | None) -> None:
        """Number what was announced, if the file (now `present`) ever had it.

        If the file still equals the newest version, the announced one never got there. If it is
        anything else, it may have been edited by hand since: then the announced one is kept.
        """
        for entry in self._announced():
            entries = self._numbered()
            newest = entries[0].path.read_bytes() if entries else b""
            data = entry.path.read_bytes()
            if data != (present or b"") and newest == (present or b""):
                entry.path.unlink()
                continue
            serial = entries[0].serial + 1 if entries else 1
            durable.rename(entry.path, f"{serial:08d}.{entry.at}.{_spelled(entry.by)}.md")
        for entry in self._numbered()[MEMORY_VERSIONS:]:
            entry.path.unlink(missing_ok=True)
        for draft in self.directory.glob(f".*{durable.DRAFT}"):
            draft.unlink(missing_ok=True)

    def keep(self, data: bytes, *, at: int, by: str) -> None:
        """Keep a version that is in place already, like an edit by hand."""
        self.announce(data, at=at, by=by)
        self.settle(data)

    def newest(self) -> bytes | None:
        """The text of the newest version."""
        entries = self._numbered()
        return entries[0].path.read_bytes() if entries else None

    def list_versions(self) -> tuple[MemoryVersion, ...]:
        """All that are kept, newest first."""
        return tuple(
            MemoryVersion(
                number=number,
                at=entry.at,
                by=entry.by,
                size=len(data),
                etag=hashlib.sha256(data).hexdigest(),
            )
            for number, entry in enumerate(self._numbered(), 1)
            for data in (entry.path.read_bytes(),)
        )

    def find_version(self, number: int) -> bytes | None:
        """The text of a version; 1 is the newest."""
        entries = self._numbered()
        return entries[number - 1].path.read_bytes() if 1 <= number <= len(entries) else None

    def _numbered(self) -> list[Entry]:
        return [entry for entry in self._entries() if entry.serial]

    def _announced(self) -> list[Entry]:
        return [entry for entry in self._entries() if not entry.serial]

    def _entries(self) -> list[Entry]:
        """All versions, newest first; files that are not clew's are ignored."""
        if not self.directory.is_dir():
            return []
        entries = []
        for path in self.directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match:
                serial = 0 if match["serial"] == "next" else int(match["serial"])
                entries.append(Entry(serial, int(match["at"]), unquote(match["by"]), path))
        return sorted(entries, reverse=True)


def _spelled(by: str) -> str:
    """The writer's name, as a part of a file name."""
    return quote(by.encode("utf-8", "replace")[:_WHO], safe=" @:")
