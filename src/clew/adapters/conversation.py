"""One conversation under a key: the short way to keep messages, for people with their own agent.

It knows no model and no tools, and runs no turns. Each message is a turn of its own, so that the
newest can be taken back. Every write is one commit, whichever process makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.adapters.framework import FrameworkStore, turn_of
from clew.core.changes import Change, EraseTurn
from clew.core.keys import new_id
from clew.core.message import Draft, Message, Role, number
from clew.core.search.hits import SearchFilter, SearchHit
from clew.core.session import OWNER, NewSession, Session
from clew.errors import InvalidInput
from clew.ports import Store


class Conversation:
    """The conversation that a key leads to. Its session is made with the first message.

    `framework` names the program whose store this is: retention leaves such a session alone, and
    `clew -r` finds it by `native_id`.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        *,
        framework: str | None = None,
        native_id: str | None = None,
        person: str = OWNER,
    ) -> None:
        if not key:
            raise InvalidInput("A conversation needs a key.")
        self.key = key
        self._store = store
        self._framework = (
            None if framework is None else FrameworkStore(store, framework, person=person)
        )
        self._native_id = native_id or key
        self._person = person

    async def add(self, role: Role, content: str = "", **fields: Any) -> Message:
        """Add one message; `fields` are those of a `Draft`."""
        (message,) = await self.add_all([Draft(role=role, content=content, **fields)])
        return message

    async def add_all(self, drafts: Sequence[Draft]) -> tuple[Message, ...]:
        """Add messages: all of them, or none if one is refused."""
        if not drafts:
            return ()
        turns = [new_id() for _ in drafts]
        changes: list[Change] = []
        for draft, turn_id in zip(drafts, turns, strict=True):
            changes += turn_of(draft, turn_id=turn_id)
        session = await self._open()
        recorded = await self._store.record(session.id, None, *changes)
        places = zip(drafts, turns, recorded.ids, recorded.seqs, strict=True)
        return tuple(
            [
                number(
                    draft, row_id=row, session_id=session.id, seq=seq, turn_id=turn, at=recorded.at
                )
                for draft, turn, row, seq in places
            ]
        )

    async def get(self, limit: int | None = None) -> tuple[Message, ...]:
        """The newest `limit` messages (all if None), oldest first."""
        session = await self._store.find_route(self.key)
        return () if session is None else await self._store.get_messages(session.id, limit)

    async def pop(self) -> Message | None:
        """Take the newest message back, for good; None if there is none.

        A message that a fork shares is gone here only.
        """
        while (session := await self._store.find_route(self.key)) is not None:
            newest = await self._store.get_messages(session.id, 1)
            if not newest:
                return None
            (message,) = newest
            if message.turn_id is None:
                raise InvalidInput(
                    "The newest message belongs to no turn, and can't be taken back."
                )
            # Of two that take back at the same time, each gets a message of its own.
            erased = await self._store.record(
                session.id,
                None,
                EraseTurn(message.turn_id),
                idempotency_key=f"erase {message.turn_id}",
            )
            if not erased.repeated:
                return message
        return None

    async def clear(self) -> None:
        """Put the session in the trash: the next message begins another under the same key."""
        session = await self._store.find_route(self.key)
        if session is not None:
            await self._store.delete_sessions([session.id])

    async def search(self, query: str, *, limit: int = 20) -> tuple[SearchHit, ...]:
        """Messages of this conversation that match, best first."""
        session = await self._store.find_route(self.key)
        if session is None:
            return ()
        where = SearchFilter(viewer=self._person, session=session.id)
        return (await self._store.search(query, where, limit=limit)).hits

    async def fork(self, key: str) -> Conversation:
        """A conversation under another key that begins with what was said here so far."""
        if not key or key == self.key:
            raise InvalidInput("A fork needs a key of its own.")
        session = await self._open()
        if self._framework is not None:
            await self._framework.fork(session, key, key)
            return Conversation(
                self._store, key, framework=self._framework.framework, person=self._person
            )
        made = await self._store.fork_session(session.id, person=self._person)
        await self._store.set_route(key, made.id)
        return Conversation(self._store, key, person=self._person)

    async def _open(self) -> Session:
        if self._framework is not None:
            return await self._framework.begin(self.key, self._native_id)
        new = NewSession(key=self.key, platform="sdk", kind="sdk", person=self._person)
        session, _ = await self._store.open_session(new)
        return session
