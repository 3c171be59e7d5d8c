"""`clew mcp`: an MCP server over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from clew.cli.app import App, gateway_options, pass_app
from clew.errors import InvalidInput


@click.command("mcp")
@click.option("--here", is_flag=True, help="Only sessions of this directory.")
@gateway_options
@pass_app
def mcp_command(app: App, here: bool) -> None:
    """Let other agents look things up: an MCP server that lists, searches and reads sessions.

    It speaks MCP over standard input and output, and acts as the owner: the program that starts it
    reads everything. With --url it acts as the person of its token. It changes nothing.

    \b
    Examples:
      claude mcp add clew -- clew mcp
      clew mcp --here
    """
    try:
        from clew.adapters.mcp_server import serve_stdio
    except ModuleNotFoundError as error:
        raise InvalidInput("`clew mcp` needs an extra: pip install 'clew[mcp]'.") from error
    cwd = str(Path.cwd()) if here else None
    app.call(lambda client: serve_stdio(client, cwd=cwd))
