"""The dashboard's list in a real Chromium: a full store against one of fifty sessions.

Both gateways run in this process, and one browser visits them in turns. The list is there when the
frame that shows its first rows was painted; the time is the browser's own, from the beginning of
the navigation.
"""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack

from playwright.async_api import BrowserContext, Page

from benchmarks.browser import PATIENCE_MS, open_browser, visit_gateway
from benchmarks.corpora import SEED, Setting, open_at
from benchmarks.timing import Finding, seconds
from clew.clock import host_clock
from clew.testing.corpus import Corpus, load

FIRST = 1.5
MOST_ROWS = 80
ROUNDS = 9
FEW = 50

PAINTED = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".row a.name")) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
window.longest = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
}).observe({ type: "longtask", buffered: true });
"""

# From the last key to the frame that shows the last row.
TO_THE_END = """async () => {
  window.longest = 0;
  const began = performance.now();
  const list = document.querySelector(".session-list");
  list.scrollTo(0, list.scrollHeight);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let most = 0;
  do {
    await frame();
    most = Math.max(most, document.querySelectorAll(".row").length);
  } while (document.querySelector(".row.hole") || !document.querySelector(
    `.row[aria-posinset="${document.querySelector(".row")?.ariaSetSize}"]`));
  const took = performance.now() - began;
  // Long tasks are reported a moment later.
  await new Promise((done) => setTimeout(done, 200));
  return { took, most, longest: window.longest };
}"""


async def lists(setting: Setting) -> list[Finding]:
    """The first list, and the way to its end, at 50,000 sessions; a tenth of it if quick."""
    full = await setting.copy("mixed" if setting.quick else "million")
    few = setting.folder() / "sessions.db"
    async with AsyncExitStack() as stack:
        small = await open_at(few, stack)
        corpus = Corpus(now=host_clock(), seed=SEED)
        await load(small, corpus.conversations(FEW, FEW * 20))
        large = await open_at(full.path, stack)
        browser = await stack.enter_async_context(open_browser())
        visitors = [
            await stack.enter_async_context(
                visit_gateway(store, setting.folder(), browser, script=PAINTED)
            )
            for store in (small, large)
        ]
        contexts = [each.context for each in visitors]
        times: list[list[float]] = [[], []]
        for number in range(ROUNDS + 1):
            for context, found in zip(contexts, times, strict=True):
                page = await _visit(context)
                if number:  # the first visit fills the caches
                    found.append(await page.evaluate("painted"))
                await page.close()
        ends = [await (await _visit(context)).evaluate(TO_THE_END) for context in contexts]
    small_ms, large_ms = (min(each) for each in times)
    ratio = large_ms / small_ms
    large_median = seconds(statistics.median(times[1]) / 1_000)
    _, end = ends
    return [
        Finding(
            topic="dashboard",
            what="first list in Chromium, minimum of nine",
            clew=f"{seconds(large_ms / 1_000)} (median {large_median})",
            floor=f"{seconds(small_ms / 1_000)} with {FEW} sessions",
            compared=f"{ratio:.2f}x",
            bar=f"{FIRST}x",
            ok=ratio <= FIRST,
        ),
        Finding(
            topic="dashboard",
            what="rows in the document on the way to the end",
            clew=str(end["most"]),
            bar=str(MOST_ROWS),
            ok=end["most"] <= MOST_ROWS,
        ),
        Finding(
            topic="dashboard",
            what="from the beginning of the list to its end",
            clew=f"{seconds(end['took'] / 1_000)}, longest task {end['longest']:.0f} ms",
            floor=f"{seconds(ends[0]['took'] / 1_000)} with {FEW} sessions",
        ),
    ]


async def _visit(context: BrowserContext) -> Page:
    page = await context.new_page()
    await page.goto("/", timeout=PATIENCE_MS)
    # The list is as long as it will be.
    await page.locator(".total:not(:empty)").wait_for(timeout=PATIENCE_MS)
    while not await page.evaluate("window.painted"):
        await page.evaluate("new Promise((done) => requestAnimationFrame(done))")
    return page
