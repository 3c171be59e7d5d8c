"""`Client.sessions`: one method for each operation about sessions."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from clew.api import sessions
from clew.api.sessions import (
    CompactSession,
    Exported,
    ExportSession,
    ForkSession,
    GetMessages,
    GetSession,
    ListSessions,
    MessagePage,
    OneSession,
    PreviewSession,
    ResolveSession,
    SessionDetail,
    SessionList,
    SessionPreview,
    SessionView,
    Stopped,
    StopSession,
    UpdateSession,
)
from clew.client.noun import Noun
from clew.core.compaction import Compacted
from clew.core.models import Thinking
from clew.core.session import SendPolicy


class Sessions(Noun):
    """Sessions: reading, changing, putting away."""

    async def list(
        self,
        *,
        q: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
        platform: str | None = None,
        agent: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
        named: str | None = None,
        active: int | None = None,
        archived: bool | None = None,
        trashed: bool = False,
    ) -> SessionList:
        """A page of sessions, newest first; with `q` those in which it was said, best first."""
        params = ListSessions(
            q=q,
            limit=limit,
            cursor=cursor,
            platform=platform,
            agent=agent,
            cwd=cwd,
            project=project,
            named=named,
            active=active,
            archived=archived,
            trashed=trashed,
        )
        return await self._do(sessions.LIST, params)

    async def get(
        self, session: str, *, messages: int = 200, render: Literal["html"] | None = None
    ) -> SessionDetail:
        """A session and its newest messages; with `render`, with safe HTML."""
        params = GetSession(id=session, messages=messages, render=render)
        return await self._do(sessions.GET, params)

    async def messages(
        self,
        session: str,
        *,
        limit: int = 50,
        before: int | None = None,
        after: int | None = None,
        undone: bool = False,
        render: Literal["html"] | None = None,
    ) -> MessagePage:
        """The newest messages between two numbers, in order; with `render`, with safe HTML."""
        params = GetMessages(
            id=session, limit=limit, before=before, after=after, undone=undone, render=render
        )
        return await self._do(sessions.MESSAGES, params)

    async def update(
        self,
        session: str,
        *,
        title: str | UnsetType | None = UNSET,
        pinned: bool | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
        personality: str | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        thinking: Thinking | UnsetType | None = UNSET,
        send_policy: SendPolicy | UnsetType | None = UNSET,
        if_match: int | None = None,
    ) -> SessionView:
        """Change a session: what is left out stays, None clears.

        With `if_match`, `StaleRevision` unless that is still its revision.
        """
        params = UpdateSession(
            id=session,
            title=title,
            pinned=pinned,
            archived=archived,
            personality=personality,
            model=model,
            thinking=thinking,
            send_policy=send_policy,
            if_match=if_match,
        )
        return await self._do(sessions.UPDATE, params)

    async def delete(self, session: str) -> SessionView:
        """Put it in the trash."""
        return await self._do(sessions.DELETE, OneSession(id=session))

    async def restore(self, session: str) -> SessionView:
        """Bring it back from the trash."""
        return await self._do(sessions.RESTORE, OneSession(id=session))

    async def fork(self, session: str, *, at: int | None = None) -> SessionView:
        """A new session that shares its beginning, up to and with message `at`."""
        return await self._do(sessions.FORK, ForkSession(id=session, at=at))

    async def compact(self, session: str, *, instructions: str | None = None) -> Compacted:
        """A summary in the place of the older messages, for the model."""
        params = CompactSession(id=session, instructions=instructions)
        return await self._do(sessions.COMPACT, params)

    async def stop(self, session: str, *, queue: bool = True) -> Stopped:
        """Abort the turn that runs, and take back what waits; without `queue` that comes next."""
        return await self._do(sessions.STOP, StopSession(id=session, queue=queue))

    async def export(
        self,
        session: str,
        *,
        format: Literal["md", "html", "jsonl"] = "md",  # noqa: A002  # as the parameter is called
        masked: bool | None = None,
    ) -> Exported:
        """The session as a file."""
        params = ExportSession(id=session, format=format, masked=masked)
        return await self._do(sessions.EXPORT, params)

    async def resolve(self, value: str) -> SessionView:
        """The session that a person means by a part of an id, a title, or a key."""
        return await self._do(sessions.RESOLVE, ResolveSession(value=value))

    async def preview(
        self, session: str, *, limit: int = 10, characters: int = 200
    ) -> SessionPreview:
        """Its last messages, a line each."""
        params = PreviewSession(id=session, limit=limit, characters=characters)
        return await self._do(sessions.PREVIEW, params)
