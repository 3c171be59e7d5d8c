"""The shell of the dashboard: signing in and out, the connection, pages, keys, the palette."""

from __future__ import annotations

from playwright.async_api import expect

from clew.core.session import SessionEdit
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


async def test_a_browser_whose_token_is_revoked_is_signed_out(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*REFUSED)
    await gateway.session("Mine alone")
    page = await visit("/")
    await expect(page.get_by_role("link", name="Mine alone")).to_be_visible()
    (token,) = await gateway.store.list_tokens()
    await gateway.store.revoke_token(token.id)
    await expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    await expect(page.get_by_text("Mine alone")).to_have_count(0)


async def test_a_gateway_that_is_away_is_said_to_be_and_found_again(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*AWAY)
    session = await gateway.session("Before")
    page = await visit("/")
    await expect(page.get_by_role("link", name="Before")).to_be_visible()
    await gateway.stop()
    await expect(page.get_by_text("The gateway does not answer. Trying again")).to_be_visible()

    # What is done now is refused in words, and nothing is pretended.
    await page.keyboard.press("j")
    await page.keyboard.press("e")
    await expect(page.locator(".notice.error")).to_contain_text("The gateway does not answer.")
    await expect(page.get_by_role("link", name="Before")).to_be_visible()

    await gateway.start()
    await gateway.store.edit_session(session.id, SessionEdit(title="After"))
    await expect(page.get_by_role("link", name="After")).to_be_visible()
    await expect(page.get_by_text("Trying again")).to_have_count(0)
    await expect(page.get_by_role("link", name="Before")).to_have_count(0)
