"""SQLite as an engine of `store.work`: transactions, translation of shared SQL, live processes.

Pieces of work run in the threads of `database`, each without interruption: nothing in a SQLite
transaction waits for the event loop.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from clew.core.turn import STALE_HEARTBEAT_MS, Attachment, Lease
from clew.ports import Clock
from clew.store.presence import ProcessInfo
from clew.store.rows import COVERED, Row
from clew.store.sqlite.database import Database, snapshot
from clew.store.work.transaction import Dialect, Transaction, Work

T = TypeVar("T")

DIALECT = Dialect(
    preview_columns=("preview",),
    contains_text="(instr(title_key, {0}) > 0 OR instr(clew_fold(preview), {0}) > 0)",
    id_ending="substr(id, -4)",
    wanted_ids="(SELECT value AS id FROM json_each($1)) AS wanted",
    listed_parts=("TRUE",),
    newest_turn="""LEFT JOIN turns t ON t.rowid =
      (SELECT rowid FROM turns WHERE session_id = s.id ORDER BY rowid DESC LIMIT 1)""",
    store_size="(SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)",
    # As bytes: a damaged text may be no UTF-8 any more.
    checksum=f"clew_checksum({', '.join(f'CAST({each} AS BLOB)' for each in COVERED)})",
)

# The writer has the whole file locked, so the rows need no locks of their own.
_LOCKS = re.compile(r"\s+FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE)(?: SKIP LOCKED)?\b")
_ANY = re.compile(r"= ANY \((\$\d+)\)")
_LISTS = re.compile(r"json_each\(\$(\d+)\)")
_ORDINAL = re.compile(r"\bordinal\b")
_MARK = re.compile(r"\$(\d+)")


class Statement(NamedTuple):
    """A statement in SQLite's form. `lists` are the positions of bindings that are lists."""

    sql: str
    lists: tuple[int, ...]


@lru_cache(maxsize=512)
def spell(sql: str) -> Statement:
    """Translate a shared statement into SQLite's form.

    `$n` becomes `?n`: SQLite takes `$2` for a name and numbers names by their first appearance, so
    a tuple would be bound in the wrong order.
    """
    sql = _ANY.sub(r"IN (SELECT value FROM json_each(\1))", _LOCKS.sub("", sql))
    lists = tuple({int(each) - 1: None for each in _LISTS.findall(sql)})
    return Statement(_MARK.sub(r"?\1", _ORDINAL.sub("rowid", sql)), lists)


def system_time() -> int:
    """The time of this machine in milliseconds UTC: a store's default clock."""
    return time.time_ns() // 1_000_000


class SqliteTransaction:
    """`work.Transaction` over a connection. None of its methods waits."""

    def __init__(self, connection: apsw.Connection, clock: Clock = system_time) -> None:
        self.connection = connection
        self._clock = clock

    async def fetch(self, sql: str, bindings: Row = ()) -> list[Row]:
        """See `work.Transaction`."""
        return self._execute(sql, bindings).fetchall()

    async def one(self, sql: str, bindings: Row = ()) -> Row | None:
        """See `work.Transaction`."""
        row: Row | None = self._execute(sql, bindings).fetchone()
        return row

    async def run(self, sql: str, bindings: Row = ()) -> int:
        """See `work.Transaction`."""
        self._execute(sql, bindings)
        return self.connection.changes()

    async def now(self) -> int:
        """See `work.Transaction`."""
        return self._clock()

    async def serialize(self, name: str) -> None:
        """See `work.Transaction`. There is one writer at a time."""

    def _execute(self, sql: str, bindings: Row) -> apsw.Cursor:
        spelled, lists = spell(sql)
        if lists:
            values = list(bindings)
            for at in lists:
                values[at] = msgspec.json.encode(values[at]).decode()
            bindings = tuple(values)
        return self.connection.execute(spelled, bindings)


def run_through(work: Coroutine[Any, Any, T]) -> T:
    """Run a piece of work over a `SqliteTransaction`, without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("A piece of work may await its transaction only, and this one yielded.")


class SqliteEngine:
    """`work.Engine` over an open file."""

    dialect = DIALECT

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def info(self) -> ProcessInfo:
        """See `work.Engine`."""
        return self._db.presence.info

    async def read(self, work: Work[T]) -> T:
        """See `work.Engine`."""
        return await self._db.read(self._job(work))

    async def snapshot(self, work: Work[T]) -> T:
        """See `work.Engine`."""
        return await self._db.read(snapshot(self._job(work)))

    async def write(
        self,
        work: Work[T],
        *,
        about: str = "",  # noqa: ARG002  # other processes notice every commit of the file
        repeatable: bool = False,  # noqa: ARG002  # no connection can be lost
    ) -> T:
        """See `work.Engine`."""
        return await self._db.write(self._job(work))

    def _job(self, work: Work[T]) -> Callable[[apsw.Connection], T]:
        clock = self._db.clock
        return lambda connection: run_through(work(SqliteTransaction(connection, clock)))

    # --- who is alive ---------------------------------------------------------------------------

    async def keep_living_leases(
        self,
        tx: Transaction,  # noqa: ARG002  # reads the process files
        leases: Sequence[Lease],
    ) -> list[Lease]:
        """See `work.Engine`."""
        return [each for each in leases if self._db.presence.is_living(each.holder)]

    async def keep_living_attachments(
        self, tx: Transaction, attachments: Sequence[Attachment]
    ) -> list[Attachment]:
        """See `work.Engine`. Decided by the process's lock on this host, by its beat on others."""
        if not attachments:
            return []
        presence, now = self._db.presence, await tx.now()
        return [
            each
            for each in attachments
            if (
                presence.is_alive(each.process)
                if each.host == presence.info.host
                # A beat in the future is from before the clock was set back.
                else abs(now - each.beat_at) < STALE_HEARTBEAT_MS
            )
        ]

    async def find_dead(self, holders: Sequence[str]) -> set[str]:  # noqa: ARG002  # none are left
        """See `work.Engine`. Nothing: transactions check the process files themselves."""
        return set()
