"""agsh and meka, its later name: a database with an event per row.

What a person said has a block of context in front. A `compact_boundary` replaces what was said by a
summary and then repeats what was kept; a `Repair` replaces the last messages, or takes them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from clew.transfer.jsonl import BlobLine
from clew.transfer.readers.databases import Database, SqliteHistory, number_of
from clew.transfer.readers.files import Entry as File
from clew.transfer.readers.files import dict_of, dicts_of, parse_json, text_of
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    Noted,
    Said,
    Summed,
    blob_of,
    call_of,
    clean_line,
    read_time,
    tool_said,
    user_said,
)

_CONTEXT: Final = re.compile(r"\s*<context>.*?</context>\s*", re.DOTALL)
_COUNTS: Final = "SELECT session_id, count(*), max(rowid) FROM messages GROUP BY session_id"


class Agsh(SqliteHistory):
    """The reader of agsh's sessions."""

    name = "agsh"
    label = "agsh"
    tables = ("sessions", "messages", "tool_outputs")
    file: ClassVar[tuple[str, str]] = ("agsh", "sessions.db")

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        path = home.data(*self.file)
        return self.list_file(path, path.parent)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`. The two names have the same tables: the file's place tells them apart."""
        return "meka" not in path.name and super().recognises(path, first)

    def sessions(self, database: Database, file: File, root: Path) -> Iterator[Source]:
        """See `SqliteHistory`."""
        counts = {row[0]: row[1:] for row in database.tell(_COUNTS)}
        for row in database.select("sessions", "id parent_session_id updated_at created_at title"):
            native = text_of(row["id"])
            count, last = counts.get(native, (0, 0))
            yield Source(
                agent=self.name,
                id=native,
                path=file.path,
                root=root,
                stamp=f"{count}:{last}",
                at=read_time(row["updated_at"]) or read_time(row["created_at"]) or file.at,
                inside=native,
                parent=text_of(row["parent_session_id"]) or None,
                messages=number_of(count),
                title=text_of(row["title"]) or None,
            )

    def talk(
        self, database: Database, source: Source, reading: Reading
    ) -> tuple[About, Iterator[Entry]]:
        """See `SqliteHistory`."""
        where = "WHERE id = ?"
        row = next(database.select("sessions", "cwd created_at", where, (source.inside,)), {})
        about = About(
            agent=self.name,
            id=source.id,
            title=source.title,
            directory=text_of(row.get("cwd")) or None,
            created_at=read_time(row.get("created_at")),
        )
        events = _Events(reading)
        for each in database.select(
            "messages",
            "role content created_at",
            "WHERE session_id = ? ORDER BY rowid",
            (source.inside,),
        ):
            events.take(each)
        notes = database.select(
            "tool_outputs", "name content created_at", "WHERE session_id = ?", (source.inside,)
        )
        return about, _with_notes(events.thread, notes)


class Meka(Agsh):
    """The reader of meka's sessions."""

    name = "meka"
    label = "meka"
    file = ("meka", "meka.db")

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        return "meka" in path.name and SqliteHistory.recognises(self, path, first)


def _with_notes(thread: list[Entry], notes: Iterator[dict[str, Any]]) -> Iterator[Entry]:
    yield from thread
    for row in notes:
        name = clean_line(row["name"], 200)
        if name and isinstance(row["content"], str):
            yield Noted(name=name, text=row["content"], at=read_time(row["created_at"]))


class _Events:
    """The events of a session, as they change the thread."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._number = 0
        self._repeats: list[Said] = []
        self.thread: list[Entry] = []

    def take(self, row: dict[str, Any]) -> None:
        """Take the next event."""
        self._number += 1
        at, text = read_time(row["created_at"]), text_of(row["content"])
        match row["role"]:
            case "user":
                self._add(user_said(str(self._number), _CONTEXT.sub("", text, count=1), at=at))
            case "assistant":
                self._assistant(_blocks(text), text, at)
            case "tool_results":
                self._results(_blocks(text) or [], at)
            case _:
                self._event(text, at)

    def _event(self, text: str, at: int | None) -> None:
        try:
            event = dict_of(parse_json(text))
        except ValueError:
            event = {}
        if isinstance(boundary := event.get("CompactBoundary"), dict):
            summary = _text(dicts_of(dict_of(boundary.get("summary")).get("content")))
            self._repeats = [each for each in self.thread if isinstance(each, Said)]
            self.thread.append(Summed(id=str(self._number), text=summary, at=at))
        elif isinstance(repair := event.get("Repair"), dict):
            self._repair(repair, at)
        else:
            self._reading.broken += 1

    def _repair(self, repair: dict[str, Any], at: int | None) -> None:
        count = number_of(repair.get("replaced_count"))
        while count and self.thread and isinstance(self.thread[-1], Said):
            self.thread.pop()
            count -= 1
        for message in dicts_of(repair.get("messages")):
            blocks = list(dicts_of(message.get("content")))
            self._number += 1
            if str(message.get("role")).lower() == "assistant":
                self._assistant(blocks, "", at)
            elif any(each.get("type") == "tool_result" for each in blocks):
                self._results(blocks, at)
            else:
                self._add(user_said(str(self._number), _text(blocks), at=at))

    def _add(self, said: Said) -> None:
        """Add a message, unless it repeats one that a compaction kept."""
        same = next((at for at, each in enumerate(self._repeats) if _is_same(each, said)), None)
        if same is None:
            self._repeats = []
            if said.draft.content.strip() or said.draft.tool_calls or said.draft.parts:
                self.thread.append(said)
            return
        last = self.thread[-1]
        if isinstance(last, Summed) and last.keep is None:
            self.thread[-1] = Summed(
                id=last.id, text=last.text, at=last.at, keep=self._repeats[same].id
            )
        del self._repeats[: same + 1]

    def _assistant(self, blocks: list[dict[str, Any]] | None, text: str, at: int | None) -> None:
        answer = Answer()
        if blocks is None:
            answer.say(text)  # the oldest rows are plain text
        for block in blocks or ():
            match block.get("type"):
                case "text":
                    answer.say(text_of(block.get("text")))
                case "thinking":
                    answer.think(text_of(block.get("thinking")), block.get("signature"))
                case "tool_use":
                    given = call_of(block.get("id"), block.get("name"), block.get("input"))
                    answer.call(given)
                case kind:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} blocks"] += 1
        self._add(answer.said(str(self._number), at=at))

    def _results(self, blocks: list[dict[str, Any]], at: int | None) -> None:
        for number, block in enumerate(blocks):
            content = block.get("content")
            text = content if isinstance(content, str) else _text(dicts_of(content))
            self._add(
                tool_said(
                    f"{self._number}:{number}",
                    block.get("tool_use_id"),
                    text,
                    at=at,
                    is_error=block.get("is_error") is True,
                    blobs=_images(content),
                )
            )


def _is_same(one: Said, other: Said) -> bool:
    mine, theirs = one.draft, other.draft
    return (mine.role, mine.content, mine.tool_calls, mine.tool_call_id) == (
        theirs.role,
        theirs.content,
        theirs.tool_calls,
        theirs.tool_call_id,
    )


def _blocks(text: str) -> list[dict[str, Any]] | None:
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return list(dicts_of(value)) if isinstance(value, list) else None


def _text(blocks: Any) -> str:
    texts = (text_of(each.get("text")) for each in blocks)
    return "\n\n".join(each for each in texts if each)


def _images(content: object) -> list[BlobLine]:
    found = []
    for block in dicts_of(content):
        source = dict_of(block.get("source")) or block
        if block.get("type") == "image":
            found.append(blob_of(source.get("data"), source.get("media_type")))
    return [each for each in found if each is not None]
