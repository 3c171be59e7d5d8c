"""The status of this clew: store, channels, queue, jobs."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.fields import Seq
from clew.api.operation import NoParams, Params, row
from clew.core.delivery import InboundStatus, OutboundStatus
from clew.core.gateway_events import GatewayEvent
from clew.core.session import Status, StoreStats


class StoreView(msgspec.Struct, frozen=True):
    """The kind of store, where it is, and its durability."""

    url: str
    engine: str
    schema: int
    path: str = ""
    durability: str = ""


class ConfigView(msgspec.Struct, frozen=True):
    """The config file, and whether it exists.

    `changed`: keys that changed in it since the gateway read it. `problem`: why it can't be read.
    """

    file: str
    exists: bool
    changed: tuple[str, ...] = ()
    problem: str | None = None


class GatewayView(msgspec.Struct, frozen=True):
    """The process of the gateway."""

    pid: int
    started_at: int


class ChannelView(msgspec.Struct, frozen=True):
    """A channel, and whether it works.

    `since`: from when on. `last_at`: when a message last came in, since the gateway started.
    """

    name: str
    account: str
    state: Literal["up", "down", "off"]
    detail: str | None = None
    since: int | None = None
    last_at: int | None = None


class CronView(msgspec.Struct, frozen=True):
    """The jobs: how many, when the next one is due, and their errors."""

    jobs: int
    due_at: int | None = None
    problems: dict[str, str] = {}


class ErrandView(msgspec.Struct, frozen=True):
    """A background task of a gateway (`replies`, `jobs`, `channels`), and whether it works.

    `others` continues the work of gateways that died. A task that is down is restarted
    automatically; `detail` says why it is down.
    """

    name: str
    state: Literal["up", "down", "off"]
    detail: str | None = None


class LeaseView(msgspec.Struct, frozen=True):
    """A session that a process works in, and which process."""

    session: str
    holder: str
    expires_at: int
    status: Status | None


class FindingView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was checked about the store, and what to do about it.

    Only what costs nothing to check; `clew doctor` checks the rest.
    """

    name: str
    level: Literal["ok", "warning", "problem"]
    what: str
    advice: str = ""


class StatusReport(msgspec.Struct, frozen=True):
    """The status of this clew. A guest gets its version and the time only.

    `inbox` and `outbox`: how many messages and replies are in each state; those that are answered
    or have arrived are not counted. `backed_up_at`: when `clew backup` last copied the store.
    """

    version: str
    at: int
    stats: StoreStats | None = None
    store: StoreView | None = None
    channels: tuple[ChannelView, ...] = ()
    cron: CronView | None = None
    queued: int = 0
    waiting: int = 0
    leases: tuple[LeaseView, ...] = ()
    uncertain: int = 0
    asking: int = 0
    errands: tuple[ErrandView, ...] = ()
    config: ConfigView | None = None
    gateway: GatewayView | None = None
    inbox: dict[InboundStatus, int] = {}
    outbox: dict[OutboundStatus, int] = {}
    findings: tuple[FindingView, ...] = ()
    backed_up_at: int | None = None


class ListEvents(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only events behind the number `after`."""

    after: Seq = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class EventList(msgspec.Struct, frozen=True):
    """The last events since the gateway was started, newest first.

    `head` is the number of the newest one: with it as `after` only what is new then comes.
    """

    events: tuple[GatewayEvent, ...]
    head: int


# --- the rows of the table ---------------------------------------------------------------------

STATUS: Final = row(
    "status", "GET", "status", "read", NoParams, StatusReport,
    "Get the status of this clew.",
    who="guest",
)  # fmt: skip
EVENTS: Final = row(
    "status.events", "GET", "status/events", "read", ListEvents, EventList,
    "List what happened at this gateway lately: turns, deliveries, sign-ins, channels.",
)  # fmt: skip
ROWS: Final = (STATUS, EVENTS)
