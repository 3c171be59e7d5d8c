"""Schedules: what is one, and when it is due."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.cron import CronJob, check_name, check_schedule, next_due
from clew.errors import InvalidInput

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


def at(text: str, zone: ZoneInfo = BERLIN, *, fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp() * 1000)


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        ("0 8 * * *", "2026-05-01T07:59:59.999", "2026-05-01T08:00"),
        ("0 8 * * *", "2026-05-01T08:00", "2026-05-02T08:00"),
        ("0 8 * * mon-fri", "2026-05-01T09:00", "2026-05-04T08:00"),
        ("*/15 * * * *", "2026-05-01T09:01", "2026-05-01T09:15"),
        ("0 0 29 2 *", "2026-05-01T09:01", "2028-02-29T00:00"),
        ("@daily", "2026-05-01T09:01", "2026-05-02T00:00"),
        # 02:30 is not there on 29 March: it moves forward.
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T03:30"),
        ("30 2 * * *", "2026-03-29T03:30", "2026-03-30T02:30"),
        # On 25 October it is there twice: the first counts.
        ("30 2 * * *", "2026-10-24T12:00", "2026-10-25T02:30"),
        ("30 2 * * *", "2026-10-25T02:30", "2026-10-26T02:30"),
    ],
)
def test_a_schedule_is_due_at_its_wall_time(schedule: str, after: str, due: str) -> None:
    assert next_due(check_schedule(schedule), at(after), BERLIN) == at(due)


@pytest.mark.parametrize("start", ["2026-03-29T00:00", "2026-10-25T00:00"])
def test_what_runs_in_every_hour_does_so_when_the_clocks_change(start: str) -> None:
    moments = [at(start)]
    for _ in range(6):
        moments.append(next_due("0 * * * *", moments[-1], BERLIN))

    assert [later - earlier for earlier, later in pairwise(moments)] == [HOUR] * 6


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Apia"])
@given(
    schedule=st.sampled_from(["0 8 * * *", "30 2 * * *", "*/20 * * * *", "0 0 1 * *", "every 90m"]),
    after=st.integers(at("2024-01-01"), at("2030-01-01")),
)
def test_what_is_due_is_always_later_and_nothing_lies_between(
    zone: str, schedule: str, after: int
) -> None:
    due = next_due(schedule, after, ZoneInfo(zone))

    assert due > after
    between = after + (due - after) // 2
    if not schedule.startswith("every"):
        assert next_due(schedule, between, ZoneInfo(zone)) == due


def test_an_interval_goes_on_from_when_it_was_due_and_misses_count_once() -> None:
    assert next_due("every 2h", 10 * HOUR, BERLIN) == 12 * HOUR
    assert next_due("every 2h", 10 * HOUR + 5, BERLIN, last=10 * HOUR) == 12 * HOUR
    assert next_due("every 2h", 19 * HOUR, BERLIN, last=10 * HOUR) == 20 * HOUR


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("every 2h", "every 2h"),
        ("Every 2 hours", "every 2h"),
        ("every 30 minutes", "every 30m"),
        ("  0   8 * * * ", "0 8 * * *"),
        ("@Daily", "@daily"),
    ],
)
def test_a_schedule_is_kept_in_one_spelling(typed: str, kept: str) -> None:
    assert check_schedule(typed) == kept


@pytest.mark.parametrize(
    "typed",
    ["", "nope", "every 0m", "every 9999999d", "* * * * * *", "61 * * * *", "@reboot", "every 5s",
     "\udcff", "0 8 * *", "R 8 * * *" * 50],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(typed: str) -> None:
    with pytest.raises(InvalidInput):
        check_schedule(typed)


def test_a_day_that_never_comes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="never due"):
        next_due("0 0 31 2 *", at("2026-05-01T00:00"), BERLIN)


def test_a_job_has_the_key_of_its_name_unless_it_has_one_of_its_own() -> None:
    job = CronJob(name="news", schedule="@daily", text="hi", due_at=0, agent="home")
    assert job.key == "agent:home:cron:news"
    own = CronJob(name="n", schedule="@daily", text="hi", due_at=0, session="agent:home:main")
    assert own.key == "agent:home:main"


@pytest.mark.parametrize("name", ["", "a:b", "../x", "-a", "x" * 65, "é", "\udcff"])
def test_a_name_that_can_be_no_part_of_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_name(name)


def test_names_are_small_letters() -> None:
    assert check_name(" News ") == "news"
