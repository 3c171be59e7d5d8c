"""The page of settings: tokens, people, colours; models and the configuration of a real clew."""

from __future__ import annotations

from playwright.async_api import expect

from clew.core.channels.people import NewPairing
from tests.dashboard.conftest import PHONE, REFUSED, Gateway, Visitors


async def test_a_token_is_made_shown_once_used_and_revoked(
    gateway: Gateway, visit: Visitors
) -> None:
    page = await visit("/settings")
    await page.get_by_role("button", name="Make a token").click()
    dialog = page.get_by_role("dialog", name="Make a token")
    await dialog.get_by_label("Name").fill("my script")
    await dialog.get_by_label("Talk with all tools").check()
    await dialog.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog", name="The token")
    secret = await shown.locator("code").inner_text()
    assert (await gateway.house.ask("GET", "/v1/sessions", token=secret)).status_code == 200
    assert (await gateway.house.ask("GET", "/v1/tokens", token=secret)).status_code == 403
    await page.keyboard.press("Escape")
    await expect(page.get_by_text(secret)).to_have_count(0)

    token = page.locator(".rows > li").filter(has_text="my script")
    await expect(token).to_contain_text("change and delete sessions and memory")
    await token.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(token).to_have_count(0)
    assert (await gateway.house.ask("GET", "/v1/sessions", token=secret)).status_code == 401


async def test_another_browser_is_signed_out_from_here(gateway: Gateway, visit: Visitors) -> None:
    visit.expect_errors(*REFUSED, "WebSocket")
    other = await visit("/status")
    await expect(other.get_by_role("heading", name="Status")).to_be_visible()
    page = await visit("/settings")
    browsers = page.get_by_role("region", name="Browsers").get_by_role("listitem")
    await expect(browsers).to_have_count(2)
    await browsers.first.get_by_role("button", name="Sign out").click()
    await page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
    await expect(browsers).to_have_count(1)
    await expect(other.get_by_text("This browser is not signed in.")).to_be_visible()
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()


async def test_a_stranger_who_asks_is_let_in_and_refused(gateway: Gateway, visit: Visitors) -> None:
    new = NewPairing(
        person="telegram:7", channel="telegram", code="ABCDEFGH", name="Grace",
        reply_to={"channel": "telegram", "key": "telegram:7"},
    )  # fmt: skip
    assert await gateway.store.ask_pairing(new, most=9) is not None
    page = await visit("/settings", viewport=PHONE)
    person = page.locator(".rows > li").filter(has_text="Grace")
    await person.get_by_role("button", name="Approve").press("Enter")
    await expect(page.get_by_text("Grace may talk here now.")).to_be_visible()
    await expect(person).to_contain_text("a guest")
    paired = await gateway.store.find_pairing("telegram:7")
    assert paired is not None
    assert paired.status == "paired"
    await person.get_by_role("button", name="Refuse").click()
    await expect(person).to_contain_text("refused")


async def test_colours_are_chosen_and_kept(gateway: Gateway, visit: Visitors) -> None:
    page = await visit("/settings", color_scheme="light")
    await page.get_by_role("button", name="Dark").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")


async def test_signing_out_leaves_nothing_to_read(gateway: Gateway, visit: Visitors) -> None:
    visit.expect_errors(*REFUSED, "WebSocket")
    page = await visit("/settings")
    await page.get_by_role("button", name="Sign out").first.click()
    await expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
