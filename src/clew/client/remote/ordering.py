"""Slash commands of a terminal at a gateway: which run here, and which run there.

What is about the seat itself runs here, over the remote seat; what needs the session, its turns or
the gateway's files runs there.
"""

from __future__ import annotations

from typing import Final

from clew.client.remote.seat import RemoteSeat
from clew.errors import ClewError
from clew.runtime.commands import ALIASES, find_command, run_command
from clew.runtime.commands.desk import Desk, Reply

HERE: Final = frozenset({"new", "resume", "fork", "export", "exit", "help"})
"""What goes to another session, to this disk, or away."""
THERE: Final = frozenset({"memory", "usage", "search", "link"})
"""What needs no session, and what only the gateway has."""
LOOKS: Final = frozenset({*THERE, "status", "context", "todos", "scratchpad"} - {"link"})
"""What changes nothing, for who only looks."""


async def run_there(desk: Desk, name: str, rest: str) -> Reply:
    """Run a command where it belongs. What is refused is a reply too."""
    seat = desk.seat
    if not isinstance(seat, RemoteSeat):
        raise TypeError("this seat is not at a gateway")
    known = ALIASES.get(name, name)
    is_begun = seat.session is not None
    if find_command(name) is None or known in HERE or not (is_begun or known in THERE):
        return await run_command(desk, name, rest)
    try:
        if known not in LOOKS:
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
