"""What people said, into a turn: with its first commit, or between two of its steps.

A message and its inbox row are always the business of one commit, so that whatever happens it is
said once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clew.core.changes import AddMessage, Change, StartTurn, TakeInbound, UndoTurn
from clew.core.signals import TurnJoined
from clew.errors import Conflict
from clew.runtime.queueing import Queue, Work, drafts_of
from clew.runtime.turn import RunningTurn


def opening(works: Sequence[Work], turn: RunningTurn) -> tuple[Change, ...]:
    """The turn's first commit: its row, and what the user said."""
    turn.reply_to = works[-1].reply_to
    if turn.reply_to is not None:
        # Whoever goes on with it after a crash has to know this too.
        attended = works[-1].attended
        turn.reply_to = msgspec.structs.replace(turn.reply_to, attended=attended)
    start = StartTurn(
        turn_id=turn.id,
        model=turn.session.model,
        reply_to=None if turn.reply_to is None else msgspec.to_builtins(turn.reply_to),
        inbound=_rows(works),
    )
    turn.answers = start.inbound
    undone = tuple(UndoTurn(each) for work in works for each in work.undo)
    return (*undone, start, *_said(works, turn))


async def put_into(
    turn: RunningTurn, works: tuple[Work, ...], queue: Queue, wake: Callable[[], None]
) -> bool:
    """Record works that were taken from the queue; False, or an error, if they are back in it."""
    rows = _rows(works)
    try:
        await turn.record(TakeInbound(turn_id=turn.id, inbound=rows), *_said(works, turn))
    except BaseException as error:
        queue.put_first(works)
        wake()
        if isinstance(error, Conflict):
            return False  # somebody else has such a row: its own turn will tell
        raise
    turn.answers += rows
    turn.signal(TurnJoined(turn.id, rows))
    return True


def _rows(works: Sequence[Work]) -> tuple[str, ...]:
    return tuple(work.inbound.id for work in works if work.inbound is not None)


def _said(works: Sequence[Work], turn: RunningTurn) -> tuple[Change, ...]:
    return tuple(
        AddMessage(draft, turn.id, from_person=from_person)
        for draft, from_person in drafts_of(works)
    )
