"""`clew gateway`: call operations of a running gateway by their names, or get a link to it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from clew.cli.app import App, Gateway, gateway_options, json_option, pass_app


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
        raise click.UsageError("A stream is nothing for one answer: leave `stream` out.")
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
