"""The store as a terminal at a gateway sees it: what its screens read, and little that they change.

Each method is one of the port's, asked of the gateway; the viewer is who the token belongs to,
whatever a filter says. What a terminal never needs is not here, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from clew.api import sessions as sessions_rows
from clew.api.sessions import (
    ListNames,
    ListStates,
    OneSession,
    SearchMessages,
    SessionView,
    UpdateSession,
)
from clew.client.client import Client
from clew.client.remote.line import Line
from clew.core.message import Message
from clew.core.notes import Todo
from clew.core.overview import NamePage, SessionState
from clew.core.search import SearchFilter, SearchPage
from clew.core.session import Session, SessionEdit, SessionFilter, SessionPage
from clew.core.turn import Turn
from clew.errors import InvalidInput, RecordNotFound, SessionNotFound

PAGE: Final = 200
MESSAGES: Final = 1_000
EDITABLE: Final = (
    "title", "pinned", "archived", "personality", "model", "thinking", "send_policy",
)  # fmt: skip


class RemoteStore:
    """As much of `ports.Store` as a terminal uses."""

    identity = "gateway"

    def __init__(self, client: Client, line: Line) -> None:
        self._client = client
        self._line = line
        self._short: dict[str, str] = {}
        self._turns: dict[str, Turn] = {}

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_: object, **__: object) -> None:
            raise InvalidInput(f"A terminal at a gateway can't do this yet ({name}).")

        if name.startswith("_"):
            raise AttributeError(name)
        return refuse

    async def pulse(self) -> int:
        """Changes with what we have heard, which costs nothing to ask."""
        return self._line.happened

    # --- sessions -------------------------------------------------------------------------------

    def keep(self, session: SessionView) -> Session:
        """A session as the terminal knows it, and its short id for later."""
        self._short[session.id] = session.short_id
        return Session(**{name: getattr(session, name) for name in Session.__struct_fields__})

    async def get_session(self, session_id: str) -> Session:
        """See `Sessions`."""
        return self.keep((await self._client.sessions.get(session_id, messages=0)).session)

    async def shorten_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """See `Sessions`. Whoever is shown one has been told how short its id can be."""
        for each in ids:
            if each not in self._short:
                await self.get_session(each)
        return {each: self._short[each] for each in ids}

    async def list_sessions(
        self, where: SessionFilter, *, limit: int = 20, cursor: str | None = None
    ) -> SessionPage:
        """See `Sessions`."""
        page = await self._client.sessions.list(
            limit=min(limit, PAGE),
            cursor=cursor,
            platform=where.platform,
            agent=where.agent,
            cwd=where.cwd,
            project=where.project,
            named=where.text,
            archived=where.archived,
            trashed=where.trashed,
        )
        return SessionPage(tuple(map(self.keep, page.sessions)), page.cursor)

    async def list_names(
        self, where: SessionFilter, *, limit: int = 2000, cursor: str | None = None
    ) -> NamePage:
        """See `Sessions`."""
        params = ListNames(
            limit=limit,
            cursor=cursor,
            platform=where.platform,
            cwd=where.cwd,
            project=where.project,
        )
        return await self._client.do(sessions_rows.NAMES, params)

    async def list_states(self, ids: Sequence[str]) -> dict[str, SessionState]:
        """See `Sessions`."""
        states: dict[str, SessionState] = {}
        for start in range(0, len(ids), PAGE):
            params = ListStates(ids=",".join(ids[start : start + PAGE]))
            states |= (await self._client.do(sessions_rows.STATES, params)).states
        return states

    async def edit_session(
        self, session_id: str, edit: SessionEdit, *, revision: int | None = None
    ) -> Session:
        """See `Sessions`; as far as the API has it."""
        given = {k: v for k, v in msgspec.structs.asdict(edit).items() if v is not UNSET}
        params = UpdateSession(
            id=session_id,
            if_match=revision,
            **{name: value for name, value in given.items() if name in EDITABLE},
        )
        return self.keep(await self._client.do(sessions_rows.UPDATE, params))

    async def delete_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `Trash`."""
        gone = []
        for each in ids:
            try:
                await self._client.sessions.delete(each)
            except SessionNotFound:
                continue
            gone.append(each)
        return tuple(gone)

    async def restore_sessions(self, ids: Sequence[str]) -> tuple[str, ...]:
        """See `Trash`."""
        return tuple([(await self._client.sessions.restore(each)).id for each in ids])

    # --- what is in them ------------------------------------------------------------------------

    async def get_messages(
        self,
        session_id: str,
        limit: int | None = None,
        *,
        before: int | None = None,
        after: int | None = None,
        undone: bool = False,
    ) -> tuple[Message, ...]:
        """See `Messages`; the newest thousand at most."""
        page = await self._client.sessions.messages(
            session_id,
            limit=min(limit or MESSAGES, MESSAGES),
            before=None if before is None else max(0, before),
            after=None if after is None else max(0, after),
            undone=undone,
        )
        self._turns |= {each.id: each for each in page.unfinished}
        return page.messages

    async def get_turn(self, turn_id: str) -> Turn:
        """See `Log`; one that was stopped, and came with the messages around it."""
        if turn_id not in self._turns:
            raise RecordNotFound("turn", turn_id)
        return self._turns[turn_id]

    async def search(
        self,
        query: str,
        where: SearchFilter,
        *,
        limit: int = 20,
        cursor: str | None = None,
        typing: bool = False,
        per_session: bool = False,
    ) -> SearchPage:
        """See `Search`."""
        params = SearchMessages(
            q=query[:1_000],
            limit=limit,
            cursor=cursor,
            platform=where.platform,
            cwd=where.cwd,
            project=where.project,
            session=where.session,
            typing=typing,
            per_session=per_session,
        )
        return await self._client.do(sessions_rows.SEARCH, params)

    async def get_todos(self, session_id: str) -> tuple[Todo, ...]:
        """See `Notes`."""
        return (await self._client.do(sessions_rows.TODOS, OneSession(id=session_id))).todos

    # --- who is at it ---------------------------------------------------------------------------

    async def find_lease(self, session_id: str) -> None:
        """The gateway runs it, and that is as good as here."""

    async def find_attachment(self, session_id: str) -> None:
        """At a gateway, any number of terminals may have a session open."""
