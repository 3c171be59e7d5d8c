"""`Client.sessions`: one method for each operation about sessions."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from clew.client.doing import Do
from clew.core.compaction import Compacted
from clew.core.models import Thinking
from clew.core.params import (
    CompactSession,
    ExportSession,
    ForkSession,
    GetMessages,
    GetSession,
    ListSessions,
    OneSession,
    PreviewSession,
    ResolveSession,
    StopSession,
    UpdateSession,
)
from clew.core.session import SendPolicy
from clew.core.views import (
    Exported,
    MessagePage,
    SessionDetail,
    SessionList,
    SessionPreview,
    SessionView,
    Stopped,
)


class Sessions:
    """Sessions: reading, changing, putting away."""

    def __init__(self, do: Do) -> None:
        self._do = do

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
        return await self._do("sessions.list", params, SessionList)

    async def get(
        self, session: str, *, messages: int = 200, render: Literal["html"] | None = None
    ) -> SessionDetail:
        """A session and its newest messages; with `render`, with safe HTML."""
        params = GetSession(id=session, messages=messages, render=render)
        return await self._do("sessions.get", params, SessionDetail)

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
        return await self._do("sessions.messages", params, MessagePage)

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
        return await self._do("sessions.update", params, SessionView)

    async def delete(self, session: str) -> SessionView:
        """Put it in the trash."""
        return await self._do("sessions.delete", OneSession(id=session), SessionView)

    async def restore(self, session: str) -> SessionView:
        """Bring it back from the trash."""
        return await self._do("sessions.restore", OneSession(id=session), SessionView)

    async def fork(self, session: str, *, at: int | None = None) -> SessionView:
        """A new session that shares its beginning, up to and with message `at`."""
        return await self._do("sessions.fork", ForkSession(id=session, at=at), SessionView)

    async def compact(self, session: str, *, instructions: str | None = None) -> Compacted:
        """A summary in the place of the older messages, for the model."""
        params = CompactSession(id=session, instructions=instructions)
        return await self._do("sessions.compact", params, Compacted)

    async def stop(self, session: str, *, queue: bool = True) -> Stopped:
        """Abort the turn that runs, and take back what waits; without `queue` that comes next."""
        return await self._do("sessions.stop", StopSession(id=session, queue=queue), Stopped)

    async def export(
        self,
        session: str,
        *,
        format: Literal["md", "html", "jsonl"] = "md",  # noqa: A002  # as the parameter is called
        masked: bool | None = None,
    ) -> Exported:
        """The session as a file."""
        params = ExportSession(id=session, format=format, masked=masked)
        return await self._do("sessions.export", params, Exported)

    async def resolve(self, value: str) -> SessionView:
        """The session that a person means by a part of an id, a title, or a key."""
        return await self._do("sessions.resolve", ResolveSession(value=value), SessionView)

    async def preview(
        self, session: str, *, limit: int = 10, characters: int = 200
    ) -> SessionPreview:
        """Its last messages, a line each."""
        params = PreviewSession(id=session, limit=limit, characters=characters)
        return await self._do("sessions.preview", params, SessionPreview)
