"""Time zones: by name, by offset, or the host's own, with daylight saving time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from clew.errors import InvalidInput


class HostZone(tzinfo):
    """The host's time zone, as the operating system knows it."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """The offset at a wall-clock time; for one that does not exist, the offset before."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:  # noqa: ARG002  # not known
        """Not known apart from the offset."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Its short name at a wall-clock time."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """The wall-clock time of a moment; `fold` is set if it occurs for the second time."""
        moment = dt.replace(tzinfo=UTC).astimezone()
        first = moment.replace(tzinfo=None, fold=0).astimezone()
        return moment.replace(tzinfo=self, fold=int(first.utcoffset() != moment.utcoffset()))


def get_zone(name: str) -> tzinfo:
    """The zone of a name like Europe/Berlin or +02:00; `InvalidInput` if it is unknown."""
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
    """The zone of that name; without a name, the host's own."""
    return HostZone() if name is None else ZoneInfo(name)
