"""Handlers of the operations about sessions.

Listing and reading need the store only. Handlers that need the runtime import it when they are
called, so that `clew list` starts fast.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from time import monotonic
from typing import Final, Literal

import msgspec
from msgspec import UNSET

from clew.api.handlers.parts import (
    CHOOSE,
    Caller,
    Parts,
    describe_state,
    find_each,
    get_visible,
    handles,
    list_session,
    view,
    view_all,
    view_with_state,
)
from clew.api.operation import NoParams
from clew.api.problems import problem_of
from clew.api.sessions import (
    COMPACT,
    DELETE,
    EXPORT,
    FACETS,
    FIND,
    FORK,
    GET,
    IMPORT,
    LINEAGE,
    LINK,
    LIST,
    MARK,
    MESSAGES,
    NAMES,
    PREVIEW,
    PRUNE,
    RESOLVE,
    RESTORE,
    RULES,
    SEARCH,
    STATES,
    STOP,
    TODOS,
    UNDO,
    UPDATE,
    Changed,
    CompactionView,
    CompactSession,
    Exported,
    ExportSession,
    Failed,
    FindSessions,
    ForkSession,
    Found,
    FoundMessages,
    GetLineage,
    GetMessages,
    GetSession,
    Hit,
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
    MessageHtml,
    MessagePage,
    OneSession,
    PreviewLine,
    PreviewSession,
    Pruned,
    PruneSessions,
    Relative,
    ResolveSession,
    RuleList,
    SearchMessages,
    SessionDetail,
    SessionList,
    SessionPreview,
    SessionView,
    StateList,
    Stopped,
    StopSession,
    TodoList,
    UndoMarks,
    UpdateSession,
)
from clew.api.transport import PAGE, give_way
from clew.core.keys import Identity, Place, check_key, complete_key
from clew.core.message import Draft, Message, number
from clew.core.notes import Compacted, Compaction
from clew.core.rules import list_held
from clew.core.search.hits import SearchFilter, SearchHit
from clew.core.session import (
    NamePage,
    Session,
    SessionChange,
    SessionEdit,
    SessionFacets,
    SessionFilter,
    SessionName,
    SessionState,
    is_in_state,
    may_see,
    name_of,
)
from clew.core.text import cut, strip_controls
from clew.errors import Conflict, InvalidInput, SessionNotFound

MEDIA_TYPES: Final = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "jsonl": "application/jsonl",
    "claude-code": "application/jsonl",
    "codex": "application/jsonl",
}


STEP: Final = 0.001
"""Seconds of work on an export, after which other calls have their turn."""

ROUNDS: Final = 10
"""How many pages of hits a filtered search reads for one page of results."""


@handles(LIST)
async def list_sessions(parts: Parts, params: ListSessions, caller: Caller) -> SessionList:
    """List sessions, newest first; with a search, best first."""
    if params.q is not None and params.q.strip():
        return await _search(parts, params, caller)
    where = SessionFilter(
        viewer=caller.person,
        platform=params.platform,
        agent=params.agent,
        kind=params.kind,
        person=params.person,
        cwd=params.cwd,
        project=params.project,
        text=params.named,
        state=params.state,
        active_since=_active_since(parts, params),
        active_until=params.until,
        pinned=params.pinned,
        archived=None if params.trashed else bool(params.archived),
        trashed=params.trashed,
    )
    if params.state is not None and (params.count or params.count_archived):
        raise InvalidInput("Sessions in a state can't be counted. Leave out `state` or the count.")
    found = await list_page(parts, where, params.limit, params.cursor)
    return msgspec.structs.replace(
        found,
        archived=await _count_archived(parts, where) if params.count_archived else None,
        total=await parts.store.count_sessions(where) if params.count else None,
    )


async def list_page(
    parts: Parts, where: SessionFilter, limit: int, cursor: str | None
) -> SessionList:
    """A page of the sessions that match the filter."""
    page = await parts.store.list_sessions(where, limit=limit, cursor=cursor)
    return SessionList(await _listed(parts, [(each, None) for each in page.sessions]), page.cursor)


async def _count_archived(parts: Parts, where: SessionFilter) -> int:
    """How many archived sessions the list leaves out."""
    if where.archived is not False:
        return 0
    return await parts.store.count_sessions(msgspec.structs.replace(where, archived=True))


async def _search(parts: Parts, params: ListSessions, caller: Caller) -> SessionList:
    """The best hit of each session. Filters that the index does not know are applied here."""
    if params.trashed:
        raise InvalidInput("The trash can't be searched. Leave out `q` or `trashed`.")
    if params.count:
        raise InvalidInput("The hits of a search can't be counted. Leave out `q` or `count`.")
    where = SearchFilter(
        viewer=caller.person,
        platform=params.platform,
        agent=params.agent,
        kind=params.kind,
        person=params.person,
        cwd=params.cwd,
        project=params.project,
    )
    since = _active_since(parts, params)
    found: list[tuple[Session, Hit | None]] = []
    cursor, was_cut = params.cursor, False
    for _ in range(ROUNDS):
        page = await parts.store.search(
            params.q or "",
            where,
            limit=params.limit - len(found),
            cursor=cursor,
            per_session=True,
        )
        sessions = [await parts.store.get_session(hit.session_id) for hit in page.hits]
        states = await _states_of(parts, params, sessions)
        found += [
            (session, _hit(hit))
            for session, hit in zip(sessions, page.hits, strict=True)
            if _fits(session, params, since) and _is_wanted(states.get(session.id), params)
        ]
        cursor, was_cut = page.cursor, was_cut or page.cut
        if cursor is None or len(found) >= params.limit:
            break
    return SessionList(await _listed(parts, found), cursor, was_cut)


async def _states_of(
    parts: Parts, params: ListSessions, sessions: Sequence[Session]
) -> dict[str, SessionState]:
    """The states of sessions, if they are asked for."""
    if params.state is None:
        return {}
    return await parts.store.list_states([each.id for each in sessions])


def _is_wanted(state: SessionState | None, params: ListSessions) -> bool:
    return params.state is None or (state is not None and is_in_state(state, params.state))


def _fits(session: Session, params: ListSessions, since: int | None) -> bool:
    archived, pinned = params.archived, params.pinned
    if archived is not None and (session.archived_at is not None) is not archived:
        return False
    if pinned is not None and session.pinned is not pinned:
        return False
    if params.until is not None and session.updated_at > params.until:
        return False
    return since is None or session.updated_at >= since


def _hit(hit: SearchHit) -> Hit:
    return Hit(hit.seq, hit.role, hit.at, hit.snippet, hit.score)


def _active_since(parts: Parts, params: ListSessions) -> int | None:
    """The later of the two times after which sessions were updated."""
    active = None if params.active is None else parts.clock() - params.active * 60_000
    return max((each for each in (active, params.since) if each is not None), default=None)


async def _listed(
    parts: Parts, found: Sequence[tuple[Session, Hit | None]]
) -> tuple[ListedSession, ...]:
    ids = [session.id for session, _ in found]
    short_ids = await parts.store.shorten_ids(ids)
    states = await parts.store.list_states(ids)
    return tuple(
        list_session(session, short_ids[session.id], states[session.id], hit)
        for session, hit in found
        if session.id in short_ids and session.id in states  # purged meanwhile
    )


@handles(GET)
async def get_session(parts: Parts, params: GetSession, caller: Caller) -> SessionDetail:
    """A session and its newest messages."""
    session = await get_visible(parts, params.id, caller)
    shown, state = await view_with_state(parts, session)
    messages, more = await _list_newest(parts, session, params.messages)
    html = await _render(parts, messages, params.render)
    return SessionDetail(shown, state, messages, more, html)


async def _list_newest(
    parts: Parts, session: Session, limit: int
) -> tuple[tuple[Message, ...], bool]:
    """The newest messages, and whether there are more."""
    if not limit:
        return (), session.message_count > 0
    found = await parts.store.get_messages(session.id, limit + 1)
    more = len(found) > limit
    return found[1:] if more else found, more


@handles(MESSAGES)
async def get_messages(parts: Parts, params: GetMessages, caller: Caller) -> MessagePage:
    """A page of a session's messages."""
    from clew.runtime.recovery import list_unfinished  # noqa: PLC0415  # see above

    session = await get_visible(parts, params.id, caller)
    before, limit = params.before, params.limit
    if params.around is not None:
        if params.before is not None or params.after is not None:
            raise InvalidInput("Leave out `before` and `after` where there is `around`.")
        before, limit = params.around + 1, limit - limit // 2
    messages = await _read_messages(parts, session, params, before, limit + 1)
    more = len(messages) > limit
    shown = messages[1:] if more else messages
    if params.around is not None:
        shown += await parts.store.get_messages(
            session.id,
            after=params.around,
            before=params.around + params.limit // 2 + 1,
            undone=params.undone,
        )
    unfinished = await list_unfinished(parts.store, shown)
    html = await _render(parts, shown, params.render)
    undone = await _list_undone(parts, session, shown) if params.undone and shown else ()
    return MessagePage(shown, session.head, more, unfinished, html, undone)


async def _read_messages(
    parts: Parts, session: Session, params: GetMessages, before: int | None, left: int
) -> tuple[Message, ...]:
    """The newest messages before a number, so many at most, a piece at a time."""
    pieces: list[tuple[Message, ...]] = []
    while left > 0:
        wanted = min(left, PAGE)
        piece = await parts.store.get_messages(
            session.id, wanted, before=before, after=params.after, undone=params.undone
        )
        pieces.append(piece)
        if len(piece) < wanted:
            break
        before, left = piece[0].seq, left - wanted
        await give_way()
    return tuple(message for piece in reversed(pieces) for message in piece)


async def _list_undone(
    parts: Parts, session: Session, messages: Sequence[Message]
) -> tuple[int, ...]:
    """The numbers of the messages whose turns were undone."""
    first, last = messages[0].seq, messages[-1].seq
    kept = await parts.store.get_messages(session.id, after=first - 1, before=last + 1)
    return tuple(sorted({each.seq for each in messages} - {each.seq for each in kept}))


async def _render(
    parts: Parts, messages: Sequence[Message], form: Literal["html"] | None
) -> tuple[MessageHtml, ...] | None:
    if form is None:
        return None
    if parts.render is None:
        raise InvalidInput("Messages can't be rendered as HTML here. Leave out `render`.")
    return await parts.render(messages)


@handles(UPDATE)
async def update_session(parts: Parts, params: UpdateSession, caller: Caller) -> SessionView:
    """Apply a person's change. Models and personalities must be known."""
    session = await get_visible(parts, params.id, caller)
    edit = SessionEdit(
        title=params.title,
        pinned=params.pinned,
        archived=params.archived,
        personality=params.personality,
        thinking=params.thinking,
        send_policy=params.send_policy,
    )
    if params.send_policy is not UNSET:
        caller.need_owner("change where replies are sent")
    if {params.model, params.thinking, params.personality} != {UNSET}:
        caller.need_owner(CHOOSE)
    if isinstance(params.personality, str):
        parts.personalities.get_personality(params.personality)
    if params.model is None:
        edit = msgspec.structs.replace(edit, model=None, provider=None)
    elif isinstance(params.model, str):
        info = parts.models.get_model(params.model)
        edit = msgspec.structs.replace(edit, model=info.name, provider=info.provider)
    return await view(
        parts, await parts.store.edit_session(session.id, edit, revision=params.if_match)
    )


@handles(DELETE)
async def delete_session(parts: Parts, params: OneSession, caller: Caller) -> SessionView:
    """Put a session in the trash. `SessionNotFound` if it is already there."""
    session = await get_visible(parts, params.id, caller)
    await parts.store.delete_sessions([session.id])
    return await view(parts, await parts.store.get_session(session.id))


@handles(RESTORE)
async def restore_session(parts: Parts, params: OneSession, caller: Caller) -> SessionView:
    """Restore a session from the trash."""
    session = await get_visible(parts, params.id, caller, trashed=True)
    await parts.store.restore_sessions([session.id])
    return await view(parts, await parts.store.get_session(session.id))


@handles(MARK)
async def mark_sessions(parts: Parts, params: MarkSessions, caller: Caller) -> Changed:
    """Apply the same change to several sessions; a missing one does not stop the others."""
    trashed = params.trashed
    if trashed is not UNSET and {params.title, params.pinned, params.archived} != {UNSET}:
        raise InvalidInput("Nothing else goes with `trashed`. Nothing was changed.")
    found, failed = await find_each(parts, params.ids, caller, trashed=trashed is False)
    ids = [each.id for each in found]
    changes = await parts.store.mark_sessions(
        ids,
        title=params.title,
        pinned=params.pinned,
        archived=params.archived,
        trashed=trashed,
    )
    return Changed(await _view_again(parts, ids), failed, changes)


async def _view_again(parts: Parts, ids: Sequence[str]) -> tuple[SessionView, ...]:
    """Sessions as they are now, after a change of them."""
    found = [await parts.store.get_session(each) for each in ids]
    return await view_all(parts, found)


@handles(UNDO)
async def undo_marks(parts: Parts, params: UndoMarks, caller: Caller) -> Changed:
    """Undo changes; a session that was changed since, or that is gone, is reported."""
    mine: list[SessionChange] = []
    failed: list[Failed] = []
    for each in params.changes:
        if await _is_visible(parts, each.id, caller):
            mine.append(each if caller.is_owner else _thrown_away_now(each, parts.clock()))
        else:
            failed.append(Failed(each.id, problem_of(SessionNotFound(each.id))))
    undone = await parts.store.undo_marks(mine)
    stale = Conflict("The session was changed since, so that change was not undone.")
    done = set(undone)
    failed += [Failed(each.id, problem_of(stale)) for each in mine if each.id not in done]
    return Changed(await _view_again(parts, undone), tuple(failed))


def _thrown_away_now(change: SessionChange, now: int) -> SessionChange:
    """A change that puts a session back into the trash does it now.

    Old trash is removed for good, which guests may not do: they say no earlier time.
    """
    if not isinstance(change.before.deleted_at, int):
        return change
    before = msgspec.structs.replace(change.before, deleted_at=now)
    return msgspec.structs.replace(change, before=before)


@handles(PRUNE)
async def prune_sessions(parts: Parts, params: PruneSessions, _caller: Caller) -> Pruned:
    """Prune by the given age, else by the retention policy of this process."""
    store, policy = parts.store, parts.retention
    action = params.action or policy.action
    if params.older_than is None:
        chosen = msgspec.structs.replace(policy, action=action)
        ids = (await store.retain(chosen, dry_run=params.dry_run)).ids
    else:
        before = parts.clock() - params.older_than
        ids = await store.prune_old_sessions(before, action=action, dry_run=params.dry_run)
    sessions = [await store.get_session(each) for each in ids]
    return Pruned(await view_all(parts, sessions), action, params.dry_run)


@handles(LINK)
async def link_key(parts: Parts, params: LinkKey, caller: Caller) -> Linked:
    """Set the session that a key leads to; without a session it leads nowhere."""
    from clew.runtime.inbound.links import link  # noqa: PLC0415  # see above

    key = complete_key(check_key(params.key))
    led = await parts.store.find_route(key)
    before = None if led is None else await view(parts, led)
    if params.session is not None:
        session = await get_visible(parts, params.session, caller)
        linked = await link(parts.store, key, session, parts.clock())
        return Linked(key, await view(parts, linked), before)
    if led is None:
        raise InvalidInput(f"{strip_controls(key)} leads to no session. Nothing was changed.")
    await parts.store.clear_route(key)
    return Linked(key, None, before)


@handles(IMPORT)
async def import_session(parts: Parts, params: ImportSession, _caller: Caller) -> Imported:
    """Make a new session from a transcript."""
    if parts.import_transcript is None:
        raise InvalidInput("Transcripts can't be imported here.")
    lines = io.BytesIO(params.content)
    return await parts.import_transcript(
        lines, as_new=params.as_new, dry_run=params.dry_run, cwd=params.cwd
    )


@handles(FORK)
async def fork_session(parts: Parts, params: ForkSession, caller: Caller) -> SessionView:
    """Make a new session that shares the beginning of this one, and belongs to the caller."""
    session = await get_visible(parts, params.id, caller)
    fork = await parts.store.fork_session(session.id, at=params.at, person=caller.person)
    return await view(parts, fork)


@handles(COMPACT)
async def compact_session(parts: Parts, params: CompactSession, caller: Caller) -> Compacted:
    """Replace the older messages by a summary, when the session is free."""
    session = await get_visible(parts, params.id, caller)
    return await parts.runtime.compact(session.id, instructions=params.instructions)


@handles(EXPORT)
async def export_session(parts: Parts, params: ExportSession, caller: Caller) -> Exported:
    """Export the session as a file."""
    session = await get_visible(parts, params.id, caller)
    if parts.export is None:
        raise InvalidInput("Sessions can't be exported here.")
    made = parts.export(session, params.format, params.masked, params.thinking)
    pieces: list[str] = []
    pause_at = monotonic() + STEP
    async for each in made:
        pieces.append(each)
        if monotonic() > pause_at:
            await give_way()
            pause_at = monotonic() + STEP
    ending = "jsonl" if params.format in ("claude-code", "codex") else params.format
    name = f"session-{session.id}.{ending}"
    damaged = await parts.store.list_damaged(session.id)
    return Exported(name, MEDIA_TYPES[params.format], "".join(pieces), damaged)


@handles(RESOLVE)
async def resolve_session(parts: Parts, params: ResolveSession, caller: Caller) -> SessionView:
    """Find the session that a person means; never looks for files."""
    from clew.runtime.place.resume import get_meant, get_trashed  # noqa: PLC0415  # see above

    viewer = caller.person
    if params.trashed:
        return await view(parts, await get_trashed(parts.store, params.value, viewer=viewer))
    session = await get_meant(parts.store, params.value, purpose=params.purpose, viewer=viewer)
    if session.deleted_at is not None:
        raise SessionNotFound(session.id)
    return await view(parts, session)


@handles(PREVIEW)
async def preview_session(parts: Parts, params: PreviewSession, caller: Caller) -> SessionPreview:
    """The last messages, a line each."""
    session = await get_visible(parts, params.id, caller)
    messages = await parts.store.get_messages(session.id, params.limit)
    lines = tuple(
        PreviewLine(
            each.seq,
            each.role,
            cut(" ".join(strip_controls(each.content).split()), params.characters),
        )
        for each in messages
    )
    return SessionPreview(await view(parts, session), lines)


@handles(STOP)
async def stop_session(parts: Parts, params: StopSession, caller: Caller) -> Stopped:
    """Stop the turn with its sub-agents, and drop queued messages if asked to."""
    from clew.api.handlers.queue import take_back  # noqa: PLC0415  # see above

    session = await get_visible(parts, params.id, caller)
    if params.message is not None:
        return await _stop_message(parts, session, params.message)
    dropped = await take_back(parts, session.id, params.only) if params.queue else ()
    agents = parts.runtime.count_spawned(session.id)
    stopped = await parts.runtime.stop(session.id, anywhere=params.anywhere)
    return Stopped(session.id, stopped, dropped, agents)


async def _stop_message(parts: Parts, session: Session, message: str) -> Stopped:
    """Take one message back, or abort the turn that answers it, but no other turn."""
    from clew.api.handlers.queue import take_back  # noqa: PLC0415  # see above

    runtime = parts.runtime
    dropped = await take_back(parts, session.id, (message,))
    if dropped:
        return Stopped(session.id, False, dropped)
    row = await parts.store.get_inbound(message)
    agents = runtime.count_spawned(session.id)
    newest = await parts.store.list_turns(session.id, limit=1)
    is_open = bool(newest) and newest[0].ended_at is None
    # Without a turn it has left this process's queue and waits for the session to be free.
    is_mine = row.turn_id is None or (is_open and newest[0].id == row.turn_id)
    stopped = is_mine and await runtime.stop(session.id, anywhere=row.turn_id is not None)
    return Stopped(session.id, stopped, (), agents)


@handles(NAMES)
async def list_names(parts: Parts, params: ListNames, caller: Caller) -> NamePage:
    """Names in the order of the list of sessions, or the names of given sessions."""
    if params.ids is not None:
        if msgspec.structs.replace(params, ids=None) != ListNames():
            raise InvalidInput("`ids` says which sessions: leave out the other parameters.")
        return NamePage(await _name_these(parts, _split(params.ids), caller))
    where = SessionFilter(
        viewer=caller.person, platform=params.platform, cwd=params.cwd, project=params.project
    )
    return await parts.store.list_names(where, limit=params.limit, cursor=params.cursor)


async def _name_these(parts: Parts, ids: Sequence[str], caller: Caller) -> tuple[SessionName, ...]:
    """The names of sessions; leaves out those in the trash and those of other people."""
    found = await asyncio.gather(*(_find_visible(parts, each, caller) for each in ids))
    return tuple(name_of(session) for session in found if session is not None)


async def _find_visible(parts: Parts, session_id: str, caller: Caller) -> Session | None:
    try:
        return await get_visible(parts, session_id, caller)
    except SessionNotFound:
        return None


@handles(FACETS)
async def list_facets(parts: Parts, _params: NoParams, caller: Caller) -> SessionFacets:
    """The values of the sessions that the caller may see."""
    return await parts.store.list_facets(caller.person)


@handles(SEARCH)
async def search_messages(parts: Parts, params: SearchMessages, caller: Caller) -> FoundMessages:
    """Search messages, best hits first."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    where = SearchFilter(
        viewer=caller.person,
        platform=params.platform,
        cwd=params.cwd,
        project=params.project,
        session=params.session,
        role=params.role,
        since=params.since,
        until=params.until,
    )
    page = await parts.store.search(
        params.q,
        where,
        limit=params.limit,
        cursor=params.cursor,
        typing=params.typing,
        per_session=params.per_session,
    )
    short_ids = await parts.store.shorten_ids(list({each.session_id for each in page.hits}))
    return FoundMessages(page.hits, page.cursor, page.cut, short_ids)


@handles(STATES)
async def list_states(parts: Parts, params: ListStates, caller: Caller) -> StateList:
    """The states of sessions; those that the caller may not see are left out."""
    ids = _split(params.ids)
    if not caller.is_owner:
        ids = [each for each in ids if await _is_visible(parts, each, caller)]
    states = await parts.store.list_states(ids)
    return StateList({each: describe_state(parts, each, states[each]) for each in states})


def _split(ids: str) -> list[str]:
    return [each for each in dict.fromkeys(ids.split(",")) if each]


async def _is_visible(parts: Parts, session_id: str, caller: Caller) -> bool:
    try:
        session = await parts.store.get_session(session_id)
    except SessionNotFound:
        return False
    return may_see(caller.person, session.person)


@handles(TODOS)
async def get_todos(parts: Parts, params: OneSession, caller: Caller) -> TodoList:
    """The session's todo list."""
    session = await get_visible(parts, params.id, caller)
    return TodoList(await parts.store.get_todos(session.id))


@handles(LINEAGE)
async def get_lineage(parts: Parts, params: GetLineage, caller: Caller) -> Lineage:
    """The sessions around this one, as far as the caller may see them, and its compactions."""
    session = await get_visible(parts, params.id, caller)
    store = parts.store
    parent = await _find_relative(parts, session.parent_id, caller)
    if parent is not None:
        parent = msgspec.structs.replace(parent, at=session.forked_at_seq)
    led = await store.find_route(session.key)
    now = None if led is None or led.id == session.id else led.id
    made = [each for each in await store.list_compactions(session.id) if each.undone_at is None]
    return Lineage(
        parent=parent,
        forks=tuple(
            Relative(each.id, each.listed_name, each.forked_at_seq)
            for each in await store.list_forks(session.id)
            if may_see(caller.person, each.person)
        ),
        previous=await _find_relative(parts, session.previous_id, caller),
        now=await _find_relative(parts, now, caller),
        keys=await store.list_routes(session.id) if caller.is_owner else (),
        compactions=await _render_summaries(parts, made, params.render),
    )


async def _find_relative(parts: Parts, session_id: str | None, caller: Caller) -> Relative | None:
    found = None if session_id is None else await _find_visible(parts, session_id, caller)
    return None if found is None else Relative(found.id, found.listed_name)


async def _render_summaries(
    parts: Parts, made: Sequence[Compaction], form: Literal["html"] | None
) -> tuple[CompactionView, ...]:
    """Compactions as they are shown: a summary is what a model wrote, like a message of its."""
    drawn = await _render(parts, [_as_message(each) for each in made], form)
    htmls = [None] * len(made) if drawn is None else [each.html for each in drawn]
    return tuple(
        CompactionView(**msgspec.structs.asdict(each), html=html)
        for each, html in zip(made, htmls, strict=True)
    )


def _as_message(made: Compaction) -> Message:
    said = Draft(role="assistant", content=made.summary, at=made.created_at)
    seq = made.made_at_seq
    return number(said, row_id=0, session_id=made.session_id, seq=seq, turn_id=None, at=seq)


@handles(RULES)
async def list_rules(parts: Parts, params: OneSession, caller: Caller) -> RuleList:
    """The rules of the configuration and of the session; they name commands and paths."""
    session = await get_visible(parts, params.id, caller)
    return RuleList(list_held(session, parts.list_tool_rules()))


@handles(FIND)
async def find_sessions(parts: Parts, params: FindSessions, caller: Caller) -> Found:
    """The sessions that a person may mean; if there are none, the error gives advice."""
    from clew.runtime.place.resume import get_resumed, look_up  # noqa: PLC0415  # see above

    viewer = caller.person
    purpose = params.purpose
    resolution = await look_up(
        parts.store, params.value, _place(params), purpose=purpose, viewer=viewer
    )
    if not resolution.matches:
        await get_resumed(parts.store, resolution, purpose=purpose, viewer=viewer)
    matches = resolution.matches[:100]
    return Found(tuple([await view(parts, each) for each in matches]))


def _place(params: FindSessions) -> Place | None:
    """The place of the request, with the fields that are needed to find its sessions."""
    if params.cwd is None or params.project is None:
        return None
    return Place(params.cwd, params.project, "", Identity(-1, -1), params.scope)
