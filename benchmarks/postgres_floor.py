"""The floor in PostgreSQL: the SQL that clew runs, with bare psycopg and nothing around it.

One connection, no pool, no tasks, no values, no checks, and the words of a message are ready before
the clock starts. The server does the same for both; what is compared is what the client takes. It
is awaited, as clew is: psycopg without asyncio takes about six tenths of it.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.types.numeric import Int8Dumper

from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.search import query as language
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, SessionFilter
from clew.store.postgres import log, record, search
from clew.store.postgres.database import DIALECT
from clew.store.postgres.words import vector_of
from clew.store.rows import Row
from clew.store.work.listing import list_query
from clew.store.work.record import new_message

Bare = AsyncConnection[Row]
Rows = list[tuple[Any, ...]]
Statement = tuple[Any, Row | None, bool | None]


class PostgresFloor:
    """One bare connection to a database."""

    def __init__(self, connection: Bare) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, url: str) -> PostgresFloor:
        """Connect."""
        connection = await AsyncConnection.connect(
            url, autocommit=True, cursor_factory=AsyncRawCursor
        )
        connection.adapters.register_dumper(int, Int8Dumper)
        await connection.execute("SET jit = off")
        return cls(connection)

    async def _fetch(self, sql: Any, bindings: Row | None) -> Rows:
        cursor = await self._connection.execute(sql, bindings)
        return await cursor.fetchall()

    async def append(self, bindings: Row) -> Rows:
        """One message at the end of a session, as `appended` made it ready."""
        return await self._fetch(record.APPEND, bindings)

    async def newest(self, session_id: str, limit: int) -> Rows:
        """The newest messages of a session."""
        rows = await self._fetch(log.OWN, (session_id, None, None, limit, 0, False))
        rows.reverse()
        return rows

    async def list_sessions(self, limit: int) -> Rows:
        """The sessions that a list shows first, and the one after, which tells of a next page."""
        where = SessionFilter(viewer=OWNER)
        sql, bindings = list_query(DIALECT, where, archived=False, after=None, limit=limit + 1)
        return await self._fetch(sql, bindings)

    async def search(self, statements: list[Statement]) -> None:
        """The statements of a search, one after the other."""
        for sql, bindings, prepare in statements:
            cursor = await self._connection.execute(sql, bindings, prepare=prepare)
            if cursor.description is not None:
                await cursor.fetchall()

    async def searched(self, query: str, limit: int) -> list[Statement]:
        """The very statements of a search, noted while it is done once."""
        return await searched(self._connection, query, SearchFilter(viewer=OWNER), limit)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


def appended(session_id: str, epoch: int, content: str) -> Row:
    """The bindings of an append."""
    bindings, size, _ = new_message(AddMessage(Draft(role="user", content=content)), 0)
    vector = vector_of(content)
    return (
        session_id, epoch, None, None, *bindings, None, *vector, size, True, content[:200],
        content[:200].lower(),
    )  # fmt: skip


class _Noting:
    """A connection that notes what it is asked."""

    def __init__(self, connection: Bare) -> None:
        self._connection = connection
        self.asked: list[Statement] = []

    async def script(self, sql: Any) -> None:
        self.asked.append((sql, None, False))
        await self._connection.execute(sql, prepare=False)

    async def fetch(
        self,
        sql: Any,
        bindings: Row | None = None,
        *,
        prepare: bool | None = None,
    ) -> Any:
        self.asked.append((sql, bindings, prepare))
        cursor = await self._connection.execute(sql, bindings, prepare=prepare)
        return await cursor.fetchall()

    async def one(self, sql: Any, bindings: Row | None = None) -> Any:
        rows = await self.fetch(sql, bindings)
        return rows[0] if rows else None


async def searched(
    connection: Bare, query: str, where: SearchFilter, limit: int
) -> list[Statement]:
    """The very statements of a search, noted while it is done once.

    Finding, ranking and choosing the page are SQL, and so all of that is the floor's work too; what
    is clew's alone is reading the query, putting the statement together, snippets and values. Only
    their time is longer: where clew would answer with less, the floor would fail.
    """
    noting: Any = _Noting(connection)
    await noting.script(search.begin(60))
    place = await search.find_place(noting, None)
    searching = search.SearchRun(noting, language.parse(query), where, place)
    await searching.page(limit, per_session=False)
    await noting.script("COMMIT")
    return list(noting.asked)
