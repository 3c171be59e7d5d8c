"""A full-screen chat over a real store, a real runtime and a scripted model, driven by a pilot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from textual import events
from textual.pilot import Pilot

from clew import config as configuration
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.api.sessions import SessionView
from clew.cli.conversation import LocalTranscripts
from clew.client.client import Client
from clew.client.seats import locate
from clew.ports import Store
from clew.runtime.place.attachment import Attachments
from clew.store import open_store
from clew.terminal.live import open_live
from clew.terminal.screen.app import ChatApp, Note, Start
from clew.terminal.screen.history import History, history_file
from clew.terminal.seat import Seat
from clew.terminal.startup import Asker, Startup
from clew.wiring import House, LocalTerminal
from tests.patience import PATIENCE
from tests.stores import lay_store

NAMES = {" ": "space", "/": "slash", "@": "at", ".": "full_stop"}
ECHO = {"text": "You said: ", "echo": "user"}


class Stage:
    """A home with a configuration, a directory to work in, and what the model says."""

    def __init__(self, path: Path) -> None:
        self.home = path / "home"
        self.work = path / "work"
        self.files = path
        for each in (self.home, self.work):
            each.mkdir()
        self.script(ECHO)

    @property
    def url(self) -> str:
        return f"sqlite://{self.home}/sessions.db"

    def script(self, *answers: Any, rules: Sequence[Any] = (), more: str = "", **told: Any) -> None:
        """What the model says."""
        path = self.home / "script.json"
        path.write_bytes(msgspec.json.encode({"answers": answers, "rules": rules, **told}))
        (self.home / "config.toml").write_text(
            f"""model = "script/x"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{path}"
models = ["x", "other"]
{more}
""",
            encoding="utf-8",
        )

    def hold(self, text: str, name: str = "go on", **more: Any) -> dict[str, Any]:
        """An answer that waits, after its first words, until `release`."""
        return {"text": text, "hold": str(self.files / name), **more}

    def release(self, name: str = "go on") -> None:
        (self.files / name).touch()

    def config(self) -> configuration.Config:
        return configuration.load(home=str(self.home), environ={})


def rule(when: str, *answers: Any) -> dict[str, Any]:
    """What is answered to a message that ends with this."""
    return {"when": rf"\b{when}\Z", "answers": answers}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


class Chat:
    """The app, and hands on its keys."""

    def __init__(self, app: ChatApp, pilot: Pilot[int], store: Store, house: House) -> None:
        self.app = app
        self.pilot = pilot
        self.store = store
        self.house = house

    @property
    def seat(self) -> Seat:
        return self.app.seat

    @property
    def session(self) -> SessionView:
        session = self.seat.session
        assert session is not None
        return session

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def status(self) -> str:
        return self.lines[-1]

    @property
    def draft(self) -> str:
        return self.app.chat.editor.text

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Type letters."""
        await type_letters(self.pilot, text)

    async def say(self, text: str) -> None:
        """Type a message, and send it. A command is there at once: choices could get in between."""
        if text.startswith("/"):
            self.app.chat.editor.fetch(text)
        else:
            await self.type(text)
        await self.until(lambda: self.draft == text, f"{text} in the editor")
        await self.press("enter")

    async def sees(self, *texts: str) -> None:
        """Wait until all of these stand on the screen."""
        await self.until(lambda: all(text in self.text for text in texts), *texts)

    async def misses(self, text: str) -> None:
        """Wait until this stands there no longer."""
        await self.until(lambda: text not in self.text, f"no {text}")

    async def until(self, is_so: Callable[[], bool], *what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not is_so():
                    await self.pilot.pause(0.01)
        except TimeoutError:
            raise AssertionError(f"{what} did not come:\n{self.text}") from None

    async def is_idle(self) -> None:
        """Wait until nothing runs, and the status line says so."""
        await self.until(
            lambda: not self.app.conversation.is_running and "working" not in self.status
        )


async def type_letters(pilot: Pilot[Any], text: str) -> None:
    """Press keys one right after the other; a pilot would wait a while for each."""
    for letter in text:
        pilot.app.post_message(events.Key(NAMES.get(letter, letter), letter))
    await pilot.pause()
    await pilot.pause()


class Nobody:
    """Asks nobody: what happens before the screen is somebody else's test."""

    is_attended = False

    def note(self, text: str, style: str | None = "dim") -> None: ...

    async def ask(self, question: str) -> str:
        raise AssertionError(question)

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        raise AssertionError(question)

    async def choose(self, sessions: tuple[SessionView, ...]) -> None:
        raise AssertionError(sessions)


class Terminal:
    """Everything below a display, built as the command line builds it."""

    def __init__(self, house: House, seat: Seat) -> None:
        self.house = house
        self.store = house.store
        self.seat = seat

    def start_up(self, asker: Asker) -> Startup:
        local = LocalTerminal(self.seat.client, self.house)
        return Startup(self.seat, asker, LocalTranscripts(local))


@asynccontextmanager
async def open_terminal(stage: Stage) -> AsyncIterator[Terminal]:
    """A seat at nothing yet."""
    lay_store(stage.home / "sessions.db")
    async with await open_store(stage.url, durability="normal") as store:
        house = House(stage.config(), store)
        house.is_terminal = True
        house.attachments = Attachments(store)
        client = Client(transport=LocalTransport(Calls(house), Caller()))
        try:
            async with open_live(client) as live:
                place = locate(stage.work)
                seat = Seat(client, live, place=place)
                seat.key = (await seat.locate(place)).key
                try:
                    yield Terminal(house, seat)
                finally:
                    await seat.leave()
        finally:
            await house.close()


@asynccontextmanager
async def open_chat(
    stage: Stage,
    *,
    session: str | None = None,
    read_only: bool = False,
    notes: tuple[Note, ...] = (),
    size: tuple[int, int] = (80, 24),
    settles: float = 0.0,
    **more: Any,
) -> AsyncIterator[Chat]:
    """A chat, ready for keys; `session` is the id to sit down at."""
    async with open_terminal(stage) as terminal:
        nobody: Asker = Nobody()
        startup, seat, store = terminal.start_up(nobody), terminal.seat, terminal.store
        target = await store.get_session(session) if session is not None else None
        opening = await seat.switch(target, "startup", read_only=read_only)
        start = Start(opening=opening, notes=notes, settles=settles, **more)
        history = History(history_file(stage.home, seat.person))
        app = ChatApp(seat, startup, start, history)
        app.conversation.now = lambda: 0.0  # a slow machine must not come between two keys
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                chat = Chat(app, pilot, store, terminal.house)
                await asyncio.wait_for(app.is_there.wait(), PATIENCE)
                await pilot.pause()
                yield chat
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await app.close_chat()
        if app.failure is not None:
            raise app.failure
