"""The last versions of one memory file: a directory of plain text files.

A version is called `<serial>.<milliseconds>.<who>.md`; whoever has the directory can read it
without clew. Callers hold the lock. What the file itself says is the caller's knowledge.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from clew.core.memory import MEMORY_VERSIONS, MemoryVersion
from clew.files import durable

_NAME: Final = re.compile(r"(?P<serial>[0-9]{8,}|next)\.(?P<at>-?[0-9]{1,18})\.(?P<by>[^/]*)\.md")
_WHO: Final = 60


class Entry(NamedTuple):
    """A version on disk. Serial 0 is one that is announced and perhaps not in place."""

    serial: int
    at: int
    by: str
    path: Path


class History:
    """The versions of one file. A version is announced before the file is replaced, then settled.

    A crash between the two leaves an announced one behind; `settle` finds out what became of it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def announce(self, data: bytes, *, at: int, by: str) -> None:
        """Keep a version that is about to be put in place."""
        durable.put_bytes(self.directory / f"next.{at}.{_spelled(by)}.md", data)

    def withdraw(self) -> None:
        """What was announced is not put in place."""
        for entry in self._announced():
            entry.path.unlink(missing_ok=True)

    def settle(self, present: bytes | None) -> None:
        """Number what was announced, if the file (now `present`) ever said it.

        Where the file still is as the newest version, the announced one never got there. Where
        it is anything else, somebody may have edited it since: then it is kept.
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
        """A version that is in place already, like an edit by hand."""
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
        """Everything, newest first; files that are not clew's are passed over."""
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
    """Who it was, as a part of a file's name."""
    return quote(by.encode("utf-8", "replace")[:_WHO], safe=" @:")
