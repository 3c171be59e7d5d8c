"""The SQLite store: all ports of `ports.Store` over one open file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from clew.errors import InvalidInput
from clew.ports import Clock
from clew.store.migrations import Migration, Report, quiet
from clew.store.sqlite.connection import Durability
from clew.store.sqlite.database import Database
from clew.store.sqlite.engine import SqliteEngine, system_time
from clew.store.sqlite.log import SqliteLog
from clew.store.sqlite.search import DEADLINE, SqliteSearch
from clew.store.work.delivery import SharedInbox, SharedOutbox
from clew.store.work.forks import SharedForks
from clew.store.work.imports import SharedImports
from clew.store.work.leases import SharedAttachments, SharedLeases
from clew.store.work.listing import SharedListing
from clew.store.work.marks import SharedMarks
from clew.store.work.notes import SharedNotes
from clew.store.work.pairings import SharedPairings
from clew.store.work.sessions import SharedSessions
from clew.store.work.tokens import SharedTokens
from clew.store.work.trash import SharedTrash
from clew.store.work.vectors import SharedVectors
from clew.version import __version__


class SqliteStore(
    SharedSessions,
    SharedListing,
    SharedMarks,
    SharedForks,
    SqliteLog,
    SharedLeases,
    SharedAttachments,
    SqliteSearch,
    SharedTrash,
    SharedNotes,
    SharedInbox,
    SharedOutbox,
    SharedTokens,
    SharedPairings,
    SharedImports,
    SharedVectors,
):
    """`ports.Store`. Made by `clew.store.open_store`."""

    _engine: SqliteEngine

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "full",
        clock: Clock | None = None,
        migrations: Sequence[Migration] | None = None,
        search_seconds: float = DEADLINE,
        report: Report = quiet,
    ) -> None:
        """Open the file; makes it if it does not exist.

        `search_seconds` is the deadline after which a search returns what it has found.
        """
        self._search_seconds = search_seconds
        self._db = Database(
            path, clock=clock or system_time, version=__version__, durability=durability
        )
        self._db.open(migrations, report=report)
        self._engine = SqliteEngine(self._db)

    # --- ports.Processes ------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """See `ports.Processes`."""
        return self._db.presence.identity

    async def is_living(self, identity: str) -> bool:
        """See `ports.Processes`."""
        if type(identity) is not str:
            raise InvalidInput(f"An identity is text, not {type(identity).__name__}.")
        # In a thread, because it reads files.
        return await self._db.read(lambda _: self._db.presence.is_living(identity))

    async def pulse(self) -> int:
        """See `ports.Processes`."""
        return await self._db.watch(_data_version)

    # --- being open -----------------------------------------------------------------------------

    async def close(self) -> None:
        """See `ports.Store`."""
        await self._db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _data_version(connection: apsw.Connection) -> int:
    return int(connection.pragma("data_version"))
