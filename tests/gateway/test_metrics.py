"""`GET /metrics`: counts for an operator, and nothing about what was said or by whom."""

from __future__ import annotations

import re

import pytest

from clew.core.gateway_events import GatewayEvent
from clew.gateway.metrics import Metrics, make_metrics_endpoint
from tests.gateway.conftest import House, check_problem, open_gatehouse


@pytest.fixture
async def metrics(tmp_path):  # type: ignore[no-untyped-def]
    async with open_gatehouse(tmp_path) as house:
        made = Metrics()
        house.calls.parts.runtime.events.listen(made.count)
        endpoint = make_metrics_endpoint(house.calls.parts, house.gate, made)
        from clew.gateway.app import build_app

        house.app = build_app(house.calls, house.gate, endpoints=(endpoint,))
        yield house


def read(text: str) -> dict[str, float]:
    """The values, by name and labels. Every line has to be one of the format's."""
    values = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) clew_[a-z_]+ .+", line), line
            continue
        match = re.fullmatch(r'(clew_[a-z_]+(?:\{[a-z]+="[^"]*"\})?) ([0-9.e+-]+)', line)
        assert match, line
        values[match[1]] = float(match[2])
    return values


async def test_turns_are_counted_with_their_duration_and_tokens(metrics: House) -> None:
    events = metrics.calls.parts.runtime.events
    for ms in (500, 7_000, 900_000):
        events.report("turn_done", "A turn is done.", ms=ms, input_tokens=10, output_tokens=2)
    events.report("turn_failed", "A turn failed.", ms=1_000)
    answer = await metrics.ask("GET", "/metrics", token=await metrics.secret("read"))
    values = read(answer.text)
    assert values['clew_turns_total{outcome="done"}'] == 3
    assert values['clew_turns_total{outcome="failed"}'] == 1
    assert values['clew_tokens_total{direction="input"}'] == 30
    assert values['clew_turn_duration_seconds_bucket{le="1"}'] == 2
    assert values['clew_turn_duration_seconds_bucket{le="600"}'] == 3
    assert values['clew_turn_duration_seconds_bucket{le="+Inf"}'] == 4
    assert values["clew_turn_duration_seconds_count"] == 4


async def test_sizes_are_those_of_the_store_and_name_nothing_in_it(metrics: House) -> None:
    await metrics.session(key="cli:canary", title="canary")
    values = read((await metrics.ask("GET", "/metrics", token=await metrics.secret())).text)
    assert values["clew_sessions"] == 1
    assert values["clew_store_bytes"] > 0
    text = (await metrics.ask("GET", "/metrics", token=await metrics.secret())).text
    assert "canary" not in text


async def test_only_the_owner_reads_them(metrics: House) -> None:
    check_problem(await metrics.ask("GET", "/metrics"), 401)
    guest = await metrics.secret("read", "telegram:7")
    check_problem(await metrics.ask("GET", "/metrics", token=guest), 403)


def test_an_event_without_a_duration_is_counted_too() -> None:
    made = Metrics()
    made.count(GatewayEvent(number=1, at=0, kind="turn_stopped", level="info", text="x"))
    assert made.events["turn_stopped"] == 1
    assert made.durations.total() == 0
