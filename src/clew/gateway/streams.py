"""Everything that goes on after it was asked for: the live socket, event streams, answers.

Two lines put them into an application: `doors`, and `stream_chat` for `chat.send`. They end with
their client, with its credential, and with the gate.
"""

from __future__ import annotations

from starlette.responses import Response

from clew.api.chat import SendChat
from clew.api.local import Calls
from clew.gateway import sse
from clew.gateway.auth import Gate, Pass
from clew.gateway.doors import Door
from clew.gateway.hub import Hub
from clew.gateway.live import make_live_door
from clew.gateway.sentry import STALL, Sentry


class Streams:
    """The streams of one gateway."""

    def __init__(
        self,
        calls: Calls,
        gate: Gate,
        *,
        heartbeat: float = sse.HEARTBEAT,
        stall: float = STALL,
    ) -> None:
        self._calls = calls
        self._heartbeat = heartbeat
        self.sentry = Sentry(gate, stall=stall)
        hub = Hub(calls.parts)
        self.doors: tuple[Door, ...] = (
            make_live_door(hub, self.sentry),
            sse.make_events_door(hub, self.sentry, heartbeat=heartbeat),
        )

    async def stream_chat(self, params: SendChat, given: Pass) -> Response:
        """See `app.StreamChat`."""
        return sse.stream_chat(self._calls, self.sentry, params, given, heartbeat=self._heartbeat)
