"""A whole house over a scripted model: runtime, agent, tools and memory as people have them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from clew.client.seats import locate
from clew.config import load
from clew.core.commands import Issuer
from clew.core.session import Session, SessionFilter
from clew.core.turn import Turn
from clew.core.usage import Usage, UsageBy
from clew.ports import Store
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Reply
from clew.runtime.inbound.reception import Ticket
from clew.runtime.place.begin import Surface
from clew.wiring import House, open_configured_store
from tests.patience import PATIENCE
from tests.runtime.conftest import Seat, soon, until

BY: tuple[UsageBy, ...] = ("day", "model", "session", "platform")


class Room:
    """Somebody at a seat, and everything around them."""

    def __init__(self, folder: Path, store: Store, house: House, seat: Seat) -> None:
        self.folder = folder
        self.store = store
        self.house = house
        self.seat = seat

    @property
    def session(self) -> Session:
        assert self.seat.current is not None
        return self.seat.current

    async def say(self, text: str) -> Turn:
        """A turn, and what comes after it."""
        turn = await _ended(await self.seat.say(text))
        await soon(self.house.runtime.join(self.session.id))
        return turn

    async def run(self, line: str) -> Reply:
        """A command, and the turn that it begins."""
        name, _, rest = line.removeprefix("/").partition(" ")
        reply = await soon(run_command(self.seat, name, rest))
        if reply.ticket is not None:
            await _ended(reply.ticket)
            await soon(self.house.runtime.join(self.session.id))
        return reply

    def requests(self) -> list[dict[str, Any]]:
        """Everything that the model was sent."""
        log = self.folder / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    async def sessions(self) -> tuple[Session, ...]:
        page = await self.store.list_sessions(SessionFilter(viewer="owner"), limit=100)
        return page.sessions

    async def all_booked(self) -> None:
        """Wait until every answer of the model is in somebody's totals, titles included."""

        async def so() -> bool:
            usage = await self.store.get_usage(since=0)
            assert usage.api_calls <= len(self.requests()), "something is counted twice"
            return usage.api_calls == len(self.requests())

        await until(so)

    async def check_sums(self) -> None:
        """Each session's totals are the sum of its turns, and all sums are the same."""
        while True:
            pulse = await self.store.pulse()
            problems = await self._compare()
            if pulse == await self.store.pulse():
                break  # nothing was written meanwhile, as by a compaction after the turn
        assert problems == []

    async def _compare(self) -> list[str]:
        problems = []
        sessions = await self.sessions()
        for session in sessions:
            turns = await self.store.list_turns(session.id, limit=10_000)
            if (parts := sum((turn.usage for turn in turns), Usage())) != session.usage:
                problems.append(f"the session has {session.usage}, its turns {parts}")
        total = sum((session.usage for session in sessions), Usage())
        sums: dict[str, Usage] = {
            by: sum((row.usage for row in await self.store.list_usage(by, since=0)), Usage())
            for by in BY
        }
        sums |= {"all": await self.store.get_usage(since=0)}
        return problems + [
            f"{by}: {usage}, not {total}" for by, usage in sums.items() if usage != total
        ]


async def _ended(ticket: Ticket) -> Turn:
    return await asyncio.wait_for(asyncio.shield(ticket.turn), PATIENCE)


@asynccontextmanager
async def room(
    folder: Path, script: dict[str, Any], config: str = "", *, model: str = "script/x"
) -> AsyncIterator[Room]:
    """A home with this script for its model; what was there before stays."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    path = folder / "script.json"
    path.write_text(json.dumps({"log": str(folder / "log")} | script))
    (home / "config.toml").write_text(
        f'model = "{model}"\n[store]\ndurability = "normal"\n[providers.script]\nkind = "python"\n'
        'factory = "clew.testing.scripted:open_model"\n'
        f"base_url = {json.dumps(str(path))}\n{config}"
    )
    loaded = load(home=str(home), environ={})
    store = await open_configured_store(loaded)
    house = House(loaded, store)
    place = locate(work)
    seat = Seat(
        at=Surface(runtime=house.runtime, models=house.models, place=place, key="cli:room"),
        personalities=house.personalities,
        memory=house.memory,
        recall=house.recall,
        context=house.context,
        zone=UTC,
        issuer=Issuer(role="owner", surface="terminal"),
    )
    try:
        yield Room(folder, store, house, seat)
    finally:
        await house.close()
        await store.close()
