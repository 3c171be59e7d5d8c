"""What `storm` kills: a gateway without a web server, with a scripted model and four channels.

A life takes up what the last one left, then listens on its channels and delivers until somebody
ends it. It knows nothing of who that is, or when.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec

# What every life needs is loaded once, before lives are forked.
import clew.agent.agent
import clew.agent.loop
import clew.agent.tools
import clew.testing.scripted  # noqa: F401  # loaded before the fork, so that no child pays for it
from clew.config import load
from clew.runtime.outbound import Deliverer, DeliverySettings
from clew.runtime.recovery import keep_up, take_up
from clew.runtime.supervisor import Supervisor
from clew.testing.channels import PeerChannel
from clew.wiring import House, open_configured_store

SETTLE_S = 0.05
DELAY_S = 0.01


class Place(msgspec.Struct, frozen=True):
    """A home, and where the other sides of its channels are: a port for each name.

    `store` is where the sessions are, if that is not the home.
    """

    home: Path
    ports: dict[str, int]
    store: str | None = None

    def make(self) -> None:
        """Write the configuration and the script: each answer is what it answers."""
        self.home.mkdir(parents=True)
        script = self.home / "script.json"
        answer = {"text": "To ", "echo": "user", "delay": DELAY_S, "chunk": 8}
        script.write_text(json.dumps({"title": "Stormy", "answers": [answer]}))
        (self.home / "config.toml").write_text(
            'model = "script/x"\nguests = ["*"]\n[session]\nreset = { mode = "off" }\n'
            'dm_scope = "per-channel-peer"\n'
            '[providers.script]\nkind = "python"\nfactory = "clew.testing.scripted:open_model"\n'
            f"base_url = {json.dumps(str(script))}\n"
            + (f"[store]\nurl = {json.dumps(self.store)}\n" if self.store else "")
        )


def live(place: Place) -> None:
    """A process, until it is killed."""
    asyncio.run(_live(place))


async def _live(place: Place) -> None:
    config = load(home=str(place.home), environ={})
    store = await open_configured_store(config)
    house = House(config, store, settle_s=SETTLE_S)
    reception = house.reception
    channels = [PeerChannel(port, name=name) for name, port in place.ports.items()]
    runtime = house.runtime
    deliverer = Deliverer(
        store,
        channels,
        clock=runtime.clock,
        bell=runtime.replies.bell,
        settings=DeliverySettings(poll=0.1),
    )
    await take_up(runtime)
    supervisor = Supervisor(channels, reception.receive, clock=runtime.clock, first_pause=0.05)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(deliverer.run())
        tasks.create_task(supervisor.run())
        tasks.create_task(keep_up(runtime, every=1.0))
