"""The tools of the agent: files, shell, sessions, memory, notes, sub-agents and MCP servers.

`Tools` is the toolbox that the loop is given. Nothing here knows a model.
"""

from __future__ import annotations

from clew.agent.tools.box import TOOLS, USUAL, Tools
from clew.agent.tools.kit import Policy
from clew.agent.tools.mcp import MCPServer

__all__ = ["TOOLS", "USUAL", "MCPServer", "Policy", "Tools"]
