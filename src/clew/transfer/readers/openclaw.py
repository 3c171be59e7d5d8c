"""OpenClaw: files like Clawdbot's, and a database whose events are pi's lines, packed with zstd.

Without the package `zstandard` (extra `zstd`) only what is not packed can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from clew.transfer.jsonl import Line
from clew.transfer.readers.databases import Database, is_database, number_of
from clew.transfer.readers.files import MAX_LINE, Refused, entry_of, list_files, open_own, text_of
from clew.transfer.readers.pi import Clawdbot, read_events
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import clean_line

DATABASE: Final = "openclaw-agent.sqlite"

_COUNTS: Final = """
SELECT session_id, count(*), max(seq), max(created_at) FROM transcript_events GROUP BY session_id
"""


class OpenClaw(Clawdbot):
    """The reader of OpenClaw's sessions, in files and in its database."""

    name = "openclaw"
    label = "OpenClaw"
    home_folder = ".openclaw"

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`. A session that is in both places is read from the database."""
        root = home.place("OPENCLAW_STATE_DIR", self.home_folder)
        seen: set[str] = set()
        for file in list_files(root / "agents", root, lambda name: name == DATABASE, depth=2):
            for source in self._in_database(file.path, root):
                seen.add(source.id)
                yield source
        for file in list_files(root / "agents", root, _is_session, depth=3):
            source = self.source(file, root)
            if "sessions" in file.path.parts and source.id not in seen:
                yield source

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        if path.is_file() and path.name.endswith(".sqlite"):
            yield from self._in_database(path, path.parent)
            return
        if path.is_dir():
            for each in sorted(path.rglob(DATABASE)):
                yield from self._in_database(each, path)
        yield from super().open(path)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        if not is_database(first):
            return super().recognises(path, first)
        with suppress(Refused):
            database = Database(path.resolve(), path.resolve().parent)
            try:
                return database.has("transcript_events")
            finally:
                database.close()
        return False

    def _in_database(self, path: Path, root: Path) -> Iterator[Source]:
        file = entry_of(path)
        if file is None:
            return
        database = Database(path, root)
        try:
            names = _names(database)
            for native, count, last, changed in database.tell(_COUNTS):
                if not isinstance(native, str):
                    continue
                yield Source(
                    agent=self.name,
                    id=native,
                    path=path,
                    root=root,
                    stamp=f"{count}:{last}",
                    at=number_of(changed) or file.at,
                    inside=native,
                    title=clean_line(names.get(native, {}).get("display_name"), 200),
                    size=0,
                )
        finally:
            database.close()

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        if source.inside:
            return self._read_database(source, reading)
        if source.path.name.endswith(".zst"):
            with open_own(source.path, source.root) as stream:
                raw = unpack(stream.read(MAX_LINE + 1))
            return self.lines(source, read_events(raw.split(b"\n")[:-1], reading))
        return super().read(source, reading)

    def _read_database(self, source: Source, reading: Reading) -> Iterator[Line]:
        database = Database(source.path, source.root)
        try:
            facts = _names(database).get(source.inside, {})
            key = clean_line(facts.get("session_key"), 200)
            reading.keys = (key,) if key else ()
            rows = database.select(
                "transcript_events",
                "seq event_json event_zstd",
                "WHERE session_id = ? ORDER BY seq",
                (source.inside,),
            )
            return self.lines(source, read_events([_event(row) for row in rows], reading))
        finally:
            database.close()


def _is_session(name: str) -> bool:
    return name.endswith((".jsonl", ".jsonl.zst"))


def _names(database: Database) -> dict[str, dict[str, Any]]:
    """What the database says about its sessions as a whole, by their ids."""
    if not database.has("session_windows"):
        return {}
    rows = database.select("session_windows", "session_id session_key display_name")
    return {text_of(row["session_id"]): row for row in rows}


def _event(row: dict[str, Any]) -> bytes | str:
    if isinstance(row["event_json"], str):
        return row["event_json"]
    packed = row["event_zstd"]
    return unpack(packed) if isinstance(packed, bytes) else b""


def unpack(packed: bytes) -> bytes:
    """Unpack zstd; `Refused` without the package for it, and for what is too long."""
    try:
        import zstandard  # noqa: PLC0415  # an extra that few need
    except ImportError as error:
        raise Refused(
            "This history is packed with zstd. `pip install 'clew[zstd]'` lets clew read it."
        ) from error
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)
        raw: bytes = reader.read(MAX_LINE + 1)
    except zstandard.ZstdError:
        return b""
    return raw if len(raw) <= MAX_LINE else b""
