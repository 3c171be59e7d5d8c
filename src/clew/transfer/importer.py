"""Import a transcript into a store, through the ports.

A file brings what was said and what it cost, and decides nothing else: `_new_session` and
`_end_turn` name all that is taken from it. A session that is already there must be the beginning
of the one in the file; then only the rest is added. So a second import changes nothing, and an
import that was killed can be repeated. Some hundred changes are recorded at a time, under one
lease.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, cast

import msgspec

from clew.api.sessions import Imported
from clew.core.changes import (
    AddCompaction,
    AddMessage,
    AddUsage,
    Change,
    EndTurn,
    StartTurn,
    UndoCompaction,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.keys import Place, new_id
from clew.core.message import Draft, Message, blob_hashes
from clew.core.notes import Compaction, ImportNote, ScratchEntry, Todo
from clew.core.rules import ALLOWED, list_held
from clew.core.session import Kind, NewSession, Session, SessionEdit, SessionFacts
from clew.core.text import cut, encode_text, strip_controls
from clew.core.turn import Lease, Turn, TurnEnd
from clew.core.usage import ESTIMATED, Usage
from clew.errors import (
    BlobNotFound,
    Conflict,
    Diverged,
    InvalidInput,
    RecordNotFound,
    SessionNotFound,
)
from clew.ports import Store
from clew.runtime.place.directories import directory_facts
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
    parse_first_line,
    parse_line,
)
from clew.transfer.thread import pages

CHUNK = 500
CHUNK_BYTES = 8_000_000

HOLDER = "clew import"
"""The holder of the lease: always the same, so that an import can follow a killed one."""

BROUGHT: Final = ("title", "title_by", "model", "provider", "created_at")
"""Columns that a file sets. Times of messages, usage and the summary come with the thread."""

TRUSTED: Final = ("personality", "thinking", "service_tier")
"""Columns that a trusted file sets too, beside its directory and its pins."""

NOTES: Final = (ESTIMATED,)
"""What is kept of a file's metadata, if it is true or false; rules (`allow`) are there as well."""

UNFINISHED: Final = 2**53
"""Noted as the head of a session while its import goes on."""

OWN: Final = "clew"
"""The agent whose transcripts clew's own files are."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where another agent's session comes from, and which session it becomes.

    `parent_id` is the session that a sub-agent worked for.
    """

    agent: str
    native_id: str
    session_id: str
    kind: Kind = "cli"
    parent_id: str | None = None


async def import_transcript(
    store: Store,
    lines: Iterable[bytes],
    *,
    as_new: bool = False,
    dry_run: bool = False,
    extends: bool = True,
    place: Place | None = None,
    trusts: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Import the session of a transcript into the store; `lines` are those of the file, as bytes.

    A new session is the owner's, and no key leads to it. It belongs to `place`, if there is one.
    `trusts`: the owner says that the file is their own export, so its directory, its choices
    (`TRUSTED`) and its pins are kept; rules, routes, persons and reply addresses never are.

    Without `extends` nothing is added to a session that is there: `Conflict` if the file has more.
    Raises `NotATranscript` for another file, `Diverged` if the store has other messages under that
    id, `Conflict` if the session is in the trash. An error changes nothing.
    """
    reading = iter(lines)
    raw = next(reading, b"")
    first = parse_first_line(raw)
    advance(len(raw))

    def parsed() -> Iterator[tuple[Line | None, int]]:
        for raw in reading:
            yield parse_line(raw), len(raw)
            advance(len(raw))

    target = None if as_new else await _find_target(store, first.session.id)
    only_compares = target is not None and not extends
    work = _Import(
        store,
        first,
        target,
        as_new=as_new,
        dry_run=dry_run or only_compares,
        place=place,
        trusts=trusts,
    )
    imported = await _run(work, parsed())
    if only_compares and imported.outcome == "extended":
        raise Conflict(
            f"Session {imported.session_id} is already there, and the transcript has more messages "
            "than it. Nothing was changed; --as-new imports it as a session of its own."
        )
    return imported


async def import_lines(
    store: Store,
    first: SessionLine,
    lines: Iterable[Line],
    provenance: Provenance,
    *,
    dry_run: bool = False,
) -> Imported:
    """Import the session of another agent, whose lines a reader has made; extends what is there.

    Raises `Diverged` if the store has other messages, `Conflict` if the session is in the trash.
    """
    target = await _find_target(store, provenance.session_id)
    work = _Import(store, first, target, dry_run=dry_run, provenance=provenance)
    return await _run(work, ((line, _size(line)) for line in lines))


def _size(line: Line) -> int:
    """About how many bytes a line takes."""
    if not isinstance(line, MessageLine):
        return 100
    return len(line.message.content) + sum(len(call.arguments) for call in line.message.tool_calls)


async def _run(work: _Import, lines: Iterable[tuple[Line | None, int]]) -> Imported:
    try:
        await work.begin()
        for number, (line, size) in enumerate(lines, 2):
            await work.take(line, number, size)
        return await work.finish()
    except InvalidInput:
        await work.abandon()
        raise
    finally:
        await work.release()


def describe_trust(first: bytes, *, has_place: bool = False) -> tuple[str, ...]:
    """What `trusts` would keep of a file with this first line, in words.

    `has_place`: the directory is given. Raises `NotATranscript` as `import_transcript` does.
    """
    source = parse_first_line(first).session
    said = [] if has_place or source.cwd is None else [f"directory {_shown(source.cwd)}"]
    for name in TRUSTED:
        value = getattr(source, name)
        said += [] if value is None else [f'{name.replace("_", " ")} "{_shown(value)}"']
    said += ["pinned"] if source.pinned else []
    return (*said, *(["archived"] if source.archived_at is not None else []))


def _shown(text: str) -> str:
    return cut(strip_controls(text, keep_newlines=False), 200)


async def _find_target(store: Store, session_id: str) -> Session | None:
    try:
        found = await store.get_session(session_id)
    except SessionNotFound:
        return None
    if found.deleted_at is not None:
        raise Conflict(
            f"Session {session_id} is in the trash. Nothing was changed; `clew trash restore "
            f"{session_id}` brings it back, --as-new imports it as a session of its own."
        )
    return found


class _Import:
    """The import of one transcript."""

    def __init__(
        self,
        store: Store,
        first: SessionLine,
        target: Session | None,
        *,
        as_new: bool = False,
        dry_run: bool,
        place: Place | None = None,
        trusts: bool = False,
        provenance: Provenance | None = None,
    ) -> None:
        self._store = store
        self._source = first.session
        self._target = target
        self._renamed = as_new
        self._dry_run = dry_run
        self._place = place
        self._trusts = trusts
        self._provenance = provenance
        given = first.session.id if provenance is None else provenance.session_id
        self._id = new_id() if as_new else given
        self._stored = _thread(store, target)
        head = 0 if target is None else target.head
        self._left = head
        self._compactions: dict[str, Compaction] = {}
        self._chunks = Chunks(
            store, self._id, head=head, dry_run=dry_run, prepare=self._revoke_rules
        )
        self._created = False
        self._notes_head = False
        self._revoked: tuple[str, ...] = ()
        self._messages = 0
        self._names: dict[str, str] = {}
        self._undone: dict[str, int] = {}
        self._blobs: set[str] = set()
        self._gaps: list[int] = []
        self._usage = Usage() if target is None else target.usage
        self._skipped: list[int] = []
        self._end: EndLine | None = None

    async def begin(self) -> None:
        """Make the session, if it is not there."""
        if self._target is not None:
            stored = await self._store.list_compactions(self._id)
            self._compactions = {each.id: each for each in stored}
            self._notes_head = self._provenance is None and await self._is_untouched(self._target)
        elif not self._dry_run:
            new = _new_session(self._source, self._id, place=self._place, trusts=self._trusts)
            if self._provenance is not None:
                new = _foreign_session(new, self._source, self._provenance)
            await self._store.create_session(new, route=None)
            self._created = True
            if self._provenance is None:
                self._notes_head = True
                await self._note(UNFINISHED)  # also if this import is killed

    async def abandon(self) -> None:
        """Remove the session that was made for a file that the store refuses."""
        if self._created:
            await self.release()
            await self._store.delete_sessions([self._id])
            await self._store.purge_sessions([self._id])

    async def _revoke_rules(self) -> None:
        """Take back what was allowed in the session: the owner said it before the file came."""
        session = await self._store.get_session(self._id)
        if self._trusts or ALLOWED not in session.metadata:
            return
        noted = {name: each for name, each in session.metadata.items() if name != ALLOWED}
        self._revoked = tuple(each.rule for each in list_held(session, ()))
        facts = SessionFacts(metadata=noted)
        await self._store.describe_session(self._id, facts, noted=session.metadata)

    async def take(self, line: Line | None, number: int, size: int) -> None:
        """Take the next line; None is one that could not be read."""
        # Flush before messages only: so the last message and everything after the thread are in
        # one record, and a complete thread always has its notes.
        # Nothing is recorded before all messages that are there were compared.
        if isinstance(line, MessageLine) and not self._left:
            await self._chunks.make_room(size)
        match line:
            case MessageLine(seq, turn_id, draft):
                await self._take_message(seq, turn_id, await self._without_lost_blobs(draft))
            case TurnLine(turn):
                await self._take_turn(turn)
            case BlobLine():
                await self._take_blob(line, number)
            case CompactionLine(compaction):
                self._take_compaction(compaction)
            case ScratchLine(entry):
                await self._take_scratch(entry)
            case TodosLine(todos):
                await self._take_todos(todos)
            case EndLine():
                self._end = line
            case _:
                self._skipped.append(number)

    async def finish(self) -> Imported:
        """Record the rest, and what can only be recorded at the end."""
        created = self._target is None
        if self._end is None:
            # The last message of a cut file is left out, so that the whole file can still add it.
            self._chunks.hold_back()
            await self._chunks.flush()
        elif created or self._chunks.messages:
            self._chunks.add(*(UndoTurn(name, at) for name, at in self._undone.items()))
            self._spend(_rest(self._source.usage, self._usage))
            await self._chunks.flush()
            if not self._dry_run:
                await self._describe()
        added = self._chunks.messages
        if self._notes_head and not self._dry_run:
            await self._note((await self._store.get_session(self._id)).head)
        whole = self._end is not None and self._end.messages == self._messages
        return Imported(
            session_id=self._id,
            outcome="created" if created else "extended" if added else "unchanged",
            messages=added,
            skipped=tuple(self._skipped),
            whole=whole,
            revoked=self._revoked,
        )

    async def release(self) -> None:
        """Release the lease."""
        await self._chunks.release()

    async def _note(self, head: int) -> None:
        """Note that messages up to `head` came from a file, so that retention leaves them alone."""
        await self._store.note_import(
            ImportNote(
                session_id=self._id, agent=OWN, native_id=self._source.id, stamp="", head=head
            )
        )

    async def _is_untouched(self, target: Session) -> bool:
        """Whether a session has nothing but what a file brought."""
        notes = await self._store.list_imports(OWN)
        return any(each.session_id == target.id and target.head <= each.head for each in notes)

    async def _describe(self) -> None:
        source = self._source
        if source.short_summary is not None or source.context_tokens is not None:
            facts = SessionFacts(
                short_summary=source.short_summary, context_tokens=source.context_tokens
            )
            await self._store.describe_session(self._id, facts)
        marks: dict[str, Any] = {"pinned": True} if source.pinned else {}
        marks |= {"archived": True} if source.archived_at is not None else {}
        if self._trusts and marks:
            await self._store.edit_session(self._id, SessionEdit(**marks))

    async def _take_message(self, seq: int, turn_id: str | None, draft: Draft) -> None:
        self._messages += 1
        place = self._messages + len(self._gaps)
        self._gaps.extend(range(place, min(seq, place + len(self._skipped))))
        if self._left:
            self._left -= 1
            theirs = await anext(self._stored)
            if theirs.draft != draft and not self._is_same(theirs.draft, draft):
                raise Diverged(self._id, theirs.seq, found=draft)
            return
        # Only the message of the last interaction sets the time that resets count from.
        last = self._source.last_interaction_at
        moved_clock = draft.role == "user" and last is not None and draft.at == last
        if turn_id is not None and turn_id not in self._names:
            await self._find_turn(turn_id)  # no line says whose turn it is
        name = None if turn_id is None else self._name(turn_id)
        self._chunks.add(AddMessage(draft, name, from_person=moved_clock))

    def _is_same(self, stored: Draft, draft: Draft) -> bool:
        """Whether an agent has only learned since then what its message cost, or that it failed."""
        if self._provenance is None:
            return False
        learned = msgspec.structs.replace(draft, usage=stored.usage, is_error=stored.is_error)
        return stored == learned

    async def _without_lost_blobs(self, draft: Draft) -> Draft:
        """The message with blobs that neither file nor store has marked as lost."""
        lost = {each for each in blob_hashes(draft.parts) if not await self._has_blob(each)}
        if not lost:
            return draft
        parts = tuple(
            {"lost_blob" if name == "blob" and part["blob"] in lost else name: value
             for name, value in part.items()}
            for part in draft.parts
        )  # fmt: skip
        return msgspec.structs.replace(draft, parts=parts)

    async def _has_blob(self, blob_hash: str) -> bool:
        if blob_hash not in self._blobs:
            try:
                await self._store.get_blob(blob_hash)
            except BlobNotFound:
                return False
            self._blobs.add(blob_hash)
        return True

    async def _take_blob(self, line: BlobLine, number: int) -> None:
        if hashlib.sha256(line.data).hexdigest() != line.hash:
            self._skipped.append(number)
            return
        if not self._left and not self._dry_run:
            await self._store.put_blob(line.data, line.media_type)
        self._blobs.add(line.hash)

    async def _take_turn(self, turn: Turn) -> None:
        if turn.id in self._names:
            return
        stored = await self._find_turn(turn.id)
        name = self._name(turn.id)
        # What an inherited turn spent was never part of this session's total.
        usage = turn.usage if turn.session_id == self._source.id else Usage()
        if stored is None:
            if self._left:
                return  # the turn is in the stored part, but not in this store
            self._chunks.add(StartTurn(turn_id=name, model=turn.model, at=turn.started_at))
        else:
            usage = _rest(usage, stored.usage)
        self._spend(usage, name)
        if stored is None or stored.ended_at is None:
            self._end_turn(name, turn)
        if turn.undone_at is not None:
            self._undone[name] = turn.undone_at

    async def _find_turn(self, turn_id: str) -> Turn | None:
        """The turn as this session has it; one that another session has gets a new name."""
        for name in dict.fromkeys((self._name(turn_id), self._new_name(turn_id))):
            self._names[turn_id] = name
            try:
                stored = await self._store.get_turn(name)
            except RecordNotFound:
                return None
            if stored.session_id == self._id:
                return stored
        return None

    def _spend(self, usage: Usage, name: str | None = None) -> None:
        if usage != Usage():
            self._chunks.add(AddUsage(usage=usage, turn_id=name))
            self._usage += usage

    def _end_turn(self, name: str, turn: Turn) -> None:
        """End the turn. One that had not ended was cut off by the export; no process goes on."""
        unfinished = turn.status in ("running", "waiting")
        self._chunks.add(
            EndTurn(
                turn_id=name,
                status="interrupted" if unfinished else cast("TurnEnd", turn.status),
                error=turn.error,
                partial=turn.partial,
                at=turn.started_at if turn.ended_at is None else turn.ended_at,
            )
        )

    def _take_compaction(self, compaction: Compaction) -> None:
        name = self._new_name(compaction.id) if self._renamed else compaction.id
        stored = self._compactions.get(name)
        if stored is None:
            if self._left:
                return
            missing = sum(gap < compaction.keep_from for gap in self._gaps)
            self._compactions[name] = compaction
            self._chunks.add(
                AddCompaction(
                    compaction_id=name,
                    keep_from=max(1, min(compaction.keep_from - missing, self._messages + 1)),
                    summary=compaction.summary,
                    short_summary=compaction.short_summary,
                    tokens_before=compaction.tokens_before,
                    tokens_after=compaction.tokens_after,
                    at=compaction.created_at,
                )
            )
        if compaction.undone_at is not None and (stored is None or stored.undone_at is None):
            self._chunks.add(UndoCompaction(name, compaction.undone_at))

    async def _take_scratch(self, entry: ScratchEntry) -> None:
        if self._target is None or entry != await self._store.find_scratch(self._id, entry.name):
            self._chunks.add(WriteScratch(entry.name, entry.content, entry.created_at))

    async def _take_todos(self, todos: tuple[Todo, ...]) -> None:
        if self._target is None or todos != await self._store.get_todos(self._id):
            self._chunks.add(WriteTodos(todos))

    def _name(self, turn_id: str) -> str:
        """The id in the store of a turn of the file."""
        return self._names.get(turn_id) or (self._new_name(turn_id) if self._renamed else turn_id)

    def _new_name(self, old: str) -> str:
        """An id that is unique to this session, and the same in every import."""
        return str(uuid.uuid5(uuid.UUID(self._id), encode_text(old)))


def _new_session(
    source: Session, session_id: str, *, place: Place | None, trusts: bool
) -> NewSession:
    """The session that a file makes. A column that is not named here has its default."""
    columns = (*BROUGHT, *TRUSTED) if trusts else BROUGHT
    notes: dict[str, Any] = {
        name: source.metadata[name] for name in NOTES if isinstance(source.metadata.get(name), bool)
    }
    cwd = project = None
    if place is not None:
        cwd, project, notes["directory"] = place.cwd, place.project, place.facts
    elif trusts and source.cwd is not None:
        cwd, project = source.cwd, source.project
        if facts := directory_facts(project or cwd):
            notes["directory"] = facts
    return NewSession(
        id=session_id,
        key=f"import:{session_id}",
        cwd=cwd,
        project=project,
        metadata=notes,
        **{name: getattr(source, name) for name in columns},
    )


def _foreign_session(new: NewSession, source: Session, provenance: Provenance) -> NewSession:
    """The session of another agent. Its directory and model are for display only."""
    shown = {"native_id": provenance.native_id, "directory": source.cwd, "model": source.model}
    return msgspec.structs.replace(
        new,
        platform=provenance.agent,
        kind=provenance.kind,
        parent_id=provenance.parent_id,
        model=None,
        provider=None,
        origin={name: value for name, value in shown.items() if value},
    )


async def _thread(store: Store, session: Session | None) -> AsyncIterator[Message]:
    if session is not None:
        async for page in pages(store, session, undone=True):
            for message in page:
                yield message


def _rest(total: Usage, part: Usage) -> Usage:
    """The total minus the part, never below zero."""
    cost = None if total.cost is None else max(0, total.cost - (part.cost or 0))
    if part.cost is None:
        cost = 0  # unknown stays unknown
    counts = {
        name: max(0, getattr(total, name) - getattr(part, name))
        for name in Usage.__struct_fields__
        if name != "cost"
    }
    return Usage(**counts, cost=cost)


class Chunks:
    """Changes to record in a session whose head is known, in chunks. A dry run only counts.

    `prepare` is called under the lease, before the first record.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        head: int,
        dry_run: bool,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.messages = 0
        self._store = store
        self._session_id = session_id
        self._head = head
        self._dry_run = dry_run
        self._prepare = prepare
        self._lease: Lease | None = None
        self._pending: list[Change] = []
        self._bytes = 0

    def add(self, *changes: Change) -> None:
        """Add changes."""
        self._pending += changes
        self.messages += sum(isinstance(change, AddMessage) for change in changes)

    async def make_room(self, size: int) -> None:
        """Record what is pending if it is a full chunk, then count `size` bytes more."""
        if len(self._pending) >= CHUNK or self._bytes >= CHUNK_BYTES:
            await self.flush()
        self._bytes += size

    def hold_back(self) -> None:
        """Drop the last message and what came after it; it must not be recorded yet."""
        while self._pending:
            if isinstance(self._pending.pop(), AddMessage):
                self.messages -= 1
                return

    async def flush(self) -> None:
        """Record what is pending."""
        if self._pending and not self._dry_run:
            if self._lease is None:
                self._lease = await self._acquire()
                if self._prepare is not None:
                    await self._prepare()
            else:
                self._lease = await self._store.renew_lease(self._lease)
            await self._store.record(self._session_id, self._lease.epoch, *self._pending)
        self._pending.clear()
        self._bytes = 0

    async def release(self) -> None:
        """Release the lease."""
        if self._lease is not None:
            await self._store.release_lease(self._lease)
            self._lease = None

    async def _acquire(self) -> Lease:
        lease = await self._store.acquire_lease(self._session_id, HOLDER)
        if (await self._store.get_session(self._session_id)).head != self._head:
            await self._store.release_lease(lease)
            raise Conflict(f"Session {self._session_id} was changed meanwhile. Import it again.")
        return lease
