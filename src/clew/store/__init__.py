"""Stores: adapters that never meet, and the one door to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from clew.errors import InvalidInput
from clew.ports import Clock

if TYPE_CHECKING:
    from clew.store.sqlite.connection import Durability
    from clew.store.sqlite.store import SqliteStore


async def open_store(
    url: str, *, durability: Durability = "full", clock: Clock | None = None
) -> SqliteStore:
    """Open the store that a URL names, making it if it is not there.

    `sqlite:///absolute/path/sessions.db`, or a plain path. Use it as `async with`.
    """
    from clew.store.sqlite.store import SqliteStore  # noqa: PLC0415  # only the store that is asked for

    return SqliteStore(sqlite_path(url), durability=durability, clock=clock)


def sqlite_path(url: str) -> Path:
    """The file that a store's URL names."""
    scheme, colon, rest = url.partition("://")
    if not url.strip():
        raise InvalidInput("A store needs a URL, such as sqlite:///home/me/sessions.db.")
    if not colon:
        return Path(url).expanduser().absolute()
    if scheme != "sqlite":
        raise InvalidInput(
            f'"{scheme}" is not a kind of store that this clew knows. '
            "Use sqlite:///absolute/path/sessions.db."
        )
    if not rest.startswith("/"):
        raise InvalidInput(f"{url} needs three slashes: sqlite:///absolute/path/sessions.db.")
    named = unquote(rest).lstrip("/")
    return Path(named if Path(named).drive else "/" + named)
