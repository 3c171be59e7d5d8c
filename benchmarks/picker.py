"""The picker in a full store: its first frame, and what follows each key.

A thing is there when the frame that shows it is painted. Frames go to Textual's headless driver:
what is left out is the terminal itself.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
from textual import events

from benchmarks.corpora import Setting, open_at
from benchmarks.timing import Finding, seconds
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.client.seats import locate
from clew.config import load
from clew.core.session import OWNER, Session, SessionFilter
from clew.ports import Store
from clew.terminal.picker import PickerSetup
from clew.terminal.picker.screen import PickerApp, freeze_garbage_collector
from clew.wiring import House

FIRST = 1.3
NAMES = 0.100
HITS = 0.200
ECHO = 0.050
ROUNDS = 9
PATIENCE = 60.0
TYPED = (
    "the parser",
    "lgoin prblem",
    "palimpsest",
    "connection is",
    "home ada",
    "zqx",
)
FAST = 0.07
"""Seconds between two keys of somebody who types fast."""


async def picking(setting: Setting) -> list[Finding]:
    """Frames and keys at 50,000 sessions and a million messages; a tenth of it if quick."""
    kept = await setting.corpus("mixed" if setting.quick else "million")
    freeze_garbage_collector()
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        findings = await _first_frames(store)
        findings += await _keys(store)
    return findings


class Watched(PickerApp):
    """A picker that says when a frame has been painted, and that draws on nothing."""

    def __init__(self, client: Client, only: tuple[Session, ...] = ()) -> None:
        setup = PickerSetup(
            client=client,
            place=locate(Path.cwd().anchor),
            now=lambda: time.time_ns() // 1_000_000,
            zone=lambda _at: UTC,
            only=only,
            everywhere=True,
        )
        super().__init__(setup)
        self.painted: Callable[[], None] = lambda: None

    def _display(self, screen: Any, renderable: Any) -> None:
        super()._display(screen, renderable)
        if screen is self.picker:
            self.painted()


@asynccontextmanager
async def opened(app: Watched) -> AsyncIterator[Watched]:
    """A picker that runs."""
    async with app.run_test(size=(120, 40)):
        yield app


# --- the first frame --------------------------------------------------------------------------


def client_of(store: Store) -> Client:
    """A client in this process."""
    house = House(load(home="/nowhere", environ={}), store)
    return Client(transport=LocalTransport(Calls(house), Caller()))


async def _first_frames(store: Store) -> list[Finding]:
    client = client_of(store)
    page = await store.list_sessions(SessionFilter(viewer=OWNER), limit=20)
    count = await store.count_sessions(SessionFilter(viewer=OWNER))
    static: list[float] = []
    full: list[float] = []
    for _ in range(ROUNDS + 1):  # the first of each warms up
        static.append(await _frame(client, page.sessions))
        full.append(await _frame(client, ()))
    ratio = min(full[1:]) / min(static[1:])
    return [
        Finding(
            topic="picking",
            what=f"first frame, {count:,} sessions",
            floor=f"20 static rows {seconds(min(static[1:]))}",
            clew=seconds(min(full[1:])),
            compared=f"{ratio:.2f}x",
            bar=f"{FIRST}x",
            ok=ratio <= FIRST,
        )
    ]


async def _frame(client: Client, only: tuple[Session, ...]) -> float:
    """CPU seconds until the first frame that has rows."""
    shown = asyncio.Event()
    spent = 0.0
    gc.collect()
    began = time.process_time()
    app = Watched(client, only)

    def look() -> None:
        nonlocal spent
        if not shown.is_set() and app.picker.selected is not None:
            spent = time.process_time() - began
            shown.set()

    app.painted = look
    async with opened(app):
        await asyncio.wait_for(shown.wait(), PATIENCE)
    return spent


# --- keys -------------------------------------------------------------------------------------


class Latency(msgspec.Struct):
    """When, after a key, what it does was on the screen. Seconds; None for not yet."""

    echo: float | None = None
    names: float | None = None
    hits: float | None = None


class Typist:
    """Types, and watches the frames."""

    def __init__(self, app: Watched) -> None:
        self._app = app
        self._text = ""
        self._began = 0.0
        self._latency = Latency()
        self._changed = asyncio.Event()
        app.painted = self._look

    def press(self, key: str) -> Latency:
        """Press a key; the latency is filled in as frames come."""
        self._text = "" if key == "ctrl+u" else self._text + key
        self._latency = Latency()
        self._began = time.perf_counter()
        character = key if len(key) == 1 else None
        self._app.post_message(events.Key("space" if key == " " else key, character))
        return self._latency

    async def rest(self) -> None:
        """Wait until all that the last key does is on the screen."""
        async with asyncio.timeout(PATIENCE):
            while self._latency.hits is None or self._latency.names is None:
                self._changed.clear()
                await self._changed.wait()

    def _look(self) -> None:
        picker, latency = self._app.picker, self._latency
        passed = time.perf_counter() - self._began
        if latency.echo is None and picker.typed == self._text:
            latency.echo = passed
        if picker.typed == self._text:
            if latency.names is None and picker.is_named:
                latency.names = passed
            if latency.hits is None and picker.is_searched:
                latency.hits = passed
        self._changed.set()


async def _keys(store: Store) -> list[Finding]:
    app = Watched(client_of(store))
    async with opened(app):
        typist = Typist(app)
        first = await _type(typist, "the", FAST)  # while names are still being loaded
        await app.picker.wait_until_loaded()
        await _clear(typist)
        slow: list[Latency] = []
        fast: list[Latency] = []
        for text in TYPED:
            slow += await _type(typist, text, None)
            await _clear(typist)
            fast += await _type(typist, text, FAST)
            await _clear(typist)
    return [
        _judge("names after a key", [each.names for each in slow], NAMES),
        _judge("text hits after a key", [each.hits for each in slow], HITS),
        _judge("echo of a key", [each.echo for each in slow], ECHO),
        _judge("echo, typing fast", [each.echo for each in fast], ECHO),
        _judge("echo, while names load", [each.echo for each in first], ECHO),
    ]


async def _type(typist: Typist, text: str, pause: float | None) -> list[Latency]:
    """Type key by key: each when all of the one before is there, or after a pause."""
    latencies = []
    for key in text:
        latencies.append(typist.press(key))
        if pause is None:
            await typist.rest()
        else:
            await asyncio.sleep(pause)
    await typist.rest()
    return latencies


async def _clear(typist: Typist) -> None:
    typist.press("ctrl+u")
    await typist.rest()


def _judge(what: str, values: list[float | None], bar: float) -> Finding:
    # Typing fast, a key's echo may come in the frame of the next one.
    known = [value for value in values if value is not None]
    slowest = max(known)
    return Finding(
        topic="picking",
        what=f"{what}, {len(known)} keys",
        clew=f"wall {seconds(statistics.median(known))}",
        compared=f"slowest {seconds(slowest)}",
        bar=f"wall {seconds(bar)}",
        ok=slowest <= bar,
    )
