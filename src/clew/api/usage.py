"""Token usage and cost, by day, model, platform, person or session."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Moment, Zone
from clew.api.operation import Params, row
from clew.core.usage import UsageBy, UsageRow


class GetUsage(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to group the usage, and from when.

    `limit`: how many sessions, the most expensive first. `timezone`: of the days; left out, that of
    the gateway.
    """

    by: UsageBy = "day"
    since: Moment = 0
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 100
    timezone: Zone | None = None


# --- the whole --------------------------------------------------------------------------------
class UsedSession(msgspec.Struct, frozen=True):
    """The name of a session; a purged one has none."""

    short_id: str
    name: str = ""


class UsageReport(msgspec.Struct, frozen=True):
    """Usage, summed up. By day, names are dates in the time zone that was asked for.

    Models, people and sessions with the highest cost come first. By session there are at most
    `limit` rows; `count` says how many sessions there are, `total` is the usage of all of them, and
    `sessions` has the names of those in the rows.
    """

    by: UsageBy
    since: int
    rows: tuple[UsageRow, ...]
    count: int
    total: UsageRow
    sessions: dict[str, UsedSession] = {}


# --- the rows of the table ---------------------------------------------------------------------

USAGE: Final = row(
    "usage", "GET", "usage", "read", GetUsage, UsageReport,
    "Sum up token usage and cost.",
)  # fmt: skip
ROWS: Final = (USAGE,)
