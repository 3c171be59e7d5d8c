"""The last events of this process, for its owner: the one place that parts report to.

It keeps a bounded number in memory, and passes each on to those who listen, a log for example. A
restart begins with none. What an event may say is in `core.gateway_events`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from clew.core.gateway_events import LEVELS, GatewayEvent, GatewayEventKind
from clew.core.turn import Turn
from clew.ports import Clock

KEPT: Final = 500

Listen = Callable[[GatewayEvent], object]

_TURNS: Final[dict[str, tuple[GatewayEventKind, str]]] = {
    "done": ("turn_done", "A turn is done."),
    "failed": ("turn_failed", "A turn failed. Its session shows why."),
    "aborted": ("turn_stopped", "A turn was stopped."),
    "interrupted": ("turn_interrupted", "A turn was interrupted."),
}


class EventLog:
    """A ring of events. Reporting never fails and never waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[GatewayEvent] = deque(maxlen=KEPT)
        self._head = 0
        self._listeners: list[Listen] = []

    @property
    def head(self) -> int:
        """The number of the last event."""
        return self._head

    def listen(self, listener: Listen) -> None:
        """Call the listener with every event from now on, also with one that is repeated."""
        self._listeners.append(listener)

    def report(self, kind: GatewayEventKind, text: str, **facts: Any) -> None:
        """Add an event. `facts` are further fields of it.

        What is like the last one is counted there: a stranger who tries again and again can't push
        out everything else.
        """
        level = LEVELS.get(kind, "info")
        event = GatewayEvent(
            number=self._head + 1, at=self._clock(), kind=kind, level=level, text=text, **facts
        )
        last = self._events[-1] if self._events else None
        if last is not None and level != "info" and _is_same(last, event):
            event = msgspec.structs.replace(
                last, number=event.number, at=event.at, count=last.count + 1
            )
            self._events.pop()
        self._head = event.number
        self._events.append(event)
        for each in self._listeners:
            each(event)

    def report_turn(self, turn: Turn) -> None:
        """Add the end of a turn."""
        known = _TURNS.get(turn.status)
        if known is not None:
            took = None if turn.ended_at is None else max(0, turn.ended_at - turn.started_at)
            self.report(
                *known,
                session=turn.session_id,
                turn=turn.id,
                ms=took,
                input_tokens=turn.usage.input_tokens,
                output_tokens=turn.usage.output_tokens,
            )

    def list_events(self, *, after: int = 0, limit: int = KEPT) -> tuple[GatewayEvent, ...]:
        """The newest events behind a number, newest first."""
        newest = (each for each in reversed(self._events) if each.number > after)
        return tuple(each for each, _ in zip(newest, range(limit), strict=False))


def _is_same(one: GatewayEvent, other: GatewayEvent) -> bool:
    return one == msgspec.structs.replace(other, number=one.number, at=one.at, count=one.count)
