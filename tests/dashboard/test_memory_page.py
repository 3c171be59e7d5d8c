"""The page of memory, as a person uses it, while the agent writes the same files."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from clew.core.memory import MemoryName
from tests.dashboard.conftest import PHONE, Gateway, Visitors

STALE = "412"
"""A browser reports a refused save as an error of its own."""

START = "# Notes\n\n- tea is green\n- the train leaves at 8\n- the key is under the mat\n"


async def write(
    gateway: Gateway, text: str, name: MemoryName = "memory", by: str = "agent"
) -> None:
    """The file is written from elsewhere, as the agent or an editor does it."""
    await gateway.house.calls.parts.memory.write(name, text, by=by)


async def read(gateway: Gateway, name: MemoryName = "memory") -> str:
    return (await gateway.house.calls.parts.memory.read(name)).text


async def test_a_file_is_edited_saved_and_compared(gateway: Gateway, visit: Visitors) -> None:
    await write(gateway, START)
    page = await visit("/memory")
    text = page.get_by_label("Text of the file")
    await expect(text).to_have_value(START)
    await expect(page.get_by_text("The model is given all of it.")).to_be_visible()
    await expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()

    await text.fill(START.replace("green", "black"))
    await page.get_by_role("button", name="Changes", exact=True).click()
    await expect(page.locator(".text-diff .removed")).to_contain_text("tea is green")
    await expect(page.locator(".text-diff .added")).to_contain_text("tea is black")
    await page.keyboard.press("Control+s")

    await expect(page.get_by_text("Saved. The next turn reads it.")).to_be_visible()
    assert await read(gateway) == START.replace("green", "black")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator(".rendered h1")).to_have_text("Notes")
    await expect(page.locator("aside").get_by_role("listitem")).to_have_count(2)


async def test_what_was_typed_and_not_saved_survives_a_reload_and_can_be_discarded_and_taken_back(
    gateway: Gateway, visit: Visitors
) -> None:
    await write(gateway, START)
    page = await visit("/memory?store=memory")
    text = page.get_by_label("Text of the file")
    await expect(text).to_have_value(START)
    await text.press("Control+End")
    await text.press_sequentially("- typed")
    await page.reload()
    await expect(text).to_have_value(START + "- typed")
    await expect(page.get_by_text("is shown, and not saved yet")).to_be_visible()

    await page.get_by_role("button", name="Discard").click()
    await expect(text).to_have_value(START)
    await page.get_by_role("button", name="Undo").click()
    await expect(text).to_have_value(START + "- typed")
    assert await read(gateway) == START


async def test_a_file_that_nobody_edits_here_shows_what_the_agent_writes(
    gateway: Gateway, visit: Visitors
) -> None:
    await write(gateway, START)
    page = await visit("/memory")
    await expect(page.get_by_label("Text of the file")).to_have_value(START)
    await write(gateway, START + "- new\n")
    await expect(page.get_by_text("Changed just now by agent")).to_be_visible()
    await expect(page.get_by_label("Text of the file")).to_have_value(START + "- new\n")


async def test_no_edit_is_lost_when_the_agent_writes_at_the_same_time(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(STALE)
    await write(gateway, START)
    page = await visit("/memory")
    text = page.get_by_label("Text of the file")
    await expect(text).to_have_value(START)
    await text.fill(START.replace("green", "black"))
    theirs = START + "- the agent noted this\n"
    await write(gateway, theirs)
    await expect(page.get_by_text("This file was changed by agent while you wrote")).to_be_visible()
    await expect(text).to_have_value(START.replace("green", "black"))

    await page.get_by_role("button", name="Save", exact=True).click()
    joined = page.get_by_label("The joined text")
    await expect(joined).to_have_value(theirs.replace("green", "black"))
    await expect(page.get_by_text("do not touch each other")).to_be_visible()
    # Once more while the person looks: nothing of the three texts may go.
    await write(gateway, theirs.replace("mat", "rug"))
    await page.get_by_role("button", name="Save the joined text").click()
    await expect(joined).to_have_value(theirs.replace("green", "black").replace("mat", "rug"))
    await page.get_by_role("button", name="Save the joined text").click()

    await expect(page.get_by_text("Saved. The next turn reads it.")).to_be_visible()
    assert await read(gateway) == theirs.replace("green", "black").replace("mat", "rug")


async def test_where_both_changed_the_same_line_the_person_chooses(
    gateway: Gateway, visit: Visitors
) -> None:
    await write(gateway, START)
    page = await visit("/memory")
    text = page.get_by_label("Text of the file")
    await expect(text).to_have_value(START)
    await text.fill(START.replace("green", "black"))
    await write(gateway, START.replace("green", "white"))
    await page.get_by_role("button", name="Compare and join").click()

    place = page.get_by_role("group", name="You and agent changed this")
    for each in ("tea is black", "tea is white", "tea is green"):
        await expect(place.get_by_text(each)).to_be_visible()
    joined = page.get_by_label("The joined text")
    both = START.replace("- tea is green", "- tea is white\n- tea is black")
    await expect(joined).to_have_value(both)
    # With the keyboard alone: the group of choices takes arrows.
    await place.get_by_label("Both, theirs first").press("ArrowUp")
    await expect(joined).to_have_value(START.replace("green", "white"))
    await place.get_by_label("Yours").check()
    await expect(joined).to_have_value(START.replace("green", "black"))
    await joined.fill("mine in the end\n")
    await page.get_by_role("button", name="Save the joined text").click()

    await expect(page.get_by_text("Saved. The next turn reads it.")).to_be_visible()
    assert await read(gateway) == "mine in the end\n"


async def test_a_version_is_looked_at_restored_and_the_restoring_undone(
    gateway: Gateway, visit: Visitors
) -> None:
    for each in ("one\n", "two\n", "three\n"):
        await write(gateway, each, "user")
    page = await visit("/memory?store=user")
    await expect(page.get_by_label("Text of the file")).to_have_value("three\n")
    history = page.locator("aside").get_by_role("listitem")
    await expect(history).to_have_count(3)
    await history.nth(2).get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="What changed since").click()
    await expect(dialog.locator(".removed")).to_contain_text("one")
    await expect(dialog.locator(".added")).to_contain_text("three")
    await dialog.get_by_role("button", name="Restore this version").click()

    await expect(page.get_by_label("Text of the file")).to_have_value("one\n")
    assert await read(gateway, "user") == "one\n"
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Text of the file")).to_have_value("three\n")
    assert await read(gateway, "user") == "three\n"


async def test_search_finds_lines_of_all_files_and_goes_there(
    gateway: Gateway, visit: Visitors, tmp_path: Path
) -> None:
    own = tmp_path / "home" / "personalities" / "poet"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('name = "Poet"\nmemory_scope = "per-personality"\n', "utf-8")
    (own / "MEMORY.md").write_text("Rhymes with key: sea.\n", "utf-8")
    await write(gateway, START)
    await write(gateway, "Key ring: blue\n", "user")
    page = await visit("/memory?store=user", viewport=PHONE)
    await page.get_by_label("Search in memory").fill("KEY")
    await expect(page.get_by_role("heading", name="3 lines")).to_be_visible()
    assert "q=KEY" in page.url
    await page.get_by_role("button", name="Rhymes with key: sea.").click()

    await expect(page.get_by_label("Text of the file")).to_have_value("Rhymes with key: sea.\n")
    await expect(page.get_by_label("Whose memory")).to_have_value("poet")
    assert "personality=poet" in page.url
    await page.wait_for_function(
        """() => {
          const {value, selectionStart, selectionEnd} = document.activeElement;
          return value?.slice(selectionStart, selectionEnd) === "Rhymes with key: sea.";
        }"""
    )
