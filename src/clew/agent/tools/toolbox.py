"""The toolbox: which tools a turn is offered, and the one way to run a call.

It checks what is offered, the arguments and the policy, and turns every error of a call into a
message for the model. It knows no model and no loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from clew.agent.tool_interface import ToolOutcome, ToolSpec
from clew.agent.tools import files, notes, search, sessions, shell
from clew.agent.tools.mcp import MCPConnection, MCPServer
from clew.agent.tools.output import finish
from clew.agent.tools.tool import (
    Job,
    Policy,
    Tool,
    ToolFailure,
    TurnNotes,
    is_owner,
    read_arguments,
)
from clew.core.live_events import Notice
from clew.core.message import ToolCall
from clew.core.models import AgentPersonality, ModelInfo, Personality
from clew.core.tool_rules import NOTES, READING, parse_rule
from clew.errors import ClewError, StaleLease, StoreUnusable
from clew.ports import LiveTurn, Memory, Store

_MODULES = (files, search, shell, sessions, notes)
TOOLS: dict[str, Tool] = {tool.name: tool for module in _MODULES for tool in module.TOOLS}
"""Every tool of clew itself, by name, in the order in which they are offered."""

USUAL = "usual"
"""In a personality's list of tools: all that are not special."""

_REMEMBERED_TURNS = 256

log = logging.getLogger(__name__)


class Tools:
    """The `Toolbox` of an agent. Close it with `aclose` when no turn runs any more."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        policy: Policy | None = None,
        *,
        servers: Iterable[MCPServer] = (),
        plugins: Iterable[Tool] = (),
    ) -> None:
        """`plugins` are tools of other packages: for the owner, and each call is asked about."""
        self._plugins = {each.name: each for each in plugins}
        self._store = store
        self._memory = memory
        self._policy = policy or Policy()
        for rule in (*self._policy.allow, *self._policy.deny):
            parse_rule(rule)
        environment = self._policy.environment
        self._servers = [MCPConnection(server, environment) for server in servers]
        self._always: set[str] = set()
        self._turns: OrderedDict[str, TurnNotes] = OrderedDict()

    def change(self, policy: Policy) -> None:
        """Use other rules from now on, also for the next calls of turns that run."""
        for rule in (*policy.allow, *policy.deny):
            parse_rule(rule)
        self._policy = policy

    async def list_tools(
        self, turn: LiveTurn, personality: Personality, model: ModelInfo
    ) -> tuple[ToolSpec, ...]:
        """The tools for the next request of this turn.

        Ask again after every tool that ran: an approved plan brings the other tools back.
        """
        if not model.tools:
            return ()
        self._notes(turn).images = model.images
        specs = [tool.spec for tool in self._list_own(turn, personality)]
        if self._may_reach_servers(turn):
            for spec in await self._list_foreign(turn):
                if _is_named(spec.name, personality, special=False):
                    specs.append(spec)  # noqa: PERF401  # reads better so
        return tuple(specs)

    async def run(self, call: ToolCall, turn: LiveTurn, personality: Personality) -> ToolOutcome:
        """Run a call; see `Toolbox.run`."""
        job = Job(
            call=call, turn=turn, personality=personality, policy=self._policy, store=self._store,
            memory=self._memory, notes=self._notes(turn), always=self._always,
        )  # fmt: skip
        try:
            outcome = await self._run(job)
        except ToolFailure as failure:
            outcome = ToolOutcome(content=str(failure), is_error=True)
        except (StaleLease, StoreUnusable):
            raise
        except ClewError as error:
            outcome = ToolOutcome(content=str(error), is_error=True)
        except Exception as error:  # a border: a tool must not break the turn
            log.exception("The tool %s failed", call.name)
            outcome = ToolOutcome(content=f"{call.name} failed: {error}.", is_error=True)
        return await finish(outcome, job)

    async def aclose(self) -> None:
        """Stop the MCP servers."""
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _run(self, job: Job) -> ToolOutcome:
        name = job.call.name
        offered = {tool.name: tool for tool in self._list_own(job.turn, job.personality)}
        tool = offered.get(name)
        if name in self._plugins and tool is not None:
            return await _run_plugin(job, tool)
        if tool is not None:
            result = await tool.function(job, read_arguments(tool, job.call.arguments))
            return ToolOutcome(content=result) if isinstance(result, str) else result
        if self._may_reach_servers(job.turn) and _is_named(name, job.personality, special=False):
            server = await self._find_server(name)
            if server is not None:
                return await server.call(job)
        if name in TOOLS and job.mode == "plan":
            raise ToolFailure(f"{name} is not available in plan mode, which changes nothing.")
        raise ToolFailure(f"There is no tool {name!r} here. There are: {', '.join(offered)}.")

    def _list_own(self, turn: LiveTurn, personality: Personality) -> list[Tool]:
        mode = self._notes(turn).mode or turn.session.mode
        owner = is_owner(turn)
        has_files = self._policy.find_doubt(turn.session.cwd, turn.session.project) is None
        tools = []
        for tool in (*TOOLS.values(), *self._plugins.values()):
            if tool.name == "propose_plan":
                wanted = mode == "plan" and owner
            else:
                wanted = _is_named(tool.name, personality, special=tool.special)
            if not wanted or (mode == "plan" and tool.name not in READING | NOTES):
                continue
            if tool.name == "spawn" and turn.session.kind == "subagent":
                continue  # one level of sub-agents is enough
            if tool.files and not has_files:
                continue
            if tool.name == "memory_write" and not turn.writes_memory:
                continue
            if owner or self._may_guest(tool):
                tools.append(tool)
        return tools

    def _may_guest(self, tool: Tool) -> bool:
        if tool.name == "memory_read":
            return self._policy.memory_guests == "read"
        return not tool.machine and tool.name not in {"memory_write", *self._plugins}

    def _may_reach_servers(self, turn: LiveTurn) -> bool:
        mode = self._notes(turn).mode or turn.session.mode
        return bool(self._servers) and is_owner(turn) and mode != "plan"

    async def _list_foreign(self, turn: LiveTurn) -> list[ToolSpec]:
        before = [server.problem for server in self._servers]
        found = await asyncio.gather(*(server.list_specs() for server in self._servers))
        for server, known in zip(self._servers, before, strict=True):
            if server.problem and server.problem != known:
                turn.signal(Notice(f"{server.problem} Its tools are missing; the others work."))
        return [spec for specs in found for spec in specs if spec.name not in TOOLS]

    async def _find_server(self, name: str) -> MCPConnection | None:
        for server in self._servers:
            if server.has(name):
                return server
        for server in self._servers:  # a turn that goes on in a new process has not listed them
            if name.startswith(f"{server.server.name}_"):
                await server.list_specs()
                if server.has(name):
                    return server
        return None

    def _notes(self, turn: LiveTurn) -> TurnNotes:
        notes = self._turns.setdefault(turn.id, TurnNotes())
        self._turns.move_to_end(turn.id)
        while len(self._turns) > _REMEMBERED_TURNS:
            self._turns.popitem(last=False)
        return notes


async def _run_plugin(job: Job, tool: Tool) -> ToolOutcome:
    """Run a tool of another package, with the owner's permission and within the time limit."""
    arguments = read_arguments(tool, job.call.arguments)
    detail = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
    await job.permit({}, summary=f"Use {tool.name}, a tool of a plugin", detail=detail)
    try:
        async with asyncio.timeout(job.policy.timeout):
            result = await tool.function(job, arguments)
    except TimeoutError:
        raise ToolFailure(f"Stopped after its time limit of {job.policy.timeout:g} s.") from None
    return ToolOutcome(content=result) if isinstance(result, str) else result


def _is_named(name: str, personality: Personality, *, special: bool) -> bool:
    """Whether a personality has a tool: by name, by pattern, or because it is not special.

    A personality gives an agent no tool that the agent has not.
    """
    if isinstance(personality, AgentPersonality) and personality.agent_tools is not None:
        held = personality.agent_tools
        is_held = (USUAL in held and not special) or _is_matched(name, held)
        if not is_held:
            return False
    if personality.tools is None:
        return not special
    if USUAL in personality.tools and not special:
        return True
    return _is_matched(name, personality.tools)


def _is_matched(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
