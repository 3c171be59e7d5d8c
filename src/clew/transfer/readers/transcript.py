"""What a reader found, as lines of a transcript: turns, ids, times and usage are made here.

Everything is a function of what the source says, so that the same source gives the same lines. It
trusts no value: numbers are bounded, names and ids are made fit for every provider, and of what a
history says about its session only title, times, model and directory are taken.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from clew.core.message import Draft, ToolCall
from clew.core.notes import Compaction, ScratchEntry, Todo, TodoStatus
from clew.core.session import MAX_TITLE, Session, TitleBy
from clew.core.text import cut, encode_text, strip_controls
from clew.core.turn import Turn, TurnStatus
from clew.core.usage import Usage
from clew.transfer.jsonl import (
    BlobLine,
    CompactionLine,
    EndLine,
    Line,
    MessageLine,
    ScratchLine,
    SessionLine,
    TodosLine,
    TurnLine,
)
from clew.transfer.readers.files import dict_of, parse_object

NAMESPACE: Final = uuid.UUID("9f0c3a51-6a0e-5d0b-9c39-6f2f6b2c8a11")
"""Ids of imported sessions are made in it."""

EARLIEST: Final = 946_684_800_000
LATEST: Final = 4_102_444_800_000
"""The years 2000 and 2100, in milliseconds: a time that is not between them is no time."""

MOST_TOKENS: Final = 10**12
MOST_DOLLARS: Final = 100_000
MAX_IMAGE: Final = 32 << 20

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,60}")


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a history says about a session as a whole.

    `usage` is the total, where answers are not counted one by one.
    """

    agent: str
    id: str
    title: str | None = None
    title_by: TitleBy = "auto"
    directory: str | None = None
    model: str | None = None
    created_at: int | None = None
    summary: str | None = None
    usage: Usage = Usage()


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message. `id` is unique in its session; `begins`: a person said it, and a turn begins.

    `error` is what a failed turn ended with.
    """

    id: str
    draft: Draft
    begins: bool = False
    blobs: tuple[BlobLine, ...] = ()
    error: str | None = None


class Summed(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction: from here on the model read `text` instead of what came before.

    `keep` is the id of the first message that was kept; None: nothing was.
    """

    id: str
    text: str
    keep: str | None = None
    at: int | None = None
    tokens_before: int | None = None


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A scratchpad entry."""

    name: str
    text: str
    at: int | None = None


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The todo list."""

    todos: tuple[Todo, ...]


Entry: TypeAlias = Said | Summed | Noted | Planned


def session_id_of(agent: str, native_id: str, number: int = 0) -> str:
    """The id of an imported session; `number` counts imports of one that was thrown away."""
    name = f"{agent}\n{native_id}" if number == 0 else f"{agent}\n{native_id}\n{number}"
    return str(uuid.uuid5(NAMESPACE, encode_text(name)))


def make_lines(about: About, entries: Iterable[Entry]) -> Iterator[Line]:
    """The lines of a transcript."""
    return _Transcript(about).write(entries)


class _Transcript:
    """The lines of one session, turn by turn."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._id = session_id_of(about.agent, about.id)
        self._names: dict[str, str] = {}
        self._seqs: dict[str, int] = {}
        self._turn: list[Said | Summed] = []
        self._at = sound_time(about.created_at)
        self._lines = 0
        self._messages = 0

    def write(self, entries: Iterable[Entry]) -> Iterator[Line]:
        """All lines."""
        waiting: list[Line] = []
        begun = False
        for entry in entries:
            match entry:
                case Noted() | Planned():
                    waiting.append(self._note(entry))
                    continue
                case Said(begins=True) if any(isinstance(each, Said) for each in self._turn):
                    yield from self._begin() if not begun else ()
                    begun = True
                    yield from self._flush()
            self._turn.append(entry)
        yield from self._begin() if not begun else ()
        yield from self._flush()
        for line in waiting:
            yield self._count(line)
        yield EndLine(self._lines, self._messages)

    def _begin(self) -> Iterator[Line]:
        """The first line, when the time of the first message is known."""
        if self._at is None:
            times = (sound_time(_time_of(each)) for each in self._turn)
            self._at = next((each for each in times if each is not None), EARLIEST)
        about = self._about
        title = clean_line(about.title, MAX_TITLE)
        fields: dict[str, Any] = dict.fromkeys(Session.__struct_fields__)
        fields |= {
            "id": self._id,
            "key": f"import:{self._id}",
            "agent": "main",
            "person": "owner",
            "platform": about.agent,
            "kind": "cli",
            "title": title,
            "title_by": about.title_by if title else None,
            "revision": 1,
            "cwd": clean_line(about.directory, 1_000),
            "model": clean_line(about.model, 200),
            "origin": {},
            "short_summary": about.summary or None,
            "pinned": False,
            "usage": about.usage,
            "compactions": 0,
            "message_count": 0,
            "content_bytes": 0,
            "head": 0,
            "created_at": self._at,
            "updated_at": self._at,
            "metadata": {},
        }
        yield self._count(SessionLine(session=Session(**fields)))

    def _count(self, line: Line) -> Line:
        self._lines += 1
        return line

    def _flush(self) -> Iterator[Line]:
        """One turn."""
        entries, self._turn = self._turn, []
        first = next((each for each in entries if isinstance(each, Said)), None)
        turn_id = None if first is None else self._name(f"turn\n{first.id}")
        lines: list[Line] = []
        usage, model, error, began = Usage(), None, None, self._at or EARLIEST
        for entry in entries:
            at = sound_time(_time_of(entry))
            if at is not None:
                self._at = at
            if isinstance(entry, Summed):
                lines.append(self._compaction(entry))
                continue
            if entry is first:
                began = self._at or EARLIEST
            draft = self._finished(entry)
            usage = usage if draft.usage is None else usage + draft.usage
            model, error = draft.model or model, entry.error or error
            lines += entry.blobs
            self._messages += 1
            self._seqs[entry.id] = self._messages
            lines.append(MessageLine(self._messages, turn_id, draft))
        if turn_id is not None:
            status: TurnStatus = "failed" if error else "done"
            ended = self._at or EARLIEST
            turn = Turn(
                turn_id, self._id, status, None, model, usage, error, None, began, ended, None
            )
            yield self._count(TurnLine(turn))
        for line in lines:
            yield self._count(line)

    def _finished(self, entry: Said) -> Draft:
        """The message with a time, and the name of the tool whose result it is."""
        draft = entry.draft
        for call in draft.tool_calls:
            self._names[call.id] = call.name
        tool = draft.tool_name
        if draft.role == "tool":
            tool = self._names.get(draft.tool_call_id or "") or tool or "tool"
        return msgspec.structs.replace(draft, at=self._at or EARLIEST, tool_name=tool)

    def _compaction(self, entry: Summed) -> CompactionLine:
        keep = self._messages + 1
        if entry.keep is not None:
            keep = self._seqs.get(entry.keep, keep)
        return CompactionLine(
            Compaction(
                self._name(f"compaction\n{entry.id}"),
                self._id,
                keep,
                self._messages,
                entry.text,
                None,
                entry.tokens_before,
                None,
                self._at or EARLIEST,
            )
        )

    def _note(self, entry: Noted | Planned) -> Line:
        if isinstance(entry, Planned):
            return TodosLine(entry.todos)
        at = sound_time(entry.at) or self._at or EARLIEST
        size = len(encode_text(entry.text).encode())
        return ScratchLine(ScratchEntry(entry.name, entry.text, size, at))

    def _name(self, native: str) -> str:
        return str(uuid.uuid5(uuid.UUID(self._id), encode_text(native)))


def _time_of(entry: Said | Summed) -> int | None:
    return entry.draft.at if isinstance(entry, Said) else entry.at


# --- values that nobody vouches for ---------------------------------------------------------------


def sound_time(at: int | None) -> int | None:
    """A time that can be one; None for any other number."""
    return at if isinstance(at, int) and EARLIEST <= at < LATEST else None


def read_time(value: object) -> int | None:
    """A time in ISO format, in seconds or in milliseconds, as milliseconds."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        if not -1e18 < value < 1e18:  # infinite, not a number, or no time
            return None
        if value >= 1e17:
            value /= 1e6
        elif value >= 1e14:
            value /= 1e3
        return sound_time(round(value if value >= 1e11 else value * 1000))
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return sound_time(round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None


def count_of(value: object) -> int:
    """A number of tokens; 0 for anything that can't be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= MOST_TOKENS else 0


def cost_of(dollars: object) -> int | None:
    """Dollars as nano-dollars; None if it is unknown."""
    if isinstance(dollars, bool) or not isinstance(dollars, int | float):
        return None
    return round(dollars * 1_000_000_000) if 0 <= dollars <= MOST_DOLLARS else None


def usage_of(
    *,
    read: object = 0,
    written: object = 0,
    cached: object = 0,
    created: object = 0,
    dollars: object = None,
) -> Usage | None:
    """The usage of one answer; None if nothing was counted. `read` is with cached tokens."""
    counts = (count_of(read), count_of(written), count_of(cached), count_of(created))
    cost = cost_of(dollars)
    if not any(counts) and not cost:
        return None
    return Usage(*counts, cost=cost, api_calls=1)


def clean_line(text: object, most: int) -> str | None:
    """A short text on one line, without control characters; None if nothing is left."""
    if not isinstance(text, str):
        return None
    return cut(strip_controls(text[: 4 * most], keep_newlines=False).strip(), most) or None


def call_id_of(native: object) -> str:
    """The id of a tool call, in a spelling that every provider accepts."""
    text = native if isinstance(native, str) else ""
    if _CALL_ID.fullmatch(text):
        return text
    return "c" + hashlib.sha256(encode_text(text).encode()).hexdigest()[:32]


def tool_name_of(native: object) -> str:
    """The name of a tool, likewise."""
    text = native if isinstance(native, str) else ""
    return _NOT_IN_NAMES.sub("_", text).strip("_")[:64] or "tool"


def call_of(native_id: object, name: object, arguments: object) -> ToolCall:
    """A tool call. Arguments that are no JSON object are given as `{"input": …}`."""
    if isinstance(arguments, str):
        sound = parse_object(arguments) is not None
        text = arguments if sound else _to_json({"input": arguments})
    else:
        text = _to_json(arguments if isinstance(arguments, dict) else {"input": arguments})
    return ToolCall(call_id_of(native_id), tool_name_of(name), text)


def _to_json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, RecursionError, ValueError):
        return msgspec.json.encode({"input": encode_text(str(value))}).decode()


class Answer:
    """An assistant's message, put together piece by piece in the order of its parts."""

    def __init__(self) -> None:
        self._content = ""
        self._parts: list[dict[str, Any]] = []
        self._calls: list[ToolCall] = []
        self._blobs: list[BlobLine] = []
        self._follows_text = False

    def __bool__(self) -> bool:
        return bool(self._content.strip() or self._parts or self._calls)

    def say(self, text: str) -> None:
        """Add text."""
        if not text:
            return
        if self._content and not self._follows_text:
            self._content += "\n\n"
        start = len(self._content)
        self._content += text
        self._parts.append({"type": "text", "span": [start, len(self._content)]})
        self._follows_text = True

    def think(self, text: str, signature: object = None) -> None:
        """Add thinking. It is shown, and never sent to a model: nobody vouches for it."""
        if text.strip() or signature:
            signed = {"signature": signature} if isinstance(signature, str) and signature else {}
            self._parts.append({"type": "thinking", "thinking": text, **signed})
            self._follows_text = False

    def call(self, call: ToolCall) -> None:
        """Add a tool call."""
        self._parts.append({"type": "tool_call", "index": len(self._calls)})
        self._calls.append(call)
        self._follows_text = False

    def show(self, blob: BlobLine) -> None:
        """Add a file."""
        self._blobs.append(blob)
        named = {"blob": blob.hash, "media_type": blob.media_type}
        self._parts.append({"type": "file", **named})
        self._follows_text = False

    def said(
        self,
        native_id: str,
        *,
        at: int | None,
        model: object = None,
        usage: Usage | None = None,
        error: str | None = None,
    ) -> Said:
        """The message."""
        kinds = [part["type"] for part in self._parts]
        plain = "thinking" not in kinds and "file" not in kinds and "text" not in kinds[1:]
        draft = Draft(
            role="assistant",
            content=self._content,
            parts=() if plain else tuple(self._parts),
            tool_calls=tuple(self._calls),
            model=clean_line(model, 200),
            usage=usage,
            at=at,
        )
        return Said(id=native_id, draft=draft, blobs=tuple(self._blobs), error=error)


def user_said(
    native_id: str,
    text: str,
    *,
    at: int | None,
    blobs: Iterable[BlobLine] = (),
    begins: bool = True,
) -> Said:
    """What a person said, with images."""
    files = tuple(blobs)
    draft = Draft(role="user", content=text, parts=tuple(map(_file_part, files)), at=at)
    return Said(id=native_id, draft=draft, blobs=files, begins=begins)


def tool_said(
    native_id: str,
    call_id: object,
    text: str,
    *,
    at: int | None,
    is_error: bool = False,
    name: object = None,
    blobs: Iterable[BlobLine] = (),
) -> Said:
    """The result of a tool; its name is that of the call."""
    files = tuple(blobs)
    draft = Draft(
        role="tool",
        content=text,
        parts=tuple(map(_file_part, files)),
        tool_call_id=call_id_of(call_id),
        tool_name=None if name is None else tool_name_of(name),
        is_error=is_error,
        at=at,
    )
    return Said(id=native_id, draft=draft, blobs=files)


def _file_part(blob: BlobLine) -> dict[str, Any]:
    return {"type": "file", "blob": blob.hash, "media_type": blob.media_type}


def blob_of(data: object, media_type: object) -> BlobLine | None:
    """Bytes, also as base64 text; None if they can't be read or are too many."""
    kind = media_type if isinstance(media_type, str) else ""
    if not _MEDIA_TYPE.fullmatch(kind):
        kind = "application/octet-stream"
    if isinstance(data, str):
        if len(data) > MAX_IMAGE * 4 // 3 + 4:
            return None
        try:
            data = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return None
    if not isinstance(data, bytes) or not 0 < len(data) <= MAX_IMAGE:
        return None
    return BlobLine(hashlib.sha256(data).hexdigest(), kind, data)


def data_url_blob(url: object) -> BlobLine | None:
    """The bytes in a `data:` address."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return blob_of(data, head[5:].partition(";")[0])


_STATES: Final[dict[str, TodoStatus]] = {
    "completed": "done",
    "done": "done",
    "in_progress": "in_progress",
    "cancelled": "cancelled",
}


def todos_of(items: object, text: Literal["content", "step", "text"] = "content") -> Planned | None:
    """A todo list of another agent."""
    if not isinstance(items, list):
        return None
    rows = [dict_of(each) for each in items[:200]]
    todos = tuple(
        Todo(str(row[text])[:2_000], _STATES.get(str(row.get("status")), "pending"))
        for row in rows
        if isinstance(row.get(text), str) and row[text]
    )
    return Planned(todos=todos)
