"""Moments and spans of time as people type them on the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, tzinfo
from typing import Any

import click

from clew.core.names import parse_duration


class Duration(click.ParamType[int]):
    """`90d`, `12h`, `2w`: milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `core.names.parse_duration`."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_moment(
    text: str, *, now: int, zone: Callable[[int], tzinfo], end_of_day: bool = False
) -> int:
    """Read an ISO date or time, or a duration before `now`, as milliseconds UTC.

    `zone` tells the person's time zone at a moment. A bare date is its first moment, or its last.
    """
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
        if end_of_day and len(text.strip()) <= len("2026-01-31"):
            moment = datetime.combine(moment.date(), time.max)
        if moment.tzinfo is None:
            # The offset of about then; right but for the hours around a change of the clocks.
            about = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
            moment = moment.replace(tzinfo=zone(about))
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{text[:40]!r} is neither a date (2026-01-31, 2026-01-31T10:30) nor a duration (7d)."
        ) from error
