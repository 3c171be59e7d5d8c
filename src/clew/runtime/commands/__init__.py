"""Slash commands: one table for all surfaces.

A surface hands over the line and gets a `Reply`; it never looks at a command's name itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from clew.errors import ClewError
from clew.runtime.commands import (
    answering,
    context,
    guests,
    queueing,
    reports,
    sessions,
    settings,
    turns,
)
from clew.runtime.commands.desk import Desk, Reply

Run = Callable[[Desk, str], Awaitable[Reply]]


class Command(NamedTuple):
    """A command: what may follow it, what it is for, and what it does."""

    usage: str
    help: str
    run: Run


COMMANDS: Final[dict[str, Command]] = {
    "new": Command("[MESSAGE]", "Begin a new session; this one stays.", sessions.new),
    "resume": Command("[SESSION]", "Go on with another session.", sessions.resume),
    "fork": Command("[TITLE]", "Branch off here, in a session of its own.", sessions.fork),
    "title": Command("[TITLE]", "Show or set the title.", sessions.title),
    "pin": Command("[off]", "Keep this session on top, and out of retention.", sessions.pin),
    "search": Command("WORDS", "Find where something was said.", sessions.search),
    "export": Command("[FILE]", "Write this session to a file.", sessions.export),
    "stop": Command("", "Stop the turn that runs.", turns.stop),
    "retry": Command("", "Try the last turn again.", turns.retry),
    "undo": Command("", "Take back the last turn, its tools' results included.", turns.undo),
    "redo": Command("", "Bring back what was undone.", turns.redo),
    "approve": Command("[once|session|always]", "Yes to what a tool asks.", answering.approve),
    "deny": Command("", "No to what a tool asks.", answering.deny),
    "queue": Command("[MODE|clear]", "What you say while a turn runs.", queueing.queue),
    "send": Command("[on|off|inherit]", "Whether replies go out to channels.", settings.send),
    "link": Command("[CODE]", "One conversation here and on another surface.", sessions.link),
    "pair": Command("[CODE|refuse PERSON]", "Let somebody in, or keep them out.", guests.pair),
    "model": Command("[NAME]", "Show or change the model.", settings.model),
    "thinking": Command("[LEVEL]", "How much the model thinks: off to high.", settings.thinking),
    "tier": Command("[TIER]", "The provider's service tier; none unsets it.", settings.tier),
    "mode": Command("[MODE]", "default, or plan: look and propose.", settings.mode),
    "personality": Command("[ID]", "Show or change the personality.", settings.personality),
    "verbose": Command("[on|off]", "Show tool calls and their results.", settings.verbose),
    "compact": Command("[WISH]", "Replace the older part by a summary.", context.compact),
    "uncompact": Command("", "Take the latest compaction back.", context.uncompact),
    "context": Command("[list|detail]", "What the model is given, and how much.", context.context),
    "memory": Command("", "What is remembered, and where it is.", reports.memory),
    "todos": Command("", "The session's todo list.", reports.todos),
    "scratchpad": Command("[NAME]", "The session's scratchpad.", reports.scratchpad),
    "status": Command("", "Model, context, usage and settings.", reports.status),
    "usage": Command("", "Tokens and money: this session, and today.", reports.usage),
    "help": Command("[COMMAND]", "These commands.", reports.help_),
    "exit": Command("", "Leave; Ctrl+D does too.", sessions.leave),
}
ALIASES: Final = {"reset": "new", "quit": "exit"}

_LINE: Final = re.compile(r"/([a-z_-]+)(?:\s+(.*))?\Z", re.DOTALL | re.IGNORECASE)


def parse(line: str) -> tuple[str, str] | None:
    """The name and the rest of a command line; None for what is a message, paths included.

    A word that is no command, but a path that exists (`/tmp is full`), begins a message.
    """
    match = _LINE.match(line.rstrip())
    if match is None or (find_command(match[1].lower()) is None and Path(f"/{match[1]}").exists()):
        return None
    return match[1].lower(), (match[2] or "").strip()


async def run_command(desk: Desk, name: str, rest: str) -> Reply:
    """Run a command. What it refuses is a reply too; nothing was changed then."""
    command = find_command(name)
    if command is None:
        return Reply(text=_unknown(name), is_error=True)
    try:
        return await command.run(desk, rest)
    except ClewError as error:
        return Reply(text=str(error), is_error=True)


def find_command(name: str) -> Command | None:
    """A command by its name, or another name of it."""
    return COMMANDS.get(ALIASES.get(name, name))


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], 1)
    advice = f"Did you mean /{near[0]}?" if near else "/help shows what there is."
    return f"There is no command /{name}. {advice}"


reports.COMMANDS, reports.ALIASES = COMMANDS, ALIASES
