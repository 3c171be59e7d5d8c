"""Reading: pages of messages, lists, searches and routes."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from clew.core.ids import SHORTEST_ENDING
from clew.core.search import SearchFilter
from clew.core.session import SessionFilter
from clew.testing.machine.pair import Pair
from clew.testing.machine.vocabulary import WORDS, counts, keys, seqs, viewers, which


class Reading(Pair):
    """Readings never change anything, and agree with the model."""

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
