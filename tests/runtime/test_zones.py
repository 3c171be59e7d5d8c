from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.runtime.zones import HostZone, find_zone


@pytest.fixture(scope="module", params=["Europe/Berlin", "America/New_York", "UTC"])
def zone(request: pytest.FixtureRequest) -> Iterator[ZoneInfo]:
    """The host lives there meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield ZoneInfo(request.param)
    time.tzset()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1_600_000_000, 1_900_000_000))
def test_the_host_reads_its_clocks_like_its_zone(zone: ZoneInfo, second: int) -> None:
    moment = datetime.fromtimestamp(second, UTC)
    here, there = moment.astimezone(HostZone()), moment.astimezone(zone)
    assert here.replace(tzinfo=None) == there.replace(tzinfo=None)
    assert (here.utcoffset(), here.fold) == (there.utcoffset(), there.fold)
    assert here.timestamp() == second


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("wall", ["2026-10-25T02:30", "2026-03-29T02:30", "2026-11-01T01:30"])
def test_around_a_change_of_the_clocks(zone: ZoneInfo, wall: str, fold: int) -> None:
    given = datetime.fromisoformat(wall).replace(fold=fold)
    assert given.replace(tzinfo=HostZone()).timestamp() == given.replace(tzinfo=zone).timestamp()


def test_a_named_zone_is_that_one() -> None:
    assert find_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert isinstance(find_zone(None), HostZone)
