"""The processes that share a PostgreSQL store: who they are, who lives, whether anything changed.

Who lives is known from `presence`; what they hold is in `holds`.
"""

from __future__ import annotations

from clew.errors import InvalidInput
from clew.store.postgres.database import Database
from clew.store.postgres.presence import listed, process_of


class PostgresProcesses:
    """`ports.Processes`."""

    _db: Database

    @property
    def identity(self) -> str:
        """See `ports.Processes`."""
        return self._db.presence.identity

    async def is_living(self, identity: str) -> bool:
        """See `ports.Processes`."""
        if type(identity) is not str:
            raise InvalidInput(f"An identity is text, not {type(identity).__name__}.")
        self._db.check_open()
        process = process_of(identity)
        if process is None or process == self._db.presence.info.process:
            return True
        return process in await self._db.read(listed) and not await self._db.find_dead([identity])

    async def pulse(self) -> int:
        """See `ports.Processes`."""
        return await self._db.pulse()
