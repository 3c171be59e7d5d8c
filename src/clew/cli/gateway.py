"""`clew serve` runs a gateway; `clew gateway` and `clew node` call one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew.cli.app import App, client_command, gateway_options, json_option, local_command, pass_app
from clew.cli.app import Gateway as Address
from clew.core.names import counted

if TYPE_CHECKING:
    from clew.api.gateway import ConfigReloaded
    from clew.config import Config
    from clew.core.turn import Turn
    from clew.gateway.server import Address as ListenAddress
    from clew.wiring import Gateway

NAMELESS = "No host name is allowed yet: add --allow-host NAME for the one that others use."
LOOK_S = 0.2
WATCH_S = 1.0
"""Seconds between two looks at a config file that is watched."""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=7717,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The directory that the agent works in. [default: gateway.workspace, or one beside the "
    "store]",
)
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Use TLS, with this certificate.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="The certificate's key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it does TLS.")
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Answer to this name too. May be given several times.",
)
@local_command
def serve_command(  # noqa: PLR0917  # click passes them all
    app: App,
    host: str,
    port: int,
    workspace: Path | None,
    opens: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    hosts: tuple[str, ...],
) -> None:
    """Run a gateway: one process that owns the sessions, for programs and for your browser.

    Every caller needs a token; the link that it prints signs your browser in, once. Ctrl+C stops
    it: running turns get ten seconds to finish, and nothing that was accepted is lost.

    Sessions of channels, webhooks and jobs work on the files of one directory, the workspace. It is
    never the one that you happen to be in, unless you name it.

    \b
    Examples:
      clew serve
      clew serve --workspace .
      clew serve --port 8080 --open
      clew serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allow-host clew.lan
      clew serve --behind-proxy --allow-host clew.example.org
    """
    from clew.gateway.server import Address as ListenAddress

    address = ListenAddress(
        host=host, port=port, cert=tls_cert, key=tls_key, behind_proxy=behind_proxy
    )
    address.check()
    config = app.config
    if workspace is not None:
        named = msgspec.structs.replace(config.gateway, workspace=str(workspace.resolve()))
        config = msgspec.structs.replace(config, gateway=named)

    async def attend(gateway: Gateway, url: str) -> None:
        await _announce(app, gateway, url, opens=opens)

    app.wait(serve(app, config, address, hosts, attend))


async def serve(
    app: App,
    config: Config,
    address: ListenAddress,
    hosts: tuple[str, ...],
    attend: Callable[[Gateway, str], Coroutine[Any, Any, None]],
) -> None:
    """Run a gateway until a signal comes, or `attend` returns.

    `attend` gets the gateway and its address as soon as it answers.
    """
    from clew.gateway.auth import Setup
    from clew.gateway.owner_token import ensure_own_token
    from clew.gateway.running_gateway import Running, claim, digest_url, instance_of, tell
    from clew.gateway.server import GRACE, listen, own_hosts, serving, wind_down
    from clew.wiring import open_gateway

    # Else each step of a short call waits 5 ms for a thread that reads for a long one.
    sys.setswitchinterval(0.0005)
    state_dir = app.config.state_dir
    setup = Setup(
        instance=instance_of(state_dir),
        hosts=own_hosts(address, hosts),
        tls=address.tls,
        behind_proxy=address.behind_proxy,
    )
    with claim(state_dir) as facts, listen(address) as listener, _signals() as (stop, hurry):
        opening = open_gateway(
            config,
            setup,
            tell=app.note,
            report=app.report_update,
            read_config=partial(_read_again, app, config),
        )
        async with opening as gateway, _warming(gateway), _reloading(app, gateway, stop):
            await ensure_own_token(state_dir, gateway.house.runtime.store, app.now)
            async with serving(gateway.app, gateway.gate, address, listener, hurry=hurry) as url:
                public = url
                if address.is_public and hosts:
                    public = address.public_url(listener.getsockname()[1], hosts[0])
                # A certificate is valid for its names only: local callers use them too.
                near = public if address.tls else url
                store = digest_url(app.config.store.url)
                tell(facts, Running(near, os.getpid(), setup.instance, store, app.now))
                if address.is_public and not hosts:
                    app.note(NAMELESS)
                runtime = gateway.house.runtime
                await _wait_for_first(attend(gateway, public), stop.wait(), runtime.draining.wait())
                if runtime.draining.is_set() and not stop.is_set():
                    app.note("Draining: running turns are finished first. Ctrl+C ends them now.")
                    await gateway.errands.stop_listening()
                    await wind_down(runtime, None, stop)
                app.note("Stopping: running turns may finish. Ctrl+C again ends them now.")
                await gateway.errands.stop_listening()
                end = time.monotonic() + GRACE
            await wind_down(gateway.house.runtime, max(0.0, end - time.monotonic()), hurry)
    app.note("Stopped.")


@asynccontextmanager
async def _warming(gateway: Gateway) -> AsyncIterator[None]:
    """Load the agent's library and its model before the first message."""
    warming = asyncio.create_task(_warm(gateway))
    try:
        yield
    finally:
        warming.cancel()
        await asyncio.wait({warming})


def _read_again(app: App, begun: Config) -> Config:
    """Read the configuration anew; a workspace that was given with --workspace stays."""
    found = app.read_config()
    if begun.gateway.workspace == app.config.gateway.workspace:
        return found
    named = msgspec.structs.replace(found.gateway, workspace=begun.gateway.workspace)
    return msgspec.structs.replace(found, gateway=named)


@asynccontextmanager
async def _reloading(app: App, gateway: Gateway, stop: asyncio.Event) -> AsyncIterator[None]:
    """Reload the configuration on SIGHUP, and when its file changes if it says `watch`.

    If the terminal of the gateway was closed, SIGHUP stops it instead.
    """
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    had_terminal = sys.stderr.isatty()

    def handle() -> None:
        (stop if had_terminal and not sys.stderr.isatty() else asked).set()

    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, handle)
    tasks = {asyncio.create_task(_reload_when(app, gateway, asked))}
    if gateway.house.config.gateway.watch:
        tasks.add(asyncio.create_task(_watch_config(gateway, asked)))
    try:
        yield
    finally:
        if hasattr(signal, "SIGHUP"):
            loop.remove_signal_handler(signal.SIGHUP)
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)


async def _reload_when(app: App, gateway: Gateway, asked: asyncio.Event) -> None:
    from clew.errors import ClewError

    reloader = gateway.house.reloader
    while reloader is not None:
        await asked.wait()
        asked.clear()
        try:
            app.note(_word_reload(await reloader.reload()))
        except ClewError as error:
            app.note(str(error))


async def _watch_config(gateway: Gateway, asked: asyncio.Event) -> None:
    reloader = gateway.house.reloader
    seen = None if reloader is None else await asyncio.to_thread(reloader.look)
    while reloader is not None:
        await asyncio.sleep(WATCH_S)
        now = await asyncio.to_thread(reloader.look)
        if now != seen:
            asked.set()
        seen = now


def _word_reload(found: ConfigReloaded) -> str:
    """What a reload did, in words."""
    if not (found.used or found.waiting):
        return "The configuration is as it was."
    used = f"Reloaded: {', '.join(found.used)}." if found.used else "Nothing was reloaded."
    if not found.waiting:
        return used
    return f"{used} These need a restart of the gateway: {', '.join(found.waiting)}."


async def _warm(gateway: Gateway) -> None:
    await gateway.house.runtime.agent.warm()
    # What is loaded now stays. A garbage collection over it would keep all calls waiting.
    gc.freeze()


async def _wait_for_first(*works: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of them is done, and cancel the others; raises what that one raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


async def _announce(app: App, gateway: Gateway, url: str, *, opens: bool) -> None:
    """Say where the gateway is. A sign-in code goes to a terminal or a browser, into no log."""
    from clew.cli.desktop import open_browser
    from clew.gateway.owner_token import TOKEN

    token_file = app.config.state_dir / TOKEN
    link = f"{url}/#code={gateway.gate.make_code()}" if app.is_terminal or opens else None
    shown = link if app.is_terminal else None
    if app.json:
        app.emit({
            "url": url, "link": shown, "token_file": str(token_file),
            "workspace": str(gateway.workspace),
        })  # fmt: skip
    else:
        app.say(f"The gateway is at {url}")
        app.say(
            "  Your browser: `clew gateway link` in a terminal makes a link that signs it in."
            if shown is None
            else f"  Your browser, once and within 15 minutes: {shown}"
        )
        app.say(f"  Your programs: the token in {token_file}, or `clew token create`.")
        app.say(f"  The agent works in {gateway.workspace}")
        app.say("  Ctrl+C stops it.")
    sys.stdout.flush()
    if opens and link is not None:
        await open_browser(app, link)
    await asyncio.Event().wait()


@contextmanager
def _signals() -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Two events: the first SIGINT or SIGTERM sets `stop`, the second one `hurry`."""
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def handle() -> None:
        (hurry if stop.is_set() else stop).set()

    caught = (signal.SIGINT, signal.SIGTERM)
    for each in caught:
        try:
            loop.add_signal_handler(each, handle)
        except NotImplementedError:  # pragma: no cover  # Windows: written for, not tested here
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(handle))
    try:
        yield stop, hurry
    finally:
        for each in caught:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(each)


# --- clew gateway, clew node --------------------------------------------------------------------


@click.group("gateway")
def gateway_group() -> None:
    """Call operations of a running gateway. `clew serve` starts one."""


@gateway_group.command("call")
@click.argument("method")
@click.option("--params", default="{}", metavar="JSON", help="The parameters, as a JSON object.")
@client_command
def gateway_call(app: App, method: str, params: str) -> None:
    """Call an operation, and print its answer as JSON.

    METHOD is a name from the API reference: sessions.list, sessions.get, chat.send, memory.get,
    status and so on. Without --url, clew calls the gateway that runs for this data directory, with
    your own token.

    \b
    Examples:
      clew gateway call status
      clew gateway call sessions.list --params '{"limit": 5}'
      clew gateway call status --url https://clew.example.org --token env:CLEW_WORK
    """
    from clew.api.operation import read_params
    from clew.api.table import get_operation

    given = _read_params(params)
    read_params(get_operation(method), given)
    if given.get("stream"):
        raise click.UsageError("This command prints one answer, not a stream: leave `stream` out.")
    gateway = app.gateway or find_gateway(app)
    app.emit(app.wait(_call(gateway, method, given)))


async def _call(gateway: Address, method: str, params: dict[str, Any]) -> Any:
    from clew.client.client import Client

    async with Client(gateway.url, gateway.token) as client:
        return await client.call(method, params)


@gateway_group.command("drain")
@click.option("--no-wait", is_flag=True, help="Return at once.")
@client_command
def gateway_drain(app: App, no_wait: bool) -> None:
    """End the gateway without cutting off a turn.

    It takes no new messages and stops listening to its channels; turns that run are finished, and
    messages that wait stay in the inbox for the next gateway. Then it ends.

    \b
    Examples:
      clew gateway drain && pipx upgrade clew && clew service start
      clew gateway drain --no-wait
    """
    gateway = app.gateway or find_gateway(app)
    running = app.wait(_drain(app, gateway, waits=not no_wait))
    app.answer(
        {"running": running, "ended": not no_wait},
        "The gateway has ended." if not no_wait else "The gateway ends when its turns are done.",
    )


async def _drain(app: App, gateway: Address, *, waits: bool) -> tuple[str, ...]:
    from clew.client.client import Client
    from clew.errors import GatewayUnavailable

    async with Client(gateway.url, gateway.token) as client:
        running = (await client.drain()).running
        if running and waits:
            app.note(f"Waiting for {counted(len(running), 'turn')} to end.")
        with contextlib.suppress(GatewayUnavailable):
            while waits:
                await client.status()
                await asyncio.sleep(LOOK_S)
    return running


@gateway_group.command("reload")
@client_command
def gateway_reload(app: App) -> None:
    """Let the gateway read its configuration anew, as SIGHUP does.

    It is checked as a whole first: if anything is wrong, you are told what, and the old one stays.
    Models, providers, owners, guests, agents, bindings, rules for tools and the rules of [session]
    for channels are used at once; what needs a restart is named.

    \b
    Examples:
      clew gateway reload
    """
    gateway = app.gateway or find_gateway(app)
    found = app.wait(_reload(gateway))
    app.answer(msgspec.to_builtins(found), _word_reload(found))


async def _reload(gateway: Address) -> ConfigReloaded:
    from clew.client.client import Client

    async with Client(gateway.url, gateway.token) as client:
        return await client.reload()


@gateway_group.command("link")
@json_option
@pass_app
def gateway_link(app: App) -> None:
    """Make a link that signs a browser in. It works once, within 15 minutes.

    \b
    Examples:
      clew gateway link
    """
    gateway = find_gateway(app)
    if not app.is_terminal:
        raise click.UsageError(
            "Whoever reads the link can sign in as you, so it is printed to a terminal only, never "
            "into a file or a log. A program asks the gateway itself: POST /v1/links."
        )
    made = app.wait(make_link(gateway))
    app.answer(made | {"url": gateway.url}, f"{gateway.url}{made['path']}")


def _read_params(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"--params is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise click.UsageError("--params must be a JSON object, like '{\"limit\": 5}'.")
    return value


def find_gateway(app: App) -> Address:
    """The gateway of this data directory, with the owner's token for it."""
    from clew.errors import GatewayUnavailable
    from clew.gateway.owner_token import find_own_token
    from clew.gateway.running_gateway import find_running

    running = find_running(app.config.state_dir)
    if running is None:
        raise GatewayUnavailable(
            "No gateway runs for this data directory. Start one with `clew serve`, or name one "
            "with --url."
        )
    return Address(running.url, find_own_token(app.config.state_dir))


async def make_link(gateway: Address) -> dict[str, Any]:
    """Make a sign-in link. It is not an operation of the API: only a browser can use it."""
    import httpx

    from clew.client.http import check_private, read_problem, unreachable

    check_private(gateway.url)
    headers = {"Authorization": f"Bearer {gateway.token}"}
    try:
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers) as client:
            response = await client.post("/v1/links", json={})
    except (httpx.HTTPError, UnicodeError) as error:
        raise unreachable(gateway.url, error) from error
    if not response.is_success:
        raise read_problem(response.status_code, response.content)
    made: dict[str, Any] = msgspec.json.decode(response.content)
    return made


@click.group("node")
def node_group() -> None:
    """Call a gateway from another machine, in a session that belongs to that machine."""


@node_group.command("run")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@gateway_options
@click.option("--name", metavar="NAME", help="The name of this machine. [default: its host name]")
@click.option("--agent", metavar="ID", default="main", help="Which agent answers.")
@json_option
@pass_app
def node_run(app: App, words: tuple[str, ...], name: str | None, agent: str) -> None:
    """Say something to the gateway as this machine, and print the answer.

    What is piped in comes after it. All messages of one machine are in one session there, with the
    key agent:<agent>:node-<name>.

    \b
    Examples:
      df -h | clew node run --url https://clew.example.org "Is any disk nearly full?"
      clew node run --url https://clew.example.org --name backup "The backup is done."
    """
    from clew.cli.conversation import read_words, run_talk

    if app.gateway is None:
        raise click.UsageError("Which gateway? Name it with --url, or in CLEW_URL.")
    text = read_words(words, "There is nothing to say: give it as words, or pipe it in.")
    run_talk(app, _talk(app, text, _node_key(name, agent)))


def _node_key(name: str | None, agent: str) -> str:
    import platform

    from clew.core.channels.routing import normalise_agent
    from clew.core.keys import ChannelKey, format_key, normalise_word

    node = normalise_word(platform.node() if name is None else name)
    if not node:
        raise click.UsageError(
            "A machine needs a name with letters or digits: give one with --name."
        )
    return format_key(ChannelKey(normalise_agent(agent), "node", node))


async def _talk(app: App, text: str, key: str) -> int:
    from clew.cli.conversation import answer_turn
    from clew.core.live_events import Committed, TurnEnded

    answer: str | None = None
    turn: Turn | None = None
    async with app.open_client() as client:
        async for frame in client.chat.send(text, key=key):
            if isinstance(frame.event, Committed) and frame.event.message.role == "assistant":
                answer = frame.event.message.content or answer
            elif isinstance(frame.event, TurnEnded):
                turn = frame.event.turn
    if turn is None:
        app.note(
            "The gateway closed the connection before the answer came. The turn goes on there."
        )
        return 1
    return answer_turn(app, turn, answer, key=key)
