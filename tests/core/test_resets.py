from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.resets import (
    ResetByType,
    ResetPolicy,
    ResetRule,
    ResetRules,
    channel_of,
    choose_policy,
    daily_boundary,
    decide_reset,
    reset_type,
)

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = 60_000


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> int:
    wall = datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)
    return round(wall.timestamp() * 1000)


# --- which rule -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "thread", "peer", "kind"),
    [
        ("agent:main:main", None, None, "dm"),
        ("agent:main:telegram:dm:1", None, "dm", "dm"),
        ("agent:main:telegram:group:1", None, None, "group"),
        ("agent:main:slack:channel:c1", None, None, "group"),
        ("telegram:42", None, "group", "group"),
        ("telegram:42", None, "channel", "group"),
        ("agent:main:telegram:group:1:topic:7", None, None, "thread"),
        ("agent:main:slack:channel:c1:thread:2", None, None, "thread"),
        ("agent:main:discord:channel:99", "99", None, "thread"),
    ],
)
def test_the_type_of_a_conversation(
    key: str, thread: str | None, peer: str | None, kind: str
) -> None:
    assert reset_type(key, thread=thread, peer_kind=peer) == kind


@pytest.mark.parametrize(
    ("key", "channel"),
    [
        ("agent:main:telegram:group:1", "telegram"),
        ("agent:main:main", None),
        ("cli:api", "cli"),
        ("discord:5", "discord"),
        ("work", None),
    ],
)
def test_the_channel_that_a_key_tells(key: str, channel: str | None) -> None:
    assert channel_of(key) == channel


IDLE_30 = ResetRule("idle", idle_minutes=30)

POLICIES = [
    (ResetRules(), "dm", "telegram", ResetPolicy("daily", 4, None)),
    (ResetRules(reset=ResetRule("idle")), "dm", None, ResetPolicy("idle", 4, 60)),
    (ResetRules(reset=ResetRule("off", idle_minutes=5)), "dm", None, ResetPolicy("off")),
    (
        ResetRules(reset=ResetRule("daily", 6, 120)),
        "group",
        "slack",
        ResetPolicy("daily", 6, 120),
    ),
    # Field by field: the type's, then the general one's, then the default.
    (
        ResetRules(reset=ResetRule("daily", 6, 120), by_type=ResetByType(thread=IDLE_30)),
        "thread",
        "slack",
        ResetPolicy("idle", 6, 30),
    ),
    (
        ResetRules(reset=ResetRule("daily", 6, 120), by_type=ResetByType(thread=IDLE_30)),
        "dm",
        "slack",
        ResetPolicy("daily", 6, 120),
    ),
    (ResetRules(by_type=ResetByType(group=ResetRule(at_hour=0))), "group", None,
     ResetPolicy("daily", 0)),
    # A channel's rule replaces all.
    (
        ResetRules(
            reset=ResetRule("off"),
            by_type=ResetByType(dm=ResetRule("daily", 1)),
            by_channel={"Discord": ResetRule("idle", idle_minutes=10_080)},
            idle_minutes=3,
        ),
        "dm",
        "discord",
        ResetPolicy("idle", 4, 10_080),
    ),
    (
        ResetRules(reset=ResetRule("off"), by_channel={"discord": ResetRule(at_hour=9)}),
        "dm",
        "discord",
        ResetPolicy("daily", 9),
    ),
    # The older form.
    (ResetRules(idle_minutes=45), "dm", None, ResetPolicy("idle", 4, 45)),
    (ResetRules(idle_minutes=45, reset=ResetRule()), "dm", None, ResetPolicy("daily", 4, 45)),
    (
        ResetRules(idle_minutes=45, by_type=ResetByType(group=ResetRule("idle"))),
        "group",
        None,
        ResetPolicy("idle", 4, 45),
    ),
    (
        ResetRules(idle_minutes=45, reset=ResetRule("idle", idle_minutes=5)),
        "dm",
        None,
        ResetPolicy("idle", 4, 5),
    ),
    # Terminals wait for their person.
    (ResetRules(), "dm", "cli", ResetPolicy("off")),
    (ResetRules(by_channel={"cli": IDLE_30}), "dm", "cli", ResetPolicy("idle", 4, 30)),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "kind", "channel", "policy"), POLICIES)
def test_the_nearest_rule_holds(
    rules: ResetRules, kind: str, channel: str | None, policy: ResetPolicy
) -> None:
    assert choose_policy(rules, kind, channel) == policy  # type: ignore[arg-type]


# --- when -------------------------------------------------------------------------------------


def test_before_the_hour_the_boundary_is_yesterdays() -> None:
    assert daily_boundary(4, at("2026-03-10T03:59:59.999"), BERLIN) == at("2026-03-09T04:00")
    assert daily_boundary(4, at("2026-03-10T04:00"), BERLIN) == at("2026-03-10T04:00")
    assert daily_boundary(0, at("2026-03-10T00:00"), BERLIN) == at("2026-03-10T00:00")


def test_a_daily_reset_is_exact_to_the_millisecond() -> None:
    policy, now = ResetPolicy("daily"), at("2026-03-10T12:00")
    edge = at("2026-03-10T04:00")
    assert decide_reset(policy, edge, now, BERLIN).fresh
    stale = decide_reset(policy, edge - 1, now, BERLIN)
    assert (stale.fresh, stale.reason, stale.boundary) == (False, "daily", edge)


def test_an_idle_reset_is_exact_to_the_millisecond() -> None:
    policy, last = ResetPolicy("idle", 4, 30), at("2026-03-10T12:00")
    assert decide_reset(policy, last, last + 30 * MINUTE, BERLIN).fresh
    stale = decide_reset(policy, last, last + 30 * MINUTE + 1, BERLIN)
    assert (stale.fresh, stale.reason, stale.boundary) == (False, "idle", None)


def test_with_both_whichever_comes_first_is_the_reason() -> None:
    policy = ResetPolicy("daily", 4, 60)
    evening, night = at("2026-03-09T20:00"), at("2026-03-10T03:50")
    morning = at("2026-03-10T09:00")
    assert decide_reset(policy, evening, morning, BERLIN).reason == "idle"
    assert decide_reset(policy, night, morning, BERLIN).reason == "daily"
    assert decide_reset(policy, night, at("2026-03-10T03:55"), BERLIN).fresh


def test_off_never_resets() -> None:
    assert decide_reset(ResetPolicy("off"), 0, at("2026-03-10T12:00"), BERLIN).fresh


@pytest.mark.parametrize(
    ("zone", "hour", "now", "boundary"),
    [
        # The hour does not exist: it moves forward.
        ("Europe/Berlin", 2, "2026-03-29T12:00", "2026-03-29T03:00"),
        ("America/New_York", 2, "2026-03-08T12:00", "2026-03-08T03:00"),
        ("Australia/Lord_Howe", 2, "2026-10-04T12:00", "2026-10-04T02:30"),
        # It occurs twice: the first time counts.
        ("Europe/Berlin", 2, "2026-10-25T12:00", "2026-10-25T02:00"),
        ("America/New_York", 1, "2026-11-01T12:00", "2026-11-01T01:00"),
        # On other days of the change nothing is special.
        ("Europe/Berlin", 4, "2026-03-29T12:00", "2026-03-29T04:00"),
        ("America/New_York", 4, "2026-11-01T03:59", "2026-10-31T04:00"),
    ],
)
def test_daylight_saving(zone: str, hour: int, now: str, boundary: str) -> None:
    place = ZoneInfo(zone)
    assert daily_boundary(hour, at(now, place), place) == at(boundary, place)


def test_between_the_two_occurrences_of_the_hour_it_has_come() -> None:
    second = at("2026-10-25T02:00", fold=1)
    assert daily_boundary(2, second, BERLIN) == second - 60 * MINUTE


def test_a_day_that_was_left_out_is_survived() -> None:
    apia = ZoneInfo("Pacific/Apia")
    now = at("2011-12-31T12:00", apia)
    assert daily_boundary(4, now, apia) == at("2011-12-31T04:00", apia)
    assert daily_boundary(14, now, apia) <= now


TIMES = st.integers(1_500_000_000_000, 1_900_000_000_000)
RULES = st.builds(
    ResetPolicy,
    st.sampled_from(["daily", "idle", "off"]),
    st.integers(0, 23),
    st.one_of(st.none(), st.integers(1, 100_000)),
)
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])


@given(RULES, TIMES, st.integers(0, 10**10), st.integers(0, 10**9), ZONES)
def test_what_is_stale_stays_stale(
    policy: ResetPolicy, last: int, later: int, more: int, zone: str
) -> None:
    place = ZoneInfo(zone)
    now = decide_reset(policy, last, last + later, place)
    then = decide_reset(policy, last, last + later + more, place)
    assert now.fresh or not then.fresh


@given(RULES, TIMES, st.integers(0, 10**10), st.integers(0, 10**9), ZONES)
def test_a_later_word_never_makes_it_staler(
    policy: ResetPolicy, last: int, later: int, more: int, zone: str
) -> None:
    place, now = ZoneInfo(zone), last + later
    if decide_reset(policy, last, now, place).fresh:
        assert decide_reset(policy, min(now, last + more), now, place).fresh


@given(st.integers(0, 23), TIMES, ZONES)
def test_the_boundary_is_within_the_last_day_or_so(hour: int, now: int, zone: str) -> None:
    boundary = daily_boundary(hour, now, ZoneInfo(zone))
    assert now - 26 * 60 * MINUTE < boundary <= now
