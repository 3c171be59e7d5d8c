"""The page of a session, as a person uses it: reading, writing, watching, deciding."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from playwright.async_api import Page, Route, ViewportSize, expect

from clew.core.changes import AddCompaction, AddMessage
from clew.core.delivery import NewOutbound
from clew.core.message import Author, Draft, ToolCall
from clew.core.session import Session
from clew.errors import ClewError
from tests.dashboard.conftest import AWAY, PHONE, WIDE, Gateway, Visitors, hold_calls
from tests.dashboard.test_accessibility import check, look
from tests.dashboard.transcripts import Asking, Stream, numbers, record, talk, write
from tests.runtime.conftest import Held, failing, read, saying, soon, until

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

WATCH_SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries())
      for (const { node, previousRect: was, currentRect: now } of entry.sources)
        if (node?.parentElement?.closest?.(".messages, .session-head, .bottom"))
          window.shifts.push([node.className ?? node.nodeName, was.y, now.y]);
  }).observe({type: "layout-shift", buffered: false});
}"""


async def open_page(visit: Visitors, session: Session, path: str = "", **options: Any) -> Page:
    page = await visit(f"/s/{session.id}{path}", **options)
    await expect(page.locator("[role=log]:not([aria-busy])")).to_be_attached()
    await expect(page.locator(".connection[data-state=online]")).to_be_attached()
    return page


# --- live -------------------------------------------------------------------------------------
async def test_an_answer_streams_into_two_browsers_without_moving_what_is_above(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    await record(gateway, session, *talk(30))
    stream = Stream()
    gateway.actor.scenes = [stream]
    mine, other = await open_page(visit, session), await open_page(visit, session)
    await mine.evaluate(WATCH_SHIFTS)
    await write(mine, "tell me")
    await soon(stream.began.wait())
    for piece in ("It is **bold**", ", and\n\n- a list\n", "- of two\n\n```python\nx = 1\n```\n"):
        stream.say(piece)
        for page in (mine, other):
            await expect(page.locator(".stream")).to_contain_text(piece.strip().splitlines()[-1])
    assert "**bold**" in await mine.locator(".stream").inner_text()
    stream.end()
    for page in (mine, other):
        last = page.locator(".messages > .message").last
        await expect(last.locator("strong")).to_have_text("bold")
        await expect(last.locator("pre.highlight")).to_be_visible()
        await expect(page.locator(".stream > *")).to_have_count(0)
        assert await numbers(page) == list(range(1, 33))
    assert await mine.evaluate("window.shifts") == []


async def test_a_reader_who_looks_at_older_messages_is_not_carried_away(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    await record(gateway, session, *talk(40))
    page = await open_page(visit, session)
    scroller = page.locator(".transcript")
    await scroller.evaluate("(each) => each.scrollTo(0, 0)")
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    before = await scroller.evaluate("(each) => each.scrollTop")
    await gateway.say(session, "more", saying("and more"))
    button = page.get_by_role("button", name="New messages")
    await expect(button).to_be_visible()
    assert await scroller.evaluate("(each) => each.scrollTop") == before
    await button.click()
    await expect(page.get_by_role("log").get_by_text("and more")).to_be_in_viewport()
    await expect(page.locator(".to-end")).to_be_hidden()


async def test_a_gateway_that_restarts_in_the_middle_of_an_answer_loses_and_doubles_nothing(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*AWAY)
    session = await gateway.session("Threads")
    await gateway.say(session, "one", saying("first"))
    stream = Stream()
    gateway.actor.scenes = [stream]
    page = await open_page(visit, session)
    await write(page, "two")
    await soon(stream.began.wait())
    stream.say("half of an ans")
    await expect(page.locator(".stream")).to_contain_text("half of an ans")
    await gateway.stop()
    await expect(page.locator(".composer-line")).to_contain_text("does not answer")
    await page.get_by_label("Message", exact=True).fill("typed while it was away")
    await gateway.start()
    await gateway.say(session, "three", saying("third"))
    await expect(page.get_by_role("log").get_by_text("third", exact=True)).to_be_visible()
    await expect(page.locator(".composer-line")).to_be_empty()
    await expect(page.locator(".stream > *")).to_have_count(0)
    shown = await page.locator(".messages > .message").evaluate_all(
        "(all) => all.map((each) => each.querySelector('.body').innerText.trim())"
    )
    kept = [line.partition(": ")[2] for line in await read(gateway.store, session)]
    assert [each for each in shown if each] == [each for each in kept if each]
    assert await numbers(page) == sorted(set(await numbers(page)))
    await expect(page.get_by_label("Message", exact=True)).to_have_value("typed while it was away")


async def test_what_is_typed_without_a_gateway_is_said_to_be_kept_and_is(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors(*AWAY)
    session = await gateway.session("Threads")
    page = await open_page(visit, session)
    await gateway.stop()
    await write(page, "not lost")
    await expect(page.locator(".notice.error")).to_contain_text("does not answer")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("not lost")
    await gateway.start()
    await page.reload()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("not lost")
    await page.get_by_label("Message", exact=True).press("Enter")
    await expect(page.get_by_role("log").get_by_text("ok", exact=True)).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert await read(gateway.store, session) == ["user: not lost", "assistant: ok"]


# --- approvals --------------------------------------------------------------------------------
async def test_a_tool_is_approved_on_the_page_while_another_shows_it_and_letters_never_answer(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    gateway.actor.scenes = [Asking()]
    mine, other = await open_page(visit, session), await open_page(visit, session)
    await write(mine, "clean up")
    for page in (mine, other):
        card = page.get_by_role("group", name="Approval of shell")
        await expect(card.locator("pre")).to_have_text("rm -r build")
    await expect(mine.locator(".tool[data-state=waiting]")).to_be_visible()
    # A page that is opened now says the same, and leads nobody to where they are.
    late = await open_page(visit, session)
    await expect(late.locator(".tool[data-state=waiting]")).to_be_visible()
    await expect(late.get_by_role("link", name="waiting for you")).to_have_count(0)
    await late.goto("/memory")
    await expect(late.get_by_role("link", name="1 waiting for you")).to_be_visible()
    await late.close()
    await mine.locator(".transcript").focus()
    await mine.keyboard.type("yYaosO1 ")
    await mine.get_by_label("Message", exact=True).focus()
    await mine.keyboard.type("yes always\n")
    assert len(await gateway.store.list_approvals(session.id)) == 1
    await mine.get_by_role("button", name="Always…").click()
    await expect(mine.locator(".answers pre")).to_have_text("shell=rm -r build")
    await mine.get_by_role("button", name="Back", exact=True).click()
    await mine.get_by_role("button", name="Yes, in this session").click()
    for page in (mine, other):
        await expect(page.get_by_role("log").get_by_text("I was told: yes session")).to_be_visible()
        await expect(page.locator(".approval")).to_have_count(0)
    await expect(other.locator(".tool[data-state=done]")).to_be_visible()


async def test_always_on_the_page_shows_the_rule_and_writes_it_when_it_is_said_again(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    gateway.actor.scenes = [Asking()]
    page = await open_page(visit, session)
    await write(page, "clean up")
    await page.get_by_role("button", name="Always…").click()
    await expect(page.locator(".answers pre")).to_have_text("shell=rm -r build")
    await page.get_by_role("button", name="Allow always").click()
    await expect(page.get_by_role("log").get_by_text("I was told: yes always")).to_be_visible()


async def test_a_list_that_is_older_than_a_question_does_not_take_it_away(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    gateway.actor.scenes = [Asking()]
    page = await open_page(visit, session)
    answered = 0

    async def answer_as_before(route: Route) -> None:
        nonlocal answered
        if (route.request.post_data_json or {}).get("method") != "approvals.list":
            await route.continue_()
            return
        answered += 1
        await route.fulfill(json={"approvals": []})

    await page.route("**/v1/rpc", answer_as_before)
    await write(page, "clean up")
    await page.get_by_role("button", name="Always…").click()
    await until(lambda: _is(answered > 0))
    await page.get_by_role("button", name="Allow always").click()
    await expect(page.get_by_role("log").get_by_text("I was told: yes always")).to_be_visible()
    await expect(page.locator(".approval")).to_have_count(0)


async def test_a_tool_is_refused_with_a_reason_that_the_model_is_told(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    diff = "--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-old line\n+new line"
    gateway.actor.scenes = [Asking("x", detail=diff, summary="Change a file: notes.md")]
    page = await open_page(visit, session)
    await write(page, "change it")
    card = page.get_by_role("group", name="Approval of shell")
    await expect(card.locator(".diff .removed")).to_have_text("-old line")
    await expect(card.locator(".diff .added")).to_have_text("+new line")
    await page.get_by_role("button", name="No…").click()
    await page.get_by_label("Reason of the no").fill("not on a Friday")
    await page.keyboard.press("Enter")
    await expect(
        page.get_by_role("log").get_by_text("I was told: no once not on a Friday")
    ).to_be_visible()


# --- writing ----------------------------------------------------------------------------------
async def test_the_first_message_of_a_new_chat_makes_its_session(
    gateway: Gateway, visit: Visitors
) -> None:
    page = await visit("/s/new")
    await page.get_by_label("Message", exact=True).type("hello")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("there")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log").get_by_text("ok", exact=True)).to_be_visible()
    session = await gateway.store.get_session(page.url.rpartition("/")[2])
    assert (session.platform, session.kind) == ("web", "web")
    assert await read(gateway.store, session) == ["user: hello\nthere", "assistant: ok"]
    await page.get_by_label("Message", exact=True).press("ArrowUp")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("hello\nthere")


async def test_files_come_by_drop_and_by_paste(gateway: Gateway, visit: Visitors) -> None:
    session = await gateway.session("Threads")
    page = await open_page(visit, session)
    give = """([kind, name, type, data]) => {
      const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], name, {type}));
      const target = document.querySelector(kind === "drop" ? ".transcript" : "textarea");
      const options = {bubbles: true, cancelable: true, dataTransfer: transfer};
      target.dispatchEvent(kind === "drop" ? new DragEvent("drop", options)
        : new ClipboardEvent("paste", {...options, clipboardData: transfer}));
    }"""
    pixel = base64.b64encode(PIXEL).decode()
    await page.evaluate(give, ["drop", "dot.png", "image/png", pixel])
    await page.evaluate(give, ["paste", "notes <b>.txt", "text/plain", "aGVsbG8="])
    await expect(page.locator(".attached > span")).to_have_count(2)
    await write(page, "look at these")
    picture = page.locator(".messages .picture img")
    await expect(picture).to_have_attribute("alt", "dot.png")
    await expect(picture).to_have_js_property("naturalWidth", 1)
    async with page.expect_download() as coming:
        await page.get_by_role("link", name="notes <b>.txt").click()
    path = await (await coming.value).path()
    assert path.read_bytes() == b"hello"
    await expect(page.locator(".attached > span")).to_have_count(0)


async def test_messages_wait_while_a_turn_runs_and_can_be_taken_back(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    held = Held("done")
    gateway.actor.scenes = [held, saying("second answer")]
    page = await open_page(visit, session)
    await write(page, "first")
    await soon(held.began.wait())
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await write(page, "second")
    await write(page, "third")
    await expect(page.locator(".queued")).to_have_count(2)
    await page.locator(".queued", has_text="third").get_by_role("button").click()
    await expect(page.locator(".queued")).to_have_count(1)
    await expect(page.get_by_label("Message", exact=True)).to_have_value("third")
    held.go_on.set()
    await expect(page.get_by_role("log").get_by_text("second answer")).to_be_visible()
    await expect(page.locator(".queued")).to_have_count(0)
    assert [each for each in await read(gateway.store, session) if "third" in each] == []


async def test_what_is_sent_before_the_last_one_arrived_comes_after_it(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    page = await open_page(visit, session)
    go_on = await hold_calls(page, "chat.send")
    field = page.get_by_label("Message", exact=True)
    for text in ("first", "second"):
        await write(page, text)
        await expect(field).to_have_value("")
    await field.fill("not sent")
    go_on.set()
    await until(lambda: _has(gateway, session, "first", "second"))
    await expect(field).to_have_value("not sent")


async def test_what_does_not_arrive_is_written_again_in_its_order(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("ERR_FAILED")
    session = await gateway.session("Threads")
    page = await open_page(visit, session)
    go_on = await hold_calls(page, "chat.send", then_fail=True)
    field = page.get_by_label("Message", exact=True)
    await write(page, "first")
    await write(page, "second")
    go_on.set()
    await expect(field).to_have_value("first\nsecond")
    await page.reload()
    await expect(field).to_have_value("first\nsecond")
    assert await read(gateway.store, session) == []


async def _has(gateway: Gateway, session: Session, *texts: str) -> bool:
    said = await read(gateway.store, session)
    return [each for each in texts if any(each in one for one in said)] == list(texts)


async def test_a_turn_is_stopped_tried_again_taken_back_and_brought_back(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    held = Held()
    gateway.actor.scenes = [held, saying("the answer")]
    page = await open_page(visit, session)
    await write(page, "question")
    await soon(held.began.wait())
    await expect(page.locator(".stream")).to_contain_text("so far")
    await page.get_by_role("button", name="Stop").click()
    await until(lambda: _is(held.stopped))
    await expect(page.locator(".unfinished")).to_contain_text("Stopped")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("log").get_by_text("the answer")).to_be_visible()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Take back the last turn").click()
    await expect(page.get_by_role("log").get_by_text("the answer")).to_have_count(0)
    await page.locator(".notice").get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("log").get_by_text("the answer")).to_be_visible()


async def _is(value: bool) -> bool:
    return value


async def test_commands_are_completed_run_and_answered(gateway: Gateway, visit: Visitors) -> None:
    session = await gateway.session("Threads")
    await gateway.say(session, "one")
    page = await open_page(visit, session)
    writing = page.get_by_label("Message", exact=True)
    await writing.type("/tit")
    await expect(page.get_by_role("option")).to_contain_text(["/title"])
    await writing.press("Tab")
    await expect(writing).to_have_value("/title ")
    await writing.type("Another name")
    await writing.press("Enter")
    await expect(page.get_by_role("heading", name="Another name")).to_be_visible()
    await writing.type("/thinking ")
    await expect(page.get_by_role("option")).to_contain_text(["/thinking off"])
    await writing.press("Escape")
    await expect(page.get_by_role("listbox", name="Commands")).to_be_hidden()
    await writing.fill("/status")
    await writing.press("Enter")
    await expect(page.get_by_role("region", name="Answer to /status")).to_contain_text("Another")
    await writing.fill("/nonsense")
    await writing.press("Enter")
    await expect(page.locator(".reply.error")).to_contain_text("There is no command /nonsense")
    assert len(await read(gateway.store, session)) == 2


# --- around it --------------------------------------------------------------------------------
async def test_a_session_is_forked_at_a_message_and_both_lead_to_each_other(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    await record(gateway, session, *talk(4))
    page = await open_page(visit, session)
    await page.locator("#m2").hover()
    await page.get_by_label("Fork after this message").click()
    await expect(page.get_by_role("heading", name="Threads (fork)")).to_be_visible()
    await expect(page.get_by_text("Forked here from")).to_be_visible()
    assert await numbers(page) == [1, 2]
    await page.locator(".mark").get_by_role("link", name="Threads").click()
    await expect(page.locator("#m4")).to_be_visible()
    await expect(page.locator("#m2.aimed")).to_be_visible()
    await expect(page.locator("#m2").get_by_role("link", name="Threads (fork)")).to_be_visible()


async def test_marks_say_what_was_summarised_what_failed_and_what_did_not_arrive(
    gateway: Gateway, visit: Visitors
) -> None:
    before = await gateway.session("Before", key="cli:before")
    session = await gateway.session("Threads", previous_id=before.id, reset_reason="daily")
    await record(
        gateway,
        session,
        *talk(4),
        AddCompaction(compaction_id="c1", keep_from=3, summary="They *talked*."),
        AddMessage(Draft(role="assistant", content="is it there?")),
        AddMessage(Draft(role="assistant", content="kept here")),
    )
    outcomes: list[dict[str, Any]] = [
        {"id": "o1", "seq": 5},
        {"id": "o2", "seq": 6, "withheld": True},
    ]
    for fields in outcomes:
        sent = NewOutbound(key=session.key, channel="telegram", **fields)
        await gateway.store.add_outbound(session.id, sent)
    await gateway.store.settle_outbound("o1", "uncertain", error="the connection broke")
    error = ClewError("The model is asleep.")
    await gateway.say(session, "wake up", failing(error, "I was ab"))
    page = await open_page(visit, session)
    await page.get_by_text("Compacted").click()
    await expect(page.locator(".compaction em")).to_have_text("talked")
    await expect(page.locator(".begin")).to_contain_text("after the daily reset")
    await expect(page.locator(".begin").get_by_role("link", name="Before")).to_be_visible()
    await expect(page.locator("#m6 .delivery")).to_contain_text("sending is off")
    await expect(page.locator(".unfinished")).to_contain_text("I was ab")
    await expect(page.locator(".unfinished")).to_contain_text("The model is asleep.")
    uncertain = page.locator("#m5 .delivery")
    await expect(uncertain).to_contain_text("May not have arrived at telegram: the connection")
    await uncertain.get_by_role("button", name="It has arrived").click()
    await expect(uncertain).to_contain_text("Sent to telegram")
    assert (await gateway.store.get_outbound("o1")).status == "sent"


async def test_tools_are_folded_with_their_state_and_changes_of_files_are_differences(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    calls = (
        ToolCall(
            "a", "edit_file", '{"path": "a.py", "old": "x = 1\\ny = 2", "new": "x = 3\\ny = 2"}'
        ),
        ToolCall("b", "shell", '{"command": "make test"}'),
        ToolCall("c", "shell", '{"command": "rm x"}'),
        ToolCall("d", "look", "{}"),
    )
    said = "The owner said no, so it was not done."
    await record(
        gateway,
        session,
        AddMessage(Draft(role="user", content="work")),
        AddMessage(
            Draft(
                role="assistant",
                content="I do it.",
                parts=({"type": "thinking", "thinking": "hm, *hm*"},),
                tool_calls=calls,
            )
        ),
        _result("a", "edit_file", "Changed a.py."),
        _result("b", "shell", "[Exit code 2]\nmake: ***", is_error=True),
        _result("c", "shell", said, is_error=True),
    )
    page = await open_page(visit, session)
    states = await page.locator(".tool[data-state]").evaluate_all(
        "(all) => all.map((each) => each.dataset.state)"
    )
    assert states == ["done", "failed", "refused", "unknown"]
    await expect(page.locator(".tool-line").nth(1)).to_have_text("make test")
    await expect(page.get_by_text("hm, hm")).to_be_hidden()
    await page.get_by_text("Thinking", exact=True).click()
    await expect(page.locator(".thinking em")).to_have_text("hm")
    await page.locator(".tool > summary").first.click()
    body = page.locator(".tool-body").first
    await expect(body.locator(".removed")).to_contain_text("x = 1")
    await expect(body.locator(".added")).to_contain_text("x = 3")
    await page.locator(".tool > summary").nth(1).click()
    await expect(page.get_by_text("[Exit code 2]")).to_be_visible()


def _result(call: str, name: str, content: str, *, is_error: bool = False) -> AddMessage:
    return AddMessage(
        Draft(role="tool", content=content, tool_call_id=call, tool_name=name, is_error=is_error)
    )


async def test_a_group_shows_who_said_what_and_what_it_answers(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Group", kind="group", channel="telegram")
    around = {"type": "context", "lines": [{"kind": "said", "text": "rain?", "name": "Bob"}]}
    quote = {"type": "quote", "text": "the plan", "own": True}
    ada = Author("telegram:7", "Ada", among=True)
    said = Draft(role="user", content="and tomorrow?", parts=(around, quote), author=ada)
    await record(gateway, session, AddMessage(said))
    page = await open_page(visit, session)
    await expect(page.locator("#m1 .author")).to_have_text("Ada (telegram:7)")
    await expect(page.locator("#m1 .quote")).to_have_text("clew: the plan")
    await page.get_by_text("Said before it: 1 message").click()
    await expect(page.locator("#m1")).to_contain_text("Bob: rain?")


async def test_a_session_is_renamed_pinned_and_put_in_the_trash_with_an_undo(
    gateway: Gateway, visit: Visitors
) -> None:
    visit.expect_errors("404")  # of the one who looks at what was deleted
    session = await gateway.session("Threads")
    await gateway.say(session, "one")
    page, other = await open_page(visit, session), await open_page(visit, session)
    await page.get_by_role("button", name="Threads").click()
    await page.keyboard.type("Needles")
    await page.keyboard.press("Enter")
    for each in (page, other):
        await expect(each.get_by_role("heading", name="Needles")).to_be_visible()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Pin", exact=True).click()
    await expect(page.locator(".pill", has_text="pinned")).to_be_visible()
    # The keys of the list do the same here.
    await page.locator("body").evaluate("() => document.activeElement.blur()")
    await page.keyboard.press("e")
    await expect(page.locator(".pill", has_text="archived")).to_be_visible()
    await page.keyboard.press("z")
    await expect(page.locator(".pill", has_text="archived")).to_have_count(0)
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Put in the trash").click()
    await expect(other.get_by_text("This session is in the trash.")).to_be_visible()
    await page.locator(".notice").get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("heading", name="Needles")).to_be_visible()
    await other.get_by_role("button", name="Bring it back").click()


async def test_the_column_beside_it_says_what_holds_in_a_session(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    await gateway.say(session, "one")
    await gateway.store.attach(session.id, terminal="/dev/pts/3")
    page = await open_page(visit, session)
    await expect(page.locator(".pill.open-on")).to_have_text("Open on: terminal pts/3")
    await page.locator(".transcript").focus()
    await page.keyboard.press("d")
    about = page.get_by_label("About this session", exact=True)
    await expect(about).to_contain_text("shell:rm")
    await about.get_by_text("Why this session?").click()
    await expect(about).to_contain_text(session.key)
    await expect(about).to_contain_text("are delivered")
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("menuitem", name="Export as Markdown").click()
    path = await (await coming.value).path()
    assert "one" in path.read_text()


# --- long ones --------------------------------------------------------------------------------
async def test_ten_thousand_messages_are_opened_at_the_end_and_reached_by_a_link(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Long")
    await record(gateway, session, *talk(10_000))
    page = await open_page(visit, session)
    await expect(page.locator("#m10000")).to_be_in_viewport()
    assert len(await numbers(page)) <= 250
    await page.goto(f"/s/{session.id}#m4321")
    await expect(page.locator("#m4321.aimed")).to_be_in_viewport()
    # Up with the wheel: what is read stays in its place, and the document stays small.
    await page.locator(".transcript").hover()
    lowest = 4321
    while lowest > 4150:
        await page.mouse.wheel(0, -4_000)
        await page.wait_for_timeout(30)
        seen = await numbers(page)
        lowest = min(lowest, seen[0])
        assert seen == list(range(seen[0], seen[-1] + 1))
        assert len(seen) <= 250
    await page.locator(".transcript").focus()
    await page.keyboard.press("Home")
    await expect(page.locator("#m1")).to_be_in_viewport()
    await expect(page.locator(".begin")).to_be_visible()
    await page.keyboard.press("Shift+G")
    await expect(page.locator("#m10000")).to_be_in_viewport()
    await gateway.say(session, "one more", saying("the newest of all"))
    await expect(page.get_by_role("log").get_by_text("the newest of all")).to_be_in_viewport()


async def test_words_are_found_in_what_the_page_has_not_loaded(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Long")
    await record(
        gateway,
        session,
        *talk(300),
        AddMessage(Draft(role="assistant", content="a needle at the end")),
    )
    await record(gateway, session, AddMessage(Draft(role="user", content="number 7 needle")))
    page = await open_page(visit, session)
    await page.keyboard.press("Control+f")
    await page.get_by_label("Find in this session").last.type("needle")
    await expect(page.locator(".find [role=status]")).to_have_text("2 of 2")
    await page.keyboard.press("Enter")
    await expect(page.locator(".find [role=status]")).to_have_text("1 of 2")
    field = page.locator(".find input")
    await field.fill('"number 17"')
    await expect(page.locator("#m17.aimed")).to_be_in_viewport()
    await expect(field).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator(".find")).to_be_hidden()


async def test_the_keyboard_alone_walks_through_messages_and_folds(
    gateway: Gateway, visit: Visitors
) -> None:
    session = await gateway.session("Threads")
    await record(gateway, session, *talk(6))
    page = await open_page(visit, session)
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await page.keyboard.press("Escape")
    await page.keyboard.press("k")
    await expect(page.locator("#m6")).to_be_focused()
    await page.keyboard.press("k")
    await expect(page.locator("#m5")).to_be_focused()
    await page.keyboard.press("j")
    await expect(page.locator("#m6")).to_be_focused()
    await page.keyboard.press("y")
    await expect(page).to_have_url(f"{gateway.url}/s/{session.id}#m6")
    await page.keyboard.press("c")
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("Previous message")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("session: fork")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Threads (fork)")).to_be_visible()


async def test_nothing_is_wider_than_a_phone(gateway: Gateway, visit: Visitors) -> None:
    session = await gateway.session("A long name for such a small screen as this one")
    wide = "| " + " | ".join(["column"] * 20) + " |\n" + "|---" * 20 + "|\n"
    code = "```python\n" + "x = " + "1 + " * 100 + "1\n```"
    await record(
        gateway,
        session,
        AddMessage(Draft(role="user", content="w" * 500)),
        AddMessage(Draft(role="assistant", content=f"{wide}\n\n{code}\n\n{'v' * 400}")),
    )
    page = await open_page(visit, session, viewport=PHONE)
    await expect(page.locator("#m2 table")).to_be_attached()
    widest = await page.evaluate(
        """Math.max(...[...document.querySelectorAll('html, .transcript')]
          .map((each) => each.scrollWidth))"""
    )
    assert widest <= PHONE["width"]
    await write(page, "short")
    await expect(page.get_by_role("log").get_by_text("ok", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_nothing_that_opens_on_the_page_is_hard_to_read(
    gateway: Gateway, visit: Visitors, viewport: ViewportSize
) -> None:
    session = await gateway.session("Threads", cwd="/work")
    change = {"path": "a.py", "old": "x = 1\ny = 2", "new": "x = 3\ny = 2"}
    code = '```python\nclass A:\n    """Text."""\n    x = 1  # note\n```\n\n```diff\n-a\n+b\n```'
    await record(
        gateway,
        session,
        AddMessage(Draft(role="user", content="work")),
        AddMessage(
            Draft(
                role="assistant",
                content=f"{code}\n\n> said `so`",
                model="script/one",
                parts=({"type": "thinking", "thinking": "hm"},),
                tool_calls=(ToolCall("a", "edit_file", json.dumps(change)),),
            )
        ),
        _result("a", "edit_file", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y"),
        AddCompaction(compaction_id="c1", keep_from=2, summary="They *talked*."),
    )
    held = Held()
    gateway.actor.scenes = [Asking()]
    page = await look(visit, viewport)
    await page.goto(f"/s/{session.id}")
    await write(page, "do it")
    await expect(page.locator(".approval")).to_be_visible()
    await page.locator(".transcript details").evaluate_all(
        "(all) => { for (const each of all) each.open = true; }"
    )
    await page.get_by_role("button", name="Find in this session").click()
    await page.locator(".find input").fill("work")
    await expect(page.locator(".find [role=status]")).to_contain_text("of")
    wrong = await check(page, "everything open")
    await page.get_by_role("button", name="No…").click()
    await page.get_by_label("Message", exact=True).type("/m")
    await expect(page.get_by_role("option").first).to_be_visible()
    wrong += await check(page, "commands and a reason")
    await page.get_by_label("Message", exact=True).press("Escape")
    await page.get_by_role("button", name="Back", exact=True).click()
    await page.get_by_role("button", name="Yes, once").click()
    await expect(page.get_by_text("I was told: yes once").first).to_be_visible()
    gateway.actor.scenes = [held]
    await write(page, "again")
    await soon(held.began.wait())
    await page.locator(".session-head [aria-pressed]").click()
    await expect(page.get_by_text("Rules about tools")).to_be_visible()
    await page.get_by_text("Why this session?").click()
    await expect(page.get_by_text("are delivered")).to_be_visible()
    wrong += await check(page, "about it, while a turn runs")
    held.go_on.set()
    assert wrong == [], "\n".join(wrong)
