"""What a slash command works with, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import tzinfo

import msgspec

from clew.core.commands import Issuer
from clew.core.personality import Personality
from clew.core.resume import Resolution
from clew.core.session import Session
from clew.errors import InvalidInput, PersonalityNotFound
from clew.ports import Context, Memory, Models, Personalities, Store
from clew.runtime.runtime import Ticket
from clew.runtime.seat import Seat, Switched


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The seat, and the parts that commands ask; `export` and `zone` are the surface's.

    `issuer` is who gives the commands, and where: `/help` shows what they have there.

    `run` is another way to run commands than here, for who sits at a gateway.
    """

    seat: Seat
    models: Models
    personalities: Personalities
    memory: Memory
    context: Context
    resolve: Callable[[str], Awaitable[Resolution]]
    export: Callable[[Session, str | None], Awaitable[str]]
    zone: Callable[[int], tzinfo]
    issuer: Issuer = Issuer(role="owner", surface="terminal")
    run: Callable[[Desk, str, str], Awaitable[Reply]] | None = None

    @property
    def store(self) -> Store:
        """The store, through the runtime."""
        return self.seat.runtime.store

    @property
    def session(self) -> Session:
        """The session that a command is about; `core.commands` says which ones need one."""
        if self.seat.session is None:
            raise InvalidInput("There is no session yet; say something first.")
        return self.seat.session

    @property
    def personality(self) -> Personality:
        """The one that answers next: the session's, or the default one if that is gone."""
        try:
            return self.personalities.get_personality(self.seat.setting("personality"))
        except PersonalityNotFound:
            return self.personalities.get_personality()

    @property
    def now(self) -> int:
        """Milliseconds UTC."""
        return self.seat.runtime.clock()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a command says, and what else the surface has to do about it.

    `ticket`: follow this turn. `switched`: draw the session anew. `pick`: let the person choose
    one of these, or of all if it is empty. `open`: this session was found for `/resume`; ask, if
    it is another project's, and switch. `leave`: say goodbye.
    """

    text: str = ""
    is_error: bool = False
    ticket: Ticket | None = None
    switched: Switched | None = None
    pick: tuple[Session, ...] | None = None
    open: Session | None = None
    leave: bool = False
