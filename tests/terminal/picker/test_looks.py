"""What stands on the picker's screen: states, sizes, hostile text."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pyte
import pytest

from clew.core.changes import AddMessage, StartTurn, WaitForApproval
from clew.core.message import Draft, ToolCall
from clew.core.session import SessionEdit
from clew.core.text import columns
from clew.core.turn import Lease
from clew.ports import Store
from clew.store import open_store
from tests.terminal.picker.desk import add, picker

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "\u202egnp.exe\u202c",
    "zero\u200bwidth\u2060joined",
    "line one\nline two\r\x08\x08",
    "\x9b31mcsi\x90dcs\x9c",
    "[bold red]markup[/bold red] [@click=app.exit]x[/]",
    "日本語のタイトル" * 8,
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 e\u0301\u0302\u0303",
    "ไทย ฐานข้อมูล",
    "\udcff lone",
    "\t\ttabs\tin\tit",
)


async def begin_turn(store: Store, session_id: str, turn: str = "turn") -> Lease:
    lease = await store.acquire_lease(session_id, store.identity)
    await store.record(
        session_id,
        lease.epoch,
        StartTurn(turn_id=f"{turn}-{session_id}"),
        AddMessage(Draft(role="user", content="go"), f"{turn}-{session_id}"),
    )
    return lease


async def test_states_are_shown_and_followed(store: Store, here: Path) -> None:
    running = await add(store, "Alpha", "hello", cwd=here)
    waiting = await add(store, "Beta", "hello", cwd=here)
    cut_off = await add(store, "Gamma", "hello", cwd=here)
    await begin_turn(store, running.id)
    lease = await begin_turn(store, waiting.id)
    await store.record(
        waiting.id,
        lease.epoch,
        AddMessage(
            Draft(role="assistant", tool_calls=(ToolCall("call", "shell"),)), f"turn-{waiting.id}"
        ),
        WaitForApproval(
            approval_id="approval",
            turn_id=f"turn-{waiting.id}",
            tool_call_id="call",
            tool_name="shell",
            request={},
            expires_at=2**60,
        ),
    )
    await store.release_lease(await begin_turn(store, cut_off.id))
    async with picker(store, here) as hands:
        await hands.see("Alpha  ● running")
        await hands.see("Beta  ? waiting for you")
        await hands.see("Gamma  ! interrupted")
        await begin_turn(store, cut_off.id, "another")
        await hands.see("Gamma  ● running")


async def test_a_session_that_another_process_has_open_says_so(
    store: Store, here: Path, tmp_path: Path
) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    mine = await add(store, "Mine", "hello", cwd=here)
    await store.attach(mine.id)
    async with await open_store(str(tmp_path / "store" / "sessions.db")) as other:
        await other.attach(session.id, terminal="pts-3")
        async with picker(store, here) as hands:
            await hands.see("Alpha  ◦ open elsewhere")
            await hands.press("down")
            await hands.see("open in pts-3")
            assert hands.text.count("open elsewhere") == 1


async def test_a_running_session_says_so_before_it_is_trashed(store: Store, here: Path) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    await begin_turn(store, session.id)
    async with picker(store, here) as hands:
        await hands.see("● running")
        await hands.press("delete")
        await hands.see('Put "Alpha" in the trash? It is running. [y/N]')


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50), (40, 12), (24, 8)])
async def test_rows_show_what_there_is_room_for(
    store: Store, here: Path, size: tuple[int, int]
) -> None:
    session = await add(store, "Alpha", *["hello"] * 1234, cwd=here)
    await store.edit_session(session.id, SessionEdit(pinned=True))
    async with picker(store, here, size=size) as hands:
        await hands.see("★ Alpha")
        line = next(line for line in hands.lines if "★ Alpha" in line)
        if size[0] >= 40:
            assert "just now" in line
        if size[0] >= 80:
            assert "cli" in line
            assert "1,234" in line
            assert here.name in line
        if size[1] >= 16:
            await hands.see("> hello")
        assert all(columns(each) <= size[0] for each in hands.lines)


async def test_another_size_while_it_is_open_keeps_the_selection_in_sight(
    store: Store, here: Path
) -> None:
    for number in range(60):
        await add(store, f"Number {number:02}", cwd=here)
    async with picker(store, here, size=(120, 40)) as hands:
        await hands.press(*["down"] * 20)
        await hands.at("Number 39")
        for size in ((80, 24), (160, 50), (60, 14), (120, 40)):
            await hands.pilot.resize_terminal(*size)
            await hands.at("Number 39")
            await hands.see("Number 39")


@pytest.mark.parametrize("text", HOSTILE)
async def test_nothing_hostile_reaches_the_screen(store: Store, here: Path, text: str) -> None:
    session = await add(store, None, text, f"answer {text}", platform="cli", cwd=here)
    await store.edit_session(session.id, SessionEdit(title=text))
    async with picker(store, here) as hands:
        await hands.see("2 messages")
        await hands.press("ctrl+r")
        await hands.until(lambda: hands.app.picker.has_class("-renaming"))
        await asyncio.sleep(0)
        check_clean(hands.text)
        await hands.press("escape", "delete")
        await hands.see("[y/N]")
        check_clean(hands.text)
        await hands.press("n")
        await hands.type("answer")
        await hands.see("in messages")
        check_clean(hands.text)


async def test_a_hostile_directory_is_shown_clean(store: Store, tmp_path: Path) -> None:
    evil = tmp_path / "a\x1b[31mb\u202ec"
    evil.mkdir()
    await add(store, "Alpha", "hello", cwd=evil)
    async with picker(store, evil) as hands:
        await hands.see("Alpha")
        check_clean(hands.text)


async def test_what_is_pasted_is_cleaned(store: Store, here: Path) -> None:
    from textual import events

    await add(store, "Alpha", "hello", cwd=here)
    async with picker(store, here) as hands:
        hands.app.post_message(events.Paste("\x1b[31mal\x07pha\u202e\nmore"))
        await hands.until(lambda: hands.app.picker._filter.value == "alpha")
        check_clean(hands.text)


def check_clean(text: str) -> None:
    """Only what a terminal shows, and every line as wide as it looks."""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2069]", text)
    assert not re.search(r"[\ud800-\udfff]", text)
    assert "owned" not in text
    screen = pyte.Screen(100, 30)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    assert screen.title == ""
