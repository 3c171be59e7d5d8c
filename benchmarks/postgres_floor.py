"""The floor in PostgreSQL: the SQL that clew runs, with bare psycopg and nothing around it.

One connection, no pool, no tasks, no values, no checks, and the words of a message are ready before
the clock starts. The server does the same for both; what is compared is what the client takes. It
is awaited, as clew is: psycopg without asyncio takes about six tenths of it.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.types.numeric import Int8Dumper

from clew.core import query as language
from clew.core.message import Draft
from clew.core.search import SearchFilter
from clew.core.session import OWNER, SessionFilter
from clew.store.postgres import appending, search, thread
from clew.store.postgres.listing import list_query
from clew.store.postgres.recording import new_message
from clew.store.postgres.words import vector_of
from clew.store.rows import Row

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
        return await self._fetch(appending.APPEND, bindings)

    async def newest(self, session_id: str, limit: int) -> Rows:
        """The newest messages of a session."""
        rows = await self._fetch(thread.OWN, (session_id, None, None, limit, 0, False))
        rows.reverse()
        return rows

    async def list_sessions(self, limit: int) -> Rows:
        """The sessions that a list shows first, and the one after, which tells of a next page."""
        sql, bindings = list_query(
            SessionFilter(viewer=OWNER), archived=False, after=None, limit=limit + 1
        )
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
    bindings, size, _ = new_message(Draft(role="user", content=content), 0)
    vector = vector_of(content)
    return (
        session_id, epoch, None, None, None, *bindings, None, *vector, size, True, content[:200],
        content[:200].lower(),
    )  # fmt: skip


class _Noting:
    """A connection that notes what it is asked."""

    def __init__(self, connection: Bare) -> None:
        self._connection = connection
        self.asked: list[Statement] = []

    async def run(self, sql: Any) -> None:
        self.asked.append((sql, None, False))
        await self._connection.execute(sql, prepare=False)

    async def fetch(
        self,
        sql: Any,
        bindings: Row | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,  # noqa: ARG002  # bare psycopg asks for text
    ) -> Any:
        self.asked.append((sql, bindings, prepare))
        cursor = await self._connection.execute(sql, bindings, prepare=prepare)
        return await cursor.fetchall()


async def searched(
    connection: Bare, query: str, where: SearchFilter, limit: int
) -> list[Statement]:
    """The very statements of a search, noted while it is done once.

    Finding, ranking and choosing the page are SQL, and so all of that is the floor's work too; what
    is clew's alone is reading the query, putting the statement together, snippets and values. Only
    their time is longer: where clew would answer with less, the floor would fail.
    """
    noting: Any = _Noting(connection)
    await noting.run(search.begin(60))
    place = await search.find_place(noting, None)
    searching = search.Searching(noting, language.parse(query), where, place)
    await searching.page(limit, per_session=False)
    await noting.run("COMMIT")
    return list(noting.asked)
