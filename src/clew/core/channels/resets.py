"""When a conversation on a channel is reset: daily at an hour, after a pause, or never.

Pure: the rules, the last interaction and the time of day give the answer. The runtime makes the new
session and tells people about it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.core.keys import normalise_word, parse_key

ResetMode = Literal["daily", "idle", "off"]
ResetType = Literal["dm", "group", "thread"]

AT_HOUR: Final = 4
IDLE_MINUTES: Final = 60
_MINUTE: Final = 60_000

Hour = Annotated[int, Meta(ge=0, le=23)]
Minutes = Annotated[int, Meta(ge=1, le=100_000_000)]


class ResetRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule of the configuration about resets; missing fields come from the next rule."""

    mode: ResetMode | None = None
    at_hour: Hour | None = None
    idle_minutes: Minutes | None = None


class ResetByType(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rules for kinds of conversations."""

    dm: ResetRule | None = None
    group: ResetRule | None = None
    thread: ResetRule | None = None


class ResetRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rules of the configuration about resets; `idle_minutes` is an older form."""

    reset: ResetRule | None = None
    by_type: ResetByType | None = None
    by_channel: dict[str, ResetRule] = {}
    idle_minutes: int | None = None


class ResetPolicy(msgspec.Struct, frozen=True):
    """The policy for one conversation. Without minutes there is no reset after a pause."""

    mode: ResetMode
    at_hour: int = AT_HOUR
    idle_minutes: int | None = None


class ResetDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the conversation goes on, and if not, why. Times are milliseconds UTC."""

    fresh: bool
    reason: Literal["daily", "idle"] | None = None
    boundary: int | None = None
    idle_until: int | None = None


def reset_type(key: str, *, thread: str | None = None, peer_kind: str | None = None) -> ResetType:
    """The type of a conversation."""
    if thread or ":thread:" in key or ":topic:" in key:
        return "thread"
    if peer_kind in ("group", "channel") or ":group:" in key or ":channel:" in key:
        return "group"
    return "dm"


def channel_of(key: str) -> str | None:
    """The channel in a key: in the gateway's keys, or in a platform's own (`telegram:42`)."""
    parsed = parse_key(key)
    if parsed is not None:
        return parsed.channel
    return normalise_word(key.partition(":")[0]) or None if ":" in key else None


def choose_policy(rules: ResetRules, kind: ResetType, channel: str | None) -> ResetPolicy:
    """The policy of a conversation.

    A rule for its channel replaces all others. Otherwise each field comes from the most specific
    rule that has it.
    """
    name = normalise_word(channel or "")
    channels = {normalise_word(each): rule for each, rule in rules.by_channel.items()}
    if name in channels:
        return _policy(channels[name])
    if name == "cli":
        return ResetPolicy("off")  # a terminal's session is never reset by itself
    by_type = None if rules.by_type is None else getattr(rules.by_type, kind)
    explicit = rules.reset is not None or rules.by_type is not None
    older = ResetRule(
        mode="idle" if rules.idle_minutes is not None and not explicit else None,
        idle_minutes=rules.idle_minutes,
    )
    return _policy(by_type, rules.reset, older)


def _policy(*rules: ResetRule | None) -> ResetPolicy:
    given = [each for each in rules if each is not None]
    mode: ResetMode = next((each.mode for each in given if each.mode is not None), "daily")
    hour = next((each.at_hour for each in given if each.at_hour is not None), AT_HOUR)
    minutes = next((each.idle_minutes for each in given if each.idle_minutes is not None), None)
    if mode == "idle" and minutes is None:
        minutes = IDLE_MINUTES
    return ResetPolicy(mode, hour, None if mode == "off" else minutes)


def decide_reset(policy: ResetPolicy, last: int, now: int, zone: tzinfo) -> ResetDecision:
    """Whether a conversation in which a person last wrote at `last` continues.

    It is reset if that was before the daily boundary, or if the pause is over; the earlier of the
    two is given as the reason.
    """
    if policy.mode == "off":
        return ResetDecision(fresh=True)
    boundary = daily_boundary(policy.at_hour, now, zone) if policy.mode == "daily" else None
    until = None if policy.idle_minutes is None else last + policy.idle_minutes * _MINUTE
    daily = boundary is not None and last < boundary
    idle = until is not None and now > until
    reason: Literal["daily", "idle"] | None = None
    if daily or idle:
        first_daily = daily and (not idle or _next_boundary(policy.at_hour, last, zone) <= until)  # type: ignore[operator]
        reason = "daily" if first_daily else "idle"
    return ResetDecision(fresh=reason is None, reason=reason, boundary=boundary, idle_until=until)


def daily_boundary(hour: int, now: int, zone: tzinfo) -> int:
    """The last time that it was this hour: today, or yesterday if it is still to come today."""
    day = datetime.fromtimestamp(now / 1000, zone).date()
    # More than one step only if the zone skipped a day, as when an island crossed the date line.
    while (at := _instant(day, hour, zone)) > now:
        day -= timedelta(days=1)
    return at


def _next_boundary(hour: int, after: int, zone: tzinfo) -> int:
    """The first boundary after an instant."""
    day = datetime.fromtimestamp(after / 1000, zone).date()
    while (at := _instant(day, hour, zone)) <= after:
        day += timedelta(days=1)
    return at


def _instant(day: date, hour: int, zone: tzinfo) -> int:
    """A wall-clock time as an instant.

    A time that does not exist moves forward, and of one that occurs twice the first is taken: the
    earlier of the two offsets gives both.
    """
    wall = datetime(day.year, day.month, day.day, hour, tzinfo=zone)
    return round(wall.astimezone(UTC).timestamp() * 1000)
