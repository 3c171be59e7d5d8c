"""Slash commands: their one table, who may use which, and how a line is read as one.

Pure. What a command does is in `runtime.commands`, which has a function for every row; surfaces
look up every property here. A name that is in no row is allowed to no one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from clew.core.channels.people import Role
from clew.core.tokens import Scope, Scopes, covers
from clew.errors import InvalidInput

Surface = Literal["terminal", "channel", "api"]
"""Where a command is typed: a chat in a terminal, a platform such as Telegram, `commands.run`."""

Changes = Literal["nothing", "with_argument", "always"]
"""Whether a command changes the session it is given in: always, or only with an argument."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. Every column is required, so that none is forgotten.

    `scope`: the scope that a token needs; channels have no tokens. `who`: "owner", or
    "guest" if a paired guest may use it too, in a direct chat. `runs_in`: "client" if the terminal
    does it itself (it switches the session, uses the person's disk, or leaves); "runtime" if it is
    done where the session is. `needs_session`: it means nothing before the first message.
    `is_slow`: a channel does not wait for it. `changes`: whether a read-only session refuses it.
    """

    name: str
    aliases: tuple[str, ...]
    usage: str
    help: str
    scope: Scope
    who: Literal["owner", "guest"]
    surfaces: tuple[Surface, ...]
    runs_in: Literal["client", "runtime"]
    needs_session: bool
    is_slow: bool
    changes: Changes

    @property
    def line(self) -> str:
        """The command as it is typed: `/title [TITLE]`."""
        return f"/{self.name} {self.usage}".rstrip()


class Issuer(msgspec.Struct, frozen=True, kw_only=True):
    """Who gives a command, and where. `scopes` are their token's; None where none is needed."""

    role: Role
    surface: Surface
    is_direct: bool = True
    scopes: Scopes | None = None


EVERYWHERE: Final[tuple[Surface, ...]] = ("terminal", "channel", "api")
_TERMINAL: Final[tuple[Surface, ...]] = ("terminal",)

_ROWS: Final = (
    Command(
        name="new", aliases=("reset",), usage="[MESSAGE]",
        help="Begin a new session; this one stays.",
        scope="chat", who="guest", surfaces=EVERYWHERE, runs_in="client",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="resume", aliases=(), usage="[SESSION]",
        help="Go on with another session.",
        scope="chat", who="guest", surfaces=EVERYWHERE, runs_in="client",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="fork", aliases=(), usage="[TITLE]",
        help="Branch off into a new session.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="client",
        needs_session=True, is_slow=False, changes="nothing",
    ),
    Command(
        name="title", aliases=(), usage="[TITLE]",
        help="Show or set the title.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="pin", aliases=(), usage="[off]",
        help="Keep this session at the top; retention spares it.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="always",
    ),
    Command(
        name="search", aliases=(), usage="WORDS",
        help="Search all sessions.",
        scope="read", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="export", aliases=(), usage="[FILE]",
        help="Write this session to a file.",
        scope="read", who="owner", surfaces=_TERMINAL, runs_in="client",
        needs_session=True, is_slow=False, changes="nothing",
    ),
    Command(
        name="stop", aliases=(), usage="",
        help="Stop the turn that runs.",
        scope="chat", who="guest", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="always",
    ),
    Command(
        name="retry", aliases=(), usage="",
        help="Run the last turn again.",
        scope="chat", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=False, changes="always",
    ),
    Command(
        name="undo", aliases=(), usage="",
        help="Take back the last turn, its tools' results included.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=False, changes="always",
    ),
    Command(
        name="redo", aliases=(), usage="",
        help="Bring back what was undone.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=False, changes="always",
    ),
    Command(
        name="approve", aliases=(), usage="[once|session|always]",
        help="Approve the tool call that waits.",
        scope="approve", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="always",
    ),
    Command(
        name="deny", aliases=(), usage="[WHY]",
        help="Refuse the tool call that waits; the model is told why.",
        scope="approve", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="always",
    ),
    Command(
        name="queue", aliases=(), usage="[MODE|clear]",
        help="What happens to messages sent while a turn runs.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="send", aliases=(), usage="[on|off|inherit]",
        help="Whether replies are delivered to channels.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="link", aliases=(), usage="[CODE]",
        help="Continue this session in another chat.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="always",
    ),
    Command(
        name="pair", aliases=(), usage="[CODE|refuse PERSON]",
        help="Pair a guest, or refuse one.",
        scope="admin", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="model", aliases=(), usage="[NAME]",
        help="Show or change the model.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="thinking", aliases=(), usage="[LEVEL]",
        help="Show or set how much the model thinks: off to high.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="tier", aliases=(), usage="[TIER]",
        help="The provider's service tier; none unsets it.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="mode", aliases=(), usage="[MODE]",
        help="default, or plan: look and propose.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="personality", aliases=(), usage="[ID]",
        help="Show or change the personality.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="with_argument",
    ),
    Command(
        name="verbose", aliases=(), usage="[on|off]",
        help="Show tool calls and their results.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=False, changes="with_argument",
    ),
    Command(
        name="compact", aliases=(), usage="[WISH]",
        help="Replace the older part by a summary.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=True, changes="always",
    ),
    Command(
        name="uncompact", aliases=(), usage="",
        help="Take the latest compaction back.",
        scope="write", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=False, changes="always",
    ),
    Command(
        name="context", aliases=(), usage="[list|detail]",
        help="What the model is given, with sizes in tokens.",
        scope="read", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=True, is_slow=False, changes="nothing",
    ),
    Command(
        name="memory", aliases=(), usage="[search WORDS]",
        help="Show the memory, and where its files are, or search it.",
        scope="read", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="todos", aliases=(), usage="",
        help="The session's todo list.",
        scope="read", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="scratchpad", aliases=(), usage="[NAME]",
        help="The session's scratchpad.",
        scope="read", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="status", aliases=(), usage="",
        help="Model, context, usage and settings.",
        scope="read", who="guest", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="usage", aliases=(), usage="",
        help="Token usage and cost of this session, and of today.",
        scope="read", who="owner", surfaces=EVERYWHERE, runs_in="runtime",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="help", aliases=(), usage="[COMMAND]",
        help="Show the commands.",
        scope="read", who="guest", surfaces=EVERYWHERE, runs_in="client",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="setup", aliases=(), usage="",
        help="Choose the model that answers: provider, key, test.",
        scope="admin", who="owner", surfaces=_TERMINAL, runs_in="client",
        needs_session=False, is_slow=False, changes="nothing",
    ),
    Command(
        name="exit", aliases=("quit",), usage="",
        help="Leave the chat; Ctrl+D does too.",
        scope="read", who="owner", surfaces=_TERMINAL, runs_in="client",
        needs_session=False, is_slow=False, changes="nothing",
    ),
)  # fmt: skip

COMMANDS: Final[dict[str, Command]] = {each.name: each for each in _ROWS}
ALIASES: Final[dict[str, str]] = {alias: each.name for each in _ROWS for alias in each.aliases}


def find_command(name: str) -> Command | None:
    """Find a command by its name or one of its other names."""
    return COMMANDS.get(ALIASES.get(name, name))


# --- who may use one --------------------------------------------------------------------------


def may_use(issuer: Issuer, name: str) -> bool:
    """Whether the issuer may use a command; one that is not in the table is never allowed."""
    command = find_command(name)
    return (
        command is not None
        and issuer.surface in command.surfaces
        and may_command(issuer.role, name, is_direct=issuer.is_direct)
        and (issuer.scopes is None or covers(issuer.scopes, command.scope))
    )


def may_command(role: Role, name: str, *, is_direct: bool) -> bool:
    """Whether a person may use a command; if not, the line is an ordinary message."""
    command = find_command(name)
    if command is None:
        return False
    return role == "owner" or (role == "guest" and is_direct and command.who == "guest")


def needs_change(command: Command, rest: str) -> bool:
    """Whether a command with these arguments changes the session: a read-only one refuses it."""
    return command.changes == "always" or (command.changes == "with_argument" and bool(rest))


# --- what people are told ---------------------------------------------------------------------


def list_commands(issuer: Issuer) -> tuple[Command, ...]:
    """The commands that the issuer can use."""
    return tuple(each for each in _ROWS if may_use(issuer, each.name))


def describe_help(issuer: Issuer, rest: str = "") -> str:
    """The text of `/help`: about one command, or about all that the issuer can use."""
    wanted = rest.lstrip("/").lower()
    if not wanted:
        shown = list_commands(issuer)
        return "\n".join([*_describe(shown), "", _describe_more(issuer, shown)])
    command = find_command(wanted)
    if command is None or not may_use(issuer, wanted):
        raise InvalidInput(f"There is no command /{wanted[:40]}. /help shows what there is.")
    return "\n".join(_describe((command,)))


def _describe(commands: Iterable[Command]) -> list[str]:
    commands = tuple(commands)
    width = max(len(each.line) for each in commands)
    return [f"{each.line:<{width}}  {each.help}" for each in commands]


def _describe_more(issuer: Issuer, shown: Iterable[Command]) -> str:
    also = [f"/{alias} is /{each.name}" for each in shown for alias in each.aliases]
    said = f"{', '.join(also)}. " if also else ""
    stop = " Ctrl+C stops the turn that runs." if issuer.surface == "terminal" else ""
    return f"{said}Anything else is a message.{stop}"


def describe_unknown(name: str) -> str:
    """The message about a command that does not exist."""
    near = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], 1)
    advice = f"Did you mean /{near[0]}?" if near else "/help shows what there is."
    return f"There is no command /{name}. {advice}"


# --- lines ------------------------------------------------------------------------------------

STOP_WORDS: Final = ("stop", "esc", "abort", "exit", "interrupt")
"""On a channel, each of these words alone means `/stop`."""

_LINE: Final = re.compile(r"/([a-z_-]+)(?:\s+(.*))?\Z", re.DOTALL | re.IGNORECASE)
_NAMED: Final = re.compile(r"/([a-z_-]+)@(\w+)(?=\s|\Z)", re.IGNORECASE)


def parse(line: str, *, is_path: Callable[[str], bool]) -> tuple[str, str] | None:
    """The name and the rest of a command line; None if the line is a message.

    A line that begins with an existing path (`/tmp is full`) is a message, unless the word is a
    command. `is_path` says whether a path exists.
    """
    match = _LINE.match(line.rstrip())
    if match is None or (find_command(match[1].lower()) is None and is_path(f"/{match[1]}")):
        return None
    return match[1].lower(), (match[2] or "").strip()


def read_order(text: str, mention: str | None = None) -> str | None:
    """The command line in a channel's message: `/status`, `@bot /send off`, or just `stop`.

    Checks only the spelling, so a path passes too. None if it can't be a command.
    """
    said = without_mention(text.strip(), mention).strip()
    if said.lower() in STOP_WORDS:
        return "/stop"
    if not said.startswith("/"):
        return None
    named = _NAMED.match(said)
    if named is not None:
        # Telegram's way to name one of several bots. A command for another bot is not ours.
        if mention is None or named[2].lower() != mention.lstrip("@").lower():
            return None
        said = f"/{named[1]}{said[named.end() :]}"
    return said


def without_mention(text: str, mention: str | None) -> str:
    """The text without the bot's name in front of it: `@bot`, `<@id>`, with or without a comma."""
    name = (mention or "").strip().lstrip("@")
    if not name:
        return text
    pattern = rf"(?:<@!?{re.escape(name)}>|@{re.escape(name)}(?!\w))[,:]?\s*"
    match = re.match(pattern, text, re.IGNORECASE)
    return text[match.end() :] if match else text
