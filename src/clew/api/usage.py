"""Token usage and cost, by day, model, platform or session."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Moment
from clew.api.operation import Params, row
from clew.core.usage import UsageBy, UsageRow


class GetUsage(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to sum up by, and from when. `limit` is for sessions: so many, the dearest first."""

    by: UsageBy = "day"
    since: Moment = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


# --- the whole --------------------------------------------------------------------------------
class UsageReport(msgspec.Struct, frozen=True):
    """What was spent, summed up. By day, names are dates where the gateway is.

    By session there are as many rows as were asked for, the dearest first; `count` says how many
    there are, and `total` is what all of them have spent.
    """

    by: UsageBy
    since: int
    rows: tuple[UsageRow, ...]
    count: int
    total: UsageRow


# --- the rows of the table ---------------------------------------------------------------------

USAGE: Final = row(
    "usage", "GET", "usage", "read", GetUsage, UsageReport,
    "Sum up tokens and money.",
)  # fmt: skip
ROWS: Final = (USAGE,)
