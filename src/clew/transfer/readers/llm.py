"""llm: the log of prompts and responses; newer versions keep threads of messages and parts instead.

A prompt outside of a conversation is a session of its own, if the newer tables are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from clew.core.usage import Usage
from clew.transfer.jsonl import BlobLine
from clew.transfer.readers.databases import Database, SqliteHistory, number_of
from clew.transfer.readers.files import Entry as File
from clew.transfer.readers.files import dicts_of, parse_object, text_of
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    blob_of,
    call_of,
    clean_line,
    read_time,
    tool_said,
    usage_of,
    user_said,
)

_TURNS: Final = """
SELECT thread_id, count(*), max(id), max(datetime_utc) FROM turns GROUP BY thread_id
"""
_RESPONSES: Final = """
SELECT conversation_id, count(*), max(id), max(datetime_utc) FROM responses GROUP BY conversation_id
"""
_ATTACHED: Final = """
SELECT a.type, a.content FROM prompt_attachments p JOIN attachments a ON a.id = p.attachment_id
WHERE p.response_id = ? ORDER BY p."order"
"""


class Llm(SqliteHistory):
    """The reader of llm's log."""

    name = "llm"
    label = "llm"
    tables = ("conversations", "responses", "_llm_migrations")

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        config = home.place("XDG_CONFIG_HOME", ".config") / "io.datasette.llm"
        root = home.place("LLM_USER_PATH", *config.parts)
        return self.list_file(root / "logs.db", root)

    def sessions(self, database: Database, file: File, root: Path) -> Iterator[Source]:
        """See `SqliteHistory`."""
        threads = database.tell(_TURNS)
        table, counts = ("threads", threads) if threads else ("conversations", None)
        names = {row["id"]: row["name"] for row in database.select(table, "id name")}
        for native, count, last, changed in counts or database.tell(_RESPONSES):
            if not isinstance(native, str):
                continue
            yield Source(
                agent=self.name,
                id=native,
                path=file.path,
                root=root,
                stamp=f"{count}:{last}",
                at=read_time(changed) or file.at,
                inside=table,
                messages=2 * number_of(count),
                title=clean_line(names.get(native), 200),
            )

    def talk(
        self, database: Database, source: Source, reading: Reading
    ) -> tuple[About, Iterator[Entry]]:
        """See `SqliteHistory`."""
        about = About(agent=self.name, id=source.id, title=source.title)
        if source.inside == "threads":
            return about, _Thread(database, source, reading).entries()
        return about, _Conversation(database, source).entries()


class _Conversation:
    """The older form: calls are on one response, their results on the next."""

    def __init__(self, database: Database, source: Source) -> None:
        self._database = database
        self._source = source

    def entries(self) -> Iterator[Entry]:
        for row in self._database.select(
            "responses",
            "id model prompt response reasoning datetime_utc input_tokens output_tokens",
            "WHERE conversation_id = ? ORDER BY datetime_utc, id",
            (self._source.id,),
        ):
            yield from self._response(row)

    def _response(self, row: dict[str, Any]) -> Iterator[Entry]:
        native, at = text_of(row["id"]), read_time(row["datetime_utc"])
        where = ("WHERE response_id = ? ORDER BY id", (native,))
        if self._database.has("tool_results"):
            wanted = "id name output tool_call_id exception"
            for result in self._database.select("tool_results", wanted, *where):
                yield tool_said(
                    f"{native}:r{result['id']}",
                    result["tool_call_id"],
                    text_of(result["output"]),
                    at=at,
                    name=result["name"],
                    is_error=bool(result["exception"]),
                )
        prompt = text_of(row["prompt"])
        blobs = list(self._attached(native))
        if prompt.strip() or blobs:
            yield user_said(f"{native}:p", prompt, at=at, blobs=blobs)
        answer = Answer()
        answer.think(text_of(row["reasoning"]))
        answer.say(text_of(row["response"]))
        if self._database.has("tool_calls"):
            wanted = "id name arguments tool_call_id"
            for call in self._database.select("tool_calls", wanted, *where):
                answer.call(call_of(call["tool_call_id"], call["name"], call["arguments"]))
        if answer:
            usage = usage_of(read=row["input_tokens"], written=row["output_tokens"])
            yield answer.said(native, at=at, model=row["model"], usage=usage)

    def _attached(self, native: str) -> Iterator[BlobLine]:
        for kind, content in self._database.tell(_ATTACHED, (native,)):
            if (blob := blob_of(content, kind)) is not None:
                yield blob


class _Thread:
    """The newer form: messages lead to the one before them, back from the tip of the thread."""

    def __init__(self, database: Database, source: Source, reading: Reading) -> None:
        self._database = database
        self._source = source
        self._reading = reading
        self._turns: dict[str, dict[str, Any]] = {}

    def entries(self) -> Iterator[Entry]:
        where = ("WHERE id = ?", (self._source.id,))
        thread = next(self._database.select("threads", "tip_message_hash", *where), {})
        wanted = (
            "tip_message_hash parent_message_hash model input_tokens output_tokens datetime_utc"
        )
        rest = "WHERE thread_id = ? ORDER BY id"
        for turn in self._database.select("turns", wanted, rest, (self._source.id,)):
            self._turns[text_of(turn["tip_message_hash"])] = turn
        tip = text_of(thread.get("tip_message_hash")) or next(reversed(self._turns), "")
        at: int | None = None
        chain = self._chain(tip)
        times = self._times(chain)
        for number, message in enumerate(chain):
            at = times.get(text_of(message["hash"]), at)
            yield from self._message(number, message, at)

    def _chain(self, tip: str) -> list[dict[str, Any]]:
        chain: dict[str, dict[str, Any]] = {}
        while tip and tip not in chain:
            where = ("WHERE hash = ?", (tip,))
            row = next(self._database.select("messages", "hash parent_hash role", *where), None)
            if row is None:
                break
            chain[tip] = row
            tip = text_of(row["parent_hash"])
        return list(chain.values())[::-1]

    def _times(self, chain: list[dict[str, Any]]) -> dict[str, int | None]:
        """The time of each message: that of the turn that it belongs to."""
        times: dict[str, int | None] = {}
        at = None
        for message in reversed(chain):
            turn = self._turns.get(text_of(message["hash"]))
            at = read_time(turn["datetime_utc"]) if turn is not None else at
            times[text_of(message["hash"])] = at
        return times

    def _message(self, number: int, message: dict[str, Any], at: int | None) -> Iterator[Entry]:
        native = f"{number}:{text_of(message['hash'])}"
        parts = [
            (parse_object(text_of(row["payload"])) or {}) | {"type": row["type"]}
            | ({} if row["text"] is None else {"text": row["text"]})
            for row in self._database.select(
                "parts",
                "type text payload position",
                "WHERE message_hash = ? ORDER BY position",
                (message["hash"],),
            )
        ]  # fmt: skip
        if message["role"] == "assistant":
            yield from self._assistant(native, message, parts, at)
            return
        texts = []
        for place, part in enumerate(parts):
            match part["type"]:
                case "tool_result":
                    yield tool_said(
                        f"{native}:{place}",
                        part.get("tool_call_id"),
                        text_of(part.get("output")),
                        at=at,
                        name=part.get("name"),
                        is_error=part.get("exception") is not None,
                    )
                case "text" if message["role"] == "user":
                    texts.append(self._text(part))
                case kind:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} parts"] += 1
        text = "\n\n".join(each for each in texts if each)
        if text.strip():
            yield user_said(native, text, at=at)

    def _assistant(
        self, native: str, message: dict[str, Any], parts: list[dict[str, Any]], at: int | None
    ) -> Iterator[Entry]:
        answer = Answer()
        for part in parts:
            match part["type"]:
                case "text":
                    answer.say(self._text(part))
                case "reasoning":
                    answer.think(self._text(part))
                case "tool_call":
                    given = part.get("arguments")
                    answer.call(call_of(part.get("tool_call_id"), part.get("name"), given))
                case kind:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} parts"] += 1
        turn = self._turns.get(text_of(message["hash"]), {})
        if answer:
            yield answer.said(native, at=at, model=turn.get("model"), usage=_usage(turn))

    def _text(self, part: dict[str, Any]) -> str:
        if isinstance(part.get("text"), str):
            return str(part["text"])
        pieces = [text_of(each.get("literal")) for each in dicts_of(part.get("text_ref"))]
        fragments = [each.get("fragment") for each in dicts_of(part.get("text_ref"))]
        found = []
        for literal, fragment in zip(pieces, fragments, strict=True):
            where = ("WHERE id = ?", (fragment,))
            rows = self._database.select("fragments", "content", *where) if fragment else iter(())
            found.append(literal or text_of(next(rows, {}).get("content")))
        return "".join(found)


def _usage(turn: dict[str, Any]) -> Usage | None:
    return usage_of(read=turn.get("input_tokens"), written=turn.get("output_tokens"))
