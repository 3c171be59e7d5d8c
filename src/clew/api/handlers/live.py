"""Follows the list of sessions: sends hints about changes by any process.

It checks a few times a second whether anything was written, and then compares the newest sessions
only: changes far down in a long list, which no screen shows, are not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from clew.api.approvals import ListApprovals
from clew.api.frames import HintFrame, HintKind, StateFrame
from clew.api.handlers.approvals import list_approvals
from clew.api.handlers.parts import Caller, Parts
from clew.api.handlers.sessions import list_sessions
from clew.api.sessions import ListedSession, ListSessions
from clew.version import __version__

NEWEST: Final = 50


LOOK: Final = 0.25
"""Seconds between two checks."""


async def make_state(parts: Parts, caller: Caller) -> StateFrame:
    """Make the first frame of live events."""
    sessions = await list_newest(parts, caller)
    waiting = await list_approvals(parts, ListApprovals(), caller)
    return StateFrame(
        version=__version__,
        at=parts.clock(),
        person=caller.person,
        scopes=caller.scopes,
        sessions=sessions,
        approvals=waiting.approvals,
    )


async def list_newest(parts: Parts, caller: Caller) -> tuple[ListedSession, ...]:
    """The newest sessions of the caller's list."""
    return (await list_sessions(parts, ListSessions(limit=NEWEST), caller)).sessions


async def follow_list(
    parts: Parts, caller: Caller, shown: tuple[ListedSession, ...]
) -> AsyncIterator[HintFrame]:
    """Hints about changes at the beginning of the list, compared to `shown`; never ends."""
    pulse: int | None = None
    while True:
        if pulse != (now := await parts.store.pulse()):
            pulse, present = now, await list_newest(parts, caller)
            for hint in compare(shown, present):
                yield hint
            shown = present
        await asyncio.sleep(LOOK)


def compare(before: Iterable[ListedSession], after: Iterable[ListedSession]) -> list[HintFrame]:
    """Hints about the differences between two states of the list.

    A session that only fell off the end of the list is not gone. So in a full list, only sessions
    newer than its last one are reported as gone.
    """
    known, present = {each.id: each for each in before}, {each.id: each for each in after}
    hints = [
        _hint(each, kind) for each in present.values() if (kind := _kind(known.get(each.id), each))
    ]
    edge = min((each.updated_at for each in present.values()), default=0)
    edge = edge if len(present) >= NEWEST else 0
    gone = [each for each in known.values() if each.id not in present and each.updated_at > edge]
    return [*hints, *(_hint(each, "gone") for each in gone)]


def _kind(before: ListedSession | None, after: ListedSession) -> HintKind | None:
    if before is None:
        return "created"
    if before.status != after.status:
        return "approval" if "waiting" in (before.status, after.status) else "turn"
    seen = ("revision", "updated_at", "head", "title", "message_count")
    if any(getattr(before, name) != getattr(after, name) for name in seen):
        return "changed"
    return None


def _hint(session: ListedSession, kind: HintKind) -> HintFrame:
    return HintFrame(
        session=session.id,
        kind=kind,
        status=session.status,
        title=session.title,
        revision=session.revision,
        updated_at=session.updated_at,
    )
