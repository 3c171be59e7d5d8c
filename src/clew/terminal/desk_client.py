"""The client of a chat that has a desk: for the picker, until the chat itself is a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from clew.api.handlers.parts import Caller, Exporter, Importer, Renderer
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.core.placing import ReceptionRules
from clew.core.retention import Retention
from clew.runtime.commands.desk import Desk

if TYPE_CHECKING:
    from pathlib import Path

    from clew.api.status import ChannelView, ErrandView, StoreView
    from clew.core.keys import Place
    from clew.core.placing import Judge
    from clew.ports import Clock, Context, Memory, Models, Personalities, Store
    from clew.runtime.cron import CronFile
    from clew.runtime.reception import Reception
    from clew.runtime.runtime import Runtime


def client_of(desk: Desk) -> Client:
    """The gateway's client where the desk is at a gateway, else one in this process."""
    there = getattr(desk.seat.runtime, "client", None)
    if isinstance(there, Client):
        return there
    caller = Caller(desk.seat.person)
    return Client(transport=LocalTransport(Calls(DeskParts(desk)), caller))


class DeskParts:
    """`Parts` of a desk: what the picker's calls need."""

    export: Exporter | None = None
    import_transcript: Importer | None = None
    retention = Retention()
    render: Renderer | None = None
    describe: Callable[[], Awaitable[StoreView]] | None = None
    reception: Reception | None = None
    jobs: CronFile | None = None
    judge: Judge | None = None
    timezone: str | None = None
    rules: ReceptionRules
    config_file: Path | None = None
    started_at: int | None = None
    zone: tzinfo = UTC

    def __init__(self, desk: Desk) -> None:
        self.store: Store = desk.store
        self.runtime: Runtime = desk.seat.runtime
        self.clock: Clock = desk.seat.runtime.clock
        self.models: Models = desk.models
        self.personalities: Personalities = desk.personalities
        self.memory: Memory = desk.memory
        self.context: Context | None = desk.context
        self.rules = ReceptionRules(zone=UTC)
        self.place: Place = desk.seat.place

    def list_channels(self) -> tuple[ChannelView, ...]:
        """See `Parts`."""
        return ()

    def list_errands(self) -> tuple[ErrandView, ...]:
        """See `Parts`."""
        return ()

    def list_job_problems(self) -> dict[str, str]:
        """See `Parts`."""
        return {}
