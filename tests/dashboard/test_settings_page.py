"""The page of settings and the first steps, of a clew with its wiring; an actor is the model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, expect

from clew import config as configuration
from clew.api.local import Calls
from clew.core.channels.people import NewPairing
from clew.core.session import OWNER, SessionFilter
from clew.gateway.app import build_app
from clew.gateway.auth import Gate
from clew.gateway.server import Address, listen, serving
from clew.gateway.stream_guard import StreamGuard
from clew.wiring.house import open_house
from tests.dashboard.conftest import PHONE, REFUSED, Gateway, Visitors
from tests.gateway.conftest import House, Watch

SECRET = "sk-" + "x1" * 20
CONFIG = f"""# mine
model = "script/one"

[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "SCRIPT"
models = ["one", "two"]

[providers.other]
base_url = "http://127.0.0.1:9/v1"
models = ["away"]
api_key = "{SECRET}"
"""


class WiredGateway(Gateway):
    """A gateway over everything that `clew serve` has but channels."""

    async def start(self) -> None:
        script = self.path / "script.json"
        script.write_text(json.dumps([{"text": "ready "}]), encoding="utf-8")
        file = self.path / "config.toml"
        file.write_text(CONFIG.replace("SCRIPT", str(script)), encoding="utf-8")
        config = configuration.load(home=str(self.path), environ={"CLEW_THINKING": "low"})
        calls = Calls(await self._parts.enter_async_context(open_house(config)))
        watch = Watch()
        gate = Gate(calls.parts.store, watch)
        app = build_app(calls, gate, stream_guard=StreamGuard(gate))
        self.house = House(calls, gate, app, watch)
        address = Address(port=0)
        listener = self._parts.enter_context(listen(address))
        self.url = await self._parts.enter_async_context(
            serving(app, gate, address, listener, grace=2)
        )


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    made = WiredGateway(tmp_path)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, gateway: Gateway) -> AsyncIterator[Visitors]:
    visitors = Visitors(browser, gateway)
    try:
        yield visitors
    finally:
        await visitors.close()


async def test_a_model_is_tested_and_made_the_default(gateway: Gateway, visit: Visitors) -> None:
    page = await visit("/settings")
    models = page.get_by_role("region", name="Models").locator(".rows > li")
    one, two = models.filter(has_text="script/one"), models.filter(has_text="script/two")
    await expect(one).to_contain_text("default")
    await two.get_by_role("button", name="Test").press("Enter")
    await expect(two.get_by_role("status")).to_contain_text("It answers")
    await expect(two.get_by_role("status")).to_contain_text("ready")
    away = models.filter(has_text="other/away")
    await away.get_by_role("button", name="Test").click()
    await expect(away.locator(".bad")).to_be_visible()

    await two.get_by_role("button", name="Use by default").press("Enter")
    await expect(page.get_by_text("New chats use script/two.")).to_be_visible()
    text = (gateway.path / "config.toml").read_text("utf-8")
    assert text.startswith("# mine")
    assert 'model = "script/two"' in text
    config = page.get_by_role("region", name="Configuration")
    await expect(config.locator(".rows > li").filter(has_text="script/two")).to_contain_text(
        "config.toml"
    )


async def test_the_configuration_is_shown_with_its_sources_and_without_secrets(
    gateway: Gateway, visit: Visitors
) -> None:
    page = await visit("/settings")
    config = page.get_by_role("region", name="Configuration")
    await expect(config.locator(".rows > li").filter(has_text="thinking").first).to_contain_text(
        "CLEW_THINKING"
    )
    await config.get_by_text("usual values").click()
    await expect(config).to_contain_text("session.trash_days")
    assert SECRET not in await page.content()


async def test_a_server_and_a_key_are_added_from_the_page(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("400")
    page = await visit("/welcome", viewport=PHONE)
    await page.get_by_role("button", name="Add a key or a server").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("From").select_option("")
    await dialog.get_by_label("Name").fill("home")
    await dialog.get_by_label("Address").fill("no address")
    await dialog.get_by_label("Models").fill("qwen3 small")
    await dialog.get_by_label("Key").fill("sk-typed-here")
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(dialog.get_by_role("alert")).not_to_be_empty()
    await dialog.get_by_label("Address").fill("http://127.0.0.1:9/v1")
    await dialog.get_by_role("button", name="Add", exact=True).click()

    await expect(page.locator(".rows > li").filter(has_text="home/qwen3")).to_be_visible()
    assert (gateway.path / "keys" / "home.key").read_text("utf-8").strip() == "sk-typed-here"
    assert "sk-typed-here" not in (gateway.path / "config.toml").read_text("utf-8")
    assert "sk-typed-here" not in await page.content()


async def test_a_personality_is_made_tried_and_changed(gateway: Gateway, visit: Visitors) -> None:
    page = await visit("/settings")
    await page.get_by_role("button", name="New personality").press("Enter")
    await page.keyboard.type("poet")
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="poet")
    await dialog.get_by_label("What it is for").fill("Rhymes")
    await dialog.get_by_label("What the model is told first").fill("You rhyme.")
    await dialog.get_by_role("button", name="Save").click()
    poet = page.locator(".rows > li").filter(has_text="Rhymes")
    await poet.get_by_role("button", name="Open").click()
    await expect(dialog.get_by_label("What the model is told first")).to_have_value("You rhyme.")
    await dialog.get_by_role("button", name="Ask").click()
    await expect(dialog.get_by_text("ready")).to_be_visible()
    soul = gateway.path / "personalities" / "poet" / "SOUL.md"
    assert soul.read_text("utf-8").strip() == "You rhyme."


async def test_the_first_steps_lead_to_a_first_answer(gateway: Gateway, visit: Visitors) -> None:
    page = await visit("/welcome")
    await page.get_by_role("button", name="Test").click()
    await expect(page.get_by_text("It answers, in")).to_be_visible()
    await page.get_by_label("Your first message").fill("Hello")
    await page.get_by_label("Your first message").press("Control+Enter")
    await page.wait_for_url("**/s/*")
    found = await gateway.store.list_sessions(SessionFilter(viewer=OWNER), limit=2)
    (session,) = found.sessions
    assert page.url.endswith(session.id)


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
    await expect(browsers.filter(has_text="this one")).to_have_count(1)
    await browsers.get_by_role("button", name="Sign out").click()
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
