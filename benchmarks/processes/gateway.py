"""What `platforms` kills: everything of a gateway but its web server, with the real channels."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

# What every life needs is loaded once, before lives are forked.
import clew.agent.agent
import clew.agent.loop
import clew.agent.tools
import clew.testing.scripted  # noqa: F401  # loaded before the fork, so that no child pays for it
from clew.config import load
from clew.wiring import House, open_configured_store, run_errands
from clew.wiring.channels import build_channels

SETTLE_S = 0.05


def live(home: Path) -> None:
    """A process, until it is killed."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_live(home))


async def _live(home: Path) -> None:
    config = load(home=str(home), environ={})
    store = await open_configured_store(config)
    house = House(config, store, settle_s=SETTLE_S)
    async with run_errands(house, build_channels(config)):
        await asyncio.Event().wait()
