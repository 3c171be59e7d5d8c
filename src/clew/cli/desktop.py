"""`clew desktop`: the dashboard in a window of its own, and opening a browser that is signed in.

The code that signs a browser in never stands in a process's arguments, which everybody on the
machine can read. It stands in a file for the owner only, which leads the browser on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import webbrowser
from asyncio.subprocess import DEVNULL
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from clew.cli.app import App, local_command
from clew.errors import ClewError
from clew.files.durable import make_directory, put_bytes

if TYPE_CHECKING:
    from clew.wiring import Gateway

BROWSERS: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "brave-browser",
    "chrome",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
"""Programs that can show a page in a window without tabs and address bar (`--app`)."""

READ_S: Final = 60.0
"""Seconds until the file that leads a browser on is removed, if its window stays open."""
HANDED_OVER_S: Final = 10.0
"""Seconds that a browser that was already open has to read the file."""
PORT: Final = 7717

FORWARD: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>clew</title>
<meta http-equiv="refresh" content="0; url={link}">
<p>One moment. If nothing happens: <a href="{link}">open clew</a>.</p>
</html>
"""


@click.command("desktop")
@click.option(
    "--browser",
    metavar="PROGRAM",
    help="The browser: Chromium, Chrome, Edge or Brave. [default: the first one found]",
)
@local_command
def desktop_command(app: App, browser: str | None) -> None:
    """Open the dashboard in a window of its own, signed in.

    If no gateway runs here, it starts one, which ends with the window: after the turns that run
    then. One that runs already stays. Without a browser that can do this, your default browser is
    used.

    \b
    Examples:
      clew desktop
      clew desktop --browser google-chrome
    """
    from clew.gateway.running_gateway import find_running

    program = _find_browser(browser)
    if find_running(app.config.state_dir) is not None:
        app.wait(_show(app, program))
        return

    from clew.cli.gateway import serve
    from clew.gateway.server import Address

    async def attend(gateway: Gateway, url: str) -> None:
        await _attend(app, program, gateway, url)

    app.wait(serve(app, app.config, Address(host="127.0.0.1", port=_choose_port()), (), attend))


def _choose_port() -> int:
    """The usual port, so that the window finds its settings again; 0 (any) if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return PORT if probe.connect_ex(("127.0.0.1", PORT)) else 0


async def _show(app: App, program: str | None) -> None:
    """Open a window at the gateway that runs, and wait until it is closed."""
    from clew.cli.gateway import find_gateway, make_link

    gateway = find_gateway(app)
    link = gateway.url + (await make_link(gateway))["path"]
    if program is None:
        await open_browser(app, link)
        return
    app.note(f"clew's window is open, at {gateway.url}. The gateway stays when you close it.")
    await _run_window(app, program, link)


async def _attend(app: App, program: str | None, gateway: Gateway, url: str) -> None:
    """Open a window at the gateway of this process, and wait for its end and that of its turns."""
    link = f"{url}/#code={gateway.gate.make_code()}"
    if program is None:
        app.note(f"The gateway is at {url}. Ctrl+C stops it.")
        await open_browser(app, link)
        await asyncio.Event().wait()
        return
    app.note(f"clew's window is open. Its gateway, at {url}, ends when you close it.")
    if not await _run_window(app, program, link):
        app.note("The window belongs to a browser that was already open. Ctrl+C stops the gateway.")
        await asyncio.Event().wait()
    runtime = gateway.house.runtime
    if runtime.list_running():
        app.note("The window is closed; what runs is finished first. Ctrl+C ends it now.")
    while running := runtime.list_running():
        await asyncio.gather(*(runtime.join(session) for session in running))


async def _run_window(app: App, program: str, link: str) -> bool:
    """Run a browser that shows nothing but the page, in a profile of its own, until it ends.

    False if it handed the page over to a browser of this profile that was already open.
    """
    profile = app.config.state_dir / "desktop"
    make_directory(profile)
    was_open = _is_open(profile)
    with leading_to(app.config.state_dir, link) as file:
        arguments = [
            f"--app={file.as_uri()}",
            f"--user-data-dir={profile}",
            "--no-first-run",
            "--no-default-browser-check",
            "--class=clew",
        ]
        if sys.platform == "linux" and os.geteuid() == 0:
            arguments.append("--no-sandbox")  # as root it refuses to start otherwise
        process = await asyncio.create_subprocess_exec(
            program, *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
        if was_open:
            await process.wait()
            await asyncio.sleep(HANDED_OVER_S)
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_S):
                await process.wait()
    if await process.wait() != 0:
        raise ClewError(f"The browser ended with an error. Try it by hand: {program} --version")
    return True


def _is_open(profile: Path) -> bool:
    """Whether a browser runs with this profile: its lock is a link to `host-pid`."""
    try:
        pid = int((profile / "SingletonLock").readlink().name.rpartition("-")[2])
        os.kill(pid, 0)
    except (OSError, ValueError):
        return False
    return True


def _find_browser(named: str | None) -> str | None:
    if named is None:
        return next((found for each in BROWSERS if (found := shutil.which(each))), None)
    found = shutil.which(named)
    if found is None:
        raise click.UsageError(f"There is no program {named} here.")
    return found


# --- a browser that is signed in ----------------------------------------------------------------


@contextmanager
def leading_to(state_dir: Path, link: str) -> Iterator[Path]:
    """A page for the owner only that leads a browser to a link; removed after this block."""
    file = state_dir / f"open-{os.getpid()}.html"
    put_bytes(file, FORWARD.format(link=escape(link)).encode())
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


async def open_browser(app: App, link: str) -> None:
    """Open a link in the default browser; returns when the browser must have read it."""
    with leading_to(app.config.state_dir, link) as file:
        if webbrowser.open(file.as_uri()):
            await asyncio.sleep(READ_S)
            return
    app.note("No browser could be opened here: `clew gateway link` makes a link for one.")
