"""`Client.sessions`: one method for each operation about sessions.

Each method that returns a page has a second one with `iter_` in front, which reads all pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final, Literal, TypedDict, Unpack

from msgspec import UNSET, UnsetType

from clew.api import sessions
from clew.api.operation import NoParams
from clew.api.sessions import (
    Changed,
    CompactSession,
    Exported,
    ExportFormat,
    ExportSession,
    FindSessions,
    ForkSession,
    FoundMessages,
    GetLineage,
    GetMessages,
    GetSession,
    Imported,
    ImportSession,
    Lineage,
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
    UndoMarks,
    UpdateSession,
)
from clew.client.noun import Noun, iterate
from clew.core.keys import Purpose
from clew.core.message import Message, Role
from clew.core.models import Thinking
from clew.core.notes import Compacted, Todo
from clew.core.rules import HeldRule
from clew.core.search.hits import SearchHit
from clew.core.session import (
    Kind,
    ListedState,
    NamePage,
    RetentionAction,
    SendPolicy,
    SessionChange,
    SessionFacets,
    SessionName,
)

SESSION_PAGE: Final = 200
NAME_PAGE: Final = 5_000
MESSAGE_PAGE: Final = 500
"""How many rows an iterator asks for at once."""


class SessionFilters(TypedDict, total=False):
    """Which sessions `list` gives; the fields are explained in `ListSessions`."""

    q: str | None
    platform: str | None
    agent: str | None
    kind: Kind | None
    person: str | None
    cwd: str | None
    project: str | None
    named: str | None
    state: ListedState | None
    active: int | None
    since: int | None
    until: int | None
    pinned: bool | None
    archived: bool | None
    trashed: bool


class MessageFilters(TypedDict, total=False):
    """Which messages `search` gives; `typing` reads the query as in a search box.

    `since` and `until` are times in milliseconds UTC, both inclusive.
    """

    platform: str | None
    cwd: str | None
    project: str | None
    session: str | None
    role: Role | None
    since: int | None
    until: int | None
    typing: bool
    per_session: bool


class Sessions(Noun):
    """Sessions: list, read, change and delete them."""

    async def list(
        self,
        *,
        limit: int = 20,
        cursor: str | None = None,
        count: bool = False,
        count_archived: bool = False,
        **filters: Unpack[SessionFilters],
    ) -> SessionList:
        """A page of sessions, newest first; with `q` those in which it was said, best first.

        `count` also counts the whole list, `count_archived` those that it leaves out because they
        are archived.
        """
        params = ListSessions(
            limit=limit, cursor=cursor, count=count, count_archived=count_archived, **filters
        )
        return await self._do(sessions.LIST, params)

    def iter_list(self, **filters: Unpack[SessionFilters]) -> AsyncIterator[ListedSession]:
        """Every session of `list`, page by page."""
        return iterate(
            lambda cursor: self.list(limit=SESSION_PAGE, cursor=cursor, **filters),
            lambda page: page.sessions,
        )

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
        """A page of names, in the order of `list`: enough to search very many sessions quickly.

        With `ids`, the names of at most 200 sessions, in that order; nothing else goes with it.
        """
        listed = None if ids is None else ",".join(ids)
        if listed == "":
            return NamePage(())
        params = ListNames(
            ids=listed, limit=limit, cursor=cursor, platform=platform, cwd=cwd, project=project
        )
        return await self._do(sessions.NAMES, params)

    def iter_names(
        self,
        *,
        platform: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
    ) -> AsyncIterator[SessionName]:
        """Every name of `names`, page by page."""
        return iterate(
            lambda cursor: self.names(
                limit=NAME_PAGE, cursor=cursor, platform=platform, cwd=cwd, project=project
            ),
            lambda page: page.names,
        )

    async def facets(self) -> SessionFacets:
        """The values by which sessions can be filtered."""
        return await self._do(sessions.FACETS, NoParams())

    async def search(
        self,
        q: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        **filters: Unpack[MessageFilters],
    ) -> FoundMessages:
        """A page of the messages in which it was said, best first."""
        params = SearchMessages(q=q, limit=limit, cursor=cursor, **filters)
        return await self._do(sessions.SEARCH, params)

    def iter_search(self, q: str, **filters: Unpack[MessageFilters]) -> AsyncIterator[SearchHit]:
        """Every hit of `search`, page by page."""
        return iterate(
            lambda cursor: self.search(q, limit=SESSION_PAGE, cursor=cursor, **filters),
            lambda page: page.hits,
        )

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
        around: int | None = None,
        undone: bool = False,
        render: Literal["html"] | None = None,
    ) -> MessagePage:
        """The newest messages between two numbers, in order; with `render`, with safe HTML.

        With `around`, those before and behind a number.
        """
        params = GetMessages(
            id=session,
            limit=limit,
            before=before,
            after=after,
            around=around,
            undone=undone,
            render=render,
        )
        return await self._do(sessions.MESSAGES, params)

    async def iter_messages(
        self, session: str, *, after: int = 0, undone: bool = False
    ) -> AsyncIterator[Message]:
        """Every message after a number, in order, also those added while it reads."""
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
        title: str | UnsetType | None = UNSET,
        pinned: bool | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
        trashed: bool | UnsetType = UNSET,
    ) -> Changed:
        """Rename, pin, archive, delete or restore several sessions, or take that back."""
        params = MarkSessions(
            ids=tuple(ids), title=title, pinned=pinned, archived=archived, trashed=trashed
        )
        return await self._do(sessions.MARK, params)

    async def undo(self, changes: Iterable[SessionChange]) -> Changed:
        """Undo the changes of a `mark`, or some of them; what was changed since stays."""
        return await self._do(sessions.UNDO, UndoMarks(changes=tuple(changes)))

    async def prune(
        self,
        *,
        older_than: int | None = None,
        action: RetentionAction | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Put away sessions not used for `older_than` milliseconds, or as the policy says."""
        params = PruneSessions(older_than=older_than, action=action, dry_run=dry_run)
        return await self._do(sessions.PRUNE, params)

    async def link(self, key: str, session: str | None) -> Linked:
        """Make a key lead to a session; with None, to no session."""
        return await self._do(sessions.LINK, LinkKey(key=key, session=session))

    async def import_transcript(
        self,
        content: bytes,
        *,
        as_new: bool = False,
        dry_run: bool = False,
        cwd: str | None = None,
    ) -> Imported:
        """Make a new session from a transcript; nothing is ever added to an existing session.

        `cwd` is the session's directory, where the store is. The file decides only what was said.
        """
        params = ImportSession(content=content, as_new=as_new, dry_run=dry_run, cwd=cwd)
        return await self._do(sessions.IMPORT, params)

    async def fork(self, session: str, *, at: int | None = None) -> SessionView:
        """Fork a session: a new one that shares its messages up to and including `at`."""
        return await self._do(sessions.FORK, ForkSession(id=session, at=at))

    async def compact(self, session: str, *, instructions: str | None = None) -> Compacted:
        """Replace the older messages by a summary, for the model only."""
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
        """Abort the running turn and take back waiting messages; without `queue` those run next.

        See `StopSession` for the rest.
        """
        params = StopSession(id=session, queue=queue, only=only, message=message, anywhere=anywhere)
        return await self._do(sessions.STOP, params)

    async def export(
        self,
        session: str,
        *,
        format: ExportFormat = "md",  # noqa: A002  # as the parameter is called
        masked: bool | None = None,
        thinking: bool = False,
    ) -> Exported:
        """The session as a file; with `thinking`, also what the model thought."""
        params = ExportSession(id=session, format=format, masked=masked, thinking=thinking)
        return await self._do(sessions.EXPORT, params)

    async def resolve(
        self, value: str, *, purpose: Purpose = "resume", trashed: bool = False
    ) -> SessionView:
        """The session that a person means by what they typed; with `trashed`, one in the trash.

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
        """The state of at most 200 sessions, by id; sessions that do not exist are left out."""
        listed = ",".join(ids)
        return (await self._do(sessions.STATES, ListStates(ids=listed))).states if listed else {}

    async def todos(self, session: str) -> tuple[Todo, ...]:
        """The session's todo list."""
        return (await self._do(sessions.TODOS, OneSession(id=session))).todos

    async def lineage(self, session: str, *, render: Literal["html"] | None = None) -> Lineage:
        """The sessions that a session comes from and leads to, and its compactions."""
        return await self._do(sessions.LINEAGE, GetLineage(id=session, render=render))

    async def rules(self, session: str) -> tuple[HeldRule, ...]:
        """The rules about tools that hold in the session, with where they come from."""
        return (await self._do(sessions.RULES, OneSession(id=session))).rules

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
