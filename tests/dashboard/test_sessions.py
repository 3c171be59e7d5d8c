"""The page of sessions, as a person uses it."""

from __future__ import annotations

import asyncio
import json
import re

from playwright.async_api import Locator, Page, expect

from clew.clock import host_clock
from clew.core.changes import AddMessage
from clew.core.message import Draft, ToolCall
from clew.core.session import Session, SessionEdit
from clew.ports import LiveTurn
from tests.dashboard.conftest import PHONE, Gateway, Visitors, hold_calls
from tests.runtime.conftest import Held, Scene, ended, saying, typed
from tests.sizes import pick


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem").filter(has=page.get_by_role("link", name=name, exact=True))


def names(page: Page) -> Locator:
    return page.locator(".row a.name")


async def fill(gateway: Gateway, many: int, title: str = "Session {}") -> list[Session]:
    """Sessions, the newest last."""
    now = host_clock() - many * 1_000
    return [
        await gateway.session(title.format(number), created_at=now + number * 1_000)
        for number in range(many)
    ]


async def test_two_browsers_see_each_others_changes(gateway: Gateway, visit: Visitors) -> None:
    await fill(gateway, 3)
    one, other = await visit("/"), await visit("/")
    await expect(names(one)).to_have_text(["Session 2", "Session 1", "Session 0"])
    await expect(names(other)).to_have_text(["Session 2", "Session 1", "Session 0"])

    # Renamed in place by one.
    await row(one, "Session 1").hover()
    await one.get_by_role("button", name="Rename Session 1").click()
    await one.get_by_role("textbox", name="New name of Session 1").fill("Fix the roof")
    await one.keyboard.press("Enter")
    await expect(row(other, "Fix the roof")).to_be_visible()
    await expect(names(one)).to_have_text(["Session 2", "Fix the roof", "Session 0"])

    # Taken back with a key.
    await one.keyboard.press("z")
    await expect(row(other, "Session 1")).to_be_visible()

    # Archived by the other, and a new one begins somewhere else.
    await row(other, "Session 0").hover()
    await other.get_by_role("button", name="Archive Session 0").click()
    await expect(names(one)).to_have_text(["Session 2", "Session 1"])
    await gateway.say(await gateway.session(), "What grows in the shade?", saying("Hostas."))
    await expect(names(one).first).to_have_text(re.compile("What grows in the shade"))
    await other.get_by_role("button", name="Undo").click()
    await expect(names(one)).to_have_count(4)


def asking(command: str) -> Scene:
    """Ask whether a command may be run, and say what was decided."""

    async def scene(turn: LiveTurn) -> None:
        call = ToolCall("call_1", "shell", json.dumps({"command": command}))
        draft = Draft(role="assistant", tool_calls=(call,))
        await turn.record(AddMessage(draft, turn.id, from_person=False))
        answer = await turn.ask(call, {"command": command})
        await saying(f"the answer was {answer.decision}")(turn)

    return scene


async def test_what_runs_and_what_waits_for_a_person_is_seen(
    gateway: Gateway, visit: Visitors
) -> None:
    first, second, *_ = await fill(gateway, 4)
    page = await visit("/")
    held = Held("done")
    gateway.actor.scenes = [held]
    running = await gateway.house.calls.parts.runtime.accept(typed(first, "begin"))
    await expect(row(page, "Session 0").get_by_text("running")).to_be_visible()
    await expect(names(page).first).to_have_text("Session 0")
    await expect(page).to_have_title(re.compile("^● Sessions"))

    # What waits comes first, with what it asks for, even before what is pinned.
    await gateway.store.edit_session(first.id, SessionEdit(pinned=True))
    gateway.actor.scenes = [asking("rm -rf build")]
    waiting = await gateway.house.calls.parts.runtime.accept(typed(second, "clean up"))
    await expect(names(page).first).to_have_text("Session 1")
    await expect(names(page)).to_have_count(4)
    await expect(row(page, "Session 1")).to_contain_text("waits for you")
    await expect(row(page, "Session 1")).to_contain_text("asks for shell: rm -rf build")
    await expect(page).to_have_title(re.compile(r"^\(1\) Sessions"))
    await page.get_by_role("link", name="1 waiting for you").click()
    await expect(names(page)).to_have_text(["Session 1"])
    await page.get_by_role("button", name="Remove the filter").click()

    (approval,) = await gateway.store.list_approvals(second.id)
    await gateway.house.calls.parts.runtime.decide(approval.id, "no", by="owner")
    held.go_on.set()
    await ended(running)
    await ended(waiting)
    await expect(names(page).first).to_have_text("Session 0")
    await expect(names(page)).to_have_count(4)
    await expect(page.locator(".row .pill")).to_have_count(0)
    await expect(page).to_have_title(re.compile("^Sessions"))


async def test_forty_are_deleted_and_brought_back(gateway: Gateway, visit: Visitors) -> None:
    await fill(gateway, 45)
    page = await visit("/")
    await expect(page.locator(".total")).to_have_text("45")
    await page.get_by_role("checkbox", name="Select Session 44", exact=True).check(force=True)
    for _ in range(3):
        await page.keyboard.press("Shift+J")
    await expect(page.get_by_text("4 selected")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_text("selected")).to_be_hidden()

    await page.get_by_role("checkbox", name="Select Session 44", exact=True).click(force=True)
    await page.locator(".session-list").evaluate("(list) => list.scrollTo(0, 1e6)")
    await row(page, "Session 5").click(modifiers=["Shift"])
    await expect(page.get_by_text("40 selected")).to_be_visible()
    await page.get_by_role("toolbar").get_by_role("button", name="Trash").click()
    await expect(names(page)).to_have_count(5)
    await expect(page.get_by_text("40 sessions moved to the trash.")).to_be_visible()
    assert (await gateway.store.stats()).trashed == 40
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator(".total")).to_have_text("45")
    assert (await gateway.store.stats()).trashed == 0
    await expect(names(page).first).to_have_text("Session 44")


async def test_search_as_you_type_shows_the_hit_in_its_surroundings(
    gateway: Gateway, visit: Visitors
) -> None:
    garden, work = await fill(gateway, 2)
    await gateway.say(garden, "Where do hostas grow?", saying("They like shade, by the pond."))
    await gateway.say(work, "Refund the customer", saying("Done."))
    page = await visit("/")
    await page.keyboard.press("/")
    await page.keyboard.type("sha")
    await expect(page.locator("mark")).to_have_text("shade")
    await expect(names(page)).to_have_text(["Session 0"])
    assert "q=sha" in page.url
    await page.reload()
    await expect(page.get_by_role("searchbox")).to_have_value("sha")
    await expect(page.locator("mark")).to_have_text("shade")
    await page.get_by_role("searchbox").fill("nowhere to be found")
    await expect(page.get_by_text("Nothing was found for")).to_be_visible()
    await page.get_by_role("button", name="Clear the search").click()
    await expect(names(page)).to_have_count(2)


async def test_filters_are_in_the_address_and_survive_reload_and_back(
    gateway: Gateway, visit: Visitors
) -> None:
    now = host_clock()
    await gateway.session(
        "Chat", key="telegram:1", platform="telegram", kind="dm", created_at=now - 3_000
    )
    for seconds, name in ((2, "Code"), (1, "Other")):
        folder = f"/home/me/{name.lower()}"
        at = now - seconds * 1_000
        await gateway.session(name, cwd=folder, project=folder, created_at=at)
    page = await visit("/")
    await page.get_by_role("button", name="Filter", exact=True).click()
    await page.get_by_role("combobox").fill("cli")
    await page.get_by_role("option", name="cli Platform").click()
    await expect(names(page)).to_have_text(["Other", "Code"])
    await page.keyboard.press("f")
    await page.keyboard.type("proj code")
    await expect(page.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(names(page)).to_have_text(["Code"])
    await page.reload()
    await expect(names(page)).to_have_text(["Code"])
    await page.get_by_role("button", name="Remove the filter platform cli").click()
    assert "platform" not in page.url
    await page.go_back()
    await expect(page.locator(".chip")).to_have_count(2)
    await page.go_back()
    await expect(names(page)).to_have_text(["Other", "Code"])
    await page.go_back()
    await expect(names(page)).to_have_count(3)
    await page.goto("/?state=running&since=2020-01-01")
    await expect(page.get_by_text("No session fits these filters.")).to_be_visible()
    await page.get_by_role("button", name="Clear the filters").click()
    await expect(names(page)).to_have_count(3)


async def test_everything_works_with_the_keyboard_alone(gateway: Gateway, visit: Visitors) -> None:
    await fill(gateway, 4)
    page = await visit("/")
    await expect(names(page)).to_have_count(4)
    await page.keyboard.press("j")
    await expect(row(page, "Session 3")).to_have_class(re.compile("current"))
    await page.keyboard.press("j")
    await page.keyboard.press("p")
    await expect(names(page)).to_have_text(["Session 2", "Session 3", "Session 1", "Session 0"])
    await page.keyboard.press("k")
    await page.keyboard.press("r")
    await page.keyboard.type("First of all")
    await page.keyboard.press("Enter")
    await expect(names(page).first).to_have_text("First of all")
    await page.keyboard.press("j")
    await page.keyboard.press("e")
    await expect(names(page)).to_have_text(["First of all", "Session 1", "Session 0"])
    await page.keyboard.press("#")
    await expect(names(page)).to_have_text(["First of all", "Session 0"])
    await page.keyboard.press("z")
    await expect(names(page)).to_have_text(["First of all", "Session 1", "Session 0"])
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Move to the trash")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("show archived")
    await page.keyboard.press("Enter")
    await expect(names(page)).to_have_text(["Session 3"])
    await page.keyboard.press("j")
    await page.keyboard.press("e")
    await expect(page.get_by_text("Nothing is archived.")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("session 1")
    await expect(page.get_by_role("option", name=re.compile("Session 1"))).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/s/"))


async def test_undo_waits_for_the_change_that_is_under_way(
    gateway: Gateway, visit: Visitors
) -> None:
    await fill(gateway, 3)
    page = await visit("/")
    await expect(names(page)).to_have_count(3)
    await page.keyboard.press("j")
    await page.keyboard.press("e")
    await expect(page.locator(".notice")).to_contain_text("“Session 2” archived")
    go_on = await hold_calls(page, "sessions.mark")
    await page.keyboard.press("#")
    await expect(names(page)).to_have_text(["Session 0"])
    await page.keyboard.press("z")
    go_on.set()
    await expect(page.locator(".notice")).to_have_text(re.compile("Undone"))
    await expect(names(page)).to_have_text(["Session 1", "Session 0"])


async def test_a_row_shows_its_words_on_one_line(gateway: Gateway, visit: Visitors) -> None:
    session = await gateway.session("A name")
    await gateway.say(session, "what was said first " * 20)
    page = await visit("/")
    await expect(page.locator(".row .gist")).to_contain_text("what was said first")
    row, name, gist = [
        await page.locator(each).bounding_box() for each in (".row", ".row .name", ".row .gist")
    ]
    assert row is not None
    assert name is not None
    assert gist is not None
    middle = row["y"] + row["height"] / 2
    assert abs(name["y"] + name["height"] / 2 - middle) < 2
    assert abs(gist["y"] + gist["height"] / 2 - middle) < 2
    assert (
        await page.locator(".row .gist").evaluate("(each) => getComputedStyle(each).padding")
        == "0px"
    )


async def test_it_fits_a_phone_and_leads_on_where_nothing_is(
    gateway: Gateway, visit: Visitors
) -> None:
    page = await visit("/", viewport=PHONE, has_touch=True)
    await expect(page.get_by_role("link", name="Begin: choose a model")).to_have_attribute(
        "href", "/welcome"
    )
    long = "A name that is far too long for a telephone, whatever one does about it, really"
    await gateway.session(long, cwd="/a/" + "deep" * 30, project="/a/" + "deep" * 30)
    await expect(names(page)).to_have_count(1)
    await page.goto("/?platform=cli&since=30d&kind=cli&state=idle&person=owner&q=deep")
    await expect(page.locator(".chip")).to_have_count(5)
    for path in ("/", "/?in=archived", "/?in=trash"):
        await page.goto(path)
        wide = "document.scrollingElement.scrollWidth > innerWidth"
        assert not await page.evaluate(wide)
        assert not await page.evaluate(
            """() => [...document.querySelectorAll("main *")]
              .some((each) => each.getBoundingClientRect().right > innerWidth + 1
                && !each.closest(".visually-hidden"))"""
        )


async def fill_long(gateway: Gateway, many: int) -> None:
    """Many sessions over years, some of them pinned; several at once share a commit."""
    now = host_clock()

    async def make(number: int) -> None:
        # Unevenly spread, as real ones are.
        at = now - int(number**1.5 * 60_000) - 60_000
        made = await gateway.session(f"Session {number}", created_at=at)
        if number in {7, many // 2}:
            await gateway.store.edit_session(made.id, SessionEdit(pinned=True))

    for begin in range(0, many, 64):
        await asyncio.gather(*(make(each) for each in range(begin, min(many, begin + 64))))


TOP = "() => document.querySelector('.session-list').scrollTop"


async def test_a_long_list_scrolls_like_a_short_one(gateway: Gateway, visit: Visitors) -> None:
    many = pick(2_000, 50_000)
    await fill_long(gateway, many)
    page = await visit("/")
    await expect(page.locator(".total")).to_have_text(f"{many:,}")
    await expect(names(page).first).to_have_text("Session 7")
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.post_data or ""))

    # To the end and back: few rows in the document, few calls.
    await page.keyboard.press("End")
    await expect(row(page, f"Session {many - 1}")).to_have_class(re.compile("current"))
    assert await page.locator(".row").count() < 60
    assert len([each for each in asked if '"limit":200' in each]) <= 2
    await page.locator(".session-list").evaluate(
        "(list) => list.scrollTo(0, list.scrollHeight / 3)"
    )
    await expect(row(page, f"Session {many // 3}")).to_be_visible()
    await expect(page.locator(".row.hole")).to_have_count(0)
    shown = [int(each.split()[1]) for each in await names(page).all_text_contents()]
    # The two pinned ones come first, so that one of them is missing here.
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    rank = await page.locator(".row").first.get_attribute("aria-posinset")
    assert int(rank or 0) == shown[0] + 2

    # The place is kept over a reload, and over a visit to a session.
    for leave in (page.reload, None):
        before = await page.evaluate(TOP)
        first = await row(page, f"Session {shown[12]}").bounding_box()
        if leave is not None:
            await leave()
        else:
            await row(page, f"Session {shown[14]}").click()
            await expect(page).to_have_url(re.compile("/s/"))
            await page.go_back()
        await expect(row(page, f"Session {shown[12]}")).to_be_visible()
        assert await page.evaluate(TOP) == before
        assert await row(page, f"Session {shown[12]}").bounding_box() == first

    # What begins above does not move what one reads, and is one press away.
    first = await row(page, f"Session {shown[12]}").bounding_box()
    await gateway.session("Brand new")
    await expect(page.get_by_role("button", name="New above")).to_be_visible()
    assert await row(page, f"Session {shown[12]}").bounding_box() == first
    await page.get_by_role("button", name="New above").click()
    await expect(row(page, "Brand new")).to_be_visible()
