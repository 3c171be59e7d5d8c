"""The page of usage: a chart that is read by keys and as a table; what is unknown is said."""

from __future__ import annotations

import re

from playwright.async_api import expect

from clew.core.changes import AddUsage, EndTurn, StartTurn
from clew.core.usage import Usage
from clew.runtime.lane.lease import hold
from tests.dashboard.conftest import PHONE, Gateway, Visitors

DOLLAR = 1_000_000_000


def _with(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


async def spend(gateway: Gateway, name: str, model: str, cost: int | None) -> str:
    """A session with a turn that cost something today."""
    session = await gateway.session(name, key=f"cli:{name}")
    async with hold(gateway.store, session.id, "test") as lease:
        turn = f"turn-{name}"
        usage = Usage(1_000, 200, 30, 4, cost, 1)
        await gateway.store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id=turn, model=model),
            AddUsage(usage=usage, turn_id=turn),
            EndTurn(turn_id=turn, status="done"),
        )
    return session.id


async def test_usage_is_read_by_keyboard_and_in_the_table(
    gateway: Gateway, visit: Visitors
) -> None:
    await spend(gateway, "Tea", "big", 2 * DOLLAR)
    page = await visit("/usage?days=7")
    chart = page.get_by_role("slider")
    await expect(chart).to_have_attribute("aria-valuetext", _with("$2.00, 1,234 tokens, 1 turn"))
    await chart.press("ArrowLeft")
    await expect(chart).to_have_attribute("aria-valuetext", _with("$0, 0 tokens, 0 turns"))
    await chart.press("End")
    await expect(page.locator(".chart-words")).to_contain_text("1,234 tokens")
    await expect(page.locator(".table-place tr.chosen")).to_contain_text("$2.00")
    await page.keyboard.press("t")
    await expect(page.get_by_text("Read from cache")).to_be_visible()
    assert "show=tokens" in page.url
    await page.reload()
    await expect(page.get_by_role("button", name="Tokens")).to_have_attribute(
        "aria-pressed", "true"
    )
    # The heading takes three lines on a phone, and nothing lies over them.
    await page.set_viewport_size(PHONE)
    cut = "(each) => each.scrollHeight - each.clientHeight"
    assert await page.locator(".page-header").evaluate(cut) == 0


async def test_an_unknown_cost_is_unknown_and_never_nothing(
    gateway: Gateway, visit: Visitors
) -> None:
    await spend(gateway, "Tea", "big", DOLLAR)
    await spend(gateway, "Milk", "unpriced", None)
    page = await visit("/usage")
    totals = page.get_by_role("region", name="In all")
    await expect(totals).to_contain_text("at least $1.00")
    await expect(totals).to_contain_text("Unknown for unpriced")
    await expect(page.get_by_role("slider")).to_have_attribute("aria-valuetext", _with("unknown, "))
    await expect(page.locator(".chart .unknown")).to_have_count(1)
    await expect(page.get_by_text("cost unknown")).to_be_visible()


async def test_groups_are_in_the_address_and_sessions_are_links(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await spend(gateway, "Tea", "big", DOLLAR)
    page = await visit("/usage", viewport=PHONE)
    await page.get_by_role("button", name="Session").click()
    await expect(page.get_by_role("heading", name="By session")).to_be_visible()
    assert "by=session" in page.url
    link = page.get_by_role("link", name="Tea")
    await expect(link).to_have_attribute("href", f"/s/{session}")
    await page.get_by_role("button", name="Platform").click()
    await expect(page.get_by_role("row", name="cli")).to_contain_text("$1.00")


async def test_nothing_used_is_said(gateway: Gateway, visit: Visitors) -> None:
    page = await visit("/usage")
    await expect(page.get_by_text("Nothing was used in this time.").first).to_be_visible()


async def test_days_are_those_of_the_browser(gateway: Gateway, visit: Visitors) -> None:
    await spend(gateway, "Tea", "big", DOLLAR)
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        page = await visit("/usage?days=7", timezone_id=zone)
        today = await page.evaluate(
            "new Date().toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})"
        )
        await expect(page.get_by_role("row", name=today)).to_contain_text("$1.00")
