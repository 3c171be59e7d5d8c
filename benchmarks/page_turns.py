"""The page of a session while a thousand answers stream into it: its memory stays flat.

One page is looked at all the time. What it has in memory is what is left after the browser's own
garbage collection; the first measure is taken when the page holds as many messages as it ever does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec
from playwright.async_api import CDPSession

from benchmarks.browser import PATIENCE_MS, open_browser, visit_gateway
from benchmarks.corpora import Setting, open_at
from benchmarks.timing import Finding
from clew.core.changes import AddMessage
from clew.core.channels.incoming import message_for
from clew.core.live_events import TextDelta
from clew.core.message import Draft, Message
from clew.core.names import Title
from clew.core.session import NewSession
from clew.ports import LiveTurn

TURNS, QUICK_TURNS = 1_000, 100
LOOKS = 5
"""How often the page is measured; the first time at a fifth of the turns."""
FLAT = 1.15
WORDS = 40
PATIENCE = 120.0


class Speaker:
    """`ports.Agent`: an answer of forty words with a list and code, word by word."""

    async def warm(self, model: str | None = None) -> None:
        """There is nothing to load."""

    async def run(self, turn: LiveTurn) -> None:
        """Say it."""
        text = " ".join(f"word-{number}" for number in range(WORDS))
        for word in text.split(" "):
            turn.signal(TextDelta(f"{word} "))
            await asyncio.sleep(0)
        said = (
            f"{text}\n\n- one `thing`\n- and another\n\n```python\nprint({turn.session.head})\n```"
        )
        await turn.finish(
            AddMessage(Draft(role="assistant", content=said), turn.id, from_person=False)
        )

    async def make_title(self, _model: str | None, _thread: Sequence[Message], /) -> Title:
        """None."""
        return Title(None)


class Look(msgspec.Struct, frozen=True):
    """What a page has in memory."""

    heap: int
    nodes: int
    listeners: int


async def turns(setting: Setting) -> list[Finding]:
    """A thousand streamed turns; a tenth of them if quick."""
    count = QUICK_TURNS if setting.quick else TURNS
    async with AsyncExitStack() as stack:
        store = await open_at(setting.folder() / "sessions.db", stack, durability="normal")
        browser = await stack.enter_async_context(open_browser())
        visitor = await stack.enter_async_context(
            visit_gateway(store, setting.folder(), browser, agent=Speaker())
        )
        session = await store.create_session(NewSession(key="web:turns", title="Turns"))
        page = await visitor.context.new_page()
        await page.goto(f"/s/{session.id}", timeout=PATIENCE_MS)
        await page.get_by_label("Message", exact=True).wait_for()
        tools = await visitor.context.new_cdp_session(page)
        looks: list[Look] = []
        for number in range(1, count + 1):
            message = message_for(session, f"question {number}", channel="benchmark")
            ticket = await visitor.house.runtime.accept(message)
            await asyncio.wait_for(ticket.turn, PATIENCE)
            if number % (count // LOOKS) == 0:
                await page.locator(f"#m{2 * number} .rendered").wait_for()
                looks.append(await _look(tools))
    found = [
        _compare("memory of the page", count, [each.heap for each in looks], " MB", 1e6),
        _compare("nodes of its document", count, [each.nodes for each in looks]),
        _compare("listeners of its nodes", count, [each.listeners for each in looks]),
    ]
    # So few turns do not fill the page.
    return [msgspec.structs.replace(each, ok=None) if setting.quick else each for each in found]


async def _look(tools: CDPSession) -> Look:
    await tools.send("HeapProfiler.collectGarbage")
    heap = await tools.send("Runtime.getHeapUsage")
    document = await tools.send("Memory.getDOMCounters")
    return Look(int(heap["usedSize"]), document["nodes"], document["jsEventListeners"])


def _compare(what: str, count: int, found: list[int], unit: str = "", size: float = 1) -> Finding:
    first, last = found[0], max(found[1:])
    shown = ", ".join(f"{each / size:.3g}" if unit else f"{each:,}" for each in found[1:])
    return Finding(
        topic="page",
        what=f"{what} over {count:,} streamed turns, looked at {LOOKS} times",
        clew=f"{shown}{unit}",
        floor=f"{found[0] / size:.3g}{unit}" if unit else f"{found[0]:,}",
        compared=f"{last / first:.2f}x",
        bar=f"{FLAT}x",
        ok=last / first <= FLAT,
    )
