"""The calls with which a screen looks around: names, states, todos, what is meant, the models."""

from __future__ import annotations

import asyncio

from clew.client.parts import Caller, Parts, get_visible, view
from clew.core.keys import Identity, Place
from clew.core.overview import NamePage
from clew.core.params import NoParams, OneSession
from clew.core.search import SearchFilter, SearchPage
from clew.core.session import SessionFilter, may_see
from clew.core.terminals import (
    FindSessions,
    Found,
    ListNames,
    ListStates,
    ModelList,
    SearchMessages,
    StateList,
    TodoList,
)
from clew.errors import SessionNotFound
from clew.runtime.resuming import get_resumed, resolve_resume


async def list_names(parts: Parts, params: ListNames, caller: Caller) -> NamePage:
    """Names, in the order of the list of sessions."""
    where = SessionFilter(
        viewer=caller.person, platform=params.platform, cwd=params.cwd, project=params.project
    )
    return await parts.store.list_names(where, limit=params.limit, cursor=params.cursor)


async def search_messages(parts: Parts, params: SearchMessages, caller: Caller) -> SearchPage:
    """Messages in which it was said, best first."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    where = SearchFilter(
        viewer=caller.person,
        platform=params.platform,
        cwd=params.cwd,
        project=params.project,
        session=params.session,
    )
    return await parts.store.search(
        params.q,
        where,
        limit=params.limit,
        cursor=params.cursor,
        typing=params.typing,
        per_session=params.per_session,
    )


async def list_states(parts: Parts, params: ListStates, caller: Caller) -> StateList:
    """What goes on in sessions; those that the caller may not see are left out."""
    ids = [each for each in dict.fromkeys(params.ids.split(",")) if each]
    if not caller.is_owner:
        ids = [each for each in ids if await _is_visible(parts, each, caller)]
    return StateList(await parts.store.list_states(ids))


async def _is_visible(parts: Parts, session_id: str, caller: Caller) -> bool:
    try:
        session = await parts.store.get_session(session_id)
    except SessionNotFound:
        return False
    return may_see(caller.person, session.person)


async def get_todos(parts: Parts, params: OneSession, caller: Caller) -> TodoList:
    """The session's todo list."""
    session = await get_visible(parts, params.id, caller)
    return TodoList(await parts.store.get_todos(session.id))


async def find_sessions(parts: Parts, params: FindSessions, caller: Caller) -> Found:
    """Those that a person may mean; none is an error that says where it may be."""
    viewer = caller.person
    resolution = await resolve_resume(
        parts.store, params.value, _place(params), viewer=viewer, files=False
    )
    if not resolution.matches:
        await get_resumed(parts.store, resolution, viewer=viewer)
    matches = resolution.matches[:100]
    return Found(tuple([await view(parts, each) for each in matches]))


def _place(params: FindSessions) -> Place | None:
    """As much of a place as it takes to know its sessions."""
    if params.cwd is None or params.project is None:
        return None
    return Place(params.cwd, params.project, "", Identity(-1, -1), params.scope)


async def list_models(parts: Parts, _params: NoParams, caller: Caller) -> ModelList:
    """The models of this configuration."""
    caller.need_owner("see the models")
    # What is known of them may have to be looked up in a library that takes a second to load.
    listed = await asyncio.to_thread(parts.models.list_models)
    return ModelList(listed, parts.models.get_model())
