"""Slash commands, run as in a chat."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Key, SessionId, Word
from clew.api.operation import NoParams, Params, row
from clew.api.seats import TerminalPlace, Wanted
from clew.api.sessions import SessionView


# --- commands ---------------------------------------------------------------------------------
class RunCommand(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that begins with a slash, its session, and where it was typed.

    `wanted` are settings chosen before there is a session. `read_only`: the caller only reads the
    session, so a command that would change it is refused. `attended`: the owner is there to approve
    tool calls. `model` is used if the session's own is no longer configured.
    """

    line: Annotated[str, Meta(min_length=1, max_length=100_000)]
    session: SessionId | None = None
    key: Key | None = None
    where: TerminalPlace | None = None
    wanted: Wanted | None = None
    read_only: bool = False
    attended: bool = True
    model: Word | None = None


class CommandReply(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a command's reply, and what follows from it.

    `session` is the caller's session now; `switched` if it is another than before (None: the next
    message begins a new one). `pick`: choose one of these, or of all if it is empty. `open`: switch
    to this session. `begins`: a turn begins; `answers` is the inbox message that it answers, if
    there is one. `wanted`: if there is no session, the settings of the next one.
    """

    text: str = ""
    is_error: bool = False
    session: SessionView | None = None
    switched: bool = False
    pick: tuple[SessionView, ...] | None = None
    open: SessionView | None = None
    begins: bool = False
    answers: str | None = None
    wanted: Wanted | None = None


class ListedCommand(msgspec.Struct, frozen=True):
    """A command that the caller can run: `/NAME USAGE`."""

    name: str
    usage: str
    help: str
    aliases: tuple[str, ...] = ()
    needs_session: bool = False


class CommandList(msgspec.Struct, frozen=True):
    """The commands that the caller can run."""

    commands: tuple[ListedCommand, ...]


# --- the rows of the table ---------------------------------------------------------------------

RUN: Final = row(
    "commands.run", "POST", "commands", "read", RunCommand, CommandReply,
    "Run a slash command, as in a chat.",
    who="guest", also="what the command needs; `model` and `wanted` are the owner's",
)  # fmt: skip
LIST: Final = row(
    "commands.list", "GET", "commands", "read", NoParams, CommandList,
    "List the slash commands that the caller can run.",
    who="guest",
)  # fmt: skip
ROWS: Final = (RUN, LIST)
