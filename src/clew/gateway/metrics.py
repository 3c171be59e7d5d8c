"""`GET /metrics`: counts of this gateway in the text format of Prometheus, for its owner.

Counters go up with the events of the process (`runtime.event_log`); sizes are read when they are
asked for. No label names a session, a key, a person or a title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from clew.api.handlers.parts import Parts
from clew.api.operation import NoParams, Operation
from clew.core.delivery import OutboundStatus
from clew.core.gateway_events import GatewayEvent
from clew.gateway.auth import Credential, Gate
from clew.gateway.endpoints import Endpoint, read_request
from clew.version import __version__

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600)
"""Upper ends of the durations of turns, in seconds."""
OUTCOMES: Final = {
    "turn_done": "done",
    "turn_failed": "failed",
    "turn_stopped": "stopped",
    "turn_interrupted": "interrupted",
}
COUNTED: Final = {
    "message_refused": ("clew_messages_refused_total", "Messages of strangers and guests refused."),
    "delivery_failed": ("clew_deliveries_failed_total", "Replies that were not delivered."),
    "delivery_uncertain": ("clew_deliveries_uncertain_total", "Replies that may have arrived."),
    "sign_in_refused": ("clew_sign_ins_refused_total", "Sign-ins with a wrong or old code."),
    "channel_down": ("clew_channel_failures_total", "Failures of channels."),
}
"""Kinds of events that are counted as they are: the metric's name, and what it is."""
WAITING: Final[tuple[OutboundStatus, ...]] = ("pending", "sending", "failed", "uncertain")
"""States of replies that are counted."""
MOST: Final = 1_000
"""Rows that are counted of a state; a larger number is not needed to raise an alarm."""

METRICS: Final[Operation[Any, Any]] = Operation(
    name="metrics",
    method="GET",
    path="/metrics",
    scope="read",
    takes=NoParams,
    gives=str,
    help="Counts of this gateway, in the text format of Prometheus.",
)


class Metrics:
    """Counts events. Made for `EventLog.listen`."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.durations: Counter[int] = Counter()
        self.seconds = 0.0

    def count(self, event: GatewayEvent) -> None:
        """Count an event."""
        self.events[event.kind] += 1
        if event.kind not in OUTCOMES:
            return
        self.tokens["input"] += event.input_tokens
        self.tokens["output"] += event.output_tokens
        if event.ms is not None:
            seconds = event.ms / 1000
            self.seconds += seconds
            self.durations[next((end for end in BUCKETS if seconds <= end), -1)] += 1


def make_metrics_endpoint(parts: Parts, gate: Gate, metrics: Metrics) -> Endpoint:
    """The endpoint of the counts."""

    async def respond(request: Request, _given: Credential) -> Response:
        await read_request(METRICS, request)
        lines = [*_format_events(metrics), *await _format_sizes(parts, gate)]
        return Response("\n".join(lines) + "\n", headers={"Content-Type": MEDIA_TYPE})

    return Endpoint(operation=METRICS, respond=respond)


def _format_events(metrics: Metrics) -> Iterator[str]:
    outcomes = ((f'{{outcome="{name}"}}', metrics.events[kind]) for kind, name in OUTCOMES.items())
    yield from _format("clew_turns_total", "counter", "Turns that have ended.", outcomes)
    yield from _format_durations(metrics)
    tokens = ((f'{{direction="{each}"}}', metrics.tokens[each]) for each in ("input", "output"))
    yield from _format("clew_tokens_total", "counter", "Tokens of the turns that ended.", tokens)
    for kind, (name, words) in COUNTED.items():
        yield from _format(name, "counter", words, [("", metrics.events[kind])])


def _format_durations(metrics: Metrics) -> Iterator[str]:
    name, total = "clew_turn_duration_seconds", 0
    yield f"# HELP {name} How long turns took."
    yield f"# TYPE {name} histogram"
    for end in BUCKETS:
        total += metrics.durations[end]
        yield f'{name}_bucket{{le="{end}"}} {total}'
    whole = metrics.durations.total()
    yield f'{name}_bucket{{le="+Inf"}} {whole}'
    yield f"{name}_sum {metrics.seconds}"
    yield f"{name}_count {whole}"


async def _format_sizes(parts: Parts, gate: Gate) -> list[str]:
    store = parts.store
    stats = await store.stats()
    outbox = [
        (f'{{state="{state}"}}', len(await store.list_outbound(status=state, limit=MOST)))
        for state in WAITING
    ]
    channels = [
        (f'{{channel="{_escape(each.name)}"}}', int(each.state == "up"))
        for each in parts.list_channels()
    ]
    sizes: tuple[tuple[str, str, Iterable[tuple[str, float]]], ...] = (
        ("clew_info", "The version.", [(f'{{version="{__version__}"}}', 1)]),
        ("clew_started_seconds", "When it started.", [("", (parts.started_at or 0) / 1000)]),
        ("clew_sessions", "Sessions in the store.", [("", stats.sessions)]),
        ("clew_messages", "Messages in the store.", [("", stats.messages)]),
        ("clew_store_bytes", "The size of the store.", [("", stats.file_bytes)]),
        ("clew_turns_running", "Turns that run here.", [("", len(parts.runtime.list_running()))]),
        ("clew_queue", "Messages that wait.", [("", len(await store.list_inbound(limit=MOST)))]),
        ("clew_approvals", "Open questions.", [("", len(await store.list_approvals()))]),
        ("clew_outbox", "Replies by state, up to 1,000.", outbox),
        ("clew_connections", "Open connections.", [("", gate.unknown.count_open())]),
        ("clew_channel_up", "Whether a channel works.", channels),
    )
    return [line for name, words, values in sizes for line in _format(name, "gauge", words, values)]


def _format(name: str, kind: str, words: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        yield f"{name}{labels} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
