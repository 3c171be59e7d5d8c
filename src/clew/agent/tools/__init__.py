"""The tools of the agent: files, shell, sessions, memory, notes, sub-agents and MCP servers.

`toolbox` is what the loop is given; it judges calls by `rules` and runs them. `tool` is what every
tool consists of, and each other module holds a few tools. Nothing here knows a model.
"""

from __future__ import annotations

from clew.agent.tools.mcp import MCPServer
from clew.agent.tools.tool import Arguments, Job, Policy, Tool, ToolFailure
from clew.agent.tools.toolbox import TOOLS, USUAL, Tools

__all__ = [
    "TOOLS",
    "USUAL",
    "Arguments",
    "Job",
    "MCPServer",
    "Policy",
    "Tool",
    "ToolFailure",
    "Tools",
]
