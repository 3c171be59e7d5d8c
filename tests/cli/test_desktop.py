"""`clew desktop`: a window of its own, signed in, in a real Chromium."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, sync_playwright

from tests.cli.conftest import Home
from tests.cli.gateways import hold, run_gateway, wait_for
from tests.forks import Forked, start_clew
from tests.patience import PATIENCE


@pytest.fixture
def browser(tmp_path: Path) -> str:
    """A Chromium without a screen that can be looked into; it writes down how it was started."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is not here; `make test` installs it"
    script = tmp_path / "browser"
    flags = "--headless --disable-gpu --disable-background-networking --remote-debugging-port=0"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexec {program} {flags} "$@"\n', "utf-8"
    )
    script.chmod(0o700)
    return str(script)


@contextmanager
def run_desktop(home: Home, browser: str) -> Iterator[Forked]:
    with (
        Path(os.devnull).open("rb") as nothing,
        (home.path / "desktop.err").open("wb") as beside,
    ):
        process = start_clew(
            ["desktop", "--browser", browser],
            env={**os.environ, "CLEW_HOME": str(home.path)},
            cwd=None,
            streams=(nothing.fileno(), beside.fileno(), beside.fileno()),
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def look_into(home: Home) -> Iterator[Page]:
    """The page in the window."""
    port_file = home.path / "desktop" / "DevToolsActivePort"
    wait_until(lambda: port_file.exists() and "\n" in port_file.read_text())
    port = port_file.read_text().splitlines()[0]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
        wait_until(lambda: any(context.pages for context in chromium.contexts))
        page = next(page for context in chromium.contexts for page in context.pages)
        page.get_by_role("navigation", name="Pages").wait_for(timeout=PATIENCE * 1_000)
        yield page


def close_window(page: Page) -> None:
    """As the person does it."""
    with contextlib.suppress(Exception):  # the connection ends with the browser
        page.context.browser.new_browser_cdp_session().send("Browser.close")  # type: ignore[union-attr]


def said(home: Home) -> str:
    return (home.path / "desktop.err").read_text()


def test_a_window_opens_signed_in_and_its_gateway_ends_with_it(
    home: Home, browser: str, tmp_path: Path
) -> None:
    hold(home)
    with run_desktop(home, browser) as process:
        with look_into(home) as page:
            arguments = (tmp_path / "arguments").read_text()
            assert "code=" not in arguments
            assert "code=" not in page.url
            (file,) = home.path.glob("open-*.html")
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert str(file) in arguments
            # A turn that runs when the window is closed is finished first.
            token = (home.path / "gateway.token").read_text("ascii").strip()
            url = page.url.partition("/?")[0].rstrip("/")
            httpx.post(
                f"{url}/v1/chat",
                json={"text": "Hello"},
                headers={"Authorization": f"Bearer {token}"},
                timeout=PATIENCE,
            ).raise_for_status()
            wait_for(home.path / "touch")
            close_window(page)
        wait_until(lambda: "what runs is finished first" in said(home))
        (home.path / "hold").touch()
        assert process.wait(PATIENCE) == 0
    assert list(home.path.glob("open-*.html")) == []
    assert said(home).splitlines()[-1] == "Stopped."
    (session,) = home.json("list")["sessions"]
    assert session["message_count"] == 2


def test_a_gateway_that_was_there_stays(home: Home, browser: str) -> None:
    home.script("hello")
    with run_gateway(home) as gateway, run_desktop(home, browser) as process:
        with look_into(home) as page:
            assert page.url.startswith(gateway.url)
            close_window(page)
        assert process.wait(PATIENCE) == 0
        assert httpx.get(f"{gateway.url}/health").status_code == 200
        assert gateway.end(signal.SIGTERM) == 0


def test_a_browser_that_is_not_there_is_named(home: Home) -> None:
    result = home.clew("desktop", "--browser", "no-such-browser")
    assert result.exit_code == 2
    assert "There is no program no-such-browser here." in result.stderr
    assert not (home.path / "gateway.token").exists()
