"""Sessions at a glance: names to look through by the ten thousand, and what goes on in a few.

Both are for screens on which a person picks a session. How they are shown is the screen's business.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.core.session import Kind, Session
from clew.core.turn import Attachment, TurnStatus

NAME_TEXT = 200
"""Characters that a name has of a summary or a first prompt."""


class SessionName(msgspec.Struct, frozen=True, gc=False):
    """As much of a session as one needs to find it: `core.session.Session` without the rest.

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
    """The name of a session that is known whole."""
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
    """What goes on in a session at this moment. Nothing, if all is as by default.

    `running`: somebody alive is at a turn. `waiting`: that turn needs a person's yes or no first.
    `interrupted`: the newest turn was cut off, by a crash for example, and has not been taken back.
    `attachment`: the terminal that has the session open, this one's or another's.
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
    """The state of a session, from its newest turn, its open questions and who is alive.

    A turn that nobody alive is at any more has been cut off, also while nobody has said so yet; and
    whatever it asked, nobody is there to hear the answer.
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
    """The most pressing of what goes on; `open` is for a terminal that has the session open."""
    if state.waiting:
        return "waiting"
    if state.running:
        return "running"
    if state.interrupted:
        return "interrupted"
    return None if state.attachment is None else "open"
