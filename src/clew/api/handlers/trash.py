"""What the operations about the trash do.

A guest puts away and brings back what is theirs; only the owner removes sessions for good.
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
"""Later than anything was deleted, whatever the clock said then."""


@handles(LIST)
async def list_trash(parts: Parts, params: ListTrash, caller: Caller) -> SessionList:
    """What the caller may see of the trash."""
    return await list_page(parts, _trash_of(caller), params.limit, params.cursor)


@handles(PUT)
async def put_in_trash(parts: Parts, params: PutInTrash, caller: Caller) -> Deleted:
    """Delete them in one go, so that one undo brings all of them back."""
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
    """Bring back those that are there."""
    found, failed = await find_each(parts, params.ids, caller, trashed=True)
    restored = await parts.store.restore_sessions([each.id for each in found])
    return Restored(restored, await parts.store.count_sessions(_trash_of(caller)), failed)


@handles(UNDO)
async def undo_delete(parts: Parts, _params: NoParams, caller: Caller) -> Restored:
    """What the caller may see of the latest delete: for the owner all of it."""
    if caller.is_owner:
        restored = await parts.store.restore_last()
    else:
        restored = await parts.store.restore_sessions(await _list_latest(parts, caller))
    return Restored(restored, await parts.store.count_sessions(_trash_of(caller)))


async def _list_latest(parts: Parts, caller: Caller) -> Sequence[str]:
    """The sessions of the caller that were deleted last: together, so with the same time."""
    latest: list[Session] = []
    async for each in walk_sessions(parts.store, {"trashed": True}, viewer=caller.person):
        if latest and each.deleted_at != latest[0].deleted_at:
            break
        latest.append(each)
    return [each.id for each in latest]


@handles(PURGE)
async def purge_sessions(parts: Parts, params: TrashedSessions, caller: Caller) -> Purged:
    """Remove those that are in the trash; `Locked` while one of them is in use."""
    caller.need_owner("remove sessions for good")
    found, failed = await find_each(parts, params.ids, caller, trashed=True)
    return Purged(await parts.store.purge_sessions([each.id for each in found]), failed)


@handles(EMPTY)
async def empty_trash(parts: Parts, params: EmptyTrash, caller: Caller) -> Purged:
    """Remove what is in the trash, or what has been there for so long."""
    caller.need_owner("remove sessions for good")
    before = EVER if params.older_than is None else parts.clock() - params.older_than
    return Purged(await parts.store.purge_trash(before))


def _trash_of(caller: Caller) -> SessionFilter:
    return SessionFilter(viewer=caller.person, trashed=True)
