"""The screens in the guide about context are what the commands say, but for the numbers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.runtime.rooms import Room, room

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "context.md"
SCREEN = re.compile(r"^```text\n([>$] .*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|[<~]?\d[\d,.]*")
CLEW = "from clew.cli import main; main(prog_name='clew')"

NOTES = {"todos": [{"text": "trim the wick", "status": "in_progress"}, {"text": "buy oil"}]}
LOOKS = [{"name": "list_files", "arguments": {}}, {"name": "todo_write", "arguments": NOTES}]
SCRIPT: dict[str, Any] = {
    "title": {"text": "The lighthouse", "usage": {"input": 120, "output": 5}},
    "rules": [
        {"when": "summary now", "answers": ["Summary: the lamp\n\n## Goal\nKeep it burning"]},
        {"when": "^Look", "answers": [{"tool_calls": LOOKS}, "There is a logbook."]},
    ],
    "answers": [
        {
            "text": "The lamp burned through the night, and the wind came from the west. " * 40,
            "usage": {"input": 5_400, "output": 480, "cache_read": 4_100},
        }
    ],
}


def steady(screen: str) -> list[str]:
    """The lines of a screen without their numbers, and without what aligns them."""
    lines = [NUMBER.sub("#", line) for line in screen.strip().splitlines()]
    return [re.sub(r"\s+", " ", line).strip() for line in lines]


async def show(here: Room, typed: str) -> str:
    if typed.startswith("> "):
        return (await here.run(typed.removeprefix("> "))).text
    _, *words = typed.removeprefix("$ ").split()
    printed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", CLEW, *words],
        env=os.environ | {"CLEW_HOME": str(here.folder / "home"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return str(printed.stdout)


async def test_the_screens_of_the_guide_are_what_the_commands_say(tmp_path: Path) -> None:
    screens = SCREEN.findall(GUIDE.read_text(encoding="utf-8"))
    assert [typed for typed, _ in screens] == [
        *("> /context", "> /compact keep the numbers", "> /status", "> /usage"),
        "$ clew usage --by model --since 30d",
    ]
    async with room(tmp_path, SCRIPT, "context_window = 16000\n[memory]\nflush = false\n") as here:
        (tmp_path / "work" / "AGENTS.md").write_text("Write the log in short lines.\n")
        for said in ("How was the night?", "Look around.", "And then?", *["Go on."] * 9):
            await here.say(said)
        await here.all_booked()
        for typed, shown in screens:
            printed = (await show(here, typed)).replace("script/x", "ollama/qwen3")
            printed = printed.replace("cli:room", "cli:lighthouse")
            assert steady(shown) == steady(printed), printed
            assert max(map(len, shown.splitlines())) <= 80
