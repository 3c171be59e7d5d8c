"""The trash: sessions that were deleted and can still be restored."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import _LAST, Cursor, SessionId
from clew.api.operation import NoParams, Params, row
from clew.api.sessions import Failed, SessionList, SeveralSessions


class ListTrash(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`limit` and `cursor` of the page."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    cursor: Cursor | None = None


class PutInTrash(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`everything`: all sessions that the caller may see, archived ones too, in place of `ids`.

    `for_good`: remove them without the trash. With `dry_run` nothing is deleted: the result says
    what would be deleted.
    """

    ids: Annotated[tuple[SessionId, ...], Meta(max_length=10_000)] = ()
    everything: bool = False
    for_good: bool = False
    dry_run: bool = False


class TrashedSessions(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions that are in the trash."""

    ids: SeveralSessions


class EmptyTrash(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`older_than`: milliseconds that a session has been in the trash; left out, all of them."""

    older_than: Annotated[int, Meta(ge=0, le=_LAST)] | None = None


class Deleted(msgspec.Struct, frozen=True):
    """The sessions that were put in the trash, and those that could not be."""

    ids: tuple[str, ...]
    failed: tuple[Failed, ...] = ()


class Restored(msgspec.Struct, frozen=True):
    """The sessions that were brought back, and those that could not be.

    `left`: how many sessions are in the trash now.
    """

    ids: tuple[str, ...]
    left: int
    failed: tuple[Failed, ...] = ()


class Purged(msgspec.Struct, frozen=True):
    """The sessions that were removed for good, and those that could not be."""

    ids: tuple[str, ...]
    failed: tuple[Failed, ...] = ()


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "trash.list", "GET", "trash", "read", ListTrash, SessionList,
    "List the sessions in the trash, latest deleted first.",
    who="guest",
)  # fmt: skip
PUT: Final = row(
    "trash.put", "POST", "trash", "write", PutInTrash, Deleted,
    "Put several sessions in the trash. One `trash.undo` brings them all back.",
    who="guest", also="`for_good` is the owner's",
)  # fmt: skip
RESTORE: Final = row(
    "trash.restore", "POST", "trash/restore", "write", TrashedSessions, Restored,
    "Bring several sessions back from the trash.",
    who="guest",
)  # fmt: skip
UNDO: Final = row(
    "trash.undo", "POST", "trash/undo", "write", NoParams, Restored,
    "Bring back what was deleted last; called again, what was deleted before.",
    who="guest",
)  # fmt: skip
PURGE: Final = row(
    "trash.purge", "POST", "trash/purge", "write", TrashedSessions, Purged,
    "Remove sessions in the trash for good. This cannot be undone.",
)  # fmt: skip
EMPTY: Final = row(
    "trash.empty", "POST", "trash/empty", "write", EmptyTrash, Purged,
    "Remove everything in the trash for good, or what was deleted long ago.",
)  # fmt: skip
ROWS: Final = (
    LIST,
    PUT,
    RESTORE,
    UNDO,
    PURGE,
    EMPTY,
)
