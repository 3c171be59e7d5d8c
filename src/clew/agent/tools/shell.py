"""The shell: one command in the session's directory, asked about unless a rule allows it."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta

from clew.agent.tool_interface import ToolOutcome
from clew.agent.tools.paths import get_workspace
from clew.agent.tools.processes import clean_environment, run_process
from clew.agent.tools.tool import MAX_DETAIL, Arguments, Job, Tool, ToolFailure
from clew.core.live_events import ToolProgress
from clew.core.text import strip_controls

_PROGRESS_SECONDS = 0.1
_PROGRESS_BYTES = 4_000


class Shell(Arguments, frozen=True):
    """A command."""

    command: Annotated[
        str, Meta(min_length=1, max_length=MAX_DETAIL, description="What sh -c runs.")
    ]
    timeout: Annotated[
        float, Meta(ge=0, description="Seconds until it is stopped; 0 for the usual limit.")
    ] = 0


async def run_shell(job: Job, given: Shell) -> ToolOutcome:
    """Run a command in the session's directory and return what it prints, and its exit code.

    It has no input and no terminal, and a time limit. Everything it starts ends with it, so
    nothing can be left running in the background. API keys and tokens are not in its environment.
    The person is asked first. Prefer the file tools for reading, writing and searching files.
    """
    if strip_controls(given.command) != given.command:
        # The person must see what they say yes to.
        raise ToolFailure(
            "The command has control or invisible characters in it. Write them as escapes, such as "
            "printf '\\033'."
        )
    workspace = get_workspace(job)
    await job.permit(
        {"command": given.command},
        summary=f"Run: {given.command}",
        detail=given.command,
        command=given.command,
    )
    limit = min(given.timeout, job.policy.max_timeout) or job.policy.timeout
    try:
        ended = await run_process(
            ("/bin/sh", "-c", given.command),
            cwd=workspace.cwd,
            environment=clean_environment(job.policy.environment, job.policy.pass_environment),
            seconds=limit,
            progress=_Progress(job).show,
        )
    except (OSError, ValueError) as error:
        raise ToolFailure(f"The command could not be started: {error}.") from None
    output = ended.output if ended.output.strip() else "(no output)"
    if ended.code is None:
        note = f"[Stopped after its time limit of {limit:g} s. What it had printed:]\n"
        return ToolOutcome(content=note + output, is_error=True)
    if ended.code:
        note = f"[Exit code {ended.code}]\n"
        return ToolOutcome(content=note + output, is_error=True)
    return ToolOutcome(content=output)


class _Progress:
    """Shows the newest output as it comes, at most ten times a second."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._last = 0.0
        self._waiting = b""

    def show(self, data: bytes) -> None:
        self._waiting = (self._waiting + data[-_PROGRESS_BYTES:])[-_PROGRESS_BYTES:]
        now = time.monotonic()
        if now - self._last < _PROGRESS_SECONDS:
            return
        self._last = now
        text = strip_controls(self._waiting.decode("utf-8", "replace"))
        self._waiting = b""
        self._job.turn.signal(ToolProgress(self._job.call.id, text))


TOOLS = (Tool(name="shell", arguments=Shell, function=run_shell, machine=True),)
