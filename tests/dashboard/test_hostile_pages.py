"""What models and strangers wrote, on the pages around sessions: it stays text, and nothing runs.

A tripwire is set before the page loads: it notices scripts that run, requests that leave the
gateway, and pages that are left.
"""

from __future__ import annotations

from itertools import count

from playwright.async_api import Page, Route, expect

from clew.api.handlers.tokens import make_token
from clew.clock import host_clock
from clew.core.changes import AddUsage, EndTurn, Send, StartTurn
from clew.core.channels.people import NewPairing
from clew.core.delivery import NewOutbound
from clew.core.tokens import digest_of
from clew.core.usage import Usage
from clew.runtime.lane.lease import hold
from tests.dashboard.conftest import Gateway, Visitors
from tests.gateway.payloads import list_payloads
from tests.gateway.test_browser import TRIPWIRE

PAYLOADS = list_payloads()
TOUCH = """async () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("main, main *"))
    for (const kind of ["mouseover", "pointerenter", "focusin", "toggle", "load", "error"])
      each.dispatchEvent(new Event(kind, {bubbles: false}));
  await new Promise((done) => setTimeout(done, 50));
  return {
    tripped: window.tripped,
    loading: document.querySelectorAll(
      "main :is(script, iframe, object, embed, img, video, audio, base, link, style, meta)").length,
    handlers: [...document.querySelectorAll("main *")].flatMap((each) => each.getAttributeNames())
      .filter((name) => name.startsWith("on") || name === "style" || name === "srcdoc"),
    schemes: [...document.querySelectorAll("main a[href]")].map((each) => each.protocol)
      .filter((each) => !["http:", "https:", "mailto:"].includes(each)),
  };
}"""


async def fill(gateway: Gateway) -> None:
    """Each payload somewhere: tokens, people, sessions, models, replies, jobs, personalities."""
    now = host_clock()
    store = gateway.store
    number = count()
    for text in PAYLOADS[:40]:
        token, secret = make_token(text[:100], ("read",), now)
        await store.add_token(token, digest_of(secret))
    for text in PAYLOADS[40:60]:
        person = f"telegram:{next(number)}"
        new = NewPairing(
            person=person, channel="telegram", code=f"ABCDEF{next(number):02}"[:8],
            name=text, reply_to={"channel": "telegram", "key": person},
        )  # fmt: skip
        assert await store.ask_pairing(new, most=99) is not None
    for text in PAYLOADS[60:100]:
        at = next(number)
        session = await gateway.session(text[:200], key=f"cli:{at}")
        async with hold(store, session.id, "test") as lease:
            await store.record(
                session.id,
                lease.epoch,
                StartTurn(turn_id=f"t{at}", model=text[:200]),
                AddUsage(usage=Usage(5, cost=None), turn_id=f"t{at}"),
                EndTurn(turn_id=f"t{at}", status="done"),
                Send(NewOutbound(id=f"o{at}", key=session.key, channel=text[:60], content=text)),
            )
        await store.settle_outbound(f"o{at}", "uncertain", error=text)
    home = gateway.path / "home"
    for text in PAYLOADS[100:120]:
        own = home / "personalities" / f"p{next(number)}"
        own.mkdir(parents=True)
        quoted = text.replace("\\", "").replace('"', "'").replace("\n", " ")
        own.joinpath("config.toml").write_text(
            f'name = "{quoted}"\ndescription = "{quoted}"\nmemory_scope = "per-personality"\n',
            encoding="utf-8",
        )


async def set_trap(page: Page, gateway: Gateway) -> list[str]:
    """Notice whatever leaves the gateway; the list grows."""
    left: list[str] = []

    async def serve(route: Route) -> None:
        if route.request.url.startswith(gateway.url):
            await route.continue_()
            return
        left.append(route.request.url)
        await route.abort()

    await page.add_init_script(TRIPWIRE)
    await page.context.route("**/*", serve)
    page.on("popup", lambda each: left.append(each.url))
    return left


async def touch(page: Page, where: str, but: str | None = None) -> None:
    """`but`: an attribute that the page itself sets here, as a list does to place its rows."""
    found = await page.evaluate(TOUCH)
    found["handlers"] = [each for each in found["handlers"] if each != but]
    assert found == {"tripped": [], "loading": 0, "handlers": [], "schemes": []}, where


async def test_names_and_texts_of_strangers_stay_text_on_every_page(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("400")  # this gateway has no configuration to show
    await fill(gateway)
    jobs = await gateway.house.ask(
        "POST",
        "/v1/cron",
        token=await gateway.house.secret(),
        json={"name": "news", "schedule": "@daily", "text": "\n".join(PAYLOADS[200:300])},
    )
    assert jobs.status_code == 201, jobs.text
    page = await visit(None)
    left = await set_trap(page, gateway)
    for path, text in (
        ("/settings", PAYLOADS[0]),
        ("/status", PAYLOADS[99]),
        ("/usage?by=session", "By session"),
        ("/usage?by=model", "By model"),
        ("/welcome", "script/one"),
    ):
        await page.goto(path)
        await expect(page.locator("main")).to_contain_text(text)
        await touch(page, path)
    assert left == []


async def test_three_hundred_sessions_of_strangers_stay_text_in_the_list_and_wherever_it_leads(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("404")  # of models that are none
    sessions = [
        await gateway.session(
            text[:200], key=f"telegram:{text[:200]}", display_name=text[:100], cwd=text[:200],
            project=text[:200], person=f"telegram:{text[:60]}", model=text[:60],
            platform="telegram", kind="dm",
        )
        for text in PAYLOADS
    ]  # fmt: skip
    page = await visit(None)
    left = await set_trap(page, gateway)
    await page.goto("/")
    await expect(page.locator(".total")).to_have_text(str(len(PAYLOADS)))
    seen: set[str] = set()
    while len(seen) < len(PAYLOADS):
        await expect(page.locator(".row.hole")).to_have_count(0)
        rows = await page.locator(".row[aria-posinset]").evaluate_all(
            "(all) => all.map((each) => each.getAttribute('aria-posinset'))"
        )
        seen |= set(rows)
        await touch(page, "the list", but="style")
        last = page.locator(f".row[aria-posinset='{max(int(each) for each in rows)}']")
        await last.evaluate("(each) => each.scrollIntoView({block: 'start'})")
        if len(seen) < len(PAYLOADS):
            await expect(
                page.locator(f".row[aria-posinset='{max(int(each) for each in seen) + 1}']")
            ).to_be_attached()
    await page.keyboard.press("f")
    await page.keyboard.type("trip")
    await expect(page.get_by_role("option").first).to_contain_text("trip")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("script")
    await expect(page.get_by_role("option").first).to_contain_text("script")
    await page.keyboard.press("Escape")
    await page.goto("/?q=trip")
    await expect(page.locator("main")).to_contain_text("trip")
    await touch(page, "found", but="style")
    # What one of them is called, everywhere on its page.
    for session in sessions[:: len(sessions) // 6]:
        await page.goto(f"/s/{session.id}")
        await expect(page.locator(".session-head")).to_contain_text(session.title or "")
        if await page.get_by_label("About this session", exact=True).is_hidden():
            await page.keyboard.press("Escape")
            await page.keyboard.press("d")
        about = page.get_by_label("About this session", exact=True)
        await expect(about).to_contain_text("Rules about tools")
        await touch(page, "a session", but="style")
    await page.goto("/memory?store=user")
    await expect(page.get_by_label("About whom")).to_be_visible()
    await touch(page, "people")
    assert left == []


async def test_a_memory_full_of_payloads_is_edited_previewed_compared_and_found(
    gateway: Gateway, visit: Visitors
) -> None:
    memory = gateway.house.calls.parts.memory
    await memory.write("memory", "before\n", by=PAYLOADS[0][:80])
    await memory.write("memory", "\n\n".join(PAYLOADS), by=PAYLOADS[1][:80])
    page = await visit(None)
    left = await set_trap(page, gateway)
    await page.goto("/memory?q=trip")
    await expect(page.get_by_role("heading", name="lines")).to_be_visible()
    await touch(page, "found")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator(".shown .rendered")).not_to_be_empty()
    await touch(page, "the preview")
    await page.locator("aside").get_by_role("button", name="Compare").first.click()
    await expect(page.locator(".text-diff .added").first).to_be_visible()
    await touch(page, "the versions")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Write").click()
    await page.get_by_label("Text of the file").fill(PAYLOADS[2] + "\nmine")
    await memory.write("memory", "\n".join(PAYLOADS[:50]), by=PAYLOADS[3][:80])
    await page.get_by_role("button", name="Compare and join").click()
    await expect(page.get_by_label("The joined text")).to_be_visible()
    await touch(page, "three texts")
    assert left == []
