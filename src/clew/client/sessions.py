"""`Client.sessions`: one method for each operation about sessions.

Methods that give pages have a twin with `iter_` in front, which walks through all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final, Literal

from msgspec import UNSET, UnsetType

from clew.api import sessions
from clew.api.sessions import (
    Changed,
    CompactSession,
    Exported,
    ExportSession,
    FindSessions,
    ForkSession,
    FoundMessages,
    GetMessages,
    GetSession,
    Imported,
    ImportSession,
    Linked,
    LinkKey,
    ListedSession,
    ListNames,
    ListSessions,
    ListStates,
    MarkSessions,
    MessagePage,
    OneSession,
    PreviewSession,
    Pruned,
    PruneSessions,
    ResolveSession,
    SearchMessages,
    SessionDetail,
    SessionList,
    SessionPreview,
    SessionView,
    StateView,
    Stopped,
    StopSession,
    UpdateSession,
)
from clew.client.noun import Noun
from clew.core.keys import Purpose
from clew.core.message import Message, Role
from clew.core.models import Thinking
from clew.core.notes import Compacted, Todo
from clew.core.search.hits import SearchHit
from clew.core.session import NamePage, RetentionAction, SendPolicy, SessionName

SESSION_PAGE: Final = 200
NAME_PAGE: Final = 5_000
MESSAGE_PAGE: Final = 500
"""How many rows an iterator asks for at once."""


class Sessions(Noun):
    """Sessions: list, read, change and delete them."""

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
        count_archived: bool = False,
    ) -> SessionList:
        """A page of sessions, newest first; with `q` those in which it was said, best first.

        `count_archived` also counts those that the list leaves out because they are archived.
        """
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
            count_archived=count_archived,
        )
        return await self._do(sessions.LIST, params)

    async def iter_list(
        self,
        *,
        q: str | None = None,
        platform: str | None = None,
        agent: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
        named: str | None = None,
        active: int | None = None,
        archived: bool | None = None,
        trashed: bool = False,
    ) -> AsyncIterator[ListedSession]:
        """Every session of `list`, page by page."""
        cursor: str | None = None
        while True:
            page = await self.list(
                q=q,
                limit=SESSION_PAGE,
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
            for each in page.sessions:
                yield each
            if (cursor := page.cursor) is None:
                return

    async def names(
        self,
        ids: Iterable[str] | None = None,
        *,
        limit: int = 500,
        cursor: str | None = None,
        platform: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
    ) -> NamePage:
        """A page of names, in the order of `list`: what it takes to find one of very many.

        With `ids`, the names of at most 200 sessions, in that order; nothing else goes with it.
        """
        listed = None if ids is None else ",".join(ids)
        if listed == "":
            return NamePage(())
        params = ListNames(
            ids=listed, limit=limit, cursor=cursor, platform=platform, cwd=cwd, project=project
        )
        return await self._do(sessions.NAMES, params)

    async def iter_names(
        self,
        *,
        platform: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
    ) -> AsyncIterator[SessionName]:
        """Every name of `names`, page by page."""
        cursor: str | None = None
        while True:
            page = await self.names(
                limit=NAME_PAGE, cursor=cursor, platform=platform, cwd=cwd, project=project
            )
            for each in page.names:
                yield each
            if (cursor := page.cursor) is None:
                return

    async def search(
        self,
        q: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        platform: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
        session: str | None = None,
        role: Role | None = None,
        since: int | None = None,
        until: int | None = None,
        typing: bool = False,
        per_session: bool = False,
    ) -> FoundMessages:
        """A page of the messages in which it was said, best first; `typing` as in a search box.

        `since` and `until` are times in milliseconds UTC, both inclusive.
        """
        params = SearchMessages(
            q=q,
            limit=limit,
            cursor=cursor,
            platform=platform,
            cwd=cwd,
            project=project,
            session=session,
            role=role,
            since=since,
            until=until,
            typing=typing,
            per_session=per_session,
        )
        return await self._do(sessions.SEARCH, params)

    async def iter_search(
        self,
        q: str,
        *,
        platform: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
        session: str | None = None,
        role: Role | None = None,
        since: int | None = None,
        until: int | None = None,
        typing: bool = False,
        per_session: bool = False,
    ) -> AsyncIterator[SearchHit]:
        """Every hit of `search`, page by page."""
        cursor: str | None = None
        while True:
            page = await self.search(
                q,
                limit=SESSION_PAGE,
                cursor=cursor,
                platform=platform,
                cwd=cwd,
                project=project,
                session=session,
                role=role,
                since=since,
                until=until,
                typing=typing,
                per_session=per_session,
            )
            for each in page.hits:
                yield each
            if (cursor := page.cursor) is None:
                return

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

    async def iter_messages(
        self, session: str, *, after: int = 0, undone: bool = False
    ) -> AsyncIterator[Message]:
        """Every message after a number, in order, and those that are added meanwhile."""
        head = after + 1
        while after < head:
            before = after + MESSAGE_PAGE + 1
            page = await self.messages(
                session, limit=MESSAGE_PAGE, after=after, before=before, undone=undone
            )
            for each in page.messages:
                yield each
            after, head = before - 1, page.head

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
        """Put a session in the trash."""
        return await self._do(sessions.DELETE, OneSession(id=session))

    async def restore(self, session: str) -> SessionView:
        """Bring a session back from the trash."""
        return await self._do(sessions.RESTORE, OneSession(id=session))

    async def mark(
        self,
        ids: Iterable[str],
        *,
        pinned: bool | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
    ) -> Changed:
        """Pin or archive several sessions, or take that back."""
        params = MarkSessions(ids=tuple(ids), pinned=pinned, archived=archived)
        return await self._do(sessions.MARK, params)

    async def prune(
        self,
        *,
        older_than: int | None = None,
        action: RetentionAction | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Put sessions away that were not used for so many milliseconds, or by the policy."""
        params = PruneSessions(older_than=older_than, action=action, dry_run=dry_run)
        return await self._do(sessions.PRUNE, params)

    async def link(self, key: str, session: str | None) -> Linked:
        """Let a key lead to a session from now on; with None it leads nowhere."""
        return await self._do(sessions.LINK, LinkKey(key=key, session=session))

    async def import_transcript(
        self, content: bytes, *, as_new: bool = False, dry_run: bool = False
    ) -> Imported:
        """Make a session of a transcript; one that is there already is never added to."""
        params = ImportSession(content=content, as_new=as_new, dry_run=dry_run)
        return await self._do(sessions.IMPORT, params)

    async def fork(self, session: str, *, at: int | None = None) -> SessionView:
        """Fork a session: a new one that shares its messages up to and with `at`."""
        return await self._do(sessions.FORK, ForkSession(id=session, at=at))

    async def compact(self, session: str, *, instructions: str | None = None) -> Compacted:
        """Put a summary in the place of the older messages, for the model."""
        params = CompactSession(id=session, instructions=instructions)
        return await self._do(sessions.COMPACT, params)

    async def stop(
        self,
        session: str,
        *,
        queue: bool = True,
        only: tuple[str, ...] | None = None,
        message: str | None = None,
        anywhere: bool = True,
    ) -> Stopped:
        """Abort the turn that runs, and take back what waits; without `queue` that comes next.

        See `StopSession` for the rest.
        """
        params = StopSession(id=session, queue=queue, only=only, message=message, anywhere=anywhere)
        return await self._do(sessions.STOP, params)

    async def export(
        self,
        session: str,
        *,
        format: Literal["md", "html", "jsonl"] = "md",  # noqa: A002  # as the parameter is called
        masked: bool | None = None,
        thinking: bool = False,
    ) -> Exported:
        """The session as a file; `thinking`, with what the model thought."""
        params = ExportSession(id=session, format=format, masked=masked, thinking=thinking)
        return await self._do(sessions.EXPORT, params)

    async def resolve(
        self, value: str, *, purpose: Purpose = "resume", trashed: bool = False
    ) -> SessionView:
        """The session that a person means by what they typed; `trashed`, one in the trash.

        `purpose` says how far to guess: a session to `change` is never found by a part of its
        title. `AmbiguousId` has the candidates.
        """
        params = ResolveSession(value=value, purpose=purpose, trashed=trashed)
        return await self._do(sessions.RESOLVE, params)

    async def preview(
        self, session: str, *, limit: int = 10, characters: int = 200
    ) -> SessionPreview:
        """The last messages of a session, a line each."""
        params = PreviewSession(id=session, limit=limit, characters=characters)
        return await self._do(sessions.PREVIEW, params)

    async def states(self, ids: Iterable[str]) -> dict[str, StateView]:
        """What goes on in at most 200 sessions, by id; those that are not there are left out."""
        listed = ",".join(ids)
        return (await self._do(sessions.STATES, ListStates(ids=listed))).states if listed else {}

    async def todos(self, session: str) -> tuple[Todo, ...]:
        """The session's todo list."""
        return (await self._do(sessions.TODOS, OneSession(id=session))).todos

    async def find(
        self,
        value: str,
        *,
        cwd: str | None = None,
        project: str | None = None,
        scope: Literal["cwd", "git"] = "cwd",
        purpose: Purpose = "resume",
    ) -> tuple[SessionView, ...]:
        """All sessions that a person may mean, newest first; those of a directory before others."""
        params = FindSessions(value=value, purpose=purpose, cwd=cwd, project=project, scope=scope)
        return (await self._do(sessions.FIND, params)).sessions
