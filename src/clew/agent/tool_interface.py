"""What the agent's loop and the tools agree on. The loop knows no tool; a tool knows no model."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from clew.core.changes import Change
from clew.core.message import ToolCall
from clew.core.models import ModelInfo, Personality
from clew.ports import LiveTurn


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model sees it. `parallel`: it may run beside others of the same answer."""

    name: str
    description: str
    schema: dict[str, Any]
    parallel: bool = False


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call: text for the model, and parts such as images (by blob).

    `changes` are recorded in the same commit.
    """

    content: str
    is_error: bool = False
    parts: tuple[dict[str, Any], ...] = ()
    changes: tuple[Change, ...] = ()


class Toolbox(Protocol):
    """The tools of one agent."""

    async def list_tools(
        self, turn: LiveTurn, personality: Personality, model: ModelInfo
    ) -> tuple[ToolSpec, ...]:
        """The tools offered to this turn's model: by personality, mode, person and model."""
        ...

    async def run(self, call: ToolCall, turn: LiveTurn, personality: Personality) -> ToolOutcome:
        """Check the arguments and the policy, ask if need be, and run.

        Whatever goes wrong with the call is an outcome with `is_error`; only the end of the turn
        itself (cancelled, fenced off, disk full) is raised.
        """
        ...
