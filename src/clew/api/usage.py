"""Token usage and cost, by day, model, platform or session."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Moment, Zone
from clew.api.operation import Params, row
from clew.core.usage import UsageBy, UsageRow


class GetUsage(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to sum up by, and from when. `limit` is for sessions: so many, the dearest first.

    `timezone`: where days begin and end; left out, where the gateway is.
    """

    by: UsageBy = "day"
    since: Moment = 0
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 100
    timezone: Zone | None = None


# --- the whole --------------------------------------------------------------------------------
class UsedSession(msgspec.Struct, frozen=True):
    """What a session is called; without a name it is gone for good."""

    short_id: str
    name: str = ""


class UsageReport(msgspec.Struct, frozen=True):
    """What was spent, summed up. By day, names are dates in the time zone that was asked for.

    Models and sessions that cost most come first. By session there are as many rows as were asked
    for; `count` says how many there are, `total` is what all of them have spent, and `sessions`
    has the names of those in the rows.
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
    "Sum up tokens and money.",
)  # fmt: skip
ROWS: Final = (USAGE,)
