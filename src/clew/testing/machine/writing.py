"""Making sessions and saying things in them, under leases that come and go."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
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
from clew.core.message import Draft, Role
from clew.core.notes import Todo
from clew.core.session import NewSession
from clew.core.turn import LEASE_MS
from clew.testing.machine.pair import Pair
from clew.testing.machine.vocabulary import MOST, PEOPLE, keys, roles, spoken, which, words
from clew.testing.model import Line


class Writing(Pair):
    """What runners do."""

    @initialize(key=keys, said=spoken)
    def begin(self, key: str, said: list[tuple[Role, str]]) -> None:
        """A history begins with a session in which something was said."""
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
