"""The page beside a terminal: a gateway, a terminal and a browser, each a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway
from tests.cli.screens import Terminal
from tests.dashboard.conftest import WIDE
from tests.dashboard.transcripts import write
from tests.patience import PATIENCE


def rule(when: str, *answers: Any) -> dict[str, Any]:
    return {"when": rf"\b{when}\Z", "answers": answers}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.script(
        {"text": "You said: ", "echo": "user"},
        rules=[
            rule(
                "write",
                call("write_file", path="note.txt", content="hi"),
                {"text": "It is written."},
            ),
            rule(
                "remember",
                call("memory_write", file="memory", action="add", text="the agent noted this"),
                {"text": "I will remember it."},
            ),
        ],
    )
    return made


@pytest.fixture
def gateway(home: Home) -> Iterator[GatewayProcess]:
    with run_gateway(home) as running:
        yield running


async def test_a_tool_is_approved_on_the_page_while_a_terminal_shows_it_and_no_edit_is_lost(
    home: Home, gateway: GatewayProcess, work: Path, browser: Browser
) -> None:
    chat = Terminal(home, "chat", "--plain", cwd=work)
    await asyncio.to_thread(chat.wait_for_prompt)
    chat.type("please write\n")
    await asyncio.to_thread(chat.wait_for, "always or n (no): ")
    (session,) = gateway.ask("GET", "/v1/sessions").json()["sessions"]
    code = gateway.ask("POST", "/v1/links").json()["code"]
    context = await browser.new_context(base_url=gateway.url, viewport=WIDE)
    context.set_default_timeout(PATIENCE * 1_000)
    try:
        page = await context.new_page()
        await page.goto(f"/#code={code}")
        # The page leads to what waits, and the person answers there.
        await page.get_by_role("link", name="1 waiting for you").click()
        await page.locator(".row a.name").click()
        await expect(page).to_have_url(f"{gateway.url}/s/{session['id']}")
        card = page.get_by_role("group", name="Approval of write_file")
        await expect(card).to_contain_text("note.txt")
        assert not (work / "note.txt").exists()
        await card.get_by_role("button", name="Yes, once").click()
        await asyncio.to_thread(chat.wait_for, "It is written.")
        await asyncio.to_thread(chat.wait_for_prompt)
        assert (work / "note.txt").read_text() == "hi"
        await expect(page.get_by_role("log").get_by_text("It is written.")).to_be_visible()
        await expect(card).to_have_count(0)

        # What is typed on the page is answered in the terminal too.
        await write(page, "from the page")
        await asyncio.to_thread(chat.wait_for, "You said: from the page")
        await asyncio.to_thread(chat.wait_for_prompt)

        # The agent writes the file that the person edits.
        await page.goto("/memory?store=memory")
        text = page.get_by_label("Text of the file")
        await expect(text).to_be_enabled()
        await text.fill("- typed on the page\n")
        chat.type("please remember\n")
        await asyncio.to_thread(chat.wait_for, "I will remember it.")
        await expect(page.get_by_text("while you wrote. Yours is kept.")).to_be_visible()
        await page.get_by_role("button", name="Compare and join").click()
        joined = page.get_by_label("The joined text")
        await expect(joined).to_have_value("the agent noted this\n- typed on the page\n")
        await page.get_by_role("button", name="Save the joined text").click()
        await expect(page.get_by_text("Saved. The next turn reads it.")).to_be_visible()
        await expect(text).to_have_value("the agent noted this\n- typed on the page\n")
    finally:
        await context.close()
    assert await asyncio.to_thread(chat.leave) == 0
