"""Commands that a terminal does itself: to another session, to this disk, or away."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.api.sessions import SessionView
from clew.client.seats import locate
from clew.core.commands import COMMANDS
from clew.core.session import NewSession
from clew.ports import Store
from clew.terminal.asker import LineAsker
from clew.terminal.commands import FUNCTIONS, Reply, run_command
from clew.terminal.conversation import Conversation
from clew.terminal.lines import Lines
from clew.terminal.plain import PlainChat
from clew.terminal.plain_output import EventWriter, TextOutput
from clew.terminal.startup import Startup
from clew.transfer.resume_file import TranscriptOpening
from tests.runtime.conftest import read, soon
from tests.runtime.place.conftest import Seat, sitting


class NoFiles:
    """Opens no transcripts."""

    async def open(self, path: Path) -> TranscriptOpening:
        raise AssertionError(path)


class Chat:
    """A conversation line by line, whose lines nobody types."""

    def __init__(self, talk: Conversation, out: io.StringIO) -> None:
        self.conversation = talk
        self.out = out

    async def run(self, line: str) -> Reply:
        name, _, rest = line.removeprefix("/").partition(" ")
        return await soon(run_command(self.conversation, name, rest))

    async def take(self, text: str) -> str:
        """What is written when this is typed."""
        self.out.seek(0)
        self.out.truncate()
        await soon(self.conversation.take(text))
        return self.out.getvalue()


@pytest.fixture
async def chat(seat: Seat) -> AsyncIterator[Chat]:
    out = io.StringIO()
    reading, writing = os.pipe()
    output, lines = TextOutput(lambda text, _style: text, out), Lines(reading)
    startup = Startup(seat, LineAsker(seat, lines, output), NoFiles())
    plain = PlainChat(seat, lines, EventWriter(output, output, verbose=lambda: False), startup)
    await plain.chat.sit_down(await seat.switch(None, "startup"))
    yield Chat(plain.chat, out)
    plain.chat.close()
    os.close(writing)
    os.close(reading)


@pytest.fixture
async def talked(chat: Chat, seat: Seat) -> SessionView:
    await chat.take("hello there")
    return sitting(seat)


def test_every_command_of_a_terminal_has_a_function_here() -> None:
    assert FUNCTIONS.keys() == {name for name, each in COMMANDS.items() if each.runs_in == "client"}


@pytest.mark.parametrize("name", ["new", "reset"])
async def test_new_begins_with_the_next_message(
    store: Store, chat: Chat, seat: Seat, talked: SessionView, name: str
) -> None:
    reply = await chat.run(f"/{name}")
    assert reply.seated is not None
    assert reply.seated.previous_id == talked.id
    assert seat.session is None
    assert (await store.stats()).sessions == 1


async def test_new_with_a_message_says_it_there(
    store: Store, chat: Chat, seat: Seat, talked: SessionView
) -> None:
    written = await chat.take("/new and now this")
    assert sitting(seat).id != talked.id
    assert sitting(seat).previous_id == talked.id
    assert f"Session {sitting(seat).id}" in written
    assert await read(store, sitting(seat)) == ["user: and now this", "assistant: ok"]


async def test_resume_alone_lets_the_person_choose_among_all(
    chat: Chat, talked: SessionView
) -> None:
    assert (await chat.run("/resume")).pick == ()


async def test_resume_with_nothing_to_resume_says_so(chat: Chat) -> None:
    reply = await chat.run("/resume")
    assert (reply.text, reply.pick) == ("No sessions found", None)


async def test_resume_finds_one_session_or_several(
    store: Store, chat: Chat, talked: SessionView
) -> None:
    wanted = await store.create_session(NewSession(key="cli:x", title="Holiday plans"))
    found = (await chat.run("/resume holiday plans")).open
    assert found is not None
    assert found.id == wanted.id
    await store.create_session(NewSession(key="cli:y", title="Holiday plans"))
    several = (await chat.run("/resume Holiday plans")).pick
    assert several is not None
    assert len(several) == 2


async def test_resume_of_what_is_not_there_changes_nothing(
    chat: Chat, seat: Seat, talked: SessionView
) -> None:
    reply = await chat.run("/resume nowhere-at-all")
    assert reply.is_error
    assert "not found" in reply.text
    assert sitting(seat).id == talked.id


async def test_fork_branches_off_here(
    store: Store, chat: Chat, seat: Seat, talked: SessionView
) -> None:
    assert 'branch "Other way"' in (await chat.run("/fork Other way")).text
    branch = sitting(seat)
    assert (branch.parent_id, branch.title) == (talked.id, "Other way")
    await seat.live.follow(branch)
    await chat.take("there")
    assert len(await read(store, branch)) == 4
    assert len(await read(store, talked)) == 2


async def test_fork_and_export_need_a_session(chat: Chat) -> None:
    for line in ("/fork", "/export"):
        reply = await chat.run(line)
        assert (reply.is_error, reply.text) == (
            True,
            "There is no session yet; say something first.",
        )


async def test_export_writes_a_file_here_and_names_it(
    chat: Chat, talked: SessionView, directory: Path
) -> None:
    assert locate(directory).cwd == str(directory)
    assert (await chat.run("/export out.md")).text == "The session is now in out.md."
    assert "hello there" in (directory / "out.md").read_text(encoding="utf-8")
    assert talked.id in (await chat.run("/export")).text
    assert (directory / f"session-{talked.id}.md").exists()
    assert (await chat.run("/export out.md")).is_error, "it is there already"
    assert (await chat.run("/export out.doc")).is_error


@pytest.mark.parametrize("name", ["exit", "quit"])
async def test_exit_leaves(chat: Chat, name: str) -> None:
    assert (await chat.run(f"/{name}")).leaves
    await chat.take(f"/{name}")
    assert chat.conversation.is_leaving


async def test_help_is_that_of_a_terminal(chat: Chat) -> None:
    text = (await chat.run("/help")).text
    assert "/exit" in text
    assert "Ctrl+C stops" in text
    assert (await chat.run("/help nothing")).is_error


async def test_what_is_set_before_there_is_a_session_is_the_sessions(
    chat: Chat, seat: Seat
) -> None:
    await chat.take("/title A name")
    await chat.take("/thinking high")
    assert (seat.wanted.title, seat.wanted.thinking) == ("A name", "high")
    await chat.take("hello")
    assert (sitting(seat).title, sitting(seat).thinking) == ("A name", "high")


async def test_a_command_that_follows_at_once_finds_the_turn_over(
    store: Store, chat: Chat, talked: SessionView
) -> None:
    for number in range(5):
        await chat.take(f"question {number}")
        assert "Took back" in await chat.take("/undo")
    assert len(await read(store, talked)) == 2


async def test_a_retry_is_followed_to_its_end(
    store: Store, chat: Chat, talked: SessionView
) -> None:
    assert "ok" in await chat.take("/retry")
    assert await read(store, talked) == ["user: hello there", "assistant: ok"]
