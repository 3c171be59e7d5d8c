"""opencode: messages made of parts, in a database; before that, a JSON file for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from clew.core.usage import Usage
from clew.transfer.jsonl import BlobLine, Line
from clew.transfer.readers.databases import Database, SqliteHistory, number_of
from clew.transfer.readers.files import Entry as File
from clew.transfer.readers.files import (
    Refused,
    dict_of,
    list_files,
    parse_object,
    read_document,
    text_of,
)
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    Planned,
    Said,
    Summed,
    call_of,
    clean_line,
    data_url_blob,
    make_lines,
    read_time,
    todos_of,
    tool_said,
    usage_of,
    user_said,
)

_UNNAMED: Final = re.compile(r"(?:New session|Child session) - .*")
_COUNTS: Final = """
SELECT session_id, count(*), max(time_updated), max(id) FROM part GROUP BY session_id
"""
_SPEAKING: Final = "SELECT session_id, count(*), max(id) FROM message GROUP BY session_id"
_UNSAID: Final = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry")
ENDED: Final = ("completed", "error")


class Opencode(SqliteHistory):
    """The reader of opencode's sessions, in both forms."""

    name = "opencode"
    label = "opencode"
    tables = ("session", "message", "part")

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`. A session that is in both forms is read from the database."""
        root = home.data("opencode")
        seen: set[str] = set()
        for source in self.list_file(root / "opencode.db", root):
            seen.add(source.id)
            yield source
        for source in self._in_files(root / "storage", root):
            if source.id not in seen:
                yield source

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        yield from super().open(path)
        if path.is_dir():
            storage = path / "storage" if (path / "storage").is_dir() else path
            yield from self._in_files(storage, path)
        elif path.suffix == ".json" and path.parent.parent.name == "session":
            yield from self._in_files(path.parents[2], path.parents[2], only=path.stem)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        if path.suffix == ".json" and path.parent.parent.name == "session":
            return b'"id"' in first
        return super().recognises(path, first)

    def sessions(self, database: Database, file: File, root: Path) -> Iterator[Source]:
        """See `SqliteHistory`."""
        parts = {row[0]: row[1:] for row in database.tell(_COUNTS)}
        messages = {row[0]: row[1:] for row in database.tell(_SPEAKING)}
        for row in database.select("session", "id parent_id title time_updated revert"):
            native = text_of(row["id"])
            counted = (parts.get(native), messages.get(native), row["revert"])
            yield Source(
                agent=self.name,
                id=native,
                path=file.path,
                root=root,
                stamp=f"{counted}",
                at=read_time(row["time_updated"]) or file.at,
                inside=native,
                parent=text_of(row["parent_id"]) or None,
                messages=number_of((messages.get(native) or (0,))[0]),
                title=_title(row["title"]),
            )

    def talk(
        self, database: Database, source: Source, reading: Reading
    ) -> tuple[About, Iterator[Entry]]:
        """See `SqliteHistory`."""
        wanted = "directory time_created revert"
        row = next(database.select("session", wanted, "WHERE id = ?", (source.inside,)), {})
        parts: dict[str, list[dict[str, Any]]] = {}
        order = "WHERE session_id = ? ORDER BY id"
        for part in database.select("part", "id message_id data", order, (source.inside,)):
            data = _data(part["data"])
            parts.setdefault(text_of(part["message_id"]), []).append(data | {"id": part["id"]})
        messages = [
            (text_of(each["id"]), _data(each["data"]))
            for each in database.select("message", "id data", order, (source.inside,))
        ]
        revert = text_of(_data(row.get("revert")).get("messageID"))
        wanted = "content status position"
        rest = "WHERE session_id = ? ORDER BY position"
        todos = None
        if database.has("todo"):
            todos = todos_of(list(database.select("todo", wanted, rest, (source.inside,))))
        about = self._about(source, row.get("directory"), row.get("time_created"))
        talk = _Talk(reading, revert, todos if todos and todos.todos else None)
        return about, talk.entries(messages, parts)

    def _about(self, source: Source, directory: object, created: object) -> About:
        return About(
            agent=self.name,
            id=source.id,
            title=source.title,
            directory=text_of(directory) or None,
            created_at=read_time(created),
        )

    # --- a file for each session, message and part ------------------------------------------------

    def _in_files(self, storage: Path, root: Path, *, only: str | None = None) -> Iterator[Source]:
        for file in list_files(storage / "session", root, _is_json, depth=1):
            native = file.path.stem
            if only is not None and native != only:
                continue
            said = [each.at for each in list_files(storage / "message" / native, root, _is_json)]
            try:
                info = dict_of(read_document(file.path, root))
            except (OSError, Refused):
                info = {}
            yield Source(
                agent=self.name,
                id=native,
                path=file.path,
                root=root,
                stamp=f"{file.stamp}:{len(said)}:{max(said, default=0)}",
                at=max([file.at, *said]),
                size=file.size,
                parent=text_of(info.get("parentID")) or None,
                messages=len(said),
                title=_title(info.get("title")),
            )

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        if source.inside:
            return super().read(source, reading)
        storage = source.path.parents[2]
        info = dict_of(read_document(source.path, source.root))
        messages: list[tuple[str, dict[str, Any]]] = []
        parts: dict[str, list[dict[str, Any]]] = {}
        for file in list_files(storage / "message" / source.id, source.root, _is_json):
            native = file.path.stem
            messages.append((native, self._document(file.path, source, reading)))
            for part in list_files(storage / "part" / native, source.root, _is_json):
                data = self._document(part.path, source, reading)
                parts.setdefault(native, []).append(data)
        revert = text_of(dict_of(info.get("revert")).get("messageID"))
        reading.advance(source.size)
        about = self._about(source, info.get("directory"), dict_of(info.get("time")).get("created"))
        return make_lines(about, _Talk(reading, revert, None).entries(messages, parts))

    def _document(self, path: Path, source: Source, reading: Reading) -> dict[str, Any]:
        try:
            return dict_of(read_document(path, source.root))
        except (OSError, Refused):
            reading.broken += 1
            return {}


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def _title(title: object) -> str | None:
    clean = clean_line(title, 200)
    return None if clean is None or _UNNAMED.fullmatch(clean) else clean


def _data(text: object) -> dict[str, Any]:
    return (parse_object(text) or {}) if isinstance(text, str) else {}


class _Talk:
    """Messages and their parts, as what was said."""

    def __init__(self, reading: Reading, revert: str, todos: Planned | None) -> None:
        self._reading = reading
        self._revert = revert
        self._todos = todos
        self._compacts = False

    def entries(
        self,
        messages: list[tuple[str, dict[str, Any]]],
        parts: dict[str, list[dict[str, Any]]],
    ) -> Iterator[Entry]:
        for native, info in sorted(messages, key=lambda each: each[0]):
            if self._revert and native >= self._revert:
                self._reading.lost["messages that were taken back"] += 1
                continue
            pieces = parts.get(native, [])
            if info.get("role") == "user":
                yield from self._user(native, info, pieces)
            elif info.get("role") == "assistant":
                if not self._is_whole(info, pieces):
                    self._reading.held_back = True
                    break
                yield from self._assistant(native, info, pieces)
            else:
                self._reading.broken += 1
        if self._todos is not None:
            yield self._todos

    def _is_whole(self, info: dict[str, Any], pieces: list[dict[str, Any]]) -> bool:
        """Whether nothing of an answer is still to come."""
        done = dict_of(info.get("time")).get("completed") is not None or "error" in info
        states = [dict_of(each.get("state")).get("status") for each in pieces if "state" in each]
        return self._reading.settled or (done and all(each in ENDED for each in states))

    def _user(
        self, native: str, info: dict[str, Any], pieces: list[dict[str, Any]]
    ) -> Iterator[Entry]:
        texts: list[str] = []
        blobs: list[BlobLine] = []
        for part in pieces:
            match part.get("type"):
                case "text" if not part.get("synthetic") and not part.get("ignored"):
                    texts.append(text_of(part.get("text")))
                case "text":
                    self._reading.lost["notes of the program"] += 1
                case "file" if (blob := data_url_blob(part.get("url"))) is not None:
                    blobs.append(blob)
                case "compaction":
                    self._compacts = True
                case kind if kind not in _UNSAID:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} parts"] += 1
        text = "\n\n".join(each for each in texts if each)
        if text.strip() or blobs:
            at = read_time(dict_of(info.get("time")).get("created"))
            yield user_said(native, text, at=at, blobs=blobs)

    def _assistant(
        self, native: str, info: dict[str, Any], pieces: list[dict[str, Any]]
    ) -> Iterator[Entry]:
        at = read_time(dict_of(info.get("time")).get("created"))
        answer, results = Answer(), []
        for part in pieces:
            match part.get("type"):
                case "text":
                    answer.say(text_of(part.get("text")))
                case "reasoning":
                    answer.think(text_of(part.get("text")))
                case "tool":
                    state = dict_of(part.get("state"))
                    answer.call(call_of(part.get("callID"), part.get("tool"), state.get("input")))
                    results.append(_result(f"{native}:{part.get('callID')}", part, state, at))
                case kind if kind not in _UNSAID:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} parts"] += 1
        error = dict_of(info.get("error"))
        said = answer.said(
            native,
            at=at,
            model=info.get("modelID"),
            usage=_usage(info),
            error=clean_line(dict_of(error.get("data")).get("message") or error.get("name"), 500),
        )
        if info.get("summary") is True or self._compacts:
            self._compacts = False
            yield Summed(id=native, text=said.draft.content, at=at)
        elif answer:
            yield said
            yield from results


def _result(native: str, part: dict[str, Any], state: dict[str, Any], at: int | None) -> Said:
    failed = state.get("status") == "error"
    ended = read_time(dict_of(state.get("time")).get("end"))
    return tool_said(
        native,
        part.get("callID"),
        text_of(state.get("error") if failed else state.get("output")),
        at=ended or at,
        is_error=failed,
    )


def _usage(info: dict[str, Any]) -> Usage | None:
    tokens = dict_of(info.get("tokens"))
    cache = dict_of(tokens.get("cache"))
    counts = (tokens.get("input"), cache.get("read"), cache.get("write"))
    return usage_of(
        read=sum(each for each in counts if isinstance(each, int) and each > 0),
        written=tokens.get("output"),
        cached=cache.get("read"),
        created=cache.get("write"),
        dollars=info.get("cost"),
    )
