"""Slash commands of a terminal at a gateway: which run here, and which run there.

Which is a column of the table (`core.commands`): what goes to another session, to this disk, or
away runs here, over the remote seat; everything else runs there.
"""

from __future__ import annotations

from clew.client.remote.seat import RemoteSeat
from clew.core.commands import find_command, needs_change
from clew.errors import ClewError
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Desk, Reply


async def run_there(desk: Desk, name: str, rest: str) -> Reply:
    """Run a command where it belongs. What is refused is a reply too."""
    seat = desk.seat
    if not isinstance(seat, RemoteSeat):
        raise TypeError("this seat is not at a gateway")
    command = find_command(name)
    if command is None or command.runs_in == "client":
        return await run_command(desk, name, rest)
    try:
        if needs_change(command, rest):
            seat.check_may_change()
        reply, ticket = await seat.order(f"/{name} {rest}".rstrip())
    except ClewError as error:
        return Reply(text=str(error), is_error=True)
    return Reply(
        text=reply.text,
        is_error=reply.is_error,
        ticket=ticket,
        pick=None if reply.pick is None else tuple(map(seat.keep, reply.pick)),
        open=None if reply.open is None else seat.keep(reply.open),
    )
