"""Time zones: by name, by offset, or the host's own with its changes of the clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from clew.errors import InvalidInput


class HostZone(tzinfo):
    """What the operating system says about each moment."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """The offset at a wall time; at one that does not exist, that of before."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:  # noqa: ARG002  # not known
        """Not known apart from the offset."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Its short name at a wall time."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """The wall time of a moment, with `fold` where it occurs for the second time."""
        moment = dt.replace(tzinfo=UTC).astimezone()
        first = moment.replace(tzinfo=None, fold=0).astimezone()
        return moment.replace(tzinfo=self, fold=int(first.utcoffset() != moment.utcoffset()))


def get_zone(name: str) -> tzinfo:
    """The zone that somebody named, like Europe/Berlin or +02:00; `InvalidInput` for others."""
    try:
        if name[:1] in ("+", "-"):
            offset = datetime.strptime(name, "%z").tzinfo
            return UTC if offset is None else offset
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f'There is no time zone "{name[:60]}". Europe/Berlin is one, or +02:00.'
        ) from error


def find_zone(name: str | None) -> tzinfo:
    """The zone of that name, the host's own without one."""
    return HostZone() if name is None else ZoneInfo(name)
