"""The page of a session in a real Chromium: 10,000 messages against 100.

One gateway in this process, one browser, the two sessions in turns. A session is open when the
frame that shows its newest message was painted; the time is the browser's own, from the beginning
of the navigation. Then the way from the newest message to the first one: its longest task.
"""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack
from typing import Any

from playwright.async_api import BrowserContext, Page

from benchmarks.browser import PATIENCE_MS, open_browser, visit_gateway
from benchmarks.corpora import Setting, open_at
from benchmarks.timing import Finding, seconds
from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.ports import Store
from clew.runtime.lane.lease import hold

OPEN = 1.5
FREEZE = 4.0
FEWEST_MS = 50.0
"""A browser reports tasks from this on: below it, there was no long one."""
MOST_SHOWN = 250
FEW, MANY = 100, 10_000
ROUNDS = 9
BATCH = 500

WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("[role=log]:not([aria-busy]) .message .rendered")) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    window.painted = performance.now();
    document.documentElement.dataset.painted = "";
  }));
}).observe(document, { childList: true, subtree: true, attributes: true });
window.longest = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
}).observe({ type: "longtask", buffered: true });
"""

# As with a wheel, a screen at a time for a while, and then with the Home key.
TO_THE_FIRST = """async () => {
  window.longest = 0;
  const scroller = document.querySelector(".transcript");
  const began = performance.now();
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  let most = 0;
  for (let step = 0; step < 40 && !document.querySelector("#m1"); step += 1) {
    scroller.scrollTop -= scroller.clientHeight;
    await pause(16);
    most = Math.max(most, document.querySelectorAll(".messages > .message").length);
  }
  scroller.focus();
  scroller.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
  while (!document.querySelector("#m1")) await pause(16);
  most = Math.max(most, document.querySelectorAll(".messages > .message").length);
  const took = performance.now() - began;
  await pause(200); // long tasks are reported a moment later
  return { took, most, longest: window.longest };
}"""


async def transcripts(setting: Setting) -> list[Finding]:
    """Opening a session, and the way to its first message; a tenth of the messages if quick."""
    many = MANY // 10 if setting.quick else MANY
    async with AsyncExitStack() as stack:
        store = await open_at(setting.folder() / "sessions.db", stack)
        ids = [await _make(store, count) for count in (FEW, many)]
        browser = await stack.enter_async_context(open_browser())
        _, context = await stack.enter_async_context(
            visit_gateway(store, setting.folder(), browser, script=WATCH)
        )
        times: list[list[float]] = [[], []]
        ways: list[list[dict[str, Any]]] = [[], []]
        for number in range(ROUNDS + 1):
            for session_id, found, way in zip(ids, times, ways, strict=True):
                page = await _visit(context, session_id)
                if number:  # the first visit fills the caches
                    found.append(await page.evaluate("painted"))
                if number > ROUNDS - 3:
                    way.append(await page.evaluate(TO_THE_FIRST))
                await page.close()
    few_ms, many_ms = (min(each) for each in times)
    median = seconds(statistics.median(times[1]) / 1_000)
    few_task, many_task = (
        max(FEWEST_MS, min(float(each["longest"]) for each in way)) for way in ways
    )
    took = statistics.median(float(each["took"]) for each in ways[1])
    most = max(int(each["most"]) for each in ways[1])
    return [
        Finding(
            topic="transcript",
            what=f"{many:,} messages open at the end, minimum of nine",
            clew=f"{seconds(many_ms / 1_000)} (median {median})",
            floor=f"{seconds(few_ms / 1_000)} with {FEW}",
            compared=f"{many_ms / few_ms:.2f}x",
            bar=f"{OPEN}x",
            ok=many_ms / few_ms <= OPEN,
        ),
        Finding(
            topic="transcript",
            what="longest task on the way to the first, best of three",
            clew=f"{many_task:.0f} ms (the way: {seconds(took / 1_000)})",
            floor=f"{few_task:.0f} ms with {FEW}",
            compared=f"{many_task / few_task:.2f}x",
            bar=f"{FREEZE:.0f}x",
            ok=many_task / few_task <= FREEZE,
        ),
        Finding(
            topic="transcript",
            what="messages in the document on the way",
            clew=str(most),
            bar=str(MOST_SHOWN),
            ok=most <= MOST_SHOWN,
        ),
    ]


async def _make(store: Store, count: int) -> str:
    session = await store.create_session(NewSession(key=f"web:{count}", title=f"{count} messages"))
    said = [
        AddMessage(
            Draft(role="user", content=f"Question number {each}: how does it go on from here?")
            if each % 2
            else Draft(role="assistant", content=_answer(each), model="script/one")
        )
        for each in range(1, count + 1)
    ]
    async with hold(store, session.id, "bench") as lease:
        for start in range(0, count, BATCH):
            await store.record(session.id, lease.epoch, *said[start : start + BATCH])
    return session.id


def _answer(number: int) -> str:
    code = f"\n```python\ndef answer_{number}(x: int) -> int:\n    return x + {number}\n```\n"
    return (
        f"Answer **{number}**.\n\n- one `thing`\n- and another\n{code if number % 10 == 0 else ''}"
    )


async def _visit(context: BrowserContext, session_id: str) -> Page:
    page = await context.new_page()
    await page.goto(f"/s/{session_id}", timeout=PATIENCE_MS)
    await page.wait_for_selector("html[data-painted]", timeout=PATIENCE_MS)
    return page
