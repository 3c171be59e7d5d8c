"""Slash commands that a terminal runs itself: switch the session, write to this disk, or leave.

A column of `core.commands` says which; all others run where the session is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from clew.api.seats import Seated
from clew.api.sessions import SessionView
from clew.core.commands import COMMANDS, Issuer, describe_help, describe_unknown, find_command
from clew.errors import ClewError, InvalidInput
from clew.files.directories import expand
from clew.terminal.live import Sent

if TYPE_CHECKING:
    from clew.terminal.conversation import Conversation

ISSUER: Final = Issuer(role="owner", surface="terminal")
"""Only the owner has a terminal."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a command, and what to do next.

    `sent`: follow this turn. `seated`: draw the session again. `says`: then send this message.
    `pick`: let the person choose one of these, or of all if it is empty. `open`: switch to this
    session; ask first if it is another project's. `leaves`: end the chat.
    """

    text: str = ""
    is_error: bool = False
    sent: Sent | None = None
    seated: Seated | None = None
    says: str = ""
    pick: tuple[SessionView, ...] | None = None
    open: SessionView | None = None
    leaves: bool = False


Run = Callable[["Conversation", str], Awaitable[Reply]]


async def run_command(chat: Conversation, name: str, rest: str) -> Reply:
    """Run a command. An error is a reply too; then nothing was changed."""
    command = find_command(name)
    if command is None:
        return Reply(text=describe_unknown(name), is_error=True)
    try:
        if command.runs_in == "client":
            return await FUNCTIONS[command.name](chat, rest)
        return await chat.run_there(f"/{name} {rest}".rstrip())
    except ClewError as error:
        return Reply(text=str(error), is_error=True)


async def _new(chat: Conversation, rest: str) -> Reply:
    """`/new [MESSAGE]`."""
    seated = await chat.seat.switch(None, "new")
    text = "" if rest else "A new session begins with your next message. /resume goes back."
    return Reply(text=text, seated=seated, says=rest)


async def _resume(chat: Conversation, rest: str) -> Reply:
    """`/resume [SESSION]`: the same steps as `clew --resume`, without files."""
    if not rest:
        if not (await chat.seat.client.sessions.names(limit=1)).names:
            return Reply(text="No sessions found")
        return Reply(pick=())
    found = tuple(await chat.startup.find(rest))
    return Reply(open=found[0]) if len(found) == 1 else Reply(pick=found)


async def _fork(chat: Conversation, rest: str) -> Reply:
    """`/fork [TITLE]`."""
    source = _get_session(chat)
    seated = await chat.seat.switch(source, "fork", forks=True, title=rest or None)
    branch = _get_session(chat)
    return Reply(text=f'Now in the branch "{branch.name}".', seated=seated)


async def _export(chat: Conversation, rest: str) -> Reply:
    """`/export [FILE]`: the format by the file's suffix, Markdown without one."""
    from clew.transfer import guess_format, write_file  # noqa: PLC0415  # rarely needed

    session = _get_session(chat)
    path = expand(rest or f"session-{session.id}.md")
    exported = await chat.seat.client.sessions.export(session.id, format=guess_format(path.name))
    write_file(chat.seat.place.cwd / path, exported.content)
    return Reply(text=f"The session is now in {path}.")


async def _help(_chat: Conversation, rest: str) -> Reply:
    """`/help [COMMAND]`."""
    return Reply(text=describe_help(ISSUER, rest))


async def _setup(chat: Conversation, _rest: str) -> Reply:
    """`/setup`: the model that it sets is the session's from now on."""
    from clew.terminal.setup import set_up  # noqa: PLC0415  # rarely needed

    info = await set_up(chat.seat.client, chat.startup.asker)
    if info is None:
        return Reply()
    return await chat.run_there(f"/model {info.name}")


async def _exit(_chat: Conversation, _rest: str) -> Reply:
    """`/exit`."""
    return Reply(leaves=True)


def _get_session(chat: Conversation) -> SessionView:
    if chat.seat.session is None:
        raise InvalidInput("There is no session yet; say something first.")
    return chat.seat.session


FUNCTIONS: Final[Mapping[str, Run]] = {
    "new": _new,
    "resume": _resume,
    "fork": _fork,
    "export": _export,
    "help": _help,
    "setup": _setup,
    "exit": _exit,
}
if FUNCTIONS.keys() != {name for name, each in COMMANDS.items() if each.runs_in == "client"}:
    raise TypeError("core.commands and terminal.commands differ in what a terminal runs itself.")
