"""goose: a database whose messages are lists of items; results of tools are in the user's rows.

Compacted messages stay visible to the person and are hidden from the agent; the summary is the
other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from clew.core.usage import Usage
from clew.transfer.jsonl import BlobLine
from clew.transfer.readers.databases import Database, SqliteHistory, number_of
from clew.transfer.readers.files import Entry as File
from clew.transfer.readers.files import dict_of, dicts_of, parse_json, parse_object, text_of
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    Said,
    Summed,
    blob_of,
    call_of,
    clean_line,
    read_time,
    tool_said,
    usage_of,
    user_said,
)

_COUNTS: Final = "SELECT session_id, count(*), max(id) FROM messages GROUP BY session_id"
_SESSION: Final = "id name description working_dir created_at updated_at parent_session_id"
_SPENT: Final = """accumulated_input_tokens accumulated_output_tokens accumulated_cache_read_tokens
accumulated_cache_write_tokens accumulated_cost input_tokens output_tokens model_config_json"""


class Goose(SqliteHistory):
    """The reader of goose's sessions."""

    name = "goose"
    label = "goose"
    tables = ("sessions", "messages", "schema_version")

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        root = home.data("goose", "sessions")
        return self.list_file(root / "sessions.db", root)

    def sessions(self, database: Database, file: File, root: Path) -> Iterator[Source]:
        """See `SqliteHistory`."""
        counts = {row[0]: row[1:] for row in database.tell(_COUNTS)}
        for row in database.select("sessions", _SESSION):
            native = text_of(row["id"])
            count, last = counts.get(native, (0, 0))
            yield Source(
                agent=self.name,
                id=native,
                path=file.path,
                root=root,
                stamp=f"{count}:{last}",
                at=read_time(row["updated_at"]) or file.at,
                inside=native,
                parent=text_of(row["parent_session_id"]) or None,
                messages=number_of(count),
                title=text_of(row["name"]) or text_of(row["description"]) or None,
            )

    def talk(
        self, database: Database, source: Source, reading: Reading
    ) -> tuple[About, Iterator[Entry]]:
        """See `SqliteHistory`."""
        wanted, where = f"{_SESSION} {_SPENT}", "WHERE id = ?"
        row = next(database.select("sessions", wanted, where, (source.inside,)), {})
        model = parse_object(text_of(row.get("model_config_json"))) or {}
        about = About(
            agent=self.name,
            id=source.id,
            title=source.title,
            directory=text_of(row.get("working_dir")) or None,
            model=text_of(model.get("model_name")) or None,
            created_at=read_time(row.get("created_at")),
            usage=_usage(row) or Usage(),
        )
        rows = database.select(
            "messages",
            "id role content_json created_timestamp metadata_json",
            "WHERE session_id = ? ORDER BY id",
            (source.inside,),
        )
        return about, _entries(rows, reading)


def _entries(rows: Iterator[dict[str, Any]], reading: Reading) -> Iterator[Entry]:
    was_hidden = False
    for row in rows:
        native, at = str(row["id"]), read_time(row["created_timestamp"])
        metadata = parse_object(text_of(row["metadata_json"])) or {}
        items = _items(row["content_json"], reading)
        if metadata.get("userVisible") is False:
            text = _text(items)
            if text and not was_hidden:
                yield Summed(id=native, text=text, at=at)
            else:
                reading.lost["messages for the agent alone"] += 1
            was_hidden = True
            continue
        was_hidden = False
        if row["role"] == "assistant":
            yield from _assistant(native, items, at, reading)
        else:
            yield from _user(native, items, at, reading)


def _items(text: object, reading: Reading) -> list[dict[str, Any]]:
    try:
        return list(dicts_of(parse_json(text_of(text))))
    except ValueError:
        reading.broken += 1
        return []


def _text(items: list[dict[str, Any]]) -> str:
    texts = [text_of(each.get("text")) for each in items if each.get("type") == "text"]
    return "\n\n".join(each for each in texts if each)


def _assistant(
    native: str, items: list[dict[str, Any]], at: int | None, reading: Reading
) -> Iterator[Entry]:
    answer = Answer()
    for item in items:
        match item.get("type"):
            case "text":
                answer.say(text_of(item.get("text")))
            case "thinking":
                answer.think(text_of(item.get("thinking")), item.get("signature"))
            case "toolRequest":
                call = dict_of(dict_of(item.get("toolCall")).get("value"))
                answer.call(call_of(item.get("id"), call.get("name"), call.get("arguments")))
            case kind:
                reading.lost[f"{clean_line(kind, 40) or 'unnamed'} items"] += 1
    if answer:
        yield answer.said(native, at=at)


def _user(
    native: str, items: list[dict[str, Any]], at: int | None, reading: Reading
) -> Iterator[Entry]:
    blobs: list[BlobLine] = []
    results = 0
    for number, item in enumerate(items):
        match item.get("type"):
            case "toolResponse":
                results += 1
                yield _result(f"{native}:{number}", item, at)
            case "image" if (blob := blob_of(item.get("data"), item.get("mimeType"))) is not None:
                blobs.append(blob)
            case kind if kind != "text":
                reading.lost[f"{clean_line(kind, 40) or 'unnamed'} items"] += 1
    text = _text(items)
    if text.strip() or blobs:
        yield user_said(native, text, at=at, blobs=blobs, begins=not results)


def _result(native: str, item: dict[str, Any], at: int | None) -> Said:
    result = dict_of(item.get("toolResult"))
    value = result.get("value")
    content = value if isinstance(value, list) else dict_of(value).get("content")
    failed = result.get("status") == "error" or dict_of(value).get("isError") is True
    texts = [text_of(each.get("text")) for each in dicts_of(content)]
    blobs = [blob_of(each.get("data"), each.get("mimeType")) for each in dicts_of(content)]
    return tool_said(
        native,
        item.get("id"),
        text_of(result.get("error")) or "\n\n".join(each for each in texts if each),
        at=at,
        is_error=failed,
        blobs=[each for each in blobs if each is not None],
    )


def _usage(row: dict[str, Any]) -> Usage | None:
    return usage_of(
        read=row.get("accumulated_input_tokens") or row.get("input_tokens"),
        written=row.get("accumulated_output_tokens") or row.get("output_tokens"),
        cached=row.get("accumulated_cache_read_tokens"),
        created=row.get("accumulated_cache_write_tokens"),
        dollars=row.get("accumulated_cost"),
    )
