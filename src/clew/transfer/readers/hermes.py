"""Hermes: a database whose messages are OpenAI's.

A compression makes a child session that begins with a summary and repeats what was kept: the chain
is one session here, with a compaction where the child begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from clew.core.usage import Usage
from clew.transfer.jsonl import BlobLine
from clew.transfer.readers.databases import Database, SqliteHistory, number_of
from clew.transfer.readers.files import Entry as File
from clew.transfer.readers.files import dict_of, dicts_of, parse_json, text_of
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    Summed,
    call_of,
    clean_line,
    data_url_blob,
    read_time,
    tool_said,
    usage_of,
    user_said,
)

STRUCTURED: Final = "\x00json:"
SUMMARIES: Final = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
_SESSION: Final = """id parent_session_id end_reason title display_name cwd model started_at
ended_at input_tokens output_tokens cache_read_tokens cache_write_tokens actual_cost_usd
estimated_cost_usd"""
_MESSAGE: Final = """id role content tool_call_id tool_calls tool_name timestamp reasoning
reasoning_content active"""
_COUNTS: Final = (
    "SELECT session_id, count(*), max(id), max(timestamp) FROM messages GROUP BY session_id"
)
_HIDDEN: Final = "SELECT session_id, count(*) FROM messages WHERE active = 0 GROUP BY session_id"


class Hermes(SqliteHistory):
    """The reader of Hermes' sessions."""

    name = "hermes"
    label = "Hermes"
    tables = ("sessions", "messages", "state_meta")

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[Database, dict[str, dict[str, Any]]] | None = None

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        root = home.place("HERMES_HOME", ".hermes")
        return self.list_file(root / "state.db", root)

    def sessions(self, database: Database, file: File, root: Path) -> Iterator[Source]:
        """See `SqliteHistory`."""
        rows = self._read_rows(database)
        counts = {row[0]: row[1:] for row in database.tell(_COUNTS)}
        hidden = {row[0]: row[1] for row in database.tell(_HIDDEN)}
        for native, row in rows.items():
            if _is_continued(row, rows):
                continue  # it is read with the session that it continues
            chain = _chain(native, rows)
            numbers = [counts.get(each, (0, 0, None)) for each in chain]
            gone = sum(number_of(hidden.get(each)) for each in chain)
            times = [at for each in numbers if (at := read_time(each[2])) is not None]
            parent = text_of(row["parent_session_id"])
            yield Source(
                agent=self.name,
                id=native,
                path=file.path,
                root=root,
                stamp=f"{[each[:2] for each in numbers]}:{gone}",
                at=max(times, default=file.at),
                inside=native,
                parent=_root(parent, rows) if parent in rows else None,
                messages=sum(number_of(each[0]) for each in numbers) - gone,
                title=next((t for each in reversed(chain) if (t := rows[each]["title"])), None),
            )

    def talk(
        self, database: Database, source: Source, reading: Reading
    ) -> tuple[About, Iterator[Entry]]:
        """See `SqliteHistory`."""
        known = self._rows
        rows = known[1] if known and known[0] is database else self._read_rows(database)
        chain = _chain(source.inside, rows)
        first = rows[source.inside]
        spent = [_usage(rows[each]) for each in chain]
        about = About(
            agent=self.name,
            id=source.id,
            title=source.title,
            directory=text_of(first["cwd"]) or None,
            model=text_of(first["model"]) or None,
            created_at=read_time(first["started_at"]),
            usage=sum((each for each in spent if each is not None), Usage()),
        )
        return about, _Chain(database, chain, reading).entries()

    def _read_rows(self, database: Database) -> dict[str, dict[str, Any]]:
        """All sessions by id; kept, because each is read with those that it continues."""
        rows = _rows(database)
        self._rows = (database, rows)
        return rows


def _rows(database: Database) -> dict[str, dict[str, Any]]:
    rows = database.select("sessions", _SESSION, "ORDER BY rowid")
    return {row["id"]: row for row in rows if isinstance(row["id"], str)}


def _is_continued(row: dict[str, Any], rows: dict[str, dict[str, Any]]) -> bool:
    """Whether a session goes on with another one that was compressed."""
    parent = rows.get(text_of(row["parent_session_id"]))
    return parent is not None and parent["end_reason"] == "compression"


def _chain(native: str, rows: dict[str, dict[str, Any]]) -> list[str]:
    chain = [native]
    while rows[chain[-1]]["end_reason"] == "compression":
        children = [each for each, row in rows.items() if row["parent_session_id"] == chain[-1]]
        following = next((each for each in children if each not in chain), None)
        if following is None:
            break
        chain.append(following)
    return chain


def _root(native: str, rows: dict[str, dict[str, Any]]) -> str:
    seen: set[str] = set()
    while native not in seen and _is_continued(rows[native], rows):
        seen.add(native)
        native = text_of(rows[native]["parent_session_id"])
    return native


class _Chain:
    """The messages of a session and of those that continue it."""

    def __init__(self, database: Database, chain: list[str], reading: Reading) -> None:
        self._database = database
        self._sessions = chain
        self._reading = reading
        self._seen: dict[tuple[Any, ...], str] = {}

    def entries(self) -> Iterator[Entry]:
        for number, native in enumerate(self._sessions):
            rows = self._database.select(
                "messages", _MESSAGE, "WHERE session_id = ? ORDER BY id", (native,)
            )
            kept = [row for row in rows if row["active"] != 0]
            yield from self._without_repeats(kept, native) if number else self._plain(kept)

    def _plain(self, rows: list[dict[str, Any]]) -> Iterator[Entry]:
        for row in rows:
            self._seen[_mark(row)] = str(row["id"])
            yield from self._message(row)

    def _without_repeats(self, rows: list[dict[str, Any]], native: str) -> Iterator[Entry]:
        """A session that begins with a summary, and with what was kept of the one before."""
        summary, keep, repeats = "", None, 0
        for row in rows:
            text = row["content"] if isinstance(row["content"], str) else ""
            if text.startswith(SUMMARIES):
                summary = text
            elif _mark(row) in self._seen:
                keep = keep or (self._seen[_mark(row)] if summary else None)
            elif row["role"] not in ("system", "session_meta"):
                break
            repeats += 1
        at = read_time(rows[0]["timestamp"]) if rows else None
        yield Summed(id=native, text=summary, keep=keep, at=at)
        yield from self._plain(rows[repeats:])

    def _message(self, row: dict[str, Any]) -> Iterator[Entry]:
        native, at = str(row["id"]), read_time(row["timestamp"])
        text, blobs = self._content(row["content"])
        match row["role"]:
            case "user":
                if text.strip() or blobs:
                    yield user_said(native, text, at=at, blobs=blobs)
            case "assistant":
                answer = Answer()
                answer.think(text_of(row["reasoning_content"]) or text_of(row["reasoning"]))
                answer.say(text)
                for call in dicts_of(_json(row["tool_calls"])):
                    made = dict_of(call.get("function"))
                    answer.call(call_of(call.get("id"), made.get("name"), made.get("arguments")))
                if answer:
                    yield answer.said(native, at=at)
            case "tool":
                yield tool_said(native, row["tool_call_id"], text, at=at, name=row["tool_name"])
            case kind:
                self._reading.lost[f"messages of {clean_line(kind, 40) or 'nobody'}"] += 1

    def _content(self, content: object) -> tuple[str, list[BlobLine]]:
        text = text_of(content)
        if not text.startswith(STRUCTURED):
            return text, []
        parts = dicts_of(_json(text[len(STRUCTURED) :]))
        blobs = [data_url_blob(dict_of(each.get("image_url")).get("url")) for each in parts]
        texts = [text_of(each.get("text")) for each in parts]
        found = [each for each in blobs if each is not None]
        self._reading.lost["parts that are not in the database"] += sum(
            not text and blob is None for text, blob in zip(texts, blobs, strict=True)
        )
        self._reading.lost += type(self._reading.lost)()  # without those that are zero
        return "\n\n".join(each for each in texts if each), found


def _mark(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["role"], row["content"], row["tool_call_id"], row["tool_calls"])


def _json(text: object) -> Any:
    try:
        return parse_json(text) if isinstance(text, str) and text else None
    except ValueError:
        return None


def _usage(row: dict[str, Any]) -> Usage | None:
    return usage_of(
        read=row["input_tokens"],
        written=row["output_tokens"],
        cached=row["cache_read_tokens"],
        created=row["cache_write_tokens"],
        dollars=row["actual_cost_usd"] or row["estimated_cost_usd"],
    )
