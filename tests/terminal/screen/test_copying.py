"""What is marked with the mouse is copied; there is no key for it, since Ctrl+C stops a turn."""

from __future__ import annotations

from pathlib import Path

from tests.terminal.screen.chats import Stage, open_chat


async def test_what_the_mouse_marks_is_copied_when_it_lets_go(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.script({"text": "one two three"})
    async with open_chat(stage) as chat:
        await chat.say("go")
        await chat.sees("one two three")
        await chat.is_idle()
        y = next(place for place, line in enumerate(chat.lines) if "one two" in line)
        x = chat.lines[y].index("two")
        await chat.pilot.mouse_down(offset=(x, y))
        await chat.pilot.hover(offset=(x + 3, y))
        await chat.pilot.mouse_up(offset=(x + 3, y))
        await chat.sees("Copied")
        assert chat.app.clipboard.strip().startswith("two")
