"""The list and the search of the dashboard at the API, against the bare calls of the store.

The gateway is a process of its own over a copy of the corpus, asked over HTTP with one connection.
Its CPU is compared with that of the store's calls which such an answer needs, made in this process.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.corpora import Setting, open_at
from benchmarks.processes.server import PATIENCE, Gateway, open_gateway
from benchmarks.timing import Finding, percentile, seconds
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, SessionFilter
from clew.ports import Store

MOST = 3.0
PAGE = 50
TIMES, SEARCHES = 400, 40
"""Calls of each kind: a clock of processes ticks a hundred times a second."""
ROUNDS = 4
WORDS = {"a rare word": "reference", "a common word": "connection", "two words": "slow search"}

Run = Callable[[Store], Awaitable[object]]


async def api_calls(setting: Setting) -> list[Finding]:
    """At 50,000 sessions and a million messages; few of them if quick."""
    kept = await setting.copy("thousand" if setting.quick else "million")
    findings = []
    async with AsyncExitStack() as stack:
        gateway = stack.enter_context(open_gateway(setting.folder(), kept.path))
        store = await open_at(kept.path, stack)
        place = gateway.url.removeprefix("http://")
        connection = http.client.HTTPConnection(place, timeout=PATIENCE)
        stack.callback(connection.close)

        async def compare(what: str, params: dict[str, Any], run: Run, times: int) -> Finding:
            bare, served, waited = 0.0, 0.0, []
            for number in range(ROUNDS + 1):
                before = time.process_time()
                for _ in range(times // ROUNDS):
                    await run(store)
                between, began = time.process_time(), gateway.cpu()
                taken = [_ask(connection, gateway, params) for _ in range(times // ROUNDS)]
                if number:  # the first round fills the caches
                    bare += between - before
                    served += gateway.cpu() - began
                    waited += taken
            return Finding(
                topic="api",
                what=f"{what}, CPU of {times}",
                clew=f"{seconds(served / times)} (wall p50 {seconds(percentile(waited, 0.5))})",
                floor=seconds(bare / times),
                compared=f"{served / bare:.2f}x",
                bar=f"{MOST:.0f}x",
                ok=served / bare <= MOST,
            )

        findings.append(await compare(f"list {PAGE}", {}, _list, TIMES))
        for what, word in WORDS.items():
            search = _searching(word)
            asked = f"search {PAGE}, {what}"
            findings.append(await compare(asked, {"q": word}, search, SEARCHES))
    return findings


async def _list(store: Store) -> object:
    """What a row of the list says: the session, its short id and its state."""
    where = SessionFilter(viewer=OWNER, archived=False)
    ids = [each.id for each in (await store.list_sessions(where, limit=PAGE)).sessions]
    return await store.shorten_ids(ids), await store.list_states(ids)


def _searching(word: str) -> Run:
    async def search(store: Store) -> object:
        return await store.search(word, SearchFilter(viewer=OWNER), limit=PAGE, per_session=True)

    return search


def _ask(connection: http.client.HTTPConnection, gateway: Gateway, params: dict[str, Any]) -> float:
    """The call as the dashboard makes it; the seconds that it took."""
    body = json.dumps({"method": "sessions.list", "params": {"limit": PAGE, **params}})
    headers = {"Authorization": f"Bearer {gateway.token}", "Content-Type": "application/json"}
    began = time.perf_counter()
    connection.request("POST", "/v1/rpc", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {content.decode()}")
    return time.perf_counter() - began
