"""Takes the pictures of the dashboard for the docs, in a real browser over a demo store.

    python scripts/page_pictures.py [PAGE...]

Each page in light and dark, on a wide screen and on a phone of 360 pixels. The gateway is a real
one over the sessions of `page_demo`; nothing here knows what a page shows. The fonts are those of
this machine, so it is run by hand and not by `make docs`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Browser, Page, ViewportSize, async_playwright

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # as a script, it is found nowhere

from scripts import page_demo  # noqa: E402

TARGET: Final = ROOT / "docs" / "pictures"
CLEW: Final = str(Path(sys.executable).with_name("clew"))
PATIENCE: Final = 60.0
QUALITY: Final = 82
WINDOWS: Final = {
    "wide": ViewportSize(width=1280, height=800),
    "phone": ViewportSize(width=360, height=740),
}
COLOURS: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
PAGES: Final = ("sessions", "session", "memory", "usage", "status", "settings")
MEMORY: Final = (
    "- The staging database is `orders_staging`; never test migrations against `orders`.\n",
    "- Ada reviews on Tuesdays and Thursdays.\n",
    """
## Deploying

1. `make check`
2. tag, wait for the build
3. watch the error rate for ten minutes
""",
)
JOBS: Final = (
    {"name": "morning-report", "schedule": "0 7 * * *", "text": "What happened since yesterday?"},
    {"name": "weekly-review", "schedule": "0 17 * * 5", "text": "Sum up the week."},
)


PICTURES: Final = tuple(
    f"page-{name}-{window}-{colour}" for name in PAGES for window in WINDOWS for colour in COLOURS
)


class Gateway:
    """A running gateway and its owner's token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._token = token

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request as the owner; ends the program if it is refused."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  # our own gateway
            self.url + path, method=method, data=data, headers=headers
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error


@contextmanager
def run_gateway() -> Iterator[tuple[Gateway, str]]:
    """A gateway over the demo, and the session to open; it ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder) / "home", Path(folder) / "shop"
        page_demo.furnish(home, project)
        session = asyncio.run(page_demo.fill(home, project))
        environ = {**os.environ, "CLEW_HOME": str(home)}
        serve = [CLEW, "serve", "--port", "0", "--json"]
        server = subprocess.Popen(  # noqa: S603  # ours
            serve, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        try:
            line = server.stdout.readline() if server.stdout else b""
            if not line:
                raise SystemExit("The gateway did not start.")
            told = json.loads(line)
            token = Path(told["token_file"]).read_text(encoding="utf-8").strip()
            yield Gateway(told["url"], token), session
        finally:
            server.terminate()
            server.wait()


def play(gateway: Gateway, session: str) -> None:
    """What happens before the pictures: memory is written, jobs are made, a tool call waits."""
    for count in range(1, len(MEMORY) + 1):
        gateway.ask("PUT", "/v1/memory/memory", {"content": "".join(MEMORY[:count])})
    for job in JOBS:
        gateway.ask("POST", "/v1/cron", job)
    gateway.ask("POST", "/v1/chat", {"session": session, "text": page_demo.ASKS})
    end = time.monotonic() + PATIENCE
    while gateway.ask("GET", f"/v1/sessions/{session}")["session"]["status"] != "waiting":
        if time.monotonic() > end:
            raise SystemExit("No tool call waits for the owner.")
        time.sleep(0.2)


async def take(browser: Browser, gateway: Gateway, session: str, pages: list[str]) -> None:
    """Write the pictures of these pages."""
    for window, size in WINDOWS.items():
        for colour in COLOURS:
            context = await browser.new_context(
                viewport=size, color_scheme=colour, locale="en-GB", timezone_id="Europe/Lisbon"
            )
            page = await context.new_page()
            link = gateway.ask("POST", "/v1/links", {})["path"]
            await page.goto(gateway.url + link)
            await page.wait_for_load_state("networkidle")
            for name in pages:
                path = {"sessions": "", "session": f"s/{session}"}.get(name, name)
                await page.goto(f"{gateway.url}/{path}")
                await page.wait_for_timeout(1_500)
                file = TARGET / f"page-{name}-{window}-{colour}.webp"
                file.write_bytes(await shoot(page))
                print(file.relative_to(ROOT), file.stat().st_size)
            await context.close()


async def shoot(page: Page) -> bytes:
    """What the page shows, as WebP, which the browser writes a tenth as large as PNG."""
    session = await page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": QUALITY}
    picture = await session.send("Page.captureScreenshot", options)
    return base64.b64decode(picture["data"])


async def photograph(gateway: Gateway, session: str, pages: list[str]) -> None:
    """Start a browser and take the pictures."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        await take(browser, gateway, session, pages)
        await browser.close()


def main(pages: list[str]) -> None:
    """See the module."""
    with run_gateway() as (gateway, session):
        play(gateway, session)
        asyncio.run(photograph(gateway, session, pages))


if __name__ == "__main__":
    main(sys.argv[1:] or list(PAGES))
