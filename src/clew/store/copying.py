"""Everything of one store into another, of whatever kind: in order, resumable, verified.

A copy is made where nobody takes it for a store, and becomes one in a single step when all of it
has been read back and compared. What was copied, and its hash, is committed together with it: who
is killed goes on from there, if the source still says the same. How a database reads and writes
rows is in the `shelf` module of its store.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol, Self

import msgspec

from clew.errors import Conflict, InvalidInput, StoreDamaged
from clew.store.rows import Row
from clew.store.tables import CHUNK_ROWS, TABLES, Mark, Table

Progress = Callable[[int, int], None]
"""Rows done, and rows in all: each is written, and read back."""

Tell = Callable[[str], None]
"""What is being done, in a few words: some of it takes long and moves no row."""

_pack = msgspec.msgpack.Encoder().encode


class _Shelf(Protocol):
    """What is on either side: open as `async with`, alone."""

    place: str
    """Where it is, as people may read it and as a copy remembers it."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...

    def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """All rows in the table's order, as plain numbers, text and bytes; some at a time."""


class Source(_Shelf, Protocol):
    """The store that is copied. Nobody may write to it meanwhile."""

    async def count(self, table: Table) -> int:
        """How many rows a table has."""

    async def get_last_id(self) -> int:
        """The highest id that a message ever had."""

    async def is_unchanged(self) -> bool:
        """Whether all that was read is still what the store says. Ends the reading."""


class Target(_Shelf, Protocol):
    """The store that comes to be."""

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """Make it, or find an unfinished copy of `source`: how far each table is.

        Refuses, untouched, what has anything else in it.
        """

    async def write(self, table: Table, rows: Sequence[Row], mark: Mark) -> None:
        """Add rows and how far that is, in one transaction."""

    async def complete(self, last_id: int, tell: Tell) -> None:
        """All rows are there: build what depends on them. May be repeated."""

    async def publish(self) -> None:
        """Be a store from now on."""

    async def discard(self) -> None:
        """Forget the unfinished copy."""


class CopiedTable(msgspec.Struct, frozen=True):
    """What both sides say of one table."""

    name: str
    rows: int
    sha256: str


class Copied(msgspec.Struct, frozen=True):
    """What was copied. `passed_over`: rows that an earlier, unfinished copy had already brought."""

    source: str
    target: str
    rows: int
    passed_over: int
    tables: tuple[CopiedTable, ...]

    def count(self, name: str) -> int:
        """Rows of one table."""
        return next(table.rows for table in self.tables if table.name == name)


class _Changed(Exception):
    """The source no longer says what an unfinished copy was told."""


class Copying:
    """One copy under way."""

    def __init__(
        self,
        source: Source,
        target: Target,
        *,
        progress: Progress,
        tell: Tell = lambda _: None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._tell = tell
        self._chunk_rows = chunk_rows
        self._done = 0
        self._total = 0
        self._passed_over = 0

    async def run(self) -> Copied:
        """Copy everything; at the end both sides are the same."""
        source, target = self._source, self._target
        if source.place == target.place:
            raise InvalidInput(f"{source.place} can't be copied onto itself.")
        async with source, target:
            marks = await target.begin(source.place)
            self._total = 2 * sum([await source.count(table) for table in TABLES])
            try:
                digests = await self._copy_all(marks)
            except _Changed:
                await target.discard()
                digests = await self._copy_all(await target.begin(source.place))
            self._tell("Building indexes")
            await target.complete(await source.get_last_id(), self._tell)
            self._tell("Comparing")
            await self._verify(digests)
            if not await source.is_unchanged():
                await target.discard()
                raise Conflict(
                    f"{source.place} was changed while it was copied, by something other than "
                    "clew. The copy was given up; stop that and copy again."
                )
            await target.publish()
        return self._result(digests)

    def _result(self, digests: Mapping[str, Mark]) -> Copied:
        tables = tuple(CopiedTable(name, *mark) for name, mark in digests.items())
        rows = sum(table.rows for table in tables)
        return Copied(self._source.place, self._target.place, rows, self._passed_over, tables)

    async def _copy_all(self, marks: Mapping[str, Mark]) -> dict[str, Mark]:
        self._tell("Copying")
        self._done = self._passed_over = 0
        empty = Mark(0, hashlib.sha256().hexdigest())
        return {
            table.name: await self._copy_table(table, marks.get(table.name, empty))
            for table in TABLES
        }

    async def _copy_table(self, table: Table, mark: Mark) -> Mark:
        """Copy what lies behind the mark; what lies before it must be as it was."""
        digest, seen, changed = hashlib.sha256(), 0, False
        async with aclosing(self._source.read(table, self._chunk_rows)) as chunks:
            async for rows in chunks:
                if changed:
                    continue  # to its end: a read that is broken off would end the transaction
                known, new = rows[: max(0, mark.rows - seen)], rows[max(0, mark.rows - seen) :]
                if known:
                    seen += _add(digest, known)
                    changed = seen == mark.rows and digest.hexdigest() != mark.digest
                    self._passed_over += len(known)
                if new and not changed:
                    seen += _add(digest, new)
                    await self._target.write(table, new, Mark(seen, digest.hexdigest()))
                self._advance(len(rows))
        if changed or seen < mark.rows:
            raise _Changed
        return Mark(seen, digest.hexdigest())

    async def _verify(self, digests: Mapping[str, Mark]) -> None:
        """Read everything back."""
        for table in TABLES:
            digest, seen = hashlib.sha256(), 0
            async with aclosing(self._target.read(table, self._chunk_rows)) as chunks:
                async for rows in chunks:
                    seen += _add(digest, rows)
                    self._advance(len(rows))
            if Mark(seen, digest.hexdigest()) != digests[table.name]:
                await self._target.discard()
                raise StoreDamaged(
                    f"The copy of {table.name} in {self._target.place} is not what was written "
                    "there. It was given up; the source is as it was. Copy again."
                )

    def _advance(self, rows: int) -> None:
        self._done += rows
        self._progress(self._done, self._total)


def _add(digest: Any, rows: Sequence[Row]) -> int:
    for row in rows:
        digest.update(_pack(row))
    return len(rows)
