"""What people do to whole sessions: put them away, bring them back, name and pin and route them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from clew.core.session import SessionEdit
from clew.testing.machine.pair import Pair
from clew.testing.machine.vocabulary import keys, some, which


class Keeping(Pair):
    """Trash, archive, titles and routes."""

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
