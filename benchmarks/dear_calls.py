"""The dearest calls of a token that may only read, beside the owner's list of sessions.

The gateway is a process of its own over a full store. For each kind of call, thirty callers ask
again and again with one token, while the owner lists sessions; how long that takes is compared with
how long it takes while nobody else asks. The two take turns, so that a busy moment of the machine
hits both: the callers' process is stopped in between.
"""

from __future__ import annotations

import asyncio
import http.client
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.corpora import Setting
from benchmarks.processes.server import PATIENCE, Gateway, open_gateway
from benchmarks.timing import Finding, percentile, seconds

CALLERS = 30
BAR = 5.0
COUNT = {True: 40, False: 200}
"""Lists that are timed: quickly, or in full."""
ROUNDS = 10
"""How often the callers are stopped, and go on."""
WARM = 1.0
"""Seconds until the callers are all at it, or the gateway has done what they asked for."""


async def dear_calls(setting: Setting) -> list[Finding]:
    """The owner's list beside each of the dearest calls."""
    corpus = "thousand" if setting.quick else "million"
    kept = await setting.copy(corpus)
    calls = {
        "usage by session": "/v1/usage?by=session&limit=100",
        "usage by day, never the same": "/v1/usage?by=day&since={n}",
        "search for a common word": "/v1/search?q=connection&limit=50",
        "list with a query": "/v1/sessions?q=connection&limit=100",
        "export of 10,000 messages": f"/v1/sessions/{kept.long_id}/export?format=html",
        "1,000 messages": f"/v1/sessions/{kept.long_id}/messages?limit=1000",
        "status": "/v1/status",
    }
    findings = []
    with open_gateway(setting.folder(), kept.path) as gateway:
        reader = await asyncio.to_thread(gateway.make_token, "read")
        count = COUNT[setting.quick]
        await asyncio.to_thread(_time_list, gateway, count // 4)
        for what, path in calls.items():
            with _callers(gateway, reader, path) as (callers, answered):
                quiet, beside = await asyncio.to_thread(_take_turns, gateway, callers, count)
            before, after = percentile(quiet, 0.95), percentile(beside, 0.95)
            findings.append(
                Finding(
                    topic="dear",
                    what=f"list 20 beside {CALLERS} callers: {what} ({answered[0]} asked)",
                    floor=f"quiet p95 {seconds(before)}",
                    clew=f"p95 {seconds(after)}",
                    bar=f"{BAR:.0f} times",
                    ok=setting.quick or after < BAR * before,
                )
            )
    return findings


@contextmanager
def _callers(
    gateway: Gateway, token: str, path: str
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Callers in a process of their own; afterwards the list has the number of their calls."""
    command = (sys.executable, "-m", "benchmarks.processes.callers")
    process = subprocess.Popen(
        [*command, gateway.url, token, path, str(CALLERS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        answered: list[int] = []
        yield process, answered
        answered.append(int(process.communicate(timeout=PATIENCE)[0]))
    finally:
        process.kill()
        process.wait()


def _take_turns(
    gateway: Gateway, callers: subprocess.Popen[bytes], count: int
) -> tuple[list[float], list[float]]:
    """The times of lists without the callers, and beside them."""
    quiet: list[float] = []
    beside: list[float] = []
    for _ in range(ROUNDS):
        callers.send_signal(signal.SIGSTOP)
        time.sleep(WARM)
        quiet += _time_list(gateway, count // ROUNDS)
        callers.send_signal(signal.SIGCONT)
        time.sleep(WARM)
        beside += _time_list(gateway, count // ROUNDS)
    return quiet, beside


def _time_list(gateway: Gateway, count: int) -> list[float]:
    place = gateway.url.removeprefix("http://")
    connection = http.client.HTTPConnection(place, timeout=PATIENCE)
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        connection.request(
            "GET", "/v1/sessions?limit=20", headers={"Authorization": f"Bearer {gateway.token}"}
        )
        answer = connection.getresponse()
        answer.read()
        taken.append(time.perf_counter() - began)
        if answer.status != 200:
            raise SystemExit(f"the owner's list: {answer.status}")
    connection.close()
    return taken
