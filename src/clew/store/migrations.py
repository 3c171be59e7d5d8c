"""The numbered SQL files that make and change a schema. Each engine applies its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

Report = Callable[[str, int, int], None]
"""How an update of a store goes on: what is done just now, how much of it, of how much.

Called first with what it is going to do and need, and 0 of 0.
"""

REBUILD = 5
"""The step that writes every message anew."""

SPARE = 16 << 20
"""Bytes of disk that an update needs beside what it copies or writes anew."""


def quiet(_what: str, _done: int, _total: int) -> None:
    """Report to no one."""


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str


def read_migrations(folder: Path) -> tuple[Migration, ...]:
    """The steps in a folder of `NNNN_name.sql` files, in order."""
    return tuple(
        Migration(int(file.stem[:4]), file.stem[5:], file.read_text("utf-8"))
        for file in sorted(folder.glob("*.sql"))
    )
