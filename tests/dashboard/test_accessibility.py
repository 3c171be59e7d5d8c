"""Every page of the dashboard, in both themes, wide and on a phone: no violation of WCAG 2.2 AA.

axe-core reads the page as it is shown; nothing on a phone scrolls sideways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Page, ViewportSize, expect

from clew.core.changes import AddMessage, AddUsage, EndTurn, Send, StartTurn
from clew.core.channels.people import NewPairing
from clew.core.delivery import NewOutbound
from clew.core.message import Draft, ToolCall
from clew.core.session import Session
from clew.core.usage import Usage
from clew.runtime.lane.lease import hold
from tests.dashboard.conftest import PHONE, REFUSED, WIDE, Gateway, Visitors

AXE: Final = Path(__file__).parents[2] / ".venv/node/node_modules/axe-core/axe.min.js"
LEVELS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
CHECK: Final = """async (only) => {
  const found = await axe.run(document, {
    runOnly: only, resultTypes: ["violations"], elementRef: false,
  });
  return found.violations.flatMap((rule) => rule.nodes.map(
    (node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}"""
ANSWER: Final = """# A plan

1. **Boil** the water, then `pour` it.
2. Wait. See [the guide](https://example.org/tea).

```python
def brew(cups: int) -> str:
    return "tea" * cups  # green
```

| cup | grams |
|---|---|
| small | 2 |
"""


async def live_here(gateway: Gateway) -> Session:
    """A home that has been lived in: something of everything that pages show."""
    memory = gateway.house.calls.parts.memory
    for text in ("# Notes\n- tea\n", "# Notes\n- tea is green\n- a long line " + "word " * 60):
        await memory.write("memory", text, by="agent")
    session = await gateway.session("Tea for two", key="agent:main:telegram:dm:7")
    for each in range(3):
        await gateway.session(f"Session {each} with a rather long title " * 3, key=f"cli:{each}")
    calls = (ToolCall("c1", "shell", '{"command": "ls -l /var/log"}'),)
    thinking = ({"type": "thinking", "thinking": "Which tea?"},)
    async with hold(gateway.store, session.id, "test") as lease:
        await gateway.store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id="t1", model="script/one"),
            AddMessage(Draft(role="user", content="How do I make tea? " * 20), turn_id="t1"),
            AddMessage(
                Draft(role="assistant", content="I look.", parts=thinking, tool_calls=calls),
                turn_id="t1",
            ),
            AddMessage(
                Draft(role="tool", content="total 8\n" * 30, tool_name="shell", tool_call_id="c1"),
                turn_id="t1",
            ),
            AddMessage(Draft(role="assistant", content=ANSWER), turn_id="t1"),
            AddUsage(usage=Usage(1_000, 200, 30, 4, 2_000_000_000, 1), turn_id="t1"),
            EndTurn(turn_id="t1", status="done"),
            Send(NewOutbound(id="o1", key=session.key, channel="telegram", content=ANSWER)),
        )
    await gateway.store.settle_outbound("o1", "uncertain", error="the line broke")
    reply_to = {"channel": "telegram", "key": "telegram:8"}
    new = NewPairing(person="telegram:8", channel="telegram", code="ABCDEFGH", reply_to=reply_to)
    assert await gateway.store.ask_pairing(new, most=9) is not None
    jobs = gateway.house.calls.parts.jobs
    assert jobs is not None
    return session


async def check(page: Page, where: str) -> list[str]:
    """What is wrong with a page as it is shown now, in light and in dark."""
    found: list[str] = await page.evaluate(CHECK, {"type": "tag", "values": LEVELS})
    # What is dark differs in its colours only.
    await page.emulate_media(color_scheme="dark")
    found += await page.evaluate(CHECK, {"type": "rule", "values": ["color-contrast"]})
    await page.emulate_media(color_scheme="light")
    sideways: dict[str, int] = await page.evaluate(
        """() => ({
          page: document.documentElement.scrollWidth - innerWidth,
          main: (document.querySelector("main")?.scrollWidth ?? 0)
            - (document.querySelector("main")?.clientWidth ?? 0),
        })"""
    )
    found += [f"{what} scrolls {by} px sideways" for what, by in sideways.items() if by > 0]
    return [f"{where}: {each}" for each in found]


async def look(visit: Visitors, viewport: ViewportSize, *, signed_in: bool = True) -> Page:
    """A page in which axe can run; the dashboard's own rules forbid a script like it."""
    assert AXE.exists(), "axe-core is not here; `make lint` installs it"
    # So tall that nothing has to be scrolled to: axe leaves out what is out of sight.
    page = await visit(
        None,
        viewport={"width": viewport["width"], "height": 3_000},
        bypass_csp=True,
        reduced_motion="reduce",
        signed_in=signed_in,
    )
    await page.add_init_script(path=AXE)
    return page


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_no_page_has_a_violation_of_wcag(
    gateway: Gateway, visit: Visitors, viewport: ViewportSize
) -> None:
    visit.expect_errors("400")
    session = await live_here(gateway)
    page = await look(visit, viewport)
    wrong: list[str] = []
    pages = {
        "/": "Tea for two",
        f"/s/{session.id}": "pour",
        "/s/new": "",
        "/memory": "Who you are",
        "/usage": "By day",
        "/status": "the line broke",
        "/settings": "telegram:8",
        "/welcome": "script/one",
    }
    for path, text in pages.items():
        await page.goto(path)
        await expect(page.locator("main")).to_contain_text(text)
        if path == "/memory":
            await expect(page.get_by_label("Text of the file")).not_to_be_empty()
        wrong += await check(page, path)
    await page.goto("/status")
    await page.get_by_role("button", name="Add a job").click()
    wrong += await check(page, "the form of a job")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox")).to_be_visible()
    wrong += await check(page, "the palette")
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    wrong += await check(page, "the keys")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_what_opens_over_a_page_has_no_violation_either(
    gateway: Gateway, visit: Visitors, viewport: ViewportSize
) -> None:
    visit.expect_errors("400")
    session = await live_here(gateway)
    page = await look(visit, viewport)
    await page.goto("/")
    await expect(page.locator(".row a.name").first).to_be_visible()
    await page.keyboard.press("f")
    await expect(page.get_by_role("combobox")).to_be_visible()
    wrong = await check(page, "the filters")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("Shift+J")
    await expect(page.get_by_text("2 selected")).to_be_visible()
    wrong += await check(page, "two selected")
    await page.keyboard.press("e")
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    wrong += await check(page, "the bar of undo")
    await page.goto(f"/s/{session.id}")
    await page.get_by_role("button", name="More").click()
    await expect(page.get_by_role("menuitem").first).to_be_visible()
    wrong += await check(page, "the menu of a session")
    await page.goto("/memory")
    await page.locator("aside").get_by_role("button", name="Compare").first.click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    wrong += await check(page, "two versions")
    await page.goto("/status")
    await page.get_by_role("button", name="Why?").first.click()
    await expect(page.get_by_role("dialog")).to_contain_text("Rule that decided")
    wrong += await check(page, "why a reply went so")
    assert wrong == [], "\n".join(wrong)


async def test_three_texts_and_signing_in_have_no_violation_either(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*REFUSED)
    memory = gateway.house.calls.parts.memory
    await memory.write("memory", "one\n", by="agent")
    page = await look(visit, PHONE)
    await page.goto("/memory")
    await expect(page.get_by_label("Text of the file")).to_have_value("one\n")
    await page.get_by_label("Text of the file").fill("mine\n")
    await memory.write("memory", "theirs\n", by="agent")
    await page.get_by_role("button", name="Compare and join").click()
    wrong = await check(page, "three texts")
    stranger = await look(visit, WIDE, signed_in=False)
    await stranger.goto("/")
    await expect(stranger.get_by_text("This browser is not signed in.")).to_be_visible()
    wrong += await check(stranger, "signing in")
    assert wrong == [], "\n".join(wrong)


async def test_what_is_wrong_is_found(visit: Visitors) -> None:
    """Else a check that sees nothing would pass."""
    page = await look(visit, PHONE)
    await page.goto("/usage")
    await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    await page.evaluate(
        """() => {
          const bad = document.createElement("div");
          bad.innerHTML = "<input><p style='width: 900px; color: #bbb'>some words</p>";
          document.querySelector("main").append(bad);
        }"""
    )
    found = "\n".join(await check(page, "here"))
    assert "label:" in found
    assert "color-contrast:" in found
    assert "main scrolls" in found
