"""A store, its model, and how they are compared. What is done to them is in the modules beside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from clew.core.turn import Lease
from clew.errors import ClewError
from clew.ports import Clock, Store
from clew.testing.clock import FakeClock
from clew.testing.model import Model

T = TypeVar("T")
OpenEmpty = Callable[[Clock], Coroutine[Any, Any, Store]]
Check = Callable[[Store], Coroutine[Any, Any, None]]


class Pair(RuleBasedStateMachine):
    """The store that is tested, the model of it, and what this history has made so far."""

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
        # A store may know nothing of another one's processes: then that one lives, for all rules.
        if not self.run(self.store.is_living(gone)):
            self.model.dead.add(gone)

    async def _end_a_process(self, open_empty: OpenEmpty) -> str:
        store = await open_empty(self.clock)
        await store.close()
        return store.identity

    def close(self) -> None:
        """The end of a history."""
        self.run(self.store.close())
        self._runner.close()

    def run(self, answer: Coroutine[Any, Any, T]) -> T:
        """What the store answers."""
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
        """One of the sessions, living or not."""
        return self.ids[number % len(self.ids)]

    def release(self, lease: Lease) -> None:
        """Give a lease back, held or not."""
        self.run(self.store.release_lease(lease))
        self.model.release(lease.session_id, lease.epoch)

    def compare_all(self, ids: Iterable[str]) -> None:
        """Those of the sessions that are still there."""
        for each in ids:
            if each in self.model.lines:
                self.compare(each)

    def compare(self, session_id: str) -> None:
        """A session, its thread and its notes, in full."""
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
