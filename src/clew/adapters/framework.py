"""What the stores of all frameworks share: an open store or a URL, and the sessions of a framework.

It knows no framework. Retention leaves such sessions alone, `clew -r` finds them by the framework's
own id and goes on with a fork, and they are read whether they are archived or not.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from clew.core.changes import AddMessage, AddUsage, Change, EndTurn, StartTurn
from clew.core.keys import new_id
from clew.core.message import Draft, Message
from clew.core.notes import ImportNote
from clew.core.session import OWNER, NewSession, Session, SessionFacts, SessionFilter
from clew.errors import InvalidInput, StoreClosed
from clew.ports import Store
from clew.store import open_store

EVERYTHING: Final = 2**53 - 1
"""The head of an import that has no end: all that a framework writes counts as imported."""

PAGE: Final = 200
"""Sessions in one page of a list."""


class FrameworkStore:
    """The sessions of one framework in a store. A URL is opened when it is first needed."""

    def __init__(self, store: Store | str, framework: str, *, person: str = OWNER) -> None:
        self.framework = framework
        self.person = person
        self._url = store if isinstance(store, str) else None
        self._store = None if isinstance(store, str) else store
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def get(self) -> Store:
        """The open store; `StoreClosed` after `close`."""
        if self._is_closed:
            raise StoreClosed("This store is closed.")
        if self._store is not None:
            return self._store
        async with self._opening:
            if self._store is None:
                assert self._url is not None  # noqa: S101  # one of both was given
                self._store = await open_store(self._url)
        return self._store

    async def close(self) -> None:
        """Refuse later calls; closes the store too if it was opened here."""
        self._is_closed = True
        if self._url is not None and self._store is not None:
            store, self._store = self._store, None
            await store.close()

    async def find(self, key: str) -> Session | None:
        """The session that a key leads to; None if there is none outside the trash."""
        return await (await self.get()).find_route(key)

    async def begin(self, key: str, native_id: str, **fields: Any) -> Session:
        """The session that a key leads to, made if there is none. `fields` are of `NewSession`."""
        store = await self.get()
        new = NewSession(
            key=key,
            platform=self.framework,
            kind=fields.pop("kind", "sdk"),
            person=self.person,
            origin={"framework": self.framework, "id": native_id, "key": key},
            **fields,
        )
        session, is_new = await store.open_session(new)
        if is_new:
            await self._note(store, session.id, native_id)
        return session

    async def fork(
        self,
        source: Session,
        key: str,
        native_id: str,
        *,
        at: int | None = None,
        routed: bool = True,
    ) -> Session:
        """A fork of a session, to which another key leads unless it is not `routed` yet."""
        store = await self.get()
        fork = await store.fork_session(source.id, at=at, person=self.person)
        await self._note(store, fork.id, native_id)
        origin = {"id": native_id, "key": key}
        fork = await store.describe_session(fork.id, SessionFacts(origin=origin))
        if routed:
            await store.set_route(key, fork.id)
        return fork

    async def delete(self, sessions: Sequence[Session]) -> None:
        """Put sessions in the trash."""
        if sessions:
            await (await self.get()).delete_sessions([each.id for each in sessions])

    async def list_sessions(
        self, key_prefix: str | None = None, **filters: Any
    ) -> AsyncIterator[Session]:
        """The sessions of the framework outside the trash, archived ones too.

        Forks that a person made of them are no sessions of the framework.
        """
        store = await self.get()
        where = SessionFilter(
            viewer=OWNER,
            platform=self.framework,
            key_prefix=key_prefix,
            archived=None,
            **filters,
        )
        cursor = None
        while True:
            page = await store.list_sessions(where, limit=PAGE, cursor=cursor)
            for session in page.sessions:
                if session.forked_at_seq is not None:
                    led_to = await store.find_route(str(session.origin.get("key")))
                    if led_to is None or led_to.id != session.id:
                        continue
                yield session
            cursor = page.cursor
            if cursor is None:
                return

    async def _note(self, store: Store, session_id: str, native_id: str) -> None:
        note = ImportNote(
            session_id=session_id,
            agent=self.framework,
            native_id=native_id,
            stamp="",
            head=EVERYTHING,
        )
        await store.note_import(note)


def turn_of(*messages: Draft | AddMessage, turn_id: str | None = None) -> list[Change]:
    """The changes of a whole turn that consists of these messages, with what they have spent."""
    turn = turn_id or new_id()
    changes: list[Change] = []
    model = None
    for each in messages:
        draft, once = (each, False) if isinstance(each, Draft) else (each.draft, each.once)
        changes.append(AddMessage(draft, turn, once=once))
        model = model or draft.model
        if draft.usage is not None:
            changes.append(AddUsage(usage=draft.usage, turn_id=turn))
    end = EndTurn(turn_id=turn, status="done")
    return [StartTurn(turn_id=turn, model=model), *changes, end]


def part_of(message: Message, kind: str) -> dict[str, Any] | None:
    """What an adapter keeps beside a message: the part of this kind."""
    return next((part for part in message.parts if part.get("type") == kind), None)


def pack(data: bytes) -> str:
    """Bytes as text, for a part."""
    return base64.b64encode(data).decode()


def unpack(text: str) -> bytes:
    """The bytes of a text that `pack` made."""
    return base64.b64decode(text)


def check_id(what: str, value: str) -> str:
    """An id that a framework gives; it can't be empty."""
    if not value:
        raise InvalidInput(f"A {what} needs an id.")
    return value
