"""A small real MCP server on stdio, started by the tests."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.types import Image

server = MCPServer("test")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"{a + b}"


@server.tool()
def environment() -> str:
    """Names of the environment."""
    return " ".join(sorted(os.environ))


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ToolError("the cat is on the roof")


@server.tool()
def hang() -> str:
    """Never answers."""
    Path(os.environ["PID_FILE"] + ".hanging").write_text("now")
    time.sleep(60)
    return "late"


@server.tool()
def picture() -> Image:
    """An image."""
    return Image(data=b"\x89PNG\r\n\x1a\n", format="png")


if __name__ == "__main__":
    Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
    if sys.argv[1:]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
