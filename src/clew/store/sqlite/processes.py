"""The processes that share a SQLite store: who they are, who lives, and whether anything changed.

Who lives is known from `store.presence`; what they hold is in `holds`.
"""

from __future__ import annotations

import apsw

from clew.errors import InvalidInput
from clew.store.sqlite.database import Database


class SqliteProcesses:
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
        # Looks at files, and so not in the task that asks.
        return await self._db.read(lambda _: self._db.presence.is_living(identity))

    async def pulse(self) -> int:
        """See `ports.Processes`."""
        return await self._db.watch(_data_version)


def _data_version(connection: apsw.Connection) -> int:
    return int(connection.pragma("data_version"))
