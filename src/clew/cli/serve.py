"""`clew serve`: the gateway as a process, from its first word to its last."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.app import App, json_option, only_here, pass_app

if TYPE_CHECKING:
    from clew.gateway.server import Address
    from clew.wiring import Gateway

NAMELESS = (
    "It answers to no name of its own yet: say --allow-host NAME for the one that others use."
)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=7717,
    show_default=True,
    help="The port; 0 takes any that is free.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Speak TLS with this certificate.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="The certificate's key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it speaks TLS.")
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Answer to this name too. May be given several times.",
)
@only_here
@json_option
@pass_app
def serve_command(  # noqa: PLR0917  # click names them all
    app: App,
    host: str,
    port: int,
    opens: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    hosts: tuple[str, ...],
) -> None:
    """Run a gateway: one process that owns the sessions, for programs and for your browser.

    It asks everybody for a token; the link that it prints signs your browser in, once. Ctrl+C stops
    it: turns that run get ten seconds to finish, and nothing that was accepted is lost.

    \b
    Examples:
      clew serve
      clew serve --port 8080 --open
      clew serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allow-host clew.lan
      clew serve --behind-proxy --allow-host clew.example.org
    """
    from clew.gateway.server import Address

    address = Address(host=host, port=port, cert=tls_cert, key=tls_key, behind_proxy=behind_proxy)
    address.check()
    app.wait(_serve(app, address, hosts, opens=opens))


async def _serve(app: App, address: Address, hosts: tuple[str, ...], *, opens: bool) -> None:
    from clew.gateway.auth import Setup
    from clew.gateway.owner_token import ensure_own_token
    from clew.gateway.running_gateway import Running, claim, digest_url, instance_of, tell
    from clew.gateway.server import GRACE, listen, own_hosts, serving, wind_down
    from clew.wiring import open_gateway

    state_dir = app.config.state_dir
    setup = Setup(
        instance=instance_of(state_dir),
        hosts=own_hosts(address, hosts),
        tls=address.tls,
        behind_proxy=address.behind_proxy,
    )
    with claim(state_dir) as facts, listen(address) as listener, _signals() as (stop, hurry):
        opening = open_gateway(app.config, setup, tell=app.note, report=app.report_update)
        async with opening as gateway, _warming(gateway):
            token_file = await ensure_own_token(state_dir, gateway.house.runtime.store, app.now)
            async with serving(gateway.app, gateway.gate, address, listener, hurry=hurry) as url:
                public = url
                if address.is_public and hosts:
                    public = address.public_url(listener.getsockname()[1], hosts[0])
                # A certificate is good for its names, also for who is on this machine.
                near = public if address.tls else url
                store = digest_url(app.config.store.url)
                tell(facts, Running(near, os.getpid(), setup.instance, store, app.now))
                _announce(app, gateway, public, token_file, opens=opens)
                if address.is_public and not hosts:
                    app.note(NAMELESS)
                await stop.wait()
                app.note("Stopping: turns that run may finish. Ctrl+C again ends them now.")
                await gateway.errands.stop_listening()
                end = time.monotonic() + GRACE
            await wind_down(gateway.house.runtime, max(0.0, end - time.monotonic()), hurry)
    app.note("Stopped.")


@asynccontextmanager
async def _warming(gateway: Gateway) -> AsyncIterator[None]:
    """Load the agent's library and its model before anybody asks."""
    warming = asyncio.create_task(gateway.house.runtime.agent.warm())
    try:
        yield
    finally:
        warming.cancel()
        await asyncio.wait({warming})


def _announce(app: App, gateway: Gateway, url: str, token_file: Path, *, opens: bool) -> None:
    link = f"{url}/#code={gateway.gate.make_code()}"
    if app.json:
        app.emit({"url": url, "link": link, "token_file": str(token_file)})
    else:
        app.say(f"The gateway is at {url}")
        app.say(f"  Your browser, once and within 15 minutes: {link}")
        app.say(f"  Your programs: the token in {token_file}, or `clew token create`.")
        app.say("  Ctrl+C stops it.")
    sys.stdout.flush()
    if opens:
        import webbrowser

        if not webbrowser.open(link):
            app.note("No browser could be opened here: open the link yourself.")


@contextmanager
def _signals() -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """The first one asks to stop, the second one is in a hurry."""
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def come() -> None:
        (hurry if stop.is_set() else stop).set()

    caught = (signal.SIGINT, signal.SIGTERM)
    for each in caught:
        try:
            loop.add_signal_handler(each, come)
        except NotImplementedError:  # pragma: no cover  # Windows: written for, not tested here
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(come))
    try:
        yield stop, hurry
    finally:
        for each in caught:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(each)
