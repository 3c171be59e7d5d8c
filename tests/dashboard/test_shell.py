"""The shell of the dashboard: signing in and out, the connection, pages, keys, the palette."""

from __future__ import annotations

from playwright.async_api import Request, expect

from clew.core.session import SessionEdit
from tests.dashboard.conftest import AWAY, REFUSED, Gateway, Visitors
from tests.dashboard.transcripts import Asking, Stream, numbers, write
from tests.runtime.conftest import read, soon

CUT = ("ERR_INTERNET_DISCONNECTED", *AWAY)
MOST_REQUESTS = 6
MOST_BYTES = 250_000


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


async def test_the_first_page_is_few_requests_and_small(gateway: Gateway, visit: Visitors) -> None:
    await gateway.session("Mine")
    page = await visit(None, extra_http_headers={"Accept-Encoding": "identity"})
    asked: list[Request] = []
    page.on("request", lambda each: asked.append(each))  # noqa: PLW0108  # Playwright takes no built-in
    await page.goto("/")
    await expect(page.get_by_role("link", name="Mine")).to_be_visible()
    await page.wait_for_load_state("networkidle")
    # The icon in the page and that of the tab are one file. Of the session, which is a moment old,
    # news may come while the page opens: it then reads the list again, with its count.
    different = {(each.method, each.url, each.post_data or "") for each in asked}
    first = {each for each in different if '"count":true' not in each[2]}
    assert len(first) <= MOST_REQUESTS, sorted(first)
    answers = [await each.response() for each in asked]
    sizes = {each.url: len(await each.body()) for each in answers if each is not None}
    assert sum(sizes.values()) <= MOST_BYTES, sizes
    assert all(each.startswith(gateway.url) for each in sizes)


async def test_a_browser_that_is_signed_out_while_an_answer_streams_shows_nothing_more(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*REFUSED)
    session = await gateway.session("Mine alone")
    stream = Stream()
    gateway.actor.scenes = [stream]
    page = await visit(f"/s/{session.id}")
    await write(page, "tell me")
    await soon(stream.began.wait())
    stream.say("a secret")
    await expect(page.locator(".stream")).to_contain_text("a secret")
    await page.get_by_label("Message", exact=True).fill("not sent yet")
    (token,) = await gateway.store.list_tokens()
    await gateway.store.revoke_token(token.id)
    await expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    stream.say(", and more of it")
    stream.end()
    # No key opens what was known before, and going back does not show it.
    for key in ("Control+k", "?", "n", "z"):
        await page.keyboard.press(key)
    await expect(page.locator("dialog")).to_have_count(0)
    await expect(page).to_have_title("Sign in · clew")
    shown = await page.locator("html").inner_text()
    assert "secret" not in shown
    assert "Mine alone" not in shown
    # Signed in again, what was typed is there.
    code = gateway.house.gate.make_code()
    await page.goto(f"/#code={code}")
    await page.reload()
    await page.goto(f"/s/{session.id}")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("not sent yet")


async def test_a_network_that_goes_is_said_what_is_typed_is_kept_and_nothing_comes_twice(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*CUT)
    session = await gateway.session("Threads")
    stream = Stream()
    gateway.actor.scenes = [stream]
    page = await visit(f"/s/{session.id}")
    await write(page, "tell me")
    await soon(stream.began.wait())
    stream.say("one ")
    await expect(page.locator(".stream")).to_contain_text("one")
    await page.context.set_offline(True)
    await expect(page.locator(".connection")).to_contain_text("does not answer")
    await expect(page.locator(".composer-line")).to_contain_text("is kept in this browser")
    field = page.get_by_label("Message", exact=True)
    await field.fill("typed in a tunnel")
    await field.press("Enter")
    await expect(page.locator(".notice.error")).to_contain_text("does not answer")
    await expect(field).to_have_value("typed in a tunnel")
    stream.say("two ")
    await page.context.set_offline(False)
    await expect(page.locator(".composer-line")).to_be_empty()
    stream.say("three")
    stream.end()
    log = page.get_by_role("log")
    await expect(log.get_by_text("one two three", exact=True)).to_have_count(1)
    await expect(page.locator(".stream > *")).to_have_count(0)
    await field.press("Enter")
    await expect(log.get_by_text("ok", exact=True)).to_be_visible()
    assert await numbers(page) == [1, 2, 3, 4]
    assert await read(gateway.store, session) == [
        "user: tell me", "assistant: one two three",
        "user: typed in a tunnel", "assistant: ok",
    ]  # fmt: skip


async def test_a_text_of_memory_typed_without_a_network_is_kept_and_saved_later(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*CUT)
    memory = gateway.house.calls.parts.memory
    await memory.write("memory", "before\n", by="agent")
    page = await visit("/memory")
    text = page.get_by_label("Text of the file")
    await expect(text).to_have_value("before\n")
    await page.context.set_offline(True)
    await text.fill("typed in a tunnel\n")
    await page.keyboard.press("Control+s")
    await expect(page.locator(".notice.error")).to_contain_text("does not answer")
    await expect(text).to_have_value("typed in a tunnel\n")
    await page.context.set_offline(False)
    await expect(page.locator(".connection")).to_be_empty()
    await page.reload()
    await expect(text).to_have_value("typed in a tunnel\n")
    await page.keyboard.press("Control+s")
    await expect(page.get_by_text("Saved. The next turn reads it.")).to_be_visible()
    assert (await memory.read("memory")).text == "typed in a tunnel\n"


async def test_the_shell_opens_without_a_gateway_and_nothing_that_was_said_is_kept(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*AWAY, "Failed to fetch", "ERR_FAILED")
    session = await gateway.session("Mine alone")
    await gateway.say(session, "said in confidence")
    page = await visit("/", service_workers="allow")
    await page.evaluate("navigator.serviceWorker.ready")
    await page.goto(f"/s/{session.id}")
    await expect(page.get_by_role("log")).to_contain_text("said in confidence")
    await gateway.stop()
    for path in (f"/s/{session.id}", "/s/new", "/memory"):
        await page.goto(path)
        await expect(page.locator(".connection")).to_contain_text("does not answer")
    kept = await page.evaluate(
        """async () => {
          const found = {};
          for (const name of await caches.keys()) {
            const cache = await caches.open(name);
            for (const { url } of await cache.keys()) {
              found[new URL(url).pathname] = await (await cache.match(url)).text();
            }
          }
          return found;
        }"""
    )
    shell = {"/", "/app.js", "/app.css", "/icon.svg", "/manifest.webmanifest"}
    assert kept.keys() == shell
    assert "confidence" not in "".join(kept.values())
    await gateway.start()
    await page.goto(f"/s/{session.id}")
    await expect(page.get_by_role("log")).to_contain_text("said in confidence")


async def test_the_main_job_is_done_with_the_keyboard_alone(
    gateway: Gateway, visit: Visitors
) -> None:
    gateway.actor.scenes = [Asking()]
    page = await visit("/")
    await expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    keys = page.keyboard
    # A new chat, a question, and the answer to what it asks.
    await keys.press("n")
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await keys.type("clean up")
    await keys.press("Enter")
    yes = page.get_by_role("button", name="Yes, once")
    await expect(yes).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    for _ in range(20):
        if await yes.evaluate("(each) => each === document.activeElement"):
            break
        await keys.press("Shift+Tab")
    await expect(yes).to_be_focused()
    await keys.press("Enter")
    await expect(page.get_by_role("log").get_by_text("I was told: yes once")).to_be_visible()
    # A name, found again by it, and opened.
    await page.locator("body").evaluate("() => document.activeElement.blur()")
    await keys.press("r")
    await keys.press("Control+a")
    await keys.type("Spring cleaning")
    await keys.press("Enter")
    await expect(page.get_by_role("heading", name="Spring cleaning")).to_be_visible()
    await keys.press("g")
    await keys.press("s")
    await expect(page.get_by_role("link", name="Spring cleaning")).to_be_visible()
    await keys.press("Control+k")
    await keys.type("spring")
    await expect(page.get_by_role("option", name="Spring cleaning")).to_be_visible()
    await keys.press("Escape")
    await keys.press("j")
    await keys.press("Enter")
    await expect(page.get_by_role("heading", name="Spring cleaning")).to_be_visible()
    # Every page has a key, and memory is written and saved without a mouse.
    await keys.press("Escape")
    for key, name in (("u", "Usage"), ("t", "Status"), ("e", "Settings"), ("m", "Memory")):
        await keys.press("g")
        await keys.press(key)
        await expect(page.get_by_role("heading", name=name, exact=True, level=1)).to_be_visible()
    text = page.get_by_label("Text of the file")
    await expect(text).to_be_enabled()
    for _ in range(20):
        if await text.evaluate("(each) => each === document.activeElement"):
            break
        await keys.press("Tab")
    await expect(text).to_be_focused()
    await keys.type("- tea is green")
    await keys.press("Control+s")
    await expect(page.get_by_text("Saved. The next turn reads it.")).to_be_visible()


async def test_a_key_right_after_escape_is_not_lost(gateway: Gateway, visit: Visitors) -> None:
    await gateway.session("Mine")
    page = await visit("/")
    await expect(page.get_by_role("link", name="Mine")).to_be_visible()
    # In one task of the browser: nothing can happen between two keys.
    press = """(keys) => {
        for (const key of keys) {
            const options = { key, bubbles: true, cancelable: true };
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", options));
        }
    }"""
    await page.evaluate(press, ["?", "Escape", "f", "Escape", "j", "x"])
    await expect(page.get_by_text("1 selected")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)
