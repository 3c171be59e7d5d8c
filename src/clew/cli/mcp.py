"""`clew mcp`: an MCP server over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from clew.cli.app import App, gateway_options, pass_app
from clew.clock import host_clock
from clew.errors import InvalidInput


@click.command("mcp")
@click.option("--here", is_flag=True, help="Only sessions of this directory.")
@click.option("--write", is_flag=True, help="Let it add lines to the memory, too.")
@gateway_options
@pass_app
def mcp_command(app: App, here: bool, write: bool) -> None:
    """Let other agents look things up: an MCP server that lists, searches and reads sessions.

    It speaks MCP over standard input and output, and acts as the owner: the program that starts it
    reads everything. With --url it acts as the person of its token. It changes nothing; with
    --write it can add lines to the memory; `clew memory restore 2` takes the newest back.

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
    app.call(lambda client: serve_stdio(client, host_clock, cwd=cwd, write=write))
