"""Replies to channels, and whether they were delivered."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import RowId, SessionId
from clew.api.operation import Params, row
from clew.core.delivery import Outbound, OutboundStatus


class ListOutbox(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replies of all sessions, or of one."""

    session: SessionId | None = None
    state: OutboundStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class RetryOutbound(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to send again: it failed, or may not have arrived."""

    id: RowId


class ConfirmOutbound(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply that has arrived, as the owner knows: clew is not certain of it."""

    id: RowId


class OutboxList(msgspec.Struct, frozen=True):
    """Deliveries, newest first."""

    deliveries: tuple[Outbound, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "outbox.list", "GET", "outbox", "read", ListOutbox, OutboxList,
    "List replies to channels, with the state of their delivery.",
    who="guest",
)  # fmt: skip
RETRY: Final = row(
    "outbox.retry", "POST", "outbox/{id}/retry", "write", RetryOutbound, Outbound,
    "Send a failed or uncertain reply again.",
)  # fmt: skip
CONFIRM: Final = row(
    "outbox.confirm", "POST", "outbox/{id}/confirm", "write", ConfirmOutbound, Outbound,
    "Say that an uncertain reply has arrived: it is not sent again.",
)  # fmt: skip
ROWS: Final = (
    LIST,
    RETRY,
    CONFIRM,
)
