"""What a piece of work runs on: the transaction that it is given, and the engine that runs it.

A piece of work awaits its transaction and nothing else. PostgreSQL awaits it; SQLite's threads run
it straight through, because their transaction never waits, and refuse one that yields.

Shared SQL is what both databases understand, with `$1`, `$2` … for values. It has no `::casts`
(`CAST(… AS …)` works in both). Four things are PostgreSQL's, and the SQLite transaction replaces
them (see `sqlite.engine`): `$n`, the column `ordinal`, `= ANY ($n)` with a list, and the clauses
that lock rows. What differs more is a field of `Dialect`.
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
        """All rows of a statement. What the columns hold is the schema's promise."""
        ...

    async def one(self, sql: str, bindings: Row = ()) -> Row | None:
        """The first row of a statement, if it has any."""
        ...

    async def run(self, sql: str, bindings: Row = ()) -> int:
        """How many rows an INSERT, UPDATE or DELETE has changed."""
        ...

    async def now(self) -> int:
        """The time by the store's clock. It may be a round trip: ask once."""
        ...

    async def serialize(self, name: str) -> None:
        """Wait for other transactions that called this with the same name, until they end."""
        ...


Work = Callable[[Transaction], Coroutine[Any, Any, T]]


class Dialect(NamedTuple):
    """Fragments of SQL that the databases spell differently."""

    preview_columns: tuple[str, ...]
    """Columns of a session that hold how it began."""

    contains_text: str
    """Whether title or preview contain a folded text; `{0}` stands for its binding."""

    id_ending: str
    """The last four characters of an id, as its index has them."""

    wanted_ids: str
    """The ids of the list `$1` as a table `wanted` with the column `id`."""

    newest_turn: str
    """A join of the session `s` with its newest turn, as `t`."""

    store_size: str
    """The bytes that the whole store takes."""


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
        """Run several queries that see one moment."""
        ...

    async def write(self, work: Work[T], *, about: str = "", repeatable: bool = False) -> T:
        """Run a piece of work in a transaction; returns after its commit.

        `about` is the session that other processes are told of. A `repeatable` one may be run
        again when a lost connection leaves open whether it was committed.
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
        """The processes of these holders that have ended and that transactions take for alive.

        Called outside of any transaction. From then on transactions know it too. Where a
        transaction always knows, there are none.
        """
        ...
