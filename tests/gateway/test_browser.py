"""What models, tools and strangers wrote, in a real browser: it stays text.

Three hundred payloads, as every kind of message, in the HTML of `render=html` and in an exported
page. A tripwire watches for scripts that run, requests that are made, and pages that are left.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, async_playwright

from clew.core.changes import AddMessage, Change
from clew.core.message import Draft, ToolCall
from clew.core.session import Session
from clew.core.text import strip_controls
from clew.runtime.lane.lease import hold
from tests.gateway.conftest import House
from tests.gateway.payloads import list_payloads
from tests.patience import PATIENCE

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PAYLOADS = list_payloads()
PAGE = 100
POLICY = "Content-Security-Policy"

TRIPWIRE = """
window.tripped = [];
window.trip = (number) => { window.tripped.push(number); };
for (const name of ["alert", "confirm", "prompt", "print", "open"]) {
  window[name] = () => window.trip(name);
}
"""
# Whatever reacts to being looked at, pointed at, or opened, gets its chance.
TOUCH = """async () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const kinds = ["mouseover", "mouseenter", "pointerenter", "focus", "focusin", "toggle", "error",
    "load", "animationstart", "input", "submit"];
  for (const each of document.querySelectorAll("body, body *")) {
    for (const kind of kinds) each.dispatchEvent(new Event(kind, {bubbles: false}));
    if (!each.closest("a")) each.dispatchEvent(new MouseEvent("click", {bubbles: false}));
  }
  await new Promise((done) => setTimeout(done, 50));
  return {
    tripped: window.tripped,
    schemes: [...new Set([...document.querySelectorAll("[href]")].map((each) => each.protocol))],
    loading: document.querySelectorAll(
      "script, iframe, object, embed, img, image, video, audio, source, link, base, form"
    ).length,
    handlers: [...document.querySelectorAll("*")].flatMap((each) => each.getAttributeNames())
      .filter((name) => name.startsWith("on") || name === "style" || name === "srcdoc"),
  };
}"""


class Trap:
    """A page of a browser, and what it did beyond showing text."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.pages: list[str] = []
        self._content = ""

    async def set(self) -> None:
        """Watch from before the first byte."""
        await self.page.add_init_script(TRIPWIRE)
        await self.page.route("**/*", self._serve)
        self.page.on("popup", lambda page: self.pages.append(page.url))
        self.page.on("framenavigated", lambda frame: self.pages.append(frame.url))

    async def show(self, html: str) -> dict[str, Any]:
        """Open a document, touch everything in it, and say what it is."""
        self.requests, self.pages, self._content = [], [], html
        await self.page.goto("https://page.invalid/", timeout=PATIENCE * 1_000)
        found: dict[str, Any] = await self.page.evaluate(TOUCH)
        return found

    async def put(self, pieces: Sequence[str]) -> dict[str, Any]:
        """Put pieces into an empty page, as a script of the dashboard would."""
        await self.show("<!DOCTYPE html><body></body>")
        await self.page.evaluate(
            """(pieces) => { for (const piece of pieces) {
              const place = document.createElement("article");
              document.body.append(place);
              place.innerHTML = piece;
            } }""",
            list(pieces),
        )
        found: dict[str, Any] = await self.page.evaluate(TOUCH)
        return found

    async def _serve(self, route: Route) -> None:
        if route.request.url == "https://page.invalid/" and route.request.is_navigation_request():
            await route.fulfill(body=self._content, content_type="text/html; charset=utf-8")
            return
        self.requests.append(route.request.url)
        await route.abort()


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    program = shutil.which("chromium")
    assert program is not None, "chromium is not here; `make test` installs it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def set_trap() -> AsyncIterator[Trap]:
    async with open_browser() as browser:
        trap = Trap(await browser.new_page())
        await trap.set()
        yield trap


def check(trap: Trap, found: dict[str, Any]) -> None:
    """Nothing ran, nothing was asked for, and nothing could be."""
    assert found["tripped"] == []
    assert trap.requests == []
    assert trap.pages == ["https://page.invalid/"]
    assert set(found["schemes"]) <= {"https:", "http:", "mailto:"}
    assert found["loading"] == 0
    assert found["handlers"] == []


async def tell(house: House) -> Session:
    """A session in which each payload was said, answered, thought, called with and returned."""
    session = await house.session(
        title="</title><script>trip(1)</script><img src=x onerror=trip(2)>"
    )
    changes: list[Change] = []
    for number, text in enumerate(PAYLOADS):
        kind = number % 3
        draft = Draft(role="user", content=text)
        if kind == 1:
            thinking = ({"type": "thinking", "thinking": text},)
            calls = (ToolCall(f"c{number}", text[:60], json.dumps({text[:60]: text})),)
            draft = Draft(role="assistant", content=text, parts=thinking, tool_calls=calls)
        elif kind == 2:
            draft = Draft(
                role="tool", content=text, tool_name=text[:60], tool_call_id=f"c{number - 1}"
            )
        changes.append(AddMessage(draft))
        # As an answer, each of them is Markdown.
        changes.append(AddMessage(Draft(role="assistant", content=text)))
    async with hold(house.store, session.id, "test") as lease:
        await house.store.record(session.id, lease.epoch, *changes)
    return session


async def read_html(house: House, token: str, session: Session) -> list[str]:
    """The HTML of all messages, and of what was thought."""
    pieces: list[str] = []
    for before in range(2 * len(PAYLOADS) + 1, 1, -PAGE):
        query = f"limit={PAGE}&before={before}&render=html"
        answer = await house.ask("GET", f"/v1/sessions/{session.id}/messages?{query}", token=token)
        for each in answer.json()["html"]:
            pieces += [each["html"], each.get("thinking") or ""]
    return pieces


def test_there_are_three_hundred_payloads() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 300


async def test_the_tripwire_notices_what_it_is_for() -> None:
    """Else a page that shows nothing would pass."""
    page = "<!DOCTYPE html><body><script>trip(1)</script><img src=https://tripwire.invalid/2>"
    async with set_trap() as trap:
        found = await trap.show(
            page + "<p onmouseover=trip(3)>a</p><a href=javascript:trip(4)>b</a>"
        )
        assert set(found["tripped"]) >= {1, 3}
        assert trap.requests == ["https://tripwire.invalid/2"]
        assert "javascript:" in found["schemes"]
        found = await trap.put(["<img src=x onerror=trip(5)>"])
        assert 5 in found["tripped"]


@pytest.fixture
async def told(house: House) -> Session:
    return await tell(house)


async def test_messages_stay_text_in_a_browser(house: House, admin: str, told: Session) -> None:
    pieces = await read_html(house, admin, told)
    assert len(pieces) == 4 * len(PAYLOADS)
    articles = "".join(f"<article>{each}</article>" for each in pieces)
    async with set_trap() as trap:
        check(trap, await trap.put(pieces))
        found = await trap.show(f"<!DOCTYPE html><body>{articles}</body>")
        check(trap, found)
        # None of them swallowed what comes behind it.
        count = await trap.page.locator("body > article").count()
        assert count == len(pieces)


async def test_an_exported_page_stays_text_in_a_browser(
    house: House, admin: str, told: Session
) -> None:
    path = f"/v1/sessions/{told.id}/export?format=html&masked=false&thinking=true"
    answer = await house.ask("GET", path, token=admin)
    page = answer.text
    assert POLICY in page
    async with set_trap() as trap:
        check(trap, await trap.show(page))
        # The policy is a second wall: the first one holds without it.
        found = await trap.show(page.replace(POLICY, "nothing"))
        check(trap, found)
        shown = await trap.page.evaluate("() => document.body.textContent")
    for text in PAYLOADS:
        assert strip_controls(text).strip()[:8] in strip_controls(shown)
