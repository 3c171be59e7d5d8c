"""The shell of the dashboard: signing in and out, the connection, pages, keys, the palette."""

from __future__ import annotations

from playwright.async_api import expect

from tests.dashboard.conftest import AWAY, REFUSED, Gateway, Visitors


async def test_a_one_time_link_signs_a_browser_in_and_leaves_no_code_behind(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*REFUSED)
    code = gateway.house.gate.make_code()
    page = await visit(f"/#code={code}", signed_in=False)
    await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert code not in page.url
    stranger = await visit("/", signed_in=False)
    await expect(stranger.get_by_text("This browser is not signed in.")).to_be_visible()


async def test_a_restarted_gateway_is_found_again(gateway: Gateway, visit: Visitors) -> None:
    visit.expect_errors(*AWAY)
    page = await visit("/")
    await expect(page.locator(".connection[data-state=online]")).to_be_attached()
    await gateway.stop()
    await expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    await gateway.start()
    await expect(page.locator(".connection[data-state=online]")).to_be_attached()
