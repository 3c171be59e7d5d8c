"""The protocols of shared work: the transaction that it gets, and the engine that runs it.

A piece of work awaits its transaction and nothing else. PostgreSQL awaits it; SQLite's threads run
it to its end without a loop, because their transaction never waits, and refuse one that yields.

Shared SQL is SQL that both databases understand, with `$1`, `$2` … for values. It has no `::casts`
(`CAST(… AS …)` works in both). Four things are PostgreSQL's, and the SQLite transaction replaces
them (see `sqlite.engine`): `$n`, the column `ordinal`, `= ANY ($n)` with a list, and the clauses
that lock rows. Larger differences are fields of `Dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from clew.core.turn import Attachment, Lease
from clew.store.presence import ProcessInfo
from clew.store.rows import Row

T = TypeVar("T")


class Transaction(Protocol):
    """One transaction of either database."""

    async def fetch(self, sql: str, bindings: Row = ()) -> list[Row]:
        """All rows of a statement. The schema guarantees the types of the columns."""
        ...

    async def one(self, sql: str, bindings: Row = ()) -> Row | None:
        """The first row of a statement, if it has any."""
        ...

    async def run(self, sql: str, bindings: Row = ()) -> int:
        """Run an INSERT, UPDATE or DELETE; returns how many rows it has changed."""
        ...

    async def now(self) -> int:
        """The time of the store's clock. It may need a round trip: read it once."""
        ...

    async def serialize(self, name: str) -> None:
        """Wait for other transactions that called this with the same name, until they end."""
        ...


Work = Callable[[Transaction], Coroutine[Any, Any, T]]


class Dialect(NamedTuple):
    """Fragments of SQL that the databases spell differently."""

    preview_columns: tuple[str, ...]
    """Columns of a session that hold its preview."""

    contains_text: str
    """Whether the title or preview contains a folded text; `{0}` stands for its binding."""

    id_ending: str
    """The last four characters of an id, written as in its index."""

    wanted_ids: str
    """The ids of the list `$1` as a table `wanted` with the column `id`."""

    listed_parts: tuple[str, ...]
    """Conditions that together cover all sessions, each of them that of an index."""

    newest_turn: str
    """A join of the session `s` with its newest turn, as `t`."""

    store_size: str
    """The bytes that the whole store takes."""

    checksum: str
    """The checksum of a message, made of its columns anew."""


class Engine(Protocol):
    """An open database: it runs pieces of work, and knows which processes are alive."""

    dialect: Dialect

    @property
    def info(self) -> ProcessInfo:
        """This process."""
        ...

    async def read(self, work: Work[T]) -> T:
        """Run a query, or several that need not agree with each other."""
        ...

    async def snapshot(self, work: Work[T]) -> T:
        """Run several queries that see the same state of the store."""
        ...

    async def write(self, work: Work[T], *, about: str = "", repeatable: bool = False) -> T:
        """Run a piece of work in a transaction; returns after its commit.

        `about` is the session that other processes are notified about. `repeatable` work may run
        again if a lost connection leaves it open whether it was committed.
        """
        ...

    async def keep_living_leases(self, tx: Transaction, leases: Sequence[Lease]) -> list[Lease]:
        """The leases whose process is alive, as far as a transaction can tell."""
        ...

    async def keep_living_attachments(
        self, tx: Transaction, attachments: Sequence[Attachment]
    ) -> list[Attachment]:
        """The attachments whose process is alive, as far as a transaction can tell."""
        ...

    async def find_dead(self, holders: Sequence[str]) -> set[str]:
        """The processes of these holders that have ended but still count as alive.

        Called outside of any transaction; afterwards transactions know it too. Returns nothing if
        transactions of the engine always know who is alive.
        """
        ...
