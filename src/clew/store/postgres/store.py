"""The PostgreSQL store: all ports of `ports.Store` over one database."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from clew.errors import InvalidInput
from clew.ports import Clock
from clew.store.migrations import Migration, Report, quiet
from clew.store.postgres.connection import PATIENCE, Durability
from clew.store.postgres.database import Database
from clew.store.postgres.log import PostgresLog
from clew.store.postgres.presence import list_processes
from clew.store.postgres.search import DEADLINE, PostgresSearch
from clew.store.presence import process_of
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


class PostgresStore(
    SharedSessions,
    SharedListing,
    SharedMarks,
    SharedForks,
    PostgresLog,
    SharedLeases,
    SharedAttachments,
    PostgresSearch,
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

    _engine: Database

    def __init__(self, database: Database) -> None:
        self._db = self._engine = database

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        durability: Durability = "full",
        clock: Clock | None = None,
        migrations: Sequence[Migration] | None = None,
        patience: float = PATIENCE,
        search_seconds: float = DEADLINE,
        report: Report = quiet,
    ) -> PostgresStore:
        """Open the database, making clew's tables if it is empty.

        Without a clock, times are PostgreSQL's own. `patience` is how long, in seconds, calls wait
        for a server that is away, `search_seconds` how long a search looks before it answers with
        what it has.
        """
        database = Database(
            url,
            clock=clock,
            version=__version__,
            durability=durability,
            patience=patience,
            search_seconds=search_seconds,
        )
        await database.open(migrations, report=report)
        return cls(database)

    # --- ports.Processes ------------------------------------------------------------------------

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
        alive = await self._db.read(list_processes)
        return process in alive and not await self._db.find_dead([identity])

    async def pulse(self) -> int:
        """See `ports.Processes`."""
        return await self._db.pulse()

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
