"""The only place that builds things: what the configuration says becomes living parts.

Everything above takes what is built here through the ports; nothing below knows how it was chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.config import Config
from clew.core.retention import Retention
from clew.store import open_store, sqlite_path

if TYPE_CHECKING:
    from clew.ports import Clock, Store
    from clew.store.sqlite.backup import Manifest, Progress, Restored
    from clew.store.sqlite.doctor import Diagnosis as Diagnosis  # noqa: PLC0414  # given on
    from clew.store.sqlite.mending import Mended as Mended  # noqa: PLC0414  # likewise
    from clew.store.sqlite.soundness import Advance


async def open_configured_store(config: Config, clock: Clock | None = None) -> Store:
    """The store of this configuration, open. `clock` is another than the host's."""
    return await open_store(config.store.url, durability=config.store.durability, clock=clock)


def retention_policy(config: Config) -> Retention:
    """What `[session]` says about old sessions."""
    return Retention(
        retention_days=config.session.retention_days,
        max_storage_bytes=config.session.max_storage_bytes,
        action=config.session.retention_action,
    )


class StoreFacts(msgspec.Struct, frozen=True):
    """What kind of store it is; its contents are `Store.stats`."""

    path: Path
    engine: str
    schema: int


def describe_store(config: Config) -> StoreFacts:
    """The file, the database engine, and the schema that an open store of this clew has."""
    import apsw  # noqa: PLC0415  # only who asks about SQLite pays for it

    from clew.store.sqlite.migrating import shipped_migrations  # noqa: PLC0415  # likewise

    return StoreFacts(
        path=sqlite_path(config.store.url),
        engine=f"SQLite {apsw.sqlite_lib_version()}",
        schema=shipped_migrations()[-1].number,
    )


# What follows works on the file of a store that is not open here; each is imported when it is
# used, since no other command needs it.


def back_up_store(
    config: Config, target: Path, *, now: int, force: bool, progress: Progress
) -> Manifest:
    """Copy the store to a file."""
    from clew.store.sqlite.backup import back_up  # noqa: PLC0415

    path = sqlite_path(config.store.url)
    return back_up(path, target, now=now, force=force, progress=progress)


def restore_store(
    config: Config, source: Path, *, now: int, replace: bool, progress: Progress
) -> Restored:
    """Put a backup in the place of the store."""
    from clew.store.sqlite.backup import restore  # noqa: PLC0415

    path = sqlite_path(config.store.url)
    return restore(path, source, now=now, replace=replace, progress=progress)


def examine_store(config: Config, *, now: int, full: bool, advance: Advance) -> Diagnosis:
    """Look for what is wrong with the store."""
    from clew.store.sqlite.doctor import examine  # noqa: PLC0415

    path = sqlite_path(config.store.url)
    return examine(path, now=now, home=config.data_dir, full=full, advance=advance)


def mend_store(config: Config, diagnosis: Diagnosis, *, now: int) -> tuple[Mended, ...]:
    """Put right what a diagnosis says can be."""
    from clew.store.sqlite.mending import mend  # noqa: PLC0415

    return mend(sqlite_path(config.store.url), diagnosis, now=now, home=config.data_dir)
