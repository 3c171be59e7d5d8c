"""Sessions at a glance: their names by the ten thousand, the states of a few, counts of a store.

The first two are for screens on which a person picks a session, which decide how to show them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.core.session import Kind, Session
from clew.core.turn import Attachment, TurnStatus

NAME_TEXT = 200
"""Characters of a summary or a first prompt that a name has."""


class SessionName(msgspec.Struct, frozen=True, gc=False):
    """As much of a session as is needed to find it: `core.session.Session` without the rest.

    Of `short_summary` and `preview` (the first prompt) only the first `NAME_TEXT` characters.
    """

    id: str
    title: str | None
    short_summary: str | None
    preview: str | None
    cwd: str | None
    project: str | None
    platform: str
    kind: Kind
    person: str
    updated_at: int
    pinned: bool
    message_count: int
    archived: bool


def name_of(session: Session) -> SessionName:
    """The name of a session whose row is known."""
    return SessionName(
        id=session.id,
        title=session.title,
        short_summary=_cut(session.short_summary),
        preview=_cut(session.preview),
        cwd=session.cwd,
        project=session.project,
        platform=session.platform,
        kind=session.kind,
        person=session.person,
        updated_at=session.updated_at,
        pinned=session.pinned,
        message_count=session.message_count,
        archived=session.archived_at is not None,
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:NAME_TEXT]


class NamePage(msgspec.Struct, frozen=True):
    """One page of names; `cursor` asks for the next one, None at the end."""

    names: tuple[SessionName, ...]
    cursor: str | None = None


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a session at this moment; the defaults mean that nothing happens.

    `running`: a live process runs a turn. `waiting`: that turn waits for an approval.
    `interrupted`: the newest turn was cut off, by a crash for example, and has not been undone.
    `attachment`: the terminal that has the session open, this one or another.
    """

    running: bool = False
    waiting: bool = False
    interrupted: bool = False
    attachment: Attachment | None = None


def state_of(
    newest: TurnStatus | None,
    *,
    is_leased: bool,
    is_asking: bool,
    is_undone: bool,
    attachment: Attachment | None,
) -> SessionState:
    """The state of a session, from its newest turn, its open questions and the living processes.

    A turn whose process has died counts as interrupted, even before recovery has marked it; a
    question of such a turn does not wait for an answer.
    """
    is_unfinished = newest in ("running", "waiting")
    running = is_unfinished and is_leased
    return SessionState(
        running=running,
        waiting=running and is_asking,
        interrupted=not running and not is_undone and (is_unfinished or newest == "interrupted"),
        attachment=attachment,
    )


Status = Literal["waiting", "running", "interrupted", "open"]


def status_of(state: SessionState) -> Status | None:
    """The most urgent part of a state; `open` means that a terminal has the session open."""
    if state.waiting:
        return "waiting"
    if state.running:
        return "running"
    if state.interrupted:
        return "interrupted"
    return None if state.attachment is None else "open"


class StoreStats(msgspec.Struct, frozen=True):
    """Counts of rows and bytes. `file_bytes` is what the store takes on its disk."""

    sessions: int
    archived: int
    trashed: int
    messages: int
    content_bytes: int
    file_bytes: int
    platforms: dict[str, int]
    oldest_at: int | None
    newest_at: int | None
