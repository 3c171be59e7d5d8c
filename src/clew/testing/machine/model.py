"""The model of a session store, in memory, that `machine` compares a real one with.

As plain as possible: threads are lists, a search reads every message, nothing is indexed. It raises
the same errors as a store, and does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from clew.core.message import Role
from clew.core.notes import Todo
from clew.core.turn import LEASE_MS
from clew.errors import InvalidInput, LeaseHeld, Locked, RecordNotFound, SessionNotFound, StaleLease


@dataclass(frozen=True, eq=False)
class Said:
    """A message; two of them are never equal."""

    session: str
    seq: int
    role: Role
    content: str
    turn: str | None


@dataclass
class Line:
    """A session: its own messages, and where it starts in its parent."""

    id: str
    key: str
    platform: str
    person: str
    updated_at: int
    title: str | None = None
    parent: Line | None = None
    knot: int = 0
    own: list[Said] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    scratch: dict[str, str] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    pinned: bool = False
    archived: bool = False
    deleted: int | None = None
    edits: int = 0

    @property
    def head(self) -> int:
        """The last seq."""
        return self.knot + len(self.own)

    def thread(self, *, undone: bool = True) -> list[Said]:
        """All messages, inherited ones first; undone turns only if asked for."""
        inherited = [] if self.parent is None else self.parent.thread()[: self.knot]
        whole = inherited + self.own
        return whole if undone else [said for said in whole if said.turn not in self.undone]

    @property
    def preview(self) -> str | None:
        """The first thing that a user said."""
        said = (s.content.strip() for s in self.thread() if s.role == "user")
        return next((text for text in said if text), None)

    @property
    def content_bytes(self) -> int:
        """What the session itself stores."""
        texts = [said.content for said in self.own] + list(self.scratch.values())
        return sum(len(text.encode()) for text in texts)


@dataclass
class Held:
    """A lease; without a holder it was released."""

    holder: str | None
    epoch: int
    expires_at: int


class Model:
    """A store of lines. `now` is always given."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.routes: dict[str, str] = {}
        self.leases: dict[str, Held] = {}
        self.dead: set[str] = set()
        """Identities of processes that are gone."""
        self.turns: dict[str, tuple[Line, int]] = {}
        self.answers: dict[tuple[str, str], tuple[int, ...]] = {}
        self._deletions = 0

    # --- sessions -----------------------------------------------------------------------------

    def get(self, session_id: str) -> Line:
        """A line that is not purged."""
        if session_id not in self.lines:
            raise SessionNotFound(session_id)
        return self.lines[session_id]

    def add(self, line: Line, *, route: str | None) -> None:
        """A session that the store has made."""
        self.lines[line.id] = line
        if route is not None:
            self.routes[route] = line.id

    def route(self, key: str) -> Line | None:
        """The line that a key leads to."""
        line = self.lines.get(self.routes.get(key, ""))
        return line if line is not None and line.deleted is None else None

    def check_knot(self, session_id: str, at: int | None) -> int:
        """Where a fork would start."""
        line = self.get(session_id)
        knot = line.head if at is None else at
        if not 0 <= knot <= line.head:
            raise InvalidInput(f"no message {knot}")
        return knot

    def fork(self, session_id: str, fork_id: str, at: int | None, *, key: str, now: int) -> Line:
        """A new line that starts in an old one."""
        knot = self.check_knot(session_id, at)
        parent = self.get(session_id)
        fork = Line(
            fork_id,
            key,
            parent.platform,
            parent.person,
            now,
            title=f"{parent.title} (fork)" if parent.title else None,
            parent=parent,
            knot=knot,
            undone=set(parent.undone),
            scratch=dict(parent.scratch),
            todos=parent.todos,
        )
        self.add(fork, route=None)
        return fork

    def edit(self, session_id: str, **values: object) -> Line:
        """A person's change; counts if it changes anything."""
        line = self.get(session_id)
        if any(getattr(line, name) != value for name, value in values.items()):
            line.edits += 1
        for name, value in values.items():
            setattr(line, name, value)
        return line

    # --- the log ------------------------------------------------------------------------------

    def check_epoch(self, session_id: str, epoch: int) -> Line:
        """The line, if that epoch may write to it."""
        line = self.get(session_id)
        lease = self.leases.get(session_id, Held(None, 0, 0))
        if lease.holder is None or lease.epoch != epoch:
            raise StaleLease(session_id, epoch, lease.epoch)
        return line

    def say(
        self,
        session_id: str,
        epoch: int,
        said: Iterable[tuple[Role, str]],
        *,
        now: int,
        turn: str | None = None,
        key: str | None = None,
    ) -> tuple[int, ...]:
        """Messages, as one record; returns their seqs."""
        line = self.get(session_id)
        if key is not None and (session_id, key) in self.answers:
            return self.answers[session_id, key]
        self.check_epoch(session_id, epoch)
        if turn is not None:
            self.turns[turn] = (line, line.head + 1)
        before = line.head
        for role, content in said:
            line.own.append(Said(session_id, line.head + 1, role, content, turn))
            line.updated_at = max(line.updated_at, now)
            line.archived = False
        seqs = tuple(range(before + 1, line.head + 1))
        if key is not None:
            self.answers[session_id, key] = seqs
        return seqs

    def mark(self, session_id: str, epoch: int, turn: str, *, undone: bool) -> None:
        """Undo or redo a turn of the thread."""
        line = self.check_epoch(session_id, epoch)
        if not any(said.turn == turn for said in line.thread()):
            raise RecordNotFound("turn", turn)
        if undone:
            line.undone.add(turn)
        else:
            line.undone.discard(turn)

    def page(
        self,
        session_id: str,
        limit: int | None,
        offset: int,
        before: int | None,
        after: int | None,
        *,
        undone: bool,
    ) -> list[Said]:
        """`get_messages`."""
        found = [
            said
            for said in self.get(session_id).thread(undone=undone)
            if (before is None or said.seq < before) and (after is None or said.seq > after)
        ]
        found = found[: max(0, len(found) - offset)]
        return found if limit is None else found[max(0, len(found) - limit) :]

    # --- leases -------------------------------------------------------------------------------

    def acquire(self, session_id: str, holder: str, *, now: int) -> Held:
        """Take the lease."""
        self.get(session_id)
        lease = self.leases.get(session_id, Held(None, 0, 0))
        if lease.holder != holder and self.is_leased(session_id, now):
            raise LeaseHeld(session_id, lease.holder or "", lease.expires_at)
        self.leases[session_id] = Held(holder, lease.epoch + 1, now + LEASE_MS)
        return self.leases[session_id]

    def renew(self, session_id: str, epoch: int, *, now: int) -> Held:
        """Extend the same lease."""
        lease = self.leases.get(session_id, Held(None, 0, 0))
        if lease.holder is None or lease.epoch != epoch:
            raise StaleLease(session_id, epoch, lease.epoch)
        lease.expires_at = now + LEASE_MS
        return lease

    def release(self, session_id: str, epoch: int) -> None:
        """Release a lease, if it is still held."""
        lease = self.leases.get(session_id)
        if lease is not None and lease.epoch == epoch:
            lease.holder = None

    def is_leased(self, session_id: str, now: int) -> bool:
        """Whether a lease is held and its holder lives."""
        lease = self.leases.get(session_id)
        if lease is None or lease.holder is None or lease.expires_at <= now:
            return False
        return lease.holder.partition("#")[0] not in self.dead

    # --- the trash ----------------------------------------------------------------------------

    def delete(self, ids: Iterable[str]) -> set[str]:
        """Put sessions in the trash, in one go."""
        self._deletions += 1
        return {each for each in ids if self._delete(each)}

    def _delete(self, session_id: str) -> bool:
        line = self.lines.get(session_id)
        if line is None or line.deleted is not None:
            return False
        line.deleted = self._deletions
        return True

    def restore(self, ids: Iterable[str]) -> set[str]:
        """Take sessions out of the trash."""
        restored = set()
        for each in ids:
            line = self.lines.get(each)
            if line is not None and line.deleted is not None:
                line.deleted = None
                restored.add(each)
        return restored

    def restore_last(self) -> set[str]:
        """Restore what is left of the latest deletion that left anything."""
        trashed = [line for line in self.lines.values() if line.deleted is not None]
        latest = max((line.deleted or 0 for line in trashed), default=0)
        return self.restore([line.id for line in trashed if line.deleted == latest])

    def purge(self, ids: Collection[str], *, now: int) -> set[str]:
        """Delete for good. Forks can still read the part that they share."""
        if any(self.is_leased(each, now) for each in ids):
            raise Locked("in use")
        purged = {each for each in ids if each in self.lines and self.lines[each].deleted}
        for each in purged:
            del self.lines[each]
            self.leases.pop(each, None)
            self.answers = {key: seqs for key, seqs in self.answers.items() if key[0] != each}
        return purged

    def expired(self, older_than: int, now: int) -> set[str]:
        """The ids that `prune_old_sessions` archives."""
        active = [e for e in self.lines.values() if e.deleted is None and not e.archived]
        newest = max(active, key=lambda line: (line.updated_at, line.id), default=None)
        return {
            line.id
            for line in active
            if line.updated_at < older_than
            and line is not newest
            and not line.pinned
            and not self.is_leased(line.id, now)
        }

    # --- readings -----------------------------------------------------------------------------

    def listed(
        self, viewer: str, *, platform: str | None, archived: bool | None, trashed: bool
    ) -> list[str]:
        """The ids of a list, in its order."""
        found = [
            line
            for line in self.lines.values()
            if viewer in ("owner", line.person)
            and platform in (None, line.platform)
            and (line.deleted is not None) == trashed
            and (trashed or archived in (None, line.archived))
        ]
        if trashed:
            return [e.id for e in sorted(found, key=lambda e: (e.deleted, e.id), reverse=True)]
        order = sorted(found, key=lambda e: (e.pinned, e.updated_at, e.id), reverse=True)
        return [line.id for line in order]

    def living(self) -> Iterator[Line]:
        """Lines outside the trash."""
        return (line for line in self.lines.values() if line.deleted is None)

    def ending(self, digits: str) -> list[str]:
        """The ids with this ending, without their hyphens, newest first."""
        return self._newest(e for e in self.living() if e.id.replace("-", "").endswith(digits))

    def keyed(self, key: str) -> list[str]:
        """The ids of the lines that were made under a key, newest first."""
        return self._newest(line for line in self.living() if line.key == key)

    def _newest(self, lines: Iterable[Line]) -> list[str]:
        return [e.id for e in sorted(lines, key=lambda e: (e.updated_at, e.id), reverse=True)]

    def matches(self, words: Iterable[str], viewer: str) -> set[Said]:
        """Messages with all of these words that a living session can show the viewer."""
        wanted = set(words)
        return {
            said
            for line in self.living()
            if viewer in ("owner", line.person)
            for said in line.thread()
            if wanted <= set(said.content.split())
        }
