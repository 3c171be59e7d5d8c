"""clew's own transcript: one session as JSON lines that lose nothing.

The first line is the session. Then comes the thread in its order: a turn before its first
message, a blob before the message that needs it, a compaction after the message it was made at.
Scratchpad and todo list follow. The counts in the last line show whether the file is complete.
`importer` reads a transcript into a store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias, get_args

import msgspec

from clew.core.message import Draft, Message, blob_hashes
from clew.core.notes import Compaction, ScratchEntry, Todo
from clew.core.redaction import redact
from clew.core.session import Session
from clew.core.text import from_json, to_json
from clew.core.turn import Turn
from clew.core.usage import Usage
from clew.errors import BlobNotFound, NotATranscript, RecordNotFound
from clew.ports import Store
from clew.transfer.thread import pages

FORMAT: Final = "clew"
VERSION: Final = 1

_ALL = 1_000_000_000
"""More turns than a session has."""

LARGEST: Final = 253_402_300_799_999
"""The largest number of a line: as a time the end of the year 9999, as a cost 253,402 dollars."""


class SessionLine(msgspec.Struct, frozen=True, kw_only=True, tag="session", tag_field="type"):
    """The first line. `routes` are the keys that led to the session."""

    format: str = FORMAT
    version: int = VERSION
    session: Session
    routes: tuple[str, ...] = ()


class TurnLine(msgspec.Struct, frozen=True, tag="turn", tag_field="type"):
    """A turn, in its last state."""

    turn: Turn


class BlobLine(msgspec.Struct, frozen=True, tag="blob", tag_field="type"):
    """Bytes that messages name by their hash."""

    hash: str
    media_type: str
    data: bytes


class MessageLine(msgspec.Struct, frozen=True, tag="message", tag_field="type"):
    """A message and its place."""

    seq: int
    turn_id: str | None
    message: Draft


class CompactionLine(msgspec.Struct, frozen=True, tag="compaction", tag_field="type"):
    """A compaction, at the place where it was made."""

    compaction: Compaction


class ScratchLine(msgspec.Struct, frozen=True, tag="scratch", tag_field="type"):
    """An entry of the scratchpad."""

    entry: ScratchEntry


class TodosLine(msgspec.Struct, frozen=True, tag="todos", tag_field="type"):
    """The todo list."""

    todos: tuple[Todo, ...]


class EndLine(msgspec.Struct, frozen=True, tag="end", tag_field="type"):
    """The last line: how many lines came before it, and how many of them were messages."""

    lines: int
    messages: int


Line: TypeAlias = (
    SessionLine
    | TurnLine
    | BlobLine
    | MessageLine
    | CompactionLine
    | ScratchLine
    | TodosLine
    | EndLine
)
_LINES: dict[object, type[Line]] = {kind.__struct_config__.tag: kind for kind in get_args(Line)}


def parse_line(raw: bytes) -> Line | None:
    """A line of a transcript; None for one that is damaged or of an unknown kind."""
    try:
        fields = from_json(raw.decode(), dict[str, Any])
        kind = _LINES.get(fields.get("type"))
        line = None if kind is None else msgspec.convert(fields, kind)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return None
    return line if _is_sound(line) else None


def _is_sound(value: object) -> bool:
    """Whether all numbers can be stored and added up; in free JSON (`parts`) any number may be."""
    if isinstance(value, Usage):
        return all(0 <= (each or 0) <= LARGEST for each in msgspec.structs.astuple(value))
    if isinstance(value, msgspec.Struct):
        return all(map(_is_sound, msgspec.structs.astuple(value)))
    if isinstance(value, tuple):
        return all(map(_is_sound, value))
    return not isinstance(value, int) or -LARGEST <= value <= LARGEST


def parse_first_line(raw: bytes) -> SessionLine:
    """The session in the first line of a file; `NotATranscript` if there is none."""
    if not raw.strip():
        raise NotATranscript(
            "The file is empty: there is no transcript in it. Nothing was changed."
        )
    line = parse_line(raw)
    if isinstance(line, SessionLine) and line.format == FORMAT and line.version <= VERSION:
        return line
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        fields = {}
    if fields.get("format") != FORMAT:
        raise NotATranscript(
            "The file is not a clew transcript: its first line does not describe a session. "
            "Nothing was changed. `clew export --format jsonl` writes such files."
        )
    if fields.get("version") != VERSION:
        raise NotATranscript(
            f"The transcript has format version {fields.get('version')}, and this clew reads "
            f"{VERSION}. Nothing was changed. Update clew."
        )
    raise NotATranscript("The first line of the transcript is damaged. Nothing was changed.")


async def write_jsonl(
    store: Store, session: Session, *, masked: bool = False
) -> AsyncIterator[str]:
    """The file, line by line."""
    lines = messages = 0
    async for line in _lines(store, session):
        lines += 1
        messages += isinstance(line, MessageLine)
        yield f"{to_json(_mask(line) if masked else line)}\n"
    yield f"{to_json(EndLine(lines, messages))}\n"


async def _lines(store: Store, session: Session) -> AsyncIterator[Line]:
    yield SessionLine(session=session, routes=await store.list_routes(session.id))
    turns = _Turns(store, session, await store.list_turns(session.id, limit=_ALL))
    compactions = deque(await store.list_compactions(session.id))
    written: set[str] = set()

    def made_by(seq: int) -> Iterable[Line]:
        while compactions and compactions[0].made_at_seq <= seq:
            yield CompactionLine(compactions.popleft())

    for line in made_by(0):
        yield line
    async for page in pages(store, session, undone=True, notes=True):
        hidden = await _hidden(store, session, page)
        for message in page:
            for turn in await turns.before(message, hidden=message.seq in hidden):
                yield TurnLine(turn)
            for blob_hash in blob_hashes(message.parts):
                if blob_hash not in written:
                    written.add(blob_hash)
                    with suppress(BlobNotFound):
                        blob = await store.get_blob(blob_hash)
                        yield BlobLine(blob.hash, blob.media_type, blob.data)
            yield MessageLine(message.seq, message.turn_id, message.draft)
            for line in made_by(message.seq):
                yield line
    for turn in turns.rest():
        yield TurnLine(turn)
    for entry in await store.list_scratch(session.id):
        found = await store.find_scratch(session.id, entry.name)
        if found is not None:
            yield ScratchLine(found)
    if todos := await store.get_todos(session.id):
        yield TodosLine(todos)


async def _hidden(store: Store, session: Session, page: tuple[Message, ...]) -> frozenset[int]:
    """The numbers of inherited messages that a fork hides; its own turns say it themselves."""
    if session.parent_id is None or session.message_count == session.head or not page:
        return frozenset()
    low, high = page[0].seq - 1, page[-1].seq + 1
    shown = await store.get_messages(session.id, after=low, before=high, notes=True)
    return frozenset(message.seq for message in page) - {message.seq for message in shown}


class _Turns:
    """The turns of a thread, each once, in the order in which they began."""

    def __init__(self, store: Store, session: Session, own: tuple[Turn, ...]) -> None:
        self._store = store
        self._session = session
        self._waiting = deque(own)
        self._own = {turn.id for turn in own}
        self._seen: set[str] = set()

    async def before(self, message: Message, *, hidden: bool) -> list[Turn]:
        """The turns to write before a message."""
        turn_id = message.turn_id
        if turn_id is None or turn_id in self._seen:
            return []
        if turn_id not in self._own:
            self._seen.add(turn_id)
            return await self._inherited(turn_id, message, hidden=hidden)
        turns = []
        while turn_id not in self._seen:
            turns.append(self._waiting.popleft())
            self._seen.add(turns[-1].id)
        return turns

    def rest(self) -> Iterable[Turn]:
        """Turns that have no messages."""
        return self._waiting

    async def _inherited(self, turn_id: str, message: Message, *, hidden: bool) -> list[Turn]:
        """A turn of a parent session; undone if this session hides it."""
        try:
            turn = await self._store.get_turn(turn_id)
        except RecordNotFound:
            if not hidden:
                return []
            turn = Turn(
                id=turn_id,
                session_id=message.session_id,
                status="done",
                reply_to=None,
                model=None,
                usage=Usage(),
                error=None,
                partial=None,
                started_at=message.at,
                ended_at=message.at,
            )
        undone_at = (turn.undone_at or self._session.created_at) if hidden else None
        return [msgspec.structs.replace(turn, undone_at=undone_at)]


def _mask(line: Line) -> object:
    """The line with what looks like a secret masked. Blobs are not masked."""
    return line if isinstance(line, BlobLine) else _mask_value(msgspec.to_builtins(line))


def _mask_value(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [_mask_value(item) for item in value]
    if isinstance(value, dict):
        return {key: _mask_value(item) for key, item in value.items()}
    return value
