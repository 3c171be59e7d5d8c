"""The page of status: what did not arrive, jobs, what waits; all of it read again by itself."""

from __future__ import annotations

import re

from playwright.async_api import Locator, Page, expect

from clew.core.changes import AddMessage, Send
from clew.core.delivery import NewOutbound, OutboundStatus
from clew.core.message import Draft
from clew.runtime.lane.lease import hold
from tests.dashboard.conftest import PHONE, Gateway, Visitors


async def reply(gateway: Gateway, name: str, status: OutboundStatus, error: str) -> None:
    """A reply of a session to a channel that went wrong."""
    session = await gateway.session(key="agent:main:telegram:dm:7")
    async with hold(gateway.store, session.id, "test") as lease:
        text = f"The reply {name}"
        said = AddMessage(Draft(role="assistant", content=text))
        outbound = NewOutbound(id=name, key=session.key, channel="telegram", content=text, seq=1)
        await gateway.store.record(session.id, lease.epoch, said, Send(outbound))
    await gateway.store.settle_outbound(name, status, error=error)


def row(page: Page, text: str) -> Locator:
    return page.locator(".rows > li").filter(has_text=text)


async def test_an_uncertain_reply_is_confirmed_and_a_failed_one_sent_again(
    gateway: Gateway, visit: Visitors
) -> None:
    page = await visit("/status")
    await expect(page.get_by_text("Everything has arrived.")).to_be_visible()
    await reply(gateway, "first", "uncertain", "the line broke")
    await reply(gateway, "second", "failed", "no such chat")
    uncertain, failed = row(page, "The reply first"), row(page, "The reply second")
    await expect(uncertain).to_contain_text("the line broke")
    await expect(failed.get_by_role("button", name="It has arrived")).to_have_count(0)

    await uncertain.get_by_role("button", name="Why?").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Rule that decided")
    await page.keyboard.press("Escape")
    # The session opens at the message that the reply belongs to.
    await expect(uncertain.get_by_role("link", name="Open")).to_have_attribute(
        "href", re.compile(r"^/s/[-0-9a-f]+#m1$")
    )
    await uncertain.get_by_role("button", name="It has arrived").click()
    await expect(uncertain).to_have_count(0)
    assert (await gateway.store.get_outbound("first")).status == "sent"
    await failed.get_by_role("button", name="Send again").click()
    await expect(failed).to_have_count(0)
    assert (await gateway.store.get_outbound("second")).status == "pending"


async def test_a_job_is_added_run_removed_and_brought_back_by_keyboard_alone(
    gateway: Gateway, visit: Visitors
) -> None:
    page = await visit("/status", viewport=PHONE)
    await expect(page.get_by_text("There is no job.")).to_be_visible()
    await page.keyboard.press("a")
    await page.keyboard.type("morning")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("every 2h")
    await page.keyboard.press("Tab")
    await page.keyboard.type("What is new?")
    await page.get_by_role("button", name="Add", exact=True).press("Enter")
    job = row(page, "morning")
    await expect(job).to_contain_text("every 2h")
    await expect(job).to_contain_text("Next in")

    await job.get_by_role("button", name="Run now").press("Enter")
    await expect(page.get_by_text("morning runs.")).to_be_visible()
    await expect(job.get_by_role("button", name="Run now")).to_be_focused()
    await job.get_by_role("button", name="Remove").press("Enter")
    await expect(job).to_have_count(0)
    await page.keyboard.press("z")
    await expect(job).to_contain_text("What is new?")


async def test_a_schedule_that_is_none_is_said_and_the_form_stays(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("400")
    page = await visit("/status")
    await page.get_by_role("button", name="Add a job").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("x")
    await dialog.get_by_label("When").fill("whenever")
    await dialog.get_by_label("What to ask the agent").fill("hello")
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("every 2h")
    await expect(dialog.get_by_label("What to ask the agent")).to_have_value("hello")


async def test_numbers_of_the_store_and_the_last_events_are_shown(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Tea")
    await gateway.say(session, "hello")
    page = await visit("/status")
    store = page.get_by_role("region", name="Store")
    await expect(store).to_contain_text("1, 0 archived, 0 in the trash")
    events = page.get_by_role("region", name="Last events")
    await expect(events).to_contain_text("A turn is done.")
    await events.get_by_role("link", name="Open").first.click()
    await expect(page).to_have_url(f"{gateway.url}/s/{session.id}")
