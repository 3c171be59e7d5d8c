"""A picker over a real store, in process or through a gateway, and the hands of a person at it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot

from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.client.seats import locate
from clew.config import load
from clew.core.changes import AddMessage
from clew.core.keys import Place
from clew.core.message import Draft
from clew.core.session import OWNER, NewSession, Session
from clew.ports import Store
from clew.terminal.picker import Picked, PickerSetup
from clew.terminal.picker.screen import PickerApp
from clew.wiring import House
from tests.patience import PATIENCE

CHARACTERS = {"space": " ", "enter": "\r", "escape": "\x1b", "tab": "\t"}


async def add(
    store: Store, title: str | None, *said: str, cwd: Path | str | None = None, **fields: Any
) -> Session:
    """A session in which these things were said, by turns."""
    fields.setdefault("key", f"cli:{title}")
    where = None if cwd is None else str(cwd)
    new = NewSession(title=title, cwd=where, project=where, **fields)
    session = await store.create_session(new, route=None)
    if said:
        lease = await store.acquire_lease(session.id, "test")
        changes = [
            AddMessage(Draft(role="assistant" if number % 2 else "user", content=text))
            for number, text in enumerate(said)
        ]
        await store.record(session.id, lease.epoch, *changes)
        await store.release_lease(lease)
    return await store.get_session(session.id)


class Hands:
    """Presses keys and reads the screen."""

    def __init__(self, pilot: Pilot[Picked | None], app: PickerApp) -> None:
        self.pilot = pilot
        self.app = app

    async def press(self, *keys: str) -> None:
        """Press keys, as fast as they come; whoever wants to see what they do waits for that."""
        for key in keys:
            character = key if len(key) == 1 else CHARACTERS.get(key)
            self.app.post_message(events.Key(key, character))
        await asyncio.sleep(0)

    async def type(self, text: str) -> None:
        await self.press(*("space" if each == " " else each for each in text))

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def selected(self) -> str | None:
        """The title that is selected."""
        row = self.app.picker._list.row
        return None if row is None else row.title

    @property
    def titles(self) -> list[str]:
        """All titles of the list, on the screen or not."""
        items = self.app.picker._list._items
        return [each if isinstance(each, str) else each.title for each in items]

    async def until(self, seen: Callable[[], Any]) -> None:
        """Wait until that is so."""
        limit = time.monotonic() + PATIENCE
        while not seen():
            assert time.monotonic() < limit, f"It did not come to that:\n{self.text}"
            await asyncio.sleep(0.01)

    async def at(self, title: str) -> None:
        """Wait until that one is selected."""
        await self.until(lambda: self.selected == title)

    async def list(self, *titles: str) -> None:
        """Wait until just these are listed."""
        await self.until(lambda: self.titles == [*titles])

    async def see(self, text: str) -> None:
        """Wait until that stands on the screen."""
        await self.until(lambda: text in self.text)

    async def see_no(self, text: str) -> None:
        """Wait until that stands there no more."""
        await self.until(lambda: text not in self.text)

    async def ended(self) -> Picked | None:
        """Wait for the end; what was picked."""
        await self.until(lambda: self.app._exit)
        return self.app.return_value


def calls_of(store: Store) -> Calls:
    """The operations over a store, as `clew` in one process has them."""
    return Calls(House(load(home="/nowhere", environ={}), store))


def client_of(store: Store, person: str = OWNER) -> Client:
    """Somebody's client, in this process."""
    return Client(transport=LocalTransport(calls_of(store), Caller(person)))


@asynccontextmanager
async def picker(
    store: Store | Client,
    here: Path | Place,
    *,
    size: tuple[int, int] = (100, 30),
    only: tuple[Session, ...] = (),
    everywhere: bool = False,
    current: str | None = None,
    viewer: str = OWNER,
) -> AsyncIterator[Hands]:
    """A picker that runs, opened in this directory."""
    setup = PickerSetup(
        client=store if isinstance(store, Client) else client_of(store, viewer),
        place=here if isinstance(here, Place) else locate(here),
        now=lambda: time.time_ns() // 1_000_000,
        zone=lambda _at: UTC,
        only=only,
        everywhere=everywhere,
        current=current,
    )
    app = PickerApp(setup)
    async with app.run_test(size=size) as pilot:
        hands = Hands(pilot, app)
        await hands.until(lambda: app.screen is app.picker)
        await pilot.pause()
        yield hands
