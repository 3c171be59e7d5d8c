"""Cron jobs: what a schedule says, and when it is due next.

Pure: the schedule, a moment and a time zone give the next moment. `runtime.cron` keeps the jobs and
runs them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

import msgspec

from clew.core.keys import ChannelKey, complete_key, format_key
from clew.errors import InvalidInput

ISOLATED: Final = "isolated"
FIXED: Final = "fixed"

MINUTE: Final = 60_000
LONGEST: Final = 366 * 1_440 * MINUTE

_UNITS: Final = {"m": MINUTE, "h": 60 * MINUTE, "d": 1_440 * MINUTE}
_EVERY: Final = re.compile(r"every\s+(\d{1,9})\s*(m|h|d)\w*", re.IGNORECASE)
_FIELDS: Final = re.compile(r"[\w*/,#?-]+(?: [\w*/,#?-]+){4}", re.ASCII)
_NAMED: Final = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class CronJob(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job. It is due at `due_at`; several missed runs are made up for by one run.

    `session` is `isolated` (a new one for each run), `fixed` (one for all), or a key of its own.
    `deliver_to` is read by `core.channels.replies.parse_reply_to`.
    """

    name: str
    schedule: str
    text: str
    due_at: int
    agent: str = "main"
    session: str = ISOLATED
    deliver_to: str | None = None
    timezone: str | None = None
    last_run_at: int | None = None

    @property
    def key(self) -> str:
        """The key of its session."""
        if self.session not in (ISOLATED, FIXED):
            return complete_key(self.session, agent=self.agent)
        return format_key(ChannelKey(self.agent, "cron", self.name))


def check_name(text: str) -> str:
    """Check the name of a job, which becomes a part of keys; raises `InvalidInput`."""
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise InvalidInput("A job's name is of letters, digits, - and _, at most 64 of them.")
    return name


def check_schedule(text: str) -> str:
    """A schedule in its stored form; raises `InvalidInput` with examples of valid ones."""
    schedule = " ".join(text.split())
    every = _EVERY.fullmatch(schedule)
    if every is not None:
        interval = int(every[1]) * _UNITS[every[2].lower()]
        if MINUTE <= interval <= LONGEST:
            return f"every {int(every[1])}{every[2].lower()}"
    elif schedule.lower() in _NAMED:
        return schedule.lower()
    elif _FIELDS.fullmatch(schedule):
        from croniter import croniter  # type: ignore[import-untyped]  # noqa: PLC0415  # only for jobs

        if croniter.is_valid(schedule):
            return schedule
    raise InvalidInput(
        f'"{text[:100]}" is not a schedule. Write five fields (minute, hour, day, month, weekday) '
        'as in "0 8 * * mon-fri", or "every 2h".'
    )


def next_due(schedule: str, after: int, zone: tzinfo, *, last: int | None = None) -> int:
    """The first due time after `after`; `InvalidInput` if there is none.

    An interval counts from `last`, the previous due time. Wall-clock times follow the zone: a time
    that does not exist moves forward; of a time that occurs twice, the first counts; an hourly job
    still runs every hour.
    """
    every = _EVERY.fullmatch(schedule)
    if every is not None:
        interval = int(every[1]) * _UNITS[every[2].lower()]
        start = after if last is None else min(last, after)
        return start + ((after - start) // interval + 1) * interval
    moment = datetime.fromtimestamp(after / 1000, UTC).astimezone(zone)
    if schedule.startswith("@hourly") or schedule.split(" ")[1:2] == ["*"]:
        zone = timezone(moment.utcoffset() or timedelta())
    wall = moment.replace(tzinfo=None, fold=0) - timedelta(hours=3)  # before any change of clocks
    return _first_after(schedule, wall, after, zone)


def _first_after(schedule: str, wall: datetime, after: int, zone: tzinfo) -> int:
    from croniter import CroniterError, croniter  # noqa: PLC0415  # only where jobs are

    times = croniter(schedule, wall, ret_type=datetime)
    try:
        while True:
            at = _instant(times.get_next(datetime), zone)
            if at > after:
                return at
    except CroniterError as error:
        raise InvalidInput(f'"{schedule}" is never due.') from error


def _instant(wall: datetime, zone: tzinfo) -> int:
    return round(wall.replace(tzinfo=zone, fold=0).astimezone(UTC).timestamp() * 1000)
