"""A gateway under load: `clew serve` over a full store, a scripted model, callers over HTTP.

The gateway is a process of its own, so its CPU is nobody else's. How long a call takes is told as
the caller sees it, beside `/health`, which does nothing. A turn's CPU is that of the whole process
for everything from the request to the last byte of the answer's stream, less what the very same
conversation costs the scripted model with its library and no clew around it.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from benchmarks.corpora import Setting, open_at
from benchmarks.processes.server import ANSWER, PATIENCE, Gateway, open_gateway
from benchmarks.timing import Finding, percentile, seconds
from clew.client import Client
from clew.core.live_events import TurnEnded
from clew.core.session import OWNER, SessionFilter

TURN_BAR = 0.015
PAUSE = 0.2
TALKS = 100
"""Conversations at the same time."""
HELD = 3
"""Messages for each of them that are said at once, while the first one's turn is held up."""
KNOWN = 200


class Size(msgspec.Struct, frozen=True):
    """How much of it."""

    corpus: str
    sessions: int
    calls: int
    turns: int
    """Turns of each conversation whose CPU is counted."""


FULL = Size("million", 50_000, 400, 10)
QUICK = Size("thousand", 1_000, 100, 3)


async def load(setting: Setting) -> list[Finding]:
    """Calls, concurrent turns in order, and a turn's CPU."""
    size = QUICK if setting.quick else FULL
    kept = await setting.copy(size.corpus)
    async with AsyncExitStack() as stack:
        store = await open_at(kept.path, stack)
        found = await store.list_sessions(SessionFilter(viewer=OWNER), limit=KNOWN)
    ids = [each.id for each in found.sessions]
    with open_gateway(setting.folder(), kept.path) as gateway:
        async with Client(gateway.url, gateway.token) as client:
            talks = await begin(client, TALKS)
            findings = await _calls(gateway, client, [kept.long_id, *ids], talks, size)
            findings.append(await _order(gateway, client, talks))
            findings.append(await _cost(gateway, client, talks, size))
    return findings


# --- calls ------------------------------------------------------------------------------------


async def begin(client: Client, count: int) -> list[str]:
    """New conversations, each with a turn behind it, so that nothing is made or loaded later."""

    async def begin_one(number: int) -> str:
        sending = client.chat.send(f"Conversation {number}")
        async for _ in sending:
            pass
        assert sending.accepted is not None
        return sending.accepted.session

    return list(await asyncio.gather(*map(begin_one, range(count))))


Ask = Callable[[], tuple[str, str, dict[str, Any] | None]]
"""A method, a path and a body; another one each time."""


async def _calls(
    gateway: Gateway, client: Client, ids: list[str], talks: list[str], size: Size
) -> list[Finding]:
    rng, long_id = random.Random(7), ids[0]
    asks: dict[str, Ask] = {
        "list 20": lambda: ("GET", "/v1/sessions?limit=20", None),
        "search, 20 of a common word": lambda: ("GET", "/v1/sessions?limit=20&q=connection", None),
        "get": lambda: ("GET", f"/v1/sessions/{rng.choice(ids)}", None),
        "get, 200 of 10,000 messages": lambda: ("GET", f"/v1/sessions/{long_id}", None),
        "send, while turns run": lambda: (
            "POST",
            "/v1/chat",
            {"session": rng.choice(talks), "text": f"Say {secrets.token_hex(4)}"},
        ),
    }
    empty = await asyncio.to_thread(_time, gateway, lambda: ("GET", "/health", None), size.calls)
    findings = []
    for what, ask in asks.items():
        for callers in (1, 8):
            each = size.calls // callers
            runs = [asyncio.to_thread(_time, gateway, ask, each) for _ in range(callers)]
            taken = [one for run in await asyncio.gather(*runs) for one in run]
            await _until_quiet(client)
            who = "one caller" if callers == 1 else f"{callers} callers"
            findings.append(
                Finding(
                    topic="load",
                    what=f"{what}, {size.sessions:,} sessions, {who}",
                    floor=f"/health {seconds(percentile(empty, 0.5))}",
                    clew=f"p50 {seconds(percentile(taken, 0.5))}, "
                    f"p99 {seconds(percentile(taken, 0.99))}",
                )
            )
    return findings


def _time(gateway: Gateway, ask: Ask, times: int) -> list[float]:
    """Seconds that each of some calls takes, one after the other over one connection."""
    place = gateway.url.removeprefix("http://")
    connection = http.client.HTTPConnection(place, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {gateway.token}", "Content-Type": "application/json"}
    taken = []
    for _ in range(times):
        method, path, body = ask()
        data = None if body is None else json.dumps(body)
        began = time.perf_counter()
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        content = answer.read()
        taken.append(time.perf_counter() - began)
        if answer.status not in (200, 202):
            raise SystemExit(f"{method} {path}: {answer.status} {content[:500]!r}")
    connection.close()
    return taken


async def _until_quiet(client: Client) -> None:
    """Until nothing waits and nothing runs."""
    await _until(client, lambda running, waiting: not running and not waiting)


async def _until(client: Client, is_so: Callable[[int, int], bool]) -> None:
    """Until the number of turns that run and of messages that wait is like that."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if is_so(await _count_running(client), len(await client.queue.list())):
                return
            await asyncio.sleep(PAUSE)


async def _count_running(client: Client) -> int:
    # Those of the corpus are pinned, some of them, and would fill the page.
    newest = (await client.sessions.list(platform="sdk", limit=200)).sessions
    return sum(each.status == "running" for each in newest)


# --- turns ------------------------------------------------------------------------------------


async def _order(gateway: Gateway, client: Client, talks: list[str]) -> Finding:
    wrong = await find_disorder(gateway, client, talks)
    return Finding(
        topic="load",
        what=f"{TALKS} conversations with {HELD} messages each, all with a turn at once",
        clew=f"{TALKS - len(wrong)} in order, each message answered before the next",
        bar=f"all {TALKS}",
        ok=not wrong,
    )


async def find_disorder(gateway: Gateway, client: Client, talks: list[str]) -> list[str]:
    """The conversations that lose their order while all have a turn and more is said into each."""

    async def say(talk: str) -> None:
        for number in range(HELD):
            await client.chat.send(f"{'held' if number == 0 else 'then'} {number}", session=talk)

    await asyncio.gather(*map(say, talks))
    await _until(client, lambda running, _: running == len(talks))
    gateway.release.touch()
    await _until_quiet(client)
    return [talk for talk in talks if not await _is_in_order(client, talk)]


async def _is_in_order(client: Client, talk: str) -> bool:
    thread = (await client.sessions.messages(talk, limit=2 * HELD)).messages
    said = [("held" if number == 0 else "then") + f" {number}" for number in range(HELD)]
    return all(
        (user.role, user.content, answer.role) == ("user", text, "assistant")
        and answer.content.endswith(text)
        and user.turn_id == answer.turn_id
        for text, user, answer in zip(said, thread[::2], thread[1::2], strict=True)
    )


async def _cost(gateway: Gateway, client: Client, talks: list[str], size: Size) -> Finding:
    """CPU for a turn of which somebody sees every event."""
    before = gateway.cpu()
    began = time.perf_counter()
    ends = await asyncio.gather(*(_talk(client, each, size.turns) for each in talks))
    wall = time.perf_counter() - began
    count = sum(ends)
    if count != TALKS * size.turns:
        raise SystemExit(f"only {count} turns are done")
    whole = (gateway.cpu() - before) / count
    thread = (await client.sessions.messages(talks[0], limit=200)).messages
    model = await _model_alone([each.content for each in thread], size)
    own = whole - model
    return Finding(
        topic="load",
        what=f"CPU of a turn, {TALKS} at once, {count:,} in all ({count / wall:.0f} a second)",
        floor=f"the model alone {seconds(model)}",
        clew=f"{seconds(whole)}, own {seconds(own)}",
        bar=seconds(TURN_BAR),
        ok=own < TURN_BAR,
    )


async def _talk(client: Client, talk: str, turns: int) -> int:
    """One turn after the other; how many of them ended well."""
    done = 0
    for number in range(turns):
        async for frame in client.chat.send(f"Turn {number}", session=talk):
            if isinstance(frame.event, TurnEnded):
                done += frame.event.turn.status == "done"
    return done


async def _model_alone(thread: list[str], size: Size) -> float:
    """Seconds of CPU for an answer of the scripted model to such a thread, by its library alone."""
    from pydantic_ai.messages import (  # noqa: PLC0415  # heavy, and only here
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415  # heavy, and only here

    from clew.testing.scripted import ScriptedModel  # noqa: PLC0415  # heavy, and only here

    model = ScriptedModel([{"text": ANSWER, "echo": "user"}])
    messages: list[ModelMessage] = []
    for user, answer in zip(thread[:-1:2], thread[1:-1:2], strict=False):
        messages.append(ModelRequest(parts=[UserPromptPart(user)]))
        messages.append(ModelResponse(parts=[TextPart(answer)]))
    messages.append(ModelRequest(parts=[UserPromptPart("Turn")]))
    times = 50 * size.turns
    began = time.process_time()
    for _ in range(times):
        async with model.request_stream(messages, None, ModelRequestParameters()) as stream:
            async for _ in stream:
                pass
    return (time.process_time() - began) / times
