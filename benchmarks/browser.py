"""A gateway over a store in this process, and a real Chromium that is signed in there."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.async_api import Browser, BrowserContext, async_playwright

from clew.api.local import Calls
from clew.clock import host_clock
from clew.config import load as load_config
from clew.gateway.app import build_app
from clew.gateway.auth import Gate
from clew.gateway.server import Address, listen, serving
from clew.gateway.stream_guard import StreamGuard
from clew.ports import Agent, Store
from clew.wiring import House

PATIENCE_MS = 120_000.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Visitor(NamedTuple):
    """A gateway, and a browser's profile that is signed in there."""

    house: House
    context: BrowserContext


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """The Chromium of this machine."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("chromium is not here; `make test` installs it")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visit_gateway(
    store: Store, home: Path, browser: Browser, *, script: str = "", agent: Agent | None = None
) -> AsyncIterator[Visitor]:
    """A gateway over a store; `script` runs in every page before the page's own."""
    async with AsyncExitStack() as stack:
        house = House(load_config(home=str(home), environ={}), store, agent=agent)
        stack.push_async_callback(house.close)
        gate = Gate(store, host_clock)
        app = build_app(Calls(house), gate, stream_guard=StreamGuard(gate))
        address = Address(port=0)
        listener = stack.enter_context(listen(address))
        url = await stack.enter_async_context(serving(app, gate, address, listener, grace=1))
        context = await browser.new_context(base_url=url, service_workers="block")
        context.set_default_timeout(PATIENCE_MS)
        stack.push_async_callback(context.close)
        await context.add_init_script(script)
        answer = await context.request.post("/v1/login", data={"code": gate.make_code()})
        if not answer.ok:
            raise RuntimeError(await answer.text())
        yield Visitor(house, context)
