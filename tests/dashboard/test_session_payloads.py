"""What models, tools and strangers wrote stays text on the page of a session.

Three hundred payloads as title, message, thinking, call, result, file name, author and model: no
script runs, nothing is asked of another origin, no page is left.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import expect

from clew.core.changes import AddCompaction, AddMessage, Change
from clew.core.message import Author, Draft, ToolCall
from clew.core.text import strip_controls
from tests.dashboard.conftest import Gateway, Visitors
from tests.dashboard.transcripts import Asking, record, write
from tests.gateway.payloads import list_payloads
from tests.gateway.test_browser import TRIPWIRE

PAYLOADS = list_payloads()

# Everything is opened, and whatever reacts to being looked at gets its chance.
TOUCH = """async () => {
  const kinds = ["mouseover", "pointerenter", "focusin", "toggle", "error", "load",
    "animationstart"];
  for (const each of document.querySelectorAll("details")) each.open = true;
  await new Promise((done) => setTimeout(done, 20));
  for (const each of document.querySelectorAll("body, body *"))
    for (const kind of kinds) each.dispatchEvent(new Event(kind, {bubbles: false}));
  const all = [...document.querySelectorAll(".messages *")];
  return {
    tripped: window.tripped,
    schemes: [...new Set(all.map((each) => each.protocol).filter(Boolean))],
    foreign: all.filter((each) => /^(script|iframe|object|embed|video|audio|base|form|style)$/i
      .test(each.tagName)).length,
    sources: [...new Set(all.map((each) => each.src).filter(Boolean)
      .map((src) => new URL(src, location.href).origin))],
    handlers: all.flatMap((each) => each.getAttributeNames())
      .filter((name) => name.startsWith("on") || name === "srcdoc"),
  };
}"""


def _tell(blob: str) -> list[Change]:
    changes: list[Change] = []
    for number, text in enumerate(PAYLOADS):
        named = {"type": "file", "blob": blob, "media_type": "text/plain", "name": text[:200]}
        shown = {"type": "image", "blob": blob, "media_type": "image/png", "name": text[:200]}
        author = Author(text[:60], text[:200], among=True)
        quote = {"type": "quote", "text": text, "name": text[:60]}
        around = {"type": "context", "lines": [{"kind": "said", "text": text, "name": text}]}
        thought = {"type": "thinking", "thinking": text}
        call = ToolCall(f"c{number}", text[:60], json.dumps({"command": text, text[:60]: text}))
        changes += [
            AddMessage(
                Draft(role="user", content=text, parts=(named, shown, quote, around), author=author)
            ),
            AddMessage(
                Draft(
                    role="assistant",
                    content=text,
                    model=text[:60],
                    parts=(thought,),
                    tool_calls=(call,),
                )
            ),
            AddMessage(
                Draft(role="tool", content=text, tool_name=text[:60], tool_call_id=f"c{number}")
            ),
        ]
    return changes


async def test_payloads_stay_text_wherever_the_page_shows_them(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("blobs")  # a picture that is none
    title = "</title><script>trip(1)</script><img src=x onerror=trip(2)>"
    session = await gateway.session(title, display_name=title, cwd=title)
    blob = await gateway.store.put_blob(b"no picture", "text/plain")
    changes = _tell(blob)
    await record(gateway, session, *changes)
    summary = " ".join(PAYLOADS[:40])
    keep_from = len(changes) - 4
    await record(
        gateway, session, AddCompaction(compaction_id="c", keep_from=keep_from, summary=summary)
    )
    asked: list[str] = []
    left: list[str] = []
    page = await visit(None)
    await page.add_init_script(TRIPWIRE)
    page.on("request", lambda request: asked.append(request.url))
    page.on("popup", lambda popup: left.append(popup.url))
    page.on("framenavigated", lambda frame: left.append(frame.url))
    seen: set[int] = set()
    for seq in range(len(changes) - 20, 0, -45):
        address = f"{gateway.url}/s/{session.id}?at={seq}#m{seq}"
        left.clear()
        await page.goto(address)
        await expect(page.locator(f"#m{seq}")).to_be_attached()
        found: dict[str, Any] = await page.evaluate(TOUCH)
        assert found["tripped"] == []
        assert found["foreign"] == 0
        assert found["handlers"] == []
        assert set(found["schemes"]) <= {"https:", "http:", "mailto:"}
        assert set(found["sources"]) <= {gateway.url}
        assert left == [address]
        seen |= set(
            await page.evaluate(
                "[...document.querySelectorAll('.messages > *')].map((each) => +each.dataset.seq)"
            )
        )
    assert len(seen) > len(changes) * 0.9
    shown = strip_controls(await page.locator(".messages").inner_text())
    first = min(seen)
    assert strip_controls(PAYLOADS[(first - 1) // 3]).strip()[:8] in shown
    # As a question, as an answer that streams, and in what a command says.
    gateway.actor.scenes = [Asking("x", detail=PAYLOADS[0], summary=PAYLOADS[1], cwd=PAYLOADS[2])]
    await page.goto(f"{gateway.url}/s/{session.id}")
    await write(page, PAYLOADS[3])
    await expect(page.locator(".approval pre")).to_contain_text(PAYLOADS[0][:8])
    await page.get_by_role("button", name="Yes, once").click()
    await expect(page.get_by_text("I was told: yes once").first).to_be_visible()
    await write(page, "/status")
    await expect(page.locator(".reply")).to_contain_text("</title>")
    assert await page.evaluate("window.tripped") == []
    assert {urlsplit(each).netloc for each in asked} == {urlsplit(gateway.url).netloc}
