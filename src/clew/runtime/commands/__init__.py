"""What each slash command does. The table of commands, and who may use them, is `core.commands`.

A surface passes the line on and gets a `Reply`; it never looks at a command's name itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from clew.core.commands import COMMANDS, Command, describe_unknown, find_command, needs_change
from clew.errors import ClewError
from clew.runtime.commands import context, reports, sessions, settings, turns
from clew.runtime.commands.desk import Desk, Reply

Run = Callable[[Desk, str], Awaitable[Reply]]

FUNCTIONS: Final[dict[str, Run]] = {
    "new": sessions.new,
    "resume": sessions.resume,
    "fork": sessions.fork,
    "title": sessions.title,
    "pin": sessions.pin,
    "search": sessions.search,
    "stop": turns.stop,
    "retry": turns.retry,
    "undo": turns.undo,
    "redo": turns.redo,
    "approve": turns.approve,
    "deny": turns.deny,
    "queue": turns.queue,
    "send": settings.send,
    "link": sessions.link,
    "pair": sessions.pair,
    "model": settings.model,
    "thinking": settings.thinking,
    "tier": settings.tier,
    "mode": settings.mode,
    "personality": settings.personality,
    "verbose": settings.verbose,
    "compact": context.compact,
    "uncompact": context.uncompact,
    "context": context.context,
    "memory": reports.memory,
    "todos": reports.todos,
    "scratchpad": reports.scratchpad,
    "status": reports.status,
    "usage": reports.usage,
    "help": reports.help_,
}


def check_functions(functions: Mapping[str, Run]) -> None:
    """`TypeError` for a command without a function, or a function without a command.

    Commands that run in the client are in `terminal.commands`.
    """
    needed = {name for name, each in COMMANDS.items() if each.surfaces != ("terminal",)}
    missing, unknown = needed - functions.keys(), functions.keys() - needed
    if missing or unknown:
        names = ", ".join(f"/{name}" for name in sorted(missing | unknown))
        raise TypeError(f"core.commands and runtime.commands differ in {names}.")


check_functions(FUNCTIONS)


async def run_command(desk: Desk, name: str, rest: str) -> Reply:
    """Run a command. A refusal is a reply too; then nothing was changed."""
    command = find_command(name)
    if command is None:
        return Reply(text=describe_unknown(name), is_error=True)
    try:
        _check_possible(desk, command, rest)
        return await FUNCTIONS[command.name](desk, rest)
    except ClewError as error:
        return Reply(text=str(error), is_error=True)


def _check_possible(desk: Desk, command: Command, rest: str) -> None:
    """Raise `InvalidInput` if a command needs a session, or one that is not read-only."""
    if needs_change(command, rest):
        desk.check_may_change()
    if command.needs_session:
        _ = desk.session
