"""What another process does in the session is seen here, and every command in both surfaces."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path

import pytest

from clew.core.commands import ALIASES, COMMANDS
from clew.terminal.asker import LineAsker
from clew.terminal.lines import Lines
from clew.terminal.plain import PlainChat
from clew.terminal.plain_output import EventWriter, TextOutput
from tests.patience import PATIENCE
from tests.terminal.screen.chats import Stage, open_chat, open_terminal

CLEW = "from clew.cli import main; main(prog_name='clew')"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_a_turn_of_another_process_appears_by_itself(stage: Stage) -> None:
    async with open_chat(stage) as chat:
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        stage.script(stage.hold("First words, then the rest."))
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLEW, "ask", "-r", chat.session.id, "from afar"),
            cwd=stage.work,
            env={**os.environ, "CLEW_HOME": str(stage.home)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await chat.sees("from afar")
            await chat.until(lambda: "runs elsewhere" in chat.status, "where it runs")
            await chat.type("meanwhile")
            stage.release()
            await chat.sees("First words, then the rest.")
            out, error = await asyncio.wait_for(asking.communicate(), PATIENCE)
            assert (asking.returncode, out) == (0, b"First words, then the rest.\n"), error
        finally:
            if asking.returncode is None:
                asking.kill()
                await asking.wait()
        await chat.until(lambda: "elsewhere" not in chat.status, "the end of it")
        assert chat.draft == "meanwhile"


# --- the table, over both surfaces ----------------------------------------------------------------

LINES = {
    "new": "new",
    "resume": "resume nothing-of-that-name",
    "fork": "fork A branch",
    "title": "title A name",
    "search": "search hello",
    "model": "model script/other",
    "thinking": "thinking off",
    "tier": "tier",
    "mode": "mode plan",
    "personality": "personality engineer",
    "verbose": "verbose on",
    "export": "export session.md",
    "help": "help new",
}
"""How a command is called, where its name alone would not do."""

WALK = [name for name in (*COMMANDS, *ALIASES) if name not in ("exit", "quit", "setup")]
"""Those that end with an answer; `/setup` asks (`tests/terminal/test_setup.py`)."""


def test_no_command_is_called_that_there_is_not() -> None:
    assert set(LINES) <= set(COMMANDS)


async def walk_full(stage: Stage) -> dict[str, str]:
    """What the full screen shows for each command."""
    found = {}
    async with open_chat(stage, size=(100, 60)) as chat:
        await chat.say("hello")
        await chat.sees("You said: hello")
        await chat.is_idle()
        for name in WALK:
            shown = chat.app.chat.transcript._blocks
            before = [id(block) for block in shown.blocks]
            await asyncio.wait_for(
                chat.app.conversation.take(f"/{LINES.get(name, name)}"), PATIENCE
            )
            if chat.seat.session is not None:
                await asyncio.wait_for(chat.house.runtime.join(chat.session.id), PATIENCE)
            blocks = chat.app.chat.transcript._blocks.blocks
            found[name] = "\n".join(each.text for each in blocks if id(each) not in before)
            if chat.seat.session is None:
                await chat.say("hello")
                await chat.sees("You said: hello")
                await chat.is_idle()
    return found


async def walk_plain(stage: Stage) -> dict[str, str]:
    """What line mode writes for each command."""
    found = {}
    async with open_terminal(stage) as terminal:
        seat, house = terminal.seat, terminal.house
        out = io.StringIO()
        reading, writing = os.pipe()
        output = TextOutput(lambda text, _style: text, out)
        lines = Lines(reading)
        startup = terminal.start_up(LineAsker(seat, lines, output))
        chat = PlainChat(seat, lines, EventWriter(output, output, verbose=lambda: False), startup)
        await chat.chat.sit_down(await seat.switch(None, "startup"))
        await asyncio.wait_for(chat.chat.take("hello"), PATIENCE)
        for name in WALK:
            out.seek(0)
            out.truncate()
            await asyncio.wait_for(chat.chat.take(f"/{LINES.get(name, name)}"), PATIENCE)
            if seat.session is not None:
                await asyncio.wait_for(house.runtime.join(seat.session.id), PATIENCE)
            found[name] = out.getvalue()
            if seat.session is None:
                await asyncio.wait_for(chat.chat.take("hello"), PATIENCE)
        chat.chat.close()
        os.close(writing)
        os.close(reading)
    return found


def last_words(text: str) -> list[str]:
    """How the last line begins: the rest may be a time, a size or a path."""
    return text.strip().splitlines()[-1].split()[:1]


async def test_every_command_answers_in_both_surfaces_alike(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    full = await walk_full(stage)
    plain = await walk_plain(Stage(tmp_path_factory.mktemp("plain")))
    for name in WALK:
        assert full[name].strip(), f"/{name} says nothing on the full screen"
        assert plain[name].strip(), f"/{name} says nothing in line mode"
        assert last_words(full[name]) == last_words(plain[name]), name
