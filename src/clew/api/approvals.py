"""Tool calls that wait for the owner's decision."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import RowId, SessionId
from clew.api.operation import Params, row
from clew.core.turn import MAX_REASON, Approval, ApprovalScope, Decision


class ListApprovals(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Approvals of all sessions, or of one."""

    session: SessionId | None = None


class DecideApproval(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The owner's decision about a tool call. The model is told the `reason` of a no.

    `always` writes a rule to the configuration: `rule` repeats the one in the approval's request.
    """

    id: RowId
    decision: Decision
    scope: ApprovalScope = "once"
    reason: Annotated[str, Meta(max_length=MAX_REASON)] | None = None
    rule: str | None = None


class ApprovalList(msgspec.Struct, frozen=True):
    """Tool calls that wait for the owner's decision, oldest first."""

    approvals: tuple[Approval, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "approvals.list", "GET", "approvals", "read", ListApprovals, ApprovalList,
    "List the tool calls that wait for the owner's decision.",
    who="guest",
)  # fmt: skip
DECIDE: Final = row(
    "approvals.decide", "POST", "approvals/{id}", "approve", DecideApproval, Approval,
    "Approve or refuse a tool call. The first answer stays.",
    also="`always` needs `admin`",
)  # fmt: skip
ROWS: Final = (
    LIST,
    DECIDE,
)
