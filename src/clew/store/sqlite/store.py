"""The SQLite store: all ports of `ports.Store` over one open file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw

from clew.core.stats import StoreStats
from clew.core.text import decode_text
from clew.ports import Clock
from clew.store.sqlite.connection import Durability, fetch
from clew.store.sqlite.database import Database, snapshot
from clew.store.sqlite.delivery import SqliteInbox, SqliteOutbox
from clew.store.sqlite.forking import SqliteForks
from clew.store.sqlite.holds import SqliteAttachments, SqliteLeases
from clew.store.sqlite.listing import SqliteListing
from clew.store.sqlite.log import SqliteLog
from clew.store.sqlite.migrating import Migration
from clew.store.sqlite.notes import SqliteNotes
from clew.store.sqlite.overview import SqliteOverview
from clew.store.sqlite.pairings import SqlitePairings
from clew.store.sqlite.processes import SqliteProcesses
from clew.store.sqlite.search import DEADLINE, SqliteSearch
from clew.store.sqlite.sessions import SqliteSessions
from clew.store.sqlite.tokens import SqliteTokens
from clew.store.sqlite.trash import SqliteTrash
from clew.version import __version__


def _now() -> int:
    return time.time_ns() // 1_000_000


class SqliteStore(
    SqliteSessions,
    SqliteListing,
    SqliteOverview,
    SqliteForks,
    SqliteLog,
    SqliteProcesses,
    SqliteLeases,
    SqliteAttachments,
    SqliteSearch,
    SqliteTrash,
    SqliteNotes,
    SqliteInbox,
    SqliteOutbox,
    SqliteTokens,
    SqlitePairings,
):
    """`ports.Store`. Made by `clew.store.open_store`."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "full",
        clock: Clock | None = None,
        migrations: Sequence[Migration] | None = None,
        search_seconds: float = DEADLINE,
    ) -> None:
        """Open the file, making it if it is not there.

        `search_seconds` is how long a search looks before it answers with what it has.
        """
        self._search_seconds = search_seconds
        self._db = Database(path, clock=clock or _now, version=__version__, durability=durability)
        self._db.open(migrations)

    async def stats(self) -> StoreStats:
        """See `ports.Store`."""

        def job(connection: apsw.Connection) -> StoreStats:
            ((sessions, archived, trashed, messages, size, oldest, newest),) = fetch(
                connection,
                """SELECT count(*) FILTER (WHERE deleted_at IS NULL AND archived_at IS NULL),
                          count(*) FILTER (WHERE deleted_at IS NULL AND archived_at IS NOT NULL),
                          count(*) FILTER (WHERE deleted_at IS NOT NULL AND purged_at IS NULL),
                          (SELECT count(*) FROM messages), coalesce(sum(content_bytes), 0),
                          min(created_at), max(updated_at)
                   FROM sessions""",
            )
            platforms: list[Any] = fetch(
                connection,
                """SELECT platform, count(*) FROM sessions WHERE deleted_at IS NULL
                   GROUP BY platform ORDER BY count(*) DESC, platform""",
            )
            pages, page = connection.pragma("page_count"), connection.pragma("page_size")
            return StoreStats(
                sessions=sessions,
                archived=archived,
                trashed=trashed,
                messages=messages,
                content_bytes=size,
                file_bytes=pages * page,
                platforms={decode_text(name): count for name, count in platforms},
                oldest_at=oldest,
                newest_at=newest,
            )

        return await self._db.read(snapshot(job))

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
