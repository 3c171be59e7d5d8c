"""Takes the pictures of the dashboard for the docs, in a real browser over a demo store.

    python scripts/page_pictures.py [PAGE...]

Each page in light and dark, on a wide screen and on a phone of 360 pixels. The gateway is a real
one over a demo home with a fixed seed; nothing here knows what a page shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Browser, ViewportSize, async_playwright

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "pictures"
CLEW: Final = str(Path(sys.executable).with_name("clew"))
SESSIONS: Final = 60
WINDOWS: Final = {
    "wide": ViewportSize(width=1280, height=800),
    "phone": ViewportSize(width=360, height=740),
}
COLOURS: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
PAGES: Final = ("sessions", "session", "memory", "usage", "status", "settings")
MEMORY: Final = """\
- The staging database is `orders_staging`; never test migrations against `orders`.
- Ada reviews on Tuesdays and Thursdays.

## Deploying

1. `make check`
2. tag, wait for the build
3. watch the error rate for ten minutes
"""


class Gateway:
    """A running gateway and its owner's token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._token = token

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request as the owner."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  # our own gateway
            self.url + path, method=method, data=data, headers=headers
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return json.load(answer)


@contextmanager
def run_gateway() -> Iterator[Gateway]:
    """A gateway over a demo home, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        demo = ["demo", "--home", str(home), "--sessions", str(SESSIONS)]
        subprocess.run([CLEW, *demo], check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # ours
        environ = {**os.environ, "CLEW_HOME": str(home)}
        serve = [CLEW, "serve", "--port", "7397"]
        quiet = subprocess.DEVNULL
        server = subprocess.Popen(serve, env=environ, stdin=quiet, stdout=quiet)  # noqa: S603
        try:
            url = "http://127.0.0.1:7397"
            _wait(url, server)
            token = next(home.rglob("*token*")).read_text(encoding="utf-8").strip()
            yield Gateway(url, token)
        finally:
            server.terminate()
            server.wait()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1)  # noqa: S310
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("The gateway did not start.")


def choose_session(gateway: Gateway) -> str:
    """The session with the most calls of tools among the newest."""
    found = gateway.ask("GET", "/v1/sessions?limit=40")["sessions"]
    return str(max(found, key=lambda each: each["message_count"])["id"])


async def take(browser: Browser, gateway: Gateway, pages: list[str]) -> None:
    """Write the pictures of these pages."""
    session = choose_session(gateway)
    for window, size in WINDOWS.items():
        for colour in COLOURS:
            context = await browser.new_context(viewport=size, color_scheme=colour)
            page = await context.new_page()
            link = gateway.ask("POST", "/v1/links", {})["path"]
            await page.goto(gateway.url + link)
            await page.wait_for_load_state("networkidle")
            for name in pages:
                path = {"sessions": "", "session": f"s/{session}"}.get(name, name)
                await page.goto(f"{gateway.url}/{path}")
                await page.wait_for_timeout(1_500)
                file = TARGET / f"page-{name}-{window}-{colour}.png"
                await page.screenshot(path=file)
                print(file.relative_to(ROOT))
            await context.close()


async def main(pages: list[str]) -> None:
    """See the module."""
    program = shutil.which("chromium")
    with run_gateway() as gateway:
        revision = gateway.ask("GET", "/v1/memory/memory").get("revision")
        gateway.ask(
            "PUT",
            "/v1/memory/memory",
            {"content": MEMORY} | ({"revision": revision} if revision else {}),
        )
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
            )
            await take(browser, gateway, pages)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or list(PAGES)))
