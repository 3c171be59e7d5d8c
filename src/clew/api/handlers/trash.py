"""Handlers of the operations about the trash.

A guest deletes and restores their own sessions; only the owner removes sessions for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew.api.handlers.parts import Caller, Parts, find_each, handles
from clew.api.handlers.sessions import list_page
from clew.api.operation import NoParams
from clew.api.sessions import Failed, SessionList
from clew.api.trash import (
    EMPTY,
    LIST,
    PURGE,
    PUT,
    RESTORE,
    UNDO,
    Deleted,
    EmptyTrash,
    ListTrash,
    Purged,
    PutInTrash,
    Restored,
    TrashedSessions,
)
from clew.core.session import Session, SessionFilter
from clew.errors import InvalidInput
from clew.runtime.place.directories import walk_sessions

EVER: Final = 2**62
"""A time after every deletion, even if a clock was wrong."""


@handles(LIST)
async def list_trash(parts: Parts, params: ListTrash, caller: Caller) -> SessionList:
    """List the sessions in the trash that the caller may see."""
    return await list_page(parts, _trash_of(caller), params.limit, params.cursor)


@handles(PUT)
async def put_in_trash(parts: Parts, params: PutInTrash, caller: Caller) -> Deleted:
    """Delete sessions in one commit, so that one undo restores all of them."""
    if params.everything == bool(params.ids):
        raise InvalidInput("Name the sessions to delete, or say `everything`, and not both.")
    if params.for_good:
        caller.need_owner("remove sessions for good")
    failed: tuple[Failed, ...] = ()
    if params.everything:
        walk = walk_sessions(parts.store, {"archived": None}, viewer=caller.person)
        ids = [each.id async for each in walk]
    else:
        found, failed = await find_each(parts, params.ids, caller)
        ids = [each.id for each in found]
    if params.dry_run:
        return Deleted(tuple(ids), failed)
    deleted = await parts.store.delete_sessions(ids)
    if params.for_good:
        await parts.store.purge_sessions(deleted)
    return Deleted(deleted, failed)


@handles(RESTORE)
async def restore_from_trash(parts: Parts, params: TrashedSessions, caller: Caller) -> Restored:
    """Restore sessions from the trash."""
    found, failed = await find_each(parts, params.ids, caller, trashed=True)
    restored = await parts.store.restore_sessions([each.id for each in found])
    return Restored(restored, await parts.store.count_sessions(_trash_of(caller)), failed)


@handles(UNDO)
async def undo_delete(parts: Parts, _params: NoParams, caller: Caller) -> Restored:
    """Restore the sessions of the latest delete, as far as the caller may see them."""
    if caller.is_owner:
        restored = await parts.store.restore_last()
    else:
        restored = await parts.store.restore_sessions(await _list_latest(parts, caller))
    return Restored(restored, await parts.store.count_sessions(_trash_of(caller)))


async def _list_latest(parts: Parts, caller: Caller) -> Sequence[str]:
    """The caller's sessions that were deleted last: those of one delete have the same time."""
    latest: list[Session] = []
    async for each in walk_sessions(parts.store, {"trashed": True}, viewer=caller.person):
        if latest and each.deleted_at != latest[0].deleted_at:
            break
        latest.append(each)
    return [each.id for each in latest]


@handles(PURGE)
async def purge_sessions(parts: Parts, params: TrashedSessions, caller: Caller) -> Purged:
    """Remove sessions in the trash for good; `Locked` while one of them is in use."""
    found, failed = await find_each(parts, params.ids, caller, trashed=True)
    return Purged(await parts.store.purge_sessions([each.id for each in found]), failed)


@handles(EMPTY)
async def empty_trash(parts: Parts, params: EmptyTrash, _caller: Caller) -> Purged:
    """Empty the trash, or remove what has been there longer than `older_than`."""
    before = EVER if params.older_than is None else parts.clock() - params.older_than
    return Purged(await parts.store.purge_trash(before))


def _trash_of(caller: Caller) -> SessionFilter:
    return SessionFilter(viewer=caller.person, trashed=True)
