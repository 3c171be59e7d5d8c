"""Keys that follow each other faster than anything can be drawn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual import events

from tests.patience import PATIENCE
from tests.terminal.screen.chats import Stage, open_chat


async def test_what_is_typed_right_behind_ctrl_f_is_looked_for_and_not_sent(tmp_path: Path) -> None:
    async with open_chat(Stage(tmp_path)) as chat:
        await chat.say("needle")
        await chat.sees("You said: needle")
        await chat.is_idle()
        for key in ("ctrl+f", *"needle", "enter"):
            chat.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await chat.sees("2 found")
        assert chat.draft == ""
        assert chat.session.message_count <= 2
        await chat.press("ctrl+f")  # the hit before
        await chat.press("escape")
        await chat.type("on")
        assert chat.draft == "on"


async def test_what_is_typed_right_behind_ctrl_r_is_for_the_picker(tmp_path: Path) -> None:
    async with open_chat(Stage(tmp_path)) as chat:
        await chat.say("needle")
        await chat.sees("You said: needle")
        await chat.is_idle()
        for key in ("ctrl+r", *"needle"):
            chat.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await chat.sees("1 name, 1 in messages")
        assert chat.draft == ""
        await chat.press("escape")
        await chat.type("on")
        assert chat.draft == "on"


async def test_who_types_puts_off_what_would_hold_up_their_keys(tmp_path: Path) -> None:
    async with open_chat(Stage(tmp_path)) as chat:
        await asyncio.wait_for(chat.app.wait_for_quiet(), PATIENCE)  # nobody types
        await chat.type("a")
        quiet = asyncio.create_task(chat.app.wait_for_quiet())
        await chat.type("b")
        assert not quiet.done()
        await asyncio.wait_for(quiet, PATIENCE)
