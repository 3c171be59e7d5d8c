"""`clew gateway` calls operations of a running gateway; `clew node` talks to one as a machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew.cli.app import App, Gateway, gateway_options, json_option, pass_app

if TYPE_CHECKING:
    from clew.core.turn import Turn


@click.group("gateway")
def gateway_group() -> None:
    """Call operations of a running gateway. `clew serve` starts one."""


@gateway_group.command("call")
@click.argument("method")
@click.option("--params", default="{}", metavar="JSON", help="The parameters, as a JSON object.")
@gateway_options
@json_option
@pass_app
def gateway_call(app: App, method: str, params: str) -> None:
    """Call an operation, and print its answer as JSON.

    METHOD is a name of the API reference: sessions.list, sessions.get, chat.send, memory.get,
    status and so on. Without --url it is the gateway that runs for this data directory, with your
    own token for it.

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
        raise click.UsageError("This prints one answer, and no stream: leave `stream` out.")
    gateway = app.gateway or _find_running(app)
    app.emit(app.wait(_call(gateway, method, given)))


async def _call(gateway: Gateway, method: str, params: dict[str, Any]) -> Any:
    from clew.client.client import Client

    async with Client(gateway.url, gateway.token) as client:
        return await client.call(method, params)


@gateway_group.command("link")
@json_option
@pass_app
def gateway_link(app: App) -> None:
    """Make a link that signs a browser in: once, and within 15 minutes.

    \b
    Examples:
      clew gateway link
    """
    gateway = _find_running(app)
    made = app.wait(_make_link(gateway))
    app.answer(made | {"url": gateway.url}, f"{gateway.url}{made['path']}")


def _read_params(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"--params is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise click.UsageError("--params has to be a JSON object, like '{\"limit\": 5}'.")
    return value


def _find_running(app: App) -> Gateway:
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
    return Gateway(running.url, find_own_token(app.config.state_dir))


async def _make_link(gateway: Gateway) -> dict[str, Any]:
    """A link to sign in with: it is no operation, for only a browser can use it."""
    import httpx

    from clew.client.http import read_problem, unreachable

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
    """Call a gateway from another machine, which has a session of its own there."""


@node_group.command("run")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@gateway_options
@click.option("--name", metavar="NAME", help="What this machine is called; its host name usually.")
@click.option("--agent", metavar="ID", default="main", help="Which agent answers.")
@json_option
@pass_app
def node_run(app: App, words: tuple[str, ...], name: str | None, agent: str) -> None:
    """Say something to the gateway as this machine, and print the answer.

    What is piped in comes behind it. All that one machine says is one session there, under the key
    agent:<agent>:node-<name>.

    \b
    Examples:
      df -h | clew node run --url https://clew.example.org "Is any disk nearly full?"
      clew node run --url https://clew.example.org --name backup "The backup is done."
    """
    from clew.cli.conversation import run_talk

    if app.gateway is None:
        raise click.UsageError("Which gateway? Name it with --url, or in CLEW_URL.")
    parts = [" ".join(words).strip()]
    if not sys.stdin.isatty():
        parts.append(sys.stdin.buffer.read().decode(errors="replace").strip())
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise click.UsageError("Say something: give it as words, or pipe it in.")
    run_talk(app, _talk(app, text, _node_key(name, agent)))


def _node_key(name: str | None, agent: str) -> str:
    import platform

    from clew.core.channels.routing import normalise_agent
    from clew.core.keys import ChannelKey, format_key, normalise_word

    node = normalise_word(platform.node() if name is None else name)
    if not node:
        raise click.UsageError("A machine needs a name of letters and digits: say --name.")
    return format_key(ChannelKey(normalise_agent(agent), "node", node))


async def _talk(app: App, text: str, key: str) -> int:
    from clew.core.live_events import Committed, TurnEnded
    from clew.core.text import strip_controls

    answer: str | None = None
    turn: Turn | None = None
    async with app.open_client() as client:
        async for frame in client.chat.send(text, key=key):
            if isinstance(frame.event, Committed) and frame.event.message.role == "assistant":
                answer = frame.event.message.content or answer
            elif isinstance(frame.event, TurnEnded):
                turn = frame.event.turn
    if turn is None:
        app.note("The gateway ended the connection before the answer was there. The turn goes on.")
        return 1
    if app.json:
        value = {"session_id": turn.session_id, "turn_id": turn.id, "status": turn.status}
        app.emit(value | {"key": key, "answer": answer, "error": turn.error})
    elif turn.status == "done":
        app.say(strip_controls(answer or ""))
    else:
        app.note(f"The turn is {turn.status}: {turn.error or 'no reason is known'}.")
    return 0 if turn.status == "done" else 1
