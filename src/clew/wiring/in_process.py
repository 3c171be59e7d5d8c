"""Clients in this process, without a server: for the SDK, for commands and for a terminal."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clew.config import Config, load
from clew.store.migrations import Report, quiet
from clew.wiring.house import House, open_house
from clew.wiring.stores import retention_policy

if TYPE_CHECKING:
    from pathlib import Path

    from clew.agent.models.catalogue import Catalogue
    from clew.client.client import Client
    from clew.ports import Clock
    from clew.runtime.upkeep.after_turn import Tidied
    from clew.transfer.resume_file import TranscriptOpening


@asynccontextmanager
async def local(
    home: str | None = None,
    *,
    config: Config | None = None,
    clock: Clock | None = None,
    report: Report = quiet,
) -> AsyncIterator[Client]:
    """A client of this machine's clew, in this process: the same calls, and no server.

    `home` is the directory that `--home` names; left out, the usual one. The store may be open in
    other processes at the same time. `report` is called while an older store is updated.
    """
    async with open_house(config or load(home=home), clock, report=report) as house:
        yield _make_client(house)


@asynccontextmanager
async def local_files(config: Config) -> AsyncIterator[Client]:
    """The same for calls that need no store: memory, personalities, the list of jobs.

    No store is opened or created.
    """
    house = House(config, None)
    try:
        yield _make_client(house)
    finally:
        await house.close()


@asynccontextmanager
async def open_terminal(
    config: Config,
    *,
    terminal: str | None = None,
    holds: bool = True,
    report: Report = quiet,
) -> AsyncIterator[LocalTerminal]:
    """The same for a terminal. `holds`: no other terminal may have its session."""
    from clew.runtime.place.attachment import Attachments

    async with open_house(config, report=report) as house:
        house.check_memory()
        house.is_terminal = True
        if holds:
            house.attachments = Attachments(house.store, terminal=terminal)
        yield LocalTerminal(_make_client(house), house)


def _make_client(house: House) -> Client:
    from clew.api.handlers.parts import Caller
    from clew.api.local import Calls, LocalTransport
    from clew.client.client import Client

    return Client(transport=LocalTransport(Calls(house), Caller()))


class LocalTerminal:
    """A client whose sessions run in this process, and what only such a terminal can do."""

    def __init__(self, client: Client, house: House) -> None:
        self.client = client
        self._house = house

    @property
    def models(self) -> Catalogue:
        """The models, for the weights of the embedded one."""
        return self._house.models

    async def tidy(self) -> Tidied:
        """Apply retention and empty old trash, as configured."""
        from clew.runtime.upkeep.after_turn import tidy

        config = self._house.config
        return await tidy(
            self._house.store,
            retention_policy(config),
            trash_days=config.session.trash_days,
            now=self._house.clock(),
        )

    async def load(self) -> None:
        """Import the agent's library, in another thread."""
        await asyncio.to_thread(importlib.import_module, "clew.agent.loop")

    async def warm(self, model: str) -> None:
        """Load a model, so that its first answer comes sooner. It may block all threads."""
        await self._house.agent.warm(model)

    async def open_transcript(self, path: Path) -> TranscriptOpening:
        """Import a transcript file, or say that a new one begins."""
        from clew.transfer.resume_file import open_transcript

        return await open_transcript(self._house.store, path)
