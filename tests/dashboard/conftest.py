"""The dashboard in a real Chromium, over a real gateway; an actor stands for the model.

One browser per test process, a profile of its own (context) per visitor. All tests here share one
event loop, since a browser belongs to the loop that started it. What a page reports as an error
fails the test, unless the test has said that it comes.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    Page,
    Route,
    ViewportSize,
    async_playwright,
    expect,
)

from clew.core.session import NewSession, Session
from clew.gateway.app import build_app
from clew.gateway.server import Address, listen, serving
from clew.gateway.stream_guard import StreamGuard
from clew.ports import Store
from tests.gateway.conftest import House, open_gatehouse
from tests.patience import PATIENCE
from tests.runtime.conftest import Actor, Scene, ended, typed

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=360, height=740)

# What a browser reports of its own where it is not signed in, and where no gateway answers.
REFUSED = ("401", "no valid credentials")
AWAY = ("ERR_CONNECTION_REFUSED", "WebSocket connection to")

WAITS_MS = PATIENCE * 1_000 / 4
"""A page that has not done it by now has lost it; its gateway and its browser are here."""
expect.set_options(timeout=WAITS_MS)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """One loop for all of them; see above."""
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class Gateway:
    """A gateway at a port of its own, that can be stopped and started again over its store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = ""
        self.house: House
        self._port = 0
        self._parts = AsyncExitStack()

    @property
    def store(self) -> Store:
        return self.house.store

    @property
    def actor(self) -> Actor:
        """Plays `scenes`, one in each turn; without one it says "ok"."""
        actor: Actor = self.house.actor
        return actor

    async def start(self) -> None:
        address = Address(port=self._port)
        self.house = await self._parts.enter_async_context(open_gatehouse(self.path))
        app = build_app(
            self.house.calls, self.house.gate, stream_guard=StreamGuard(self.house.gate)
        )
        listener = self._parts.enter_context(listen(address))
        self.url = await self._parts.enter_async_context(
            serving(app, self.house.gate, address, listener, grace=2)
        )
        self._port = int(self.url.rsplit(":", 1)[1])

    async def stop(self) -> None:
        await self._parts.aclose()

    async def session(
        self, title: str | None = None, key: str = "cli:test", **fact: Any
    ) -> Session:
        """A session without messages; `fact`: more fields of `NewSession`."""
        return await self.store.create_session(NewSession(key=key, title=title, **fact))

    async def say(self, session: Session, text: str, *scenes: Scene) -> None:
        """One turn, from its message to its end."""
        self.actor.scenes = list(scenes)
        await ended(await self.house.calls.parts.runtime.accept(typed(session, text)))


class Visitors:
    """Browsers of people, each with cookies and storage of its own."""

    def __init__(self, browser: Browser, gateway: Gateway) -> None:
        self.browser = browser
        self.gateway = gateway
        self.contexts: list[BrowserContext] = []
        self.errors: list[str] = []
        self.expected: list[str] = []

    async def __call__(
        self, path: str | None = "/", *, signed_in: bool = True, **options: Any
    ) -> Page:
        """A page in a new profile. `path` None: nothing is opened yet.

        `options` are those of a context, such as `viewport=PHONE` and `color_scheme="dark"`.
        """
        context = await self.browser.new_context(
            base_url=self.gateway.url,
            **({"viewport": WIDE, "service_workers": "block", "locale": "en-GB"} | options),
        )
        self.contexts.append(context)
        context.set_default_timeout(WAITS_MS)
        if signed_in:
            code = self.gateway.house.gate.make_code()
            answer = await context.request.post("/v1/login", data={"code": code})
            assert answer.ok, await answer.text()
        page = await context.new_page()
        self.watch(page)
        if path is not None:
            await page.goto(path)
        return page

    def watch(self, page: Page) -> None:
        """Note what the page reports as errors."""
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda said: (
                self.errors.append(f"{page.url}: {said.text}") if said.type == "error" else None
            ),
        )

    def expect_errors(self, *patterns: str) -> None:
        """Let these pass: a browser reports every refused or failed request as an error."""
        self.expected += patterns

    async def close(self) -> None:
        for context in self.contexts:
            await context.close()
        wrong = [
            each for each in self.errors if not any(re.search(one, each) for one in self.expected)
        ]
        assert wrong == [], "the browser reported errors"


async def hold_calls(page: Page, method: str, *, then_fail: bool = False) -> asyncio.Event:
    """Let the page's calls of an operation wait on their way until the event is set."""
    go_on = asyncio.Event()

    async def hold(route: Route) -> None:
        if (route.request.post_data_json or {}).get("method") != method:
            await route.continue_()
            return
        await go_on.wait()
        await (route.abort() if then_fail else route.continue_())

    await page.route("**/v1/rpc", hold)
    return go_on


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    program = shutil.which("chromium")
    assert program is not None, "chromium is not here; `make test` installs it"
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield launched
        finally:
            await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, gateway: Gateway) -> AsyncIterator[Visitors]:
    """Opens a page as a person does: `page = await visit("/memory")`."""
    visitors = Visitors(browser, gateway)
    try:
        yield visitors
    finally:
        await visitors.close()
