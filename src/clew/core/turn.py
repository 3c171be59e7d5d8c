"""Turns and who may run them: one user message and all that the agent does about it.

Also the two kinds of hold on a session: a lease (the right to run the next turn, fenced by its
epoch) and an attachment (a terminal's exclusive hold). The rules of time are the store's.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clew.core.usage import Usage

TurnStatus = Literal["running", "waiting", "done", "failed", "aborted", "interrupted"]
"""`waiting` is for an approval; the last four are ends."""

TurnEnd = Literal["done", "failed", "aborted", "interrupted"]

LEASE_MS = 30_000
HEARTBEAT_MS = 10_000
STALE_HEARTBEAT_MS = 30_000


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn. `partial` is what a failed one had said: for people, never for the model.

    `undone_at` is set while the turn is taken back in the session that was asked about.
    """

    id: str
    session_id: str
    status: TurnStatus
    reply_to: dict[str, Any] | None
    model: str | None
    usage: Usage
    error: str | None
    partial: str | None
    started_at: int
    ended_at: int | None
    undone_at: int | None = None


Decision = Literal["yes", "no"]
ApprovalScope = Literal["once", "session", "always"]


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to the owner about a tool call. Unanswered at `expires_at`, it is a no."""

    id: str
    session_id: str
    turn_id: str
    tool_call_id: str
    tool_name: str
    request: dict[str, Any]
    asked_at: int
    expires_at: int
    decision: Decision | None = None
    scope: ApprovalScope | None = None
    decided_by: str | None = None
    decided_at: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """The right to run the next turn of a session, until `expires_at` or the next epoch."""

    session_id: str
    holder: str
    epoch: int
    expires_at: int


class Attachment(msgspec.Struct, frozen=True):
    """A terminal's hold on a session. pid and start time are for people to read."""

    session_id: str
    host: str
    process: str
    pid: int
    started_at: int
    terminal: str | None
    since: int
    beat_at: int
