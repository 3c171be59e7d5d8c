"""A terminal of its own: the API in this process, and what a terminal does at its start."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from clew.config import Config
from clew.store.migrations import Report, quiet
from clew.wiring.house import House
from clew.wiring.stores import open_configured_store, retention_policy

if TYPE_CHECKING:
    from pathlib import Path

    from clew.agent.models.catalogue import Catalogue
    from clew.client.client import Client
    from clew.runtime.upkeep.after_turn import Tidied
    from clew.transfer.resume_file import TranscriptOpening


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
        """Retention, and old trash, as the configuration says."""
        from clew.runtime.upkeep.after_turn import tidy  # noqa: PLC0415  # only a chat pays for it

        config = self._house.config
        return await tidy(
            self._house.store,
            retention_policy(config),
            trash_days=config.session.trash_days,
            now=self._house.clock(),
        )

    async def load(self) -> None:
        """Load the library of the agent, beside everything else."""
        await asyncio.to_thread(importlib.import_module, "clew.agent.loop")

    async def warm(self, model: str) -> None:
        """Load a model, so that its first answer comes sooner. It may hold up all threads."""
        await self._house.agent.warm(model)

    async def open_transcript(self, path: Path) -> TranscriptOpening:
        """Import a transcript file, or say that a new one begins."""
        from clew.transfer.resume_file import open_transcript  # noqa: PLC0415  # seldom

        return await open_transcript(self._house.store, path)


@asynccontextmanager
async def open_terminal(
    config: Config,
    *,
    terminal: str | None = None,
    holds: bool = True,
    report: Report = quiet,
) -> AsyncIterator[LocalTerminal]:
    """The API in this process, for a terminal. `holds`: the session that it is at is its own."""
    from clew.api.handlers.parts import Caller  # noqa: PLC0415  # only a terminal pays for it
    from clew.api.local import Calls, LocalTransport  # noqa: PLC0415  # see above
    from clew.client.client import Client  # noqa: PLC0415  # see above
    from clew.runtime.place.attachment import Attachments  # noqa: PLC0415  # see above

    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, report=report)
        open_things.push_async_callback(store.close)
        house = House(config, store)
        house.is_terminal = True
        if holds:
            house.attachments = Attachments(store, terminal=terminal)
        open_things.push_async_callback(house.close)
        yield LocalTerminal(Client(transport=LocalTransport(Calls(house), Caller())), house)
