"""`clew gateway`: ask a gateway that runs, by the names of its operations."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from clew.cli.app import App, json_option, pass_app

URL = click.option("--url", metavar="URL", help="Its address; the one that runs here if left out.")
TOKEN = click.option("--token", metavar="TOKEN", help="A token of it; your own one if left out.")


@click.group("gateway")
def gateway_group() -> None:
    """Ask a gateway that runs. `clew serve` starts one."""


@gateway_group.command("call")
@click.argument("method")
@click.option("--params", default="{}", metavar="JSON", help="The parameters, as a JSON object.")
@URL
@TOKEN
@json_option
@pass_app
def gateway_call(app: App, method: str, params: str, url: str | None, token: str | None) -> None:
    """Do an operation, and print what it answers as JSON.

    METHOD is a name of the API reference: sessions.list, sessions.get, chat.send, memory.get,
    status and so on. Errors have the gateway's own words.

    \b
    Examples:
      clew gateway call status
      clew gateway call sessions.list --params '{"limit": 5}'
      clew gateway call status --url https://clew.example.org --token "$TOKEN"
    """
    from clew.api.operation import read_params
    from clew.api.table import get_operation

    given = _read_params(params)
    read_params(get_operation(method), given)
    if given.get("stream"):
        raise click.UsageError("A stream is nothing for one answer: leave `stream` out.")
    app.emit(app.wait(_post(app, "/v1/rpc", {"method": method, "params": given}, url, token)))


@gateway_group.command("link")
@json_option
@pass_app
def gateway_link(app: App) -> None:
    """Make a link that signs a browser in: once, and within 15 minutes.

    \b
    Examples:
      clew gateway link
    """
    made = app.wait(_post(app, "/v1/links", {}, None, None))
    url = _find(app)[0]
    app.answer(made | {"url": url}, f"{url}{made['path']}")


def _read_params(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"--params is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise click.UsageError("--params has to be a JSON object, like '{\"limit\": 5}'.")
    return value


def _find(app: App) -> tuple[str, str | None]:
    """The gateway of this data directory, and the owner's token for it."""
    from clew.errors import GatewayUnavailable
    from clew.gateway.presence import find_own_token, find_running

    running = find_running(app.config.state_dir)
    if running is None:
        raise GatewayUnavailable(
            "No gateway runs for this data directory. Start one with `clew serve`, or name one "
            "with --url."
        )
    return running.url, find_own_token(app.config.state_dir)


async def _post(app: App, path: str, body: Any, url: str | None, token: str | None) -> Any:
    import httpx

    from clew.client.http import check_url, read_problem, unreachable

    own_token = None
    if url is None:
        url, own_token = _find(app)
    url = check_url(url)
    chosen = token or own_token
    headers = {} if chosen is None else {"Authorization": f"Bearer {chosen}"}
    try:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60.0) as client:
            response = await client.post(path, json=body)
    except (httpx.HTTPError, UnicodeError) as error:
        raise unreachable(url, error) from error
    if not response.is_success:
        raise read_problem(response.status_code, response.content)
    return msgspec.json.decode(response.content)
