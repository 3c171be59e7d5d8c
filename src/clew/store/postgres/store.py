"""The PostgreSQL store: all ports of `ports.Store` over one database."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from clew.core.stats import StoreStats
from clew.core.text import decode_text
from clew.ports import Clock
from clew.store.postgres.connection import PATIENCE, Connection, Durability, fetch
from clew.store.postgres.database import Database
from clew.store.postgres.delivery import PostgresInbox, PostgresOutbox
from clew.store.postgres.forking import PostgresForks
from clew.store.postgres.holds import PostgresAttachments, PostgresLeases
from clew.store.postgres.listing import PostgresListing
from clew.store.postgres.log import PostgresLog
from clew.store.postgres.migrating import Migration
from clew.store.postgres.notes import PostgresNotes
from clew.store.postgres.overview import PostgresOverview
from clew.store.postgres.pairings import PostgresPairings
from clew.store.postgres.processes import PostgresProcesses
from clew.store.postgres.search import DEADLINE, PostgresSearch
from clew.store.postgres.sessions import PostgresSessions
from clew.store.postgres.tokens import PostgresTokens
from clew.store.postgres.trash import PostgresTrash
from clew.version import __version__

_STATS = """
SELECT count(*) FILTER (WHERE deleted_at IS NULL AND archived_at IS NULL),
  count(*) FILTER (WHERE deleted_at IS NULL AND archived_at IS NOT NULL),
  count(*) FILTER (WHERE deleted_at IS NOT NULL AND purged_at IS NULL),
  (SELECT count(*) FROM messages), coalesce(sum(content_bytes), 0)::bigint,
  pg_database_size(current_database()), min(created_at), max(updated_at)
FROM sessions
"""

_PLATFORMS = """
SELECT platform, count(*) FROM sessions WHERE deleted_at IS NULL
GROUP BY platform ORDER BY count(*) DESC, platform
"""


class PostgresStore(
    PostgresSessions,
    PostgresListing,
    PostgresOverview,
    PostgresForks,
    PostgresLog,
    PostgresProcesses,
    PostgresLeases,
    PostgresAttachments,
    PostgresSearch,
    PostgresTrash,
    PostgresNotes,
    PostgresInbox,
    PostgresOutbox,
    PostgresTokens,
    PostgresPairings,
):
    """`ports.Store`. Made by `clew.store.open_store`."""

    def __init__(self, database: Database) -> None:
        self._db = database

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
        await database.open(migrations)
        return cls(database)

    async def stats(self) -> StoreStats:
        """See `ports.Store`."""

        async def job(connection: Connection) -> StoreStats:
            ((sessions, archived, trashed, messages, size, taken, oldest, newest),) = await fetch(
                connection, _STATS
            )
            platforms = await fetch(connection, _PLATFORMS)
            return StoreStats(
                sessions=sessions,
                archived=archived,
                trashed=trashed,
                messages=messages,
                content_bytes=size,
                file_bytes=taken,
                platforms={decode_text(name): count for name, count in platforms},
                oldest_at=oldest,
                newest_at=newest,
            )

        return await self._db.snapshot(job)

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
