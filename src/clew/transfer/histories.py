"""Other agents' histories: what is on this machine, what of it is new, and its import.

A reader finds and reads (`transfer.readers`), `transfer.importer` imports the lines; this module
decides which session a source becomes. A session that came from the same source and was not
continued here is extended. Otherwise what is new becomes a fork at the last common message. One
that was thrown away stays away.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import uuid
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Literal

import msgspec

from clew.core.keys import is_id
from clew.core.notes import ImportNote
from clew.core.session import SessionFacts
from clew.core.text import strip_controls, to_json
from clew.errors import ClewError, Conflict, Diverged, SessionNotFound
from clew.ports import Store
from clew.transfer.importer import Provenance, import_lines
from clew.transfer.jsonl import Line, MessageLine, SessionLine
from clew.transfer.readers.reader import SETTLED_MS, Home, Reader, Reading, Source
from clew.transfer.readers.transcript import session_id_of

State = Literal["new", "changed", "unchanged", "away"]
"""What an import would do with a source. `away`: its session was thrown away here."""

Outcome = Literal["created", "extended", "unchanged", "forked", "away", "empty", "failed"]

UNREADABLE = (
    ClewError, OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
    RecursionError,
)  # fmt: skip
"""What reading a file of anybody's may end with: the others are imported all the same."""

LIVE = "live"
"""The stamp of a source whose end is still being written: it is read again next time."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions of one agent on this machine, counted without reading them.

    `messages` is what is known of them; None if only reading would tell.
    """

    agent: str
    label: str
    sessions: int
    new: int
    changed: int
    unchanged: int
    away: int
    bytes: int
    messages: int | None = None
    problem: str | None = None


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one source. `lost` counts records that have no place, by kind.

    `broken` lines could not be read. `branches` that were left are not imported. `name` is what
    lists call the session; a dry run has none.
    """

    agent: str
    native_id: str
    outcome: Outcome
    session_id: str | None = None
    messages: int = 0
    broken: int = 0
    lost: dict[str, int] = {}
    branches: int = 0
    title: str | None = None
    name: str | None = None
    error: str | None = None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of an import."""

    sessions: int
    outcomes: dict[str, int]
    messages: int
    broken: int
    lost: dict[str, int]
    branches: int
    stopped: bool = False
    failed: tuple[Brought, ...] = ()


def add_up(results: Iterable[Brought], *, stopped: bool = False) -> Totals:
    """The sum of what became of each source."""
    outcomes: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    messages = broken = branches = 0
    failed: list[Brought] = []
    for each in results:
        outcomes[each.outcome] += 1
        lost.update(each.lost)
        messages += each.messages
        broken += each.broken
        branches += each.branches
        if each.outcome == "failed" and len(failed) < 20:
            failed.append(each)
    return Totals(
        sessions=sum(outcomes.values()),
        outcomes=dict(outcomes),
        messages=messages,
        broken=broken,
        lost=dict(lost.most_common()),
        branches=branches,
        stopped=stopped,
        failed=tuple(failed),
    )


class Notes:
    """What the store knows about the sessions of one agent."""

    def __init__(self, notes: Sequence[ImportNote]) -> None:
        self._notes = {each.session_id: each for each in notes}

    def find(self, session_id: str) -> ImportNote | None:
        """The note about a session, if there is one."""
        return self._notes.get(session_id)

    def choose(self, source: Source, *, again: bool) -> str | None:
        """The session that a source becomes; None if that was thrown away."""
        for number in itertools.count():
            session_id = session_id_of(source.agent, source.id, number)
            note = self._notes.get(session_id)
            if note is None:
                return session_id if number == 0 or again else None
            if note.gone is None:
                return session_id
        return None

    def state(self, source: Source) -> State:
        """What an import would do with a source, as far as its stamp tells."""
        session_id = self.choose(source, again=False)
        if session_id is None:
            return "away"
        note = self._notes.get(session_id)
        if note is None:
            return "new"
        return "unchanged" if note.stamp == source.stamp else "changed"


async def read_notes(store: Store, agent: str) -> Notes:
    """What the store knows about the sessions of an agent."""
    return Notes(await store.list_imports(agent))


async def scan(store: Store, readers: Sequence[Reader], home: Home) -> tuple[Found, ...]:
    """What is on this machine, by agent. Reads directories and indexes, no session."""
    found = []
    for reader in readers:
        sources, problem = find_sources(reader, home)
        if sources or problem:
            notes = await read_notes(store, reader.name)
            found.append(count_sources(reader, sources, notes, problem))
    return tuple(found)


def find_sources(reader: Reader, home: Home) -> tuple[list[Source], str | None]:
    """The sessions of an agent on this machine, and why not all could be found."""
    try:
        return list(reader.find(home)), None
    except (OSError, ClewError) as error:
        return [], strip_controls(str(error), keep_newlines=False)


def count_sources(
    reader: Reader, sources: Sequence[Source], notes: Notes, problem: str | None = None
) -> Found:
    """The sessions of one agent, counted."""
    states = Counter(notes.state(each) for each in sources)
    known = [each.messages for each in sources if each.messages is not None]
    return Found(
        agent=reader.name,
        label=reader.label,
        sessions=len(sources),
        new=states["new"],
        changed=states["changed"],
        unchanged=states["unchanged"],
        away=states["away"],
        bytes=sum(each.size for each in sources),
        messages=sum(known) if sources and len(known) == len(sources) else None,
        problem=problem,
    )


def order(sources: Iterable[Source]) -> list[Source]:
    """Sources in the order in which they are imported: newest first, sub-agents last."""
    return sorted(sources, key=lambda each: (each.parent is not None, -each.at, each.id))


async def import_sources(
    store: Store,
    reader: Reader,
    sources: Sequence[Source],
    *,
    now: int,
    dry_run: bool = False,
    again: bool = False,
    branches: bool = False,
    routes: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[Brought]:
    """Import sessions of one agent, one after the other; stopping between two loses nothing.

    `again` imports those that were thrown away, as new sessions. `branches` makes forks of the
    branches that were left. `routes` lets the keys of another clew-like agent lead to its sessions.
    """
    notes = await read_notes(store, reader.name)
    for source in order(sources):
        work = _Bringing(
            store, reader, source, notes, now=now, dry_run=dry_run, again=again, routes=routes
        )
        try:
            yield await work.bring(branches=branches, advance=advance)
        except UNREADABLE as error:
            said = str(error) or type(error).__name__
            yield Brought(
                agent=source.agent,
                native_id=source.id,
                outcome="failed",
                error=strip_controls(said, keep_newlines=False)[:500],
            )


class _Bringing:
    """The import of one source."""

    def __init__(
        self,
        store: Store,
        reader: Reader,
        source: Source,
        notes: Notes,
        *,
        now: int,
        dry_run: bool,
        again: bool,
        routes: bool,
    ) -> None:
        self._store = store
        self._reader = reader
        self._source = source
        self._notes = notes
        self._dry_run = dry_run
        self._again = again
        self._routes = routes
        self._settled = source.at < now - SETTLED_MS
        self._root = ""

    async def bring(self, *, branches: bool, advance: Callable[[int], None]) -> Brought:
        """Import it; with `branches`, each branch that was left becomes a fork."""
        source = self._source
        session_id = self._notes.choose(source, again=self._again)
        if session_id is None:
            advance(source.size)
            return self._result("away")
        note = self._notes.find(session_id)
        if note is not None and note.stamp == source.stamp and not branches:
            advance(source.size)
            return self._result("unchanged", session_id)
        if note is None and await self._is_own(source.id):
            session_id = source.id  # what clew wrote for that agent, and what was added there
        self._root = session_id
        reading = Reading(settled=self._settled, advance=advance)
        result = await self._bring_one(reading)
        if result.outcome == "empty":
            return result
        left = reading.branches
        if branches:
            added = [
                await self._bring_one(Reading(settled=self._settled, branch=each)) for each in left
            ]
            fresh = [each for each in added if each.outcome == "forked"]
            result = msgspec.structs.replace(
                result,
                messages=result.messages + sum(each.messages for each in fresh),
                outcome="forked" if fresh and result.outcome == "unchanged" else result.outcome,
                branches=0,
            )
        if not self._dry_run:
            await self._settle(note, reading)
        return result

    async def _bring_one(self, reading: Reading) -> Brought:
        """Import the thread that a reading gives: into the session, or into a fork of it."""
        target, forked = self._root, False
        provenance = await self._provenance()
        while True:
            first, lines = _peek(self._reader.read(self._source, reading))
            if first is None:
                return self._result("empty", reading=reading)
            if forked and self._notes_gone(target):
                return self._result("away", reading=reading)
            try:
                imported = await import_lines(
                    self._store,
                    first,
                    lines,
                    msgspec.structs.replace(provenance, session_id=target),
                    dry_run=self._dry_run,
                )
            except Diverged as error:
                if target == self._source.id and await self._has_all(target, reading):
                    return self._result("unchanged", target, reading)
                fork = _fork_id(error)
                if self._dry_run and not await self._exists(fork):
                    extra = _count_from(self._reader.read(self._source, _again(reading)), error.seq)
                    return self._result("forked", target, reading, extra)
                if not await self._exists(fork):
                    await self._store.fork_session(target, at=error.seq - 1, new_id=fork)
                target, forked = fork, True
                reading.lost.clear()
                reading.broken = 0
                reading.advance = lambda _: None
                continue
            except Conflict:
                if await self._is_trashed(target):
                    return self._result("away", reading=reading)
                raise
            if forked and not self._dry_run:
                await self._note_fork(target)
            outcome: Outcome = imported.outcome
            if forked and imported.messages:
                outcome = "forked"
            title = first.session.title
            if outcome in ("extended", "unchanged") and title and not self._dry_run:
                await self._rename(target, title)
            done = self._result(outcome, target, reading, imported.messages)
            name = None if self._dry_run else (await self._store.get_session(target)).name
            return msgspec.structs.replace(done, title=title, name=name)

    async def _is_own(self, native_id: str) -> bool:
        """Whether a source is a session of clew's, exported for its agent."""
        return is_id(native_id) and await self._exists(native_id)

    async def _has_all(self, session_id: str, reading: Reading) -> bool:
        """Whether a session has at least as many messages as what was exported of it."""
        lines = self._reader.read(self._source, _again(reading))
        said = sum(isinstance(line, MessageLine) for line in lines)
        return said <= (await self._store.get_session(session_id)).message_count

    async def _rename(self, session_id: str, title: str) -> None:
        """Take over a name that the other agent has given since; never over a person's own."""
        session = await self._store.get_session(session_id)
        if session.title != title and session.title_by != "user" and session.parent_id is None:
            await self._store.describe_session(session_id, SessionFacts(title=title))

    async def _provenance(self) -> Provenance:
        source = self._source
        parent = None if source.parent is None else session_id_of(source.agent, source.parent)
        if parent is not None and not await self._exists(parent):
            parent = None
        return Provenance(
            agent=source.agent,
            native_id=source.id,
            session_id=self._root,
            kind="cli" if source.parent is None else "subagent",
            parent_id=parent,
        )

    async def _settle(self, note: ImportNote | None, reading: Reading) -> None:
        """Note what was read, so that the next import passes it over."""
        session = await self._store.get_session(self._root)
        stamp = LIVE if reading.held_back else self._source.stamp
        head = session.head
        if self._root == self._source.id:
            head = 0  # it is clew's own
        elif session.last_interaction_at is not None:  # somebody talked: imports move no such clock
            head = 0 if note is None else note.head
        await self._store.note_import(self._note(self._root, self._source.id, stamp, head))
        for key in reading.keys if self._routes else ():
            if await self._store.find_route(key) is None:
                await self._store.set_route(key, self._root)

    async def _note_fork(self, fork: str) -> None:
        head = (await self._store.get_session(fork)).head
        name = f"{self._source.id}#{fork[:8]}"
        await self._store.note_import(self._note(fork, name, self._source.stamp, head))

    def _note(self, session_id: str, native_id: str, stamp: str, head: int) -> ImportNote:
        return ImportNote(
            session_id=session_id,
            agent=self._source.agent,
            native_id=native_id,
            stamp=stamp,
            head=head,
        )

    def _notes_gone(self, session_id: str) -> bool:
        note = self._notes.find(session_id)
        return note is not None and note.gone is not None

    async def _exists(self, session_id: str) -> bool:
        try:
            await self._store.get_session(session_id)
        except SessionNotFound:
            return False
        return True

    async def _is_trashed(self, session_id: str) -> bool:
        try:
            return (await self._store.get_session(session_id)).deleted_at is not None
        except SessionNotFound:
            return False

    def _result(
        self,
        outcome: Outcome,
        session_id: str | None = None,
        reading: Reading | None = None,
        messages: int = 0,
    ) -> Brought:
        seen = reading or Reading()
        return Brought(
            agent=self._source.agent,
            native_id=self._source.id,
            outcome=outcome,
            session_id=session_id,
            messages=messages,
            broken=seen.broken,
            lost=dict(seen.lost),
            branches=len(seen.branches),
        )


def _peek(lines: Iterator[Line]) -> tuple[SessionLine | None, Iterator[Line]]:
    """The first line, and the rest; None if nothing was said."""
    first = next(lines, None)
    if not isinstance(first, SessionLine):
        return None, iter(())
    before: list[Line] = []
    for line in lines:
        before.append(line)
        if isinstance(line, MessageLine):
            return first, itertools.chain(before, lines)
    return None, iter(())


def _again(reading: Reading) -> Reading:
    return Reading(settled=reading.settled, branch=reading.branch)


def _count_from(lines: Iterator[Line], seq: int) -> int:
    return sum(isinstance(line, MessageLine) and line.seq >= seq for line in lines)


def _fork_id(error: Diverged) -> str:
    """The id of the fork for what differs: the same whenever it is met again."""
    digest = hashlib.sha256(to_json(error.found).encode()).hexdigest()
    return str(uuid.uuid5(uuid.UUID(error.session_id), f"{error.seq}\n{digest}"))


def describe_losses(lost: Mapping[str, int]) -> str:
    """What has no place in clew, in words."""
    return ", ".join(f"{count:,} {kind}" for kind, count in lost.items())


# --- following ----------------------------------------------------------------------------------

ROUND = 50
"""Sessions that one round of following imports from an agent at most."""


async def follow(
    store: Store,
    readers: Sequence[Reader],
    home: Home,
    take: Callable[[Brought], None],
    *,
    clock: Callable[[], int],
    pause: Callable[[], Awaitable[None]],
) -> None:
    """Import what changes, round by round, until it is cancelled. Looks at sizes and times only."""
    seen: dict[tuple[str, str], tuple[str, bool]] = {}
    while True:
        for reader in readers:
            # In a thread: a directory may be slow.
            sources, _ = await asyncio.to_thread(find_sources, reader, home)
            now = clock()
            changed = [each for each in order(sources) if seen.get(_key(each)) != _look(each, now)]
            some = changed[:ROUND]
            async for brought in import_sources(store, reader, some, now=now):
                if brought.outcome in ("created", "extended", "forked"):
                    take(brought)
                await asyncio.sleep(0)
            seen |= {_key(each): _look(each, now) for each in some}
        await pause()


def _key(source: Source) -> tuple[str, str]:
    return source.agent, source.id


def _look(source: Source, now: int) -> tuple[str, bool]:
    """What a source looks like; one that was still being written is read again when it is not."""
    return source.stamp, source.at < now - SETTLED_MS
