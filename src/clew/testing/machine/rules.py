"""The steps of a random history: what is done to a store and to its model, and how they compare.

There are few keys, few words and few sessions, so that many things happen to the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import UNSET, UnsetType

from clew.core.changes import (
    AddMessage,
    EndTurn,
    RedoTurn,
    StartTurn,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.keys import SHORTEST_ENDING
from clew.core.message import Draft, Role
from clew.core.notes import Todo
from clew.core.search.hits import SearchFilter
from clew.core.session import NewSession, SessionEdit, SessionFilter
from clew.core.turn import LEASE_MS, Lease
from clew.errors import ClewError
from clew.ports import Clock, Store
from clew.testing.clock import FakeClock
from clew.testing.machine.model import Line, Model

KEYS: Final = ("cli:a", "cli:b", "tg:c")
PEOPLE: Final = ("owner", "owner", "tg:7")
WORDS: Final = ("apple", "banana", "cherry", "狐狸", "使う", "ключ")
MOST: Final = 6
"""Sessions of one history."""

keys = st.sampled_from(KEYS)
which = st.integers(0, MOST - 1)
some = st.lists(which, min_size=1, max_size=3)
words = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
roles: st.SearchStrategy[Role] = st.sampled_from(("user", "assistant"))
spoken = st.lists(st.tuples(roles, words), min_size=1, max_size=3)
counts = st.none() | st.integers(0, 6)
seqs = st.none() | st.integers(-1, 9)
viewers = st.sampled_from(("owner", "tg:7", "tg:8"))

T = TypeVar("T")
OpenEmpty = Callable[[Clock], Coroutine[Any, Any, Store]]
Check = Callable[[Store], Coroutine[Any, Any, None]]


class Comparison(RuleBasedStateMachine):
    """The store under test, its model, and what this history has made so far."""

    def __init__(self, open_empty: OpenEmpty, check: Check | None = None) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.model = Model()
        self.check = check
        self.ids: list[str] = []
        self.revisions: dict[str, int] = {}
        self.leases: list[Lease] = []
        self.turns: list[str] = []
        self._runner = asyncio.Runner()
        gone = self.run(self._end_a_process(open_empty))
        self.store = self.run(open_empty(self.clock))
        self.holders = ("a", self.store.identity, f"{self.store.identity}#1", f"{gone}#1")
        # Where a store knows nothing of another store's processes, they count as living.
        if not self.run(self.store.is_living(gone)):
            self.model.dead.add(gone)

    async def _end_a_process(self, open_empty: OpenEmpty) -> str:
        store = await open_empty(self.clock)
        await store.close()
        return store.identity

    def close(self) -> None:
        """End the history."""
        self.run(self.store.close())
        self._runner.close()

    def run(self, answer: Coroutine[Any, Any, T]) -> T:
        """The answer of the store."""
        return self._runner.run(answer)

    def both(self, asked: Coroutine[Any, Any, Any], model: Callable[[], T]) -> tuple[Any, T] | None:
        """Both answers; None if both refuse in the same way."""
        refused: type[ClewError] | None = None
        expected: T | None = None
        try:
            expected = model()
        except ClewError as error:
            refused = type(error)
        try:
            actual = self.run(asked)
        except ClewError as error:
            if type(error) is not refused:
                raise AssertionError(f"The model says {refused or expected!r}.") from error
            return None
        assert refused is None, f"{actual!r}, but the model says {refused!r}"
        return actual, expected  # type: ignore[return-value]  # the model did not refuse

    def pick(self, number: int) -> str:
        """One of the sessions, deleted or not."""
        return self.ids[number % len(self.ids)]

    def release(self, lease: Lease) -> None:
        """Release a lease, held or not."""
        self.run(self.store.release_lease(lease))
        self.model.release(lease.session_id, lease.epoch)

    def compare_all(self, ids: Iterable[str]) -> None:
        """Compare those of the sessions that are still there."""
        for each in ids:
            if each in self.model.lines:
                self.compare(each)

    def compare(self, session_id: str) -> None:
        """Compare a session, its thread and its notes, in full."""
        line = self.model.get(session_id)
        session = self.run(self.store.get_session(session_id))
        visible = line.thread(undone=False)
        assert (session.head, session.message_count) == (line.head, len(visible))
        assert (session.key, session.title, session.pinned) == (line.key, line.title, line.pinned)
        assert session.revision == self.revisions[session_id] + line.edits
        assert (session.preview, session.content_bytes) == (line.preview, line.content_bytes)
        assert session.updated_at == line.updated_at
        assert (session.archived_at is not None) == line.archived
        assert (session.deleted_at is not None) == (line.deleted is not None)
        messages = self.run(self.store.get_messages(session_id))
        assert [(m.seq, m.content) for m in messages] == [(s.seq, s.content) for s in visible]
        scratch = self.run(self.store.list_scratch(session_id))
        assert {e.name: e.size for e in scratch} == {
            name: len(text.encode()) for name, text in line.scratch.items()
        }
        assert self.run(self.store.get_todos(session_id)) == line.todos


class WriteRules(Comparison):
    """Steps that write: turns, messages, leases, forks."""

    @initialize(key=keys, said=spoken)
    def begin(self, key: str, said: list[tuple[Role, str]]) -> None:
        """Begin the history with a session in which something was said."""
        self.open_by_key(key, "owner")
        self.take_turn(0, said)

    @rule(key=keys, person=st.sampled_from(PEOPLE))
    def open_by_key(self, key: str, person: str) -> None:
        known = self.model.route(key)
        if known is None and len(self.ids) == MOST:
            return
        platform = key.partition(":")[0]
        new = NewSession(key=key, platform=platform, person=person)
        session, made = self.run(self.store.open_session(new))
        assert made == (known is None)
        if known is not None:
            assert session.id == known.id
            return
        self._add(Line(session.id, key, platform, person, self.clock()), session.revision, key)

    @precondition(lambda self: len(self.ids) < MOST)
    @rule(key=keys, route=st.just(UNSET) | st.none() | keys)
    def create(self, key: str, route: str | UnsetType | None) -> None:
        new = NewSession(key=key, platform="cli", title="T")
        session = self.run(self.store.create_session(new, route=route))
        line = Line(session.id, key, "cli", "owner", self.clock(), title="T")
        self._add(line, session.revision, key if route is UNSET else route)

    @precondition(lambda self: len(self.ids) < MOST)
    @rule(number=which, at=st.none() | st.integers(0, 40))
    def fork(self, number: int, at: int | None) -> None:
        parent = self.pick(number)
        if at is not None and parent in self.model.lines:
            at %= self.model.lines[parent].head + 2  # one beyond the head, too
        answer = self.both(
            self.store.fork_session(parent, at=at), lambda: self.model.check_knot(parent, at)
        )
        if answer is not None:
            session, _ = answer
            self.model.fork(parent, session.id, at, key=session.key, now=self.clock())
            self.ids.append(session.id)
            self.revisions[session.id] = session.revision
            self.compare(session.id)
            self.compare(parent)

    def _add(self, line: Line, revision: int, route: str | None) -> None:
        self.ids.append(line.id)
        self.revisions[line.id] = revision
        self.model.add(line, route=route)
        self.compare(line.id)

    @rule(
        number=which,
        said=st.tuples(roles, words),
        late=st.booleans(),
        key=st.none() | st.sampled_from("kl"),
    )
    def append(self, number: int, said: tuple[Role, str], late: bool, key: str | None) -> None:
        session, epoch = self.pick(number), self._epoch(number)
        epoch -= late
        answer = self.both(
            self.store.append(
                session, epoch, Draft(role=said[0], content=said[1]), idempotency_key=key
            ),
            lambda: self.model.say(session, epoch, [said], now=self.clock(), key=key),
        )
        if answer is not None:
            assert (answer[0].seq,) == answer[1]
            self.compare(session)

    @rule(number=which, said=spoken)
    def take_turn(self, number: int, said: list[tuple[Role, str]]) -> None:
        session, epoch = self.pick(number), self._epoch(number)
        turn = f"turn {len(self.turns)}"
        answer = self.both(
            self.store.record(
                session,
                epoch,
                StartTurn(turn_id=turn),
                *(AddMessage(Draft(role=role, content=text), turn) for role, text in said),
                EndTurn(turn_id=turn, status="done"),
            ),
            lambda: self.model.say(session, epoch, said, now=self.clock(), turn=turn),
        )
        if answer is not None:
            self.turns.append(turn)
            assert answer[0].seqs == answer[1]
            self.compare(session)

    @precondition(lambda self: self.turns)
    @rule(number=which, turn=st.integers(0, 40), undone=st.booleans(), anywhere=st.booleans())
    def undo_or_redo(self, number: int, turn: int, undone: bool, anywhere: bool) -> None:
        session, epoch = self.pick(number), self._epoch(number)
        turns = self.turns
        if session in self.model.lines and not anywhere:
            thread = self.model.lines[session].thread()
            turns = [said.turn for said in thread if said.turn is not None] or turns
        turn_id = turns[turn % len(turns)]
        change = UndoTurn(turn_id) if undone else RedoTurn(turn_id)
        self.both(
            self.store.record(session, epoch, change),
            lambda: self.model.mark(session, epoch, turn_id, undone=undone),
        )
        self.compare_all(self.model.lines)

    @rule(number=which, name=st.sampled_from("xy"), text=words)
    def note(self, number: int, name: str, text: str) -> None:
        session, epoch = self.pick(number), self._epoch(number)
        todos = tuple(Todo(word) for word in text.split())
        answer = self.both(
            self.store.record(session, epoch, WriteScratch(name, text), WriteTodos(todos)),
            lambda: self.model.check_epoch(session, epoch),
        )
        if answer is not None:
            answer[1].scratch[name] = text
            answer[1].todos = todos
            self.compare(session)

    def _epoch(self, number: int) -> int:
        """The epoch to write with: of the lease that is there, or of one that is taken now."""
        session = self.pick(number)
        lease = self.model.leases.get(session)
        if session in self.model.lines and (lease is None or lease.holder is None):
            self.acquire(number, 0)
            lease = self.model.leases[session]
        return 1 if lease is None else lease.epoch

    @rule(number=which, who=st.integers(0, 3))
    def acquire(self, number: int, who: int) -> None:
        session, holder = self.pick(number), self.holders[who]
        answer = self.both(
            self.store.acquire_lease(session, holder),
            lambda: self.model.acquire(session, holder, now=self.clock()),
        )
        if answer is not None:
            lease, held = answer
            assert (lease.holder, lease.expires_at) == (held.holder, held.expires_at)
            assert lease.epoch >= held.epoch
            held.epoch = lease.epoch
            self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 5), renew=st.booleans())
    def renew_or_release(self, number: int, renew: bool) -> None:
        lease = self.leases[-1 - number % len(self.leases)]
        session, epoch = lease.session_id, lease.epoch
        if not renew:
            self.release(lease)
            return
        answer = self.both(
            self.store.renew_lease(lease),
            lambda: self.model.renew(session, epoch, now=self.clock()),
        )
        if answer is not None:
            assert answer[0].expires_at == answer[1].expires_at

    @rule(milliseconds=st.sampled_from((0, 1, 10_000, LEASE_MS - 1, LEASE_MS, 86_400_000)))
    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        for session in self.model.lines:
            lease = self.run(self.store.find_lease(session))
            assert (lease is not None) == self.model.is_leased(session, self.clock())


class SessionRules(Comparison):
    """Steps on whole sessions: trash, archive, titles and routes."""

    @rule(numbers=some)
    def delete(self, numbers: list[int]) -> None:
        ids = [self.pick(number) for number in numbers]
        assert set(self.run(self.store.delete_sessions(ids))) == self.model.delete(ids)
        self.compare_all(ids)

    @rule(numbers=some)
    def restore(self, numbers: list[int]) -> None:
        ids = [self.pick(number) for number in numbers]
        assert set(self.run(self.store.restore_sessions(ids))) == self.model.restore(ids)
        self.compare_all(ids)

    @rule()
    def restore_last(self) -> None:
        assert set(self.run(self.store.restore_last())) == self.model.restore_last()

    @rule(numbers=some, free=st.booleans())
    def purge(self, numbers: list[int], free: bool) -> None:
        ids = [self.pick(number) for number in numbers]
        if free:
            for lease in self.leases:
                if lease.session_id in ids:
                    self.release(lease)
        answer = self.both(
            self.store.purge_sessions(ids), lambda: self.model.purge(ids, now=self.clock())
        )
        if answer is not None:
            assert set(answer[0]) == answer[1]
            self.compare_all(self.model.lines)

    @rule(age=st.sampled_from((0, 1, 10_000, 86_400_000)), dry_run=st.booleans())
    def prune(self, age: int, dry_run: bool) -> None:
        older_than = self.clock() - age
        expected = self.model.expired(older_than, self.clock())
        pruned = self.run(self.store.prune_old_sessions(older_than, dry_run=dry_run))
        assert set(pruned) == expected
        if not dry_run:
            for each in expected:
                self.model.lines[each].archived = True

    @rule(number=which, name=st.sampled_from(("pinned", "archived")), value=st.booleans())
    def mark(self, number: int, name: str, value: bool) -> None:
        session = self.pick(number)
        edit = SessionEdit(pinned=value) if name == "pinned" else SessionEdit(archived=value)
        self.both(
            self.store.edit_session(session, edit),
            lambda: self.model.edit(session, **{name: value}),
        )
        self.compare_all([session])

    @rule(number=which, title=st.none() | st.sampled_from(("T", "U")))
    def rename(self, number: int, title: str | None) -> None:
        session = self.pick(number)
        self.both(
            self.store.edit_session(session, SessionEdit(title=title)),
            lambda: self.model.edit(session, title=title),
        )
        self.compare_all([session])

    @rule(number=which, key=keys)
    def set_route(self, number: int, key: str) -> None:
        session = self.pick(number)
        answer = self.both(self.store.set_route(key, session), lambda: self.model.get(session))
        if answer is not None:
            self.model.routes[key] = session

    @rule(key=keys)
    def clear_route(self, key: str) -> None:
        self.run(self.store.clear_route(key))
        self.model.routes.pop(key, None)


class ReadRules(Comparison):
    """Steps that read: they change nothing, and agree with the model."""

    @rule(number=which, limit=counts, offset=st.integers(0, 6), before=seqs, after=seqs,
          undone=st.booleans())  # fmt: skip
    def read(
        self,
        *,
        number: int,
        limit: int | None,
        offset: int,
        before: int | None,
        after: int | None,
        undone: bool,
    ) -> None:
        session = self.pick(number)
        answer = self.both(
            self.store.get_messages(
                session, limit, offset=offset, before=before, after=after, undone=undone
            ),
            lambda: self.model.page(session, limit, offset, before, after, undone=undone),
        )
        if answer is not None:
            page = [(m.session_id, m.seq, m.role, m.content, m.turn_id) for m in answer[0]]
            assert page == [(s.session, s.seq, s.role, s.content, s.turn) for s in answer[1]]

    @rule(
        viewer=viewers,
        platform=st.sampled_from((None, "cli", "tg")),
        archived=st.sampled_from((False, True, None)),
        trashed=st.booleans(),
        size=st.integers(1, 4),
    )
    def list_all(
        self, viewer: str, platform: str | None, archived: bool | None, trashed: bool, size: int
    ) -> None:
        where = SessionFilter(viewer=viewer, platform=platform, archived=archived, trashed=trashed)
        expected = self.model.listed(viewer, platform=platform, archived=archived, trashed=trashed)
        found: list[str] = []
        cursor = None
        while True:
            page = self.run(self.store.list_sessions(where, limit=size, cursor=cursor))
            found += [session.id for session in page.sessions]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == expected
        assert self._names(where, size) == expected
        assert self.run(self.store.count_sessions(where)) == len(expected)

    def _names(self, where: SessionFilter, size: int) -> list[str]:
        page = self.run(self.store.list_names(where, limit=size))
        found = list(page.names)
        while page.cursor is not None:
            page = self.run(self.store.list_names(where, limit=size, cursor=page.cursor))
            found += page.names
        return [name.id for name in found]

    @rule(wanted=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), viewer=viewers)
    def search(self, wanted: list[str], viewer: str) -> None:
        where = SearchFilter(viewer=viewer)
        page = self.run(self.store.search(" ".join(wanted), where, limit=1_000))
        expected = self.model.matches(wanted, viewer)
        found = []
        for hit in page.hits:
            said = self.model.get(hit.session_id).thread()[hit.seq - 1]
            # Under the session where it was said, unless that one is gone.
            if any(line.id == said.session for line in self.model.living()):
                assert hit.session_id == said.session
            found.append(said)
        assert len(found) == len(set(found))
        assert set(found) == expected

    @rule(number=which, length=st.integers(3, 32), hyphens=st.booleans())
    def find_ending(self, number: int, length: int, hyphens: bool) -> None:
        session = self.pick(number)
        typed = (session if hyphens else session.replace("-", ""))[-length:]
        digits = typed.replace("-", "")
        found = self.run(self.store.find_endings(typed))
        expected = self.model.ending(digits) if len(digits) >= SHORTEST_ENDING else []
        assert [session.id for session in found] == expected

    @rule(key=keys, limit=st.integers(1, 4))
    def find_key(self, key: str, limit: int) -> None:
        found = self.run(self.store.find_keys(key, limit=limit))
        assert [session.id for session in found] == self.model.keyed(key)[:limit]

    @rule(key=keys)
    def follow(self, key: str) -> None:
        session = self.run(self.store.find_route(key))
        line = self.model.route(key)
        assert (session and session.id) == (line and line.id)
