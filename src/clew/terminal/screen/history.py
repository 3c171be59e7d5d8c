"""The input history, fetched with Up: one private file for all sessions of a person.

It knows nothing of keys or widgets. Errors with the file are ignored: the history is shorter then.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path
from typing import Final

import msgspec

KEPT: Final = 500
"""Entries that are kept."""

LONGEST: Final = 200_000
"""Characters of an entry; longer ones are not kept."""

LARGEST: Final = 4_000_000
"""Bytes of the file that are read at most; a larger file is shortened."""


def history_file(state_dir: Path, person: str) -> Path:
    """Where a person's history is; guests' names may contain anything."""
    return state_dir / "history" / f"{re.sub(r'[^A-Za-z0-9_-]', '_', person)[:80]}.jsonl"


class History:
    """What was sent, oldest first, and the entry that is shown."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entries: list[str] = []
        self._place: int | None = None
        self._draft = ""
        self._loading = threading.Lock()
        self._is_loaded = path is None

    def load(self) -> None:
        """Read the file, once, and shorten it if it is too long."""
        with self._loading:
            if not self._is_loaded and self._path is not None:
                self._is_loaded = True
                self._read_file(self._path)

    def _read_file(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LARGEST))
                lines = file.read(LARGEST).splitlines()
            found = [text for line in lines if (text := _read(line))]
            self._entries = [*found[-KEPT:], *self._entries]
            if len(lines) > 2 * KEPT or size > LARGEST:
                self._rewrite(path)

    def keep(self, text: str) -> None:
        """Remember what was sent, unless it is what was sent last."""
        self._place, self._draft = None, ""
        if not text.strip() or len(text) > LONGEST or self._entries[-1:] == [text]:
            return
        self._entries = [*self._entries[1 - KEPT :], text]
        self._append(text)

    def older(self, current: str) -> str | None:
        """The entry before the one that is shown, None at the beginning; `current` is kept."""
        self.load()  # Up may come before it was read in the background
        if self._place is None:
            self._draft, self._place = current, len(self._entries)
        if self._place == 0:
            return None
        self._place -= 1
        return self._entries[self._place]

    def newer(self) -> str | None:
        """The entry after the one that is shown, then what was being typed, then None."""
        if self._place is None:
            return None
        self._place += 1
        if self._place < len(self._entries):
            return self._entries[self._place]
        self._place = None
        return self._draft

    def settle(self) -> None:
        """The shown entry is edited: it is a draft of its own now."""
        self._place = None

    def _append(self, text: str) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One write in append mode: several terminals never mix their lines.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(file, msgspec.json.encode(_storable(text)) + b"\n")
            finally:
                os.close(file)

    def _rewrite(self, path: Path) -> None:
        fresh = path.with_suffix(f".{os.getpid()}")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as opened:
            for entry in self._entries:
                opened.write(msgspec.json.encode(_storable(entry)) + b"\n")
        fresh.replace(path)


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _read(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.DecodeError:
        return None
