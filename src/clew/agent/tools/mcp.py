"""Tools of MCP servers: started when first needed, offered as `<server>_<tool>`.

The client is pydantic-ai's. Each connection belongs to one task, which opens and closes it. A
server that can't be reached is reported once and left out; the other tools go on.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clew.agent.tool_interface import ToolOutcome, ToolSpec
from clew.agent.tools.processes import Lifeline, clean_environment
from clew.agent.tools.tool import Job, ToolFailure
from clew.core.text import strip_controls

if TYPE_CHECKING:
    from pydantic_ai.mcp import MCPToolset

START_SECONDS = 20.0
REST_SECONDS = 60.0
"""Pause before a server that failed to start is tried again: each try may cost `START_SECONDS`."""

MAX_NAME = 64
MAX_DESCRIPTION = 4_000
CONNECTION_CLOSED = -32000


class MCPServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the configuration: a command with its arguments, or a URL.

    `env` is added to the clean environment of the command, `headers` to requests to the URL.
    `tools` names those that are offered, None for all.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    tools: tuple[str, ...] | None = None
    timeout: float = START_SECONDS


class MCPConnection:
    """One server, from its first use to `close`."""

    def __init__(self, server: MCPServer, environment: Mapping[str, str]) -> None:
        self.server = server
        self.problem: str | None = None
        self._environment = clean_environment(environment) | server.env
        self._link: _Link | None = None
        self._left: set[asyncio.Task[None]] = set()
        self._rest_until = 0.0
        self._names: dict[str, str] = {}

    async def list_specs(self) -> tuple[ToolSpec, ...]:
        """The server's tools; none, with `problem` set, if it does not answer."""
        try:
            toolset = await self._connect()
            async with asyncio.timeout(self.server.timeout):
                found = await toolset.list_tools()
        except ToolFailure as failure:
            self.problem = str(failure)
            return ()
        except Exception as error:  # noqa: BLE001  # a foreign server may raise anything
            self._leave()
            self.problem = f"The MCP server {self.server.name} does not answer: {_reason(error)}"
            return ()
        self.problem = None
        wanted = self.server.tools
        specs = []
        for tool in found:
            if wanted is not None and tool.name not in wanted:
                continue
            name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.server.name}_{tool.name}")[:MAX_NAME]
            self._names[name] = tool.name
            schema = getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", {})
            about = strip_controls(tool.description or "")[:MAX_DESCRIPTION]
            specs.append(ToolSpec(name=name, description=about, schema={"type": "object"} | schema))
        return tuple(specs)

    def has(self, name: str) -> bool:
        """Whether a tool of this name was listed by this server."""
        return name in self._names

    async def call(self, job: Job) -> ToolOutcome:
        """Run a tool of this server, with the owner's permission."""
        arguments = _read_object(job.call.arguments)
        tool = self._names[job.call.name]
        detail = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
        await job.permit(
            {}, summary=f"Use {tool} of the MCP server {self.server.name}", detail=detail
        )
        try:
            toolset = await self._connect()
            async with asyncio.timeout(job.policy.timeout):
                result = await toolset.direct_call_tool(tool, arguments)
        except TimeoutError:
            limit = job.policy.timeout
            raise ToolFailure(f"Stopped after its time limit of {limit:g} s.") from None
        except ToolFailure:
            raise
        except Exception as error:  # noqa: BLE001  # a foreign server may raise anything
            if _is_broken(error):
                self._leave()
            raise ToolFailure(_reason(error)) from None
        return await _make_outcome(job, result)

    async def close(self) -> None:
        """End the server. May be called at any time, and twice."""
        self._leave()
        await asyncio.gather(*self._left, return_exceptions=True)

    async def _connect(self) -> MCPToolset[Any]:
        """The running connection, opened now if there is none; many may wait for it."""
        loop = asyncio.get_running_loop()
        if self._link is None:
            if self.problem and loop.time() < self._rest_until:
                raise ToolFailure(self.problem)
            self._link = _Link(self.server, self._environment)
        link = self._link
        try:
            return await asyncio.shield(link.ready)
        except ToolFailure:
            if self._link is link:
                self._leave()
                self._rest_until = loop.time() + REST_SECONDS
            raise

    def _leave(self) -> None:
        """Give the connection up; the next use opens another."""
        if self._link is not None:
            self._link.stop.set()
            self._left.add(self._link.owner)
            self._link.owner.add_done_callback(self._left.discard)
            self._link = None


class _Link:
    """A connection, and the one task that opens, keeps and closes it."""

    def __init__(self, server: MCPServer, environment: dict[str, str]) -> None:
        self.stop = asyncio.Event()
        self.ready: asyncio.Future[MCPToolset[Any]] = asyncio.get_running_loop().create_future()
        self.owner = asyncio.create_task(self._own(server, environment), name=f"mcp {server.name}")

    async def _own(self, server: MCPServer, environment: dict[str, str]) -> None:
        with ExitStack() as ended:
            await self._keep_open(server, environment, ended)

    async def _keep_open(
        self, server: MCPServer, environment: dict[str, str], ended: ExitStack
    ) -> None:
        try:
            toolset = _make_toolset(server, environment, ended)
            async with asyncio.timeout(server.timeout):
                await toolset.__aenter__()
        except BaseException as error:  # raised for the callers that wait
            if not isinstance(error, ToolFailure):
                reason = f"The MCP server {server.name} could not be started: {_reason(error)}"
                self.ready.set_exception(ToolFailure(reason))
            else:
                self.ready.set_exception(error)
            self.ready.exception()  # no caller may be waiting any more
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        self.ready.set_result(toolset)
        try:
            await self.stop.wait()
        finally:
            await toolset.__aexit__(None, None, None)


def _make_toolset(
    server: MCPServer, environment: dict[str, str], ended: ExitStack
) -> MCPToolset[Any]:
    """The client of a server. `ended` is closed when it is not used any more."""
    try:
        # Imported late: it takes a second, and only a server needs it.
        from fastmcp.client.transports import StdioTransport  # noqa: PLC0415
        from pydantic_ai.mcp import MCPToolset  # noqa: PLC0415
    except ImportError:
        raise ToolFailure(
            f"The MCP server {server.name} needs a package that is not installed: "
            "pip install 'clew[mcp]'."
        ) from None
    if server.url is not None:
        return MCPToolset(
            server.url, id=server.name, headers=server.headers or None,
            init_timeout=server.timeout, tool_error_behavior="failed",
        )  # fmt: skip
    if not server.command:
        raise ToolFailure(f"The MCP server {server.name} has neither a command nor a URL.")
    if shutil.which(server.command[0], path=environment.get("PATH")) is None:
        raise ToolFailure(
            f"The MCP server {server.name} could not be started: there is no program "
            f"{server.command[0]}."
        )
    lifeline = Lifeline()
    ended.callback(lifeline.close)
    program, *arguments = lifeline.tie(server.command)
    transport = StdioTransport(
        program,
        arguments,
        env=environment,
        keep_alive=False,
        log_file=Path(os.devnull),
    )
    return MCPToolset(
        transport, id=server.name, init_timeout=server.timeout, tool_error_behavior="failed"
    )


def _read_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ToolFailure(f"The arguments are wrong: {error}.") from None


async def _make_outcome(job: Job, result: Any) -> ToolOutcome:
    """Text as text, data as JSON, images as blobs, in the order of the result."""
    texts: list[str] = []
    parts: list[dict[str, Any]] = []
    for piece in result if isinstance(result, list) else [result]:
        data, kind = getattr(piece, "data", None), getattr(piece, "media_type", None)
        if isinstance(data, bytes) and isinstance(kind, str):
            blob = await job.store.put_blob(data, kind)
            family = kind.partition("/")[0]
            parts.append({"type": family, "blob": blob, "media_type": kind})
            texts.append(f"[{kind}, {len(data):,} bytes]")
        elif isinstance(piece, str):
            texts.append(piece)
        elif piece is not None:
            texts.append(msgspec.json.encode(piece, enc_hook=str).decode())
    return ToolOutcome(content="\n".join(texts) or "(no output)", parts=tuple(parts))


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _is_broken(error: BaseException) -> bool:
    """Whether the connection failed; a tool that reports an error leaves it open."""
    from pydantic_ai.exceptions import ModelRetry, ToolFailed  # noqa: PLC0415  # loaded by now

    if isinstance(error, ToolFailed):
        return False
    if isinstance(error, ModelRetry):
        code = getattr(getattr(error.__cause__, "error", None), "code", None)
        return code == CONNECTION_CLOSED
    return True
