"""Copying everything of one store into another, of either engine: in order, resumable, verified.

A copy is written where no process takes it for a store. After all of it was read back and compared,
it becomes a store in a single step. The progress and its hash are committed with the rows: a copy
that was killed continues from there, if the source is still the same. The `copy_side` of each
engine reads and writes the rows.
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
"""Rows done, and rows in all; each row counts twice, as written and as read back."""

Tell = Callable[[str], None]
"""The step that begins, in a few words: some steps take long and report no rows."""

_pack = msgspec.msgpack.Encoder().encode


class _Side(Protocol):
    """Either side of a copy. Opened with `async with`, which holds the store alone."""

    place: str
    """Its address, without a password; an unfinished copy stores that of its source."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...

    def read(self, table: Table, chunk_rows: int) -> AsyncGenerator[list[Row], None]:
        """All rows in the table's order, as plain numbers, text and bytes, in chunks."""


class Source(_Side, Protocol):
    """The store that is copied. No process may write to it during the copy."""

    async def count(self, table: Table) -> int:
        """How many rows a table has."""

    async def get_last_id(self) -> int:
        """The highest id that a message ever had."""

    async def is_unchanged(self) -> bool:
        """Whether the store did not change since it was read. Ends the reading."""


class Target(_Side, Protocol):
    """The new store."""

    async def begin(self, source: str) -> Mapping[str, Mark]:
        """Make it, or find an unfinished copy of `source`; returns the progress of each table.

        A target with anything else in it is refused and not changed.
        """

    async def write(self, table: Table, rows: Sequence[Row], mark: Mark) -> None:
        """Add rows and the new mark of their table, in one transaction."""

    async def complete(self, last_id: int, tell: Tell) -> None:
        """Build indexes and the like, once all rows are there. May be repeated."""

    async def publish(self) -> None:
        """Make it a store that processes can open."""

    async def discard(self) -> None:
        """Remove the unfinished copy."""


class CopiedTable(msgspec.Struct, frozen=True):
    """One table, equal on both sides."""

    name: str
    rows: int
    sha256: str


class Copied(msgspec.Struct, frozen=True):
    """The result of a copy. `passed_over`: rows that an earlier, unfinished copy had written."""

    source: str
    target: str
    rows: int
    passed_over: int
    tables: tuple[CopiedTable, ...]

    def count(self, name: str) -> int:
        """Rows of one table."""
        return next(table.rows for table in self.tables if table.name == name)


class _Changed(Exception):
    """Raised if the source no longer has the rows of an unfinished copy."""


class StoreCopy:
    """One copy from a source to a target."""

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
        """Copy everything; when it returns, both sides are the same."""
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
        """Copy the rows after the mark; those before it must not have changed."""
        digest, seen, changed = hashlib.sha256(), 0, False
        async with aclosing(self._source.read(table, self._chunk_rows)) as chunks:
            async for rows in chunks:
                if changed:
                    continue  # read to the end: a read that is broken off would end the transaction
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
        """Read everything back and compare it."""
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
