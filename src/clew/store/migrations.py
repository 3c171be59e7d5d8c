"""The numbered SQL files that make and change a schema. Each engine applies its own."""

from __future__ import annotations

from pathlib import Path

import msgspec


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
