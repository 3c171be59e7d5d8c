"""Stores, as the configuration names them: opened, described, backed up, mended, copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.config import (
    Config,
)
from clew.core.session import Retention
from clew.errors import InvalidInput
from clew.store import is_postgres, need_postgres, open_store, sqlite_path
from clew.store.migrations import Report, quiet

if TYPE_CHECKING:
    from clew.api.sessions import Imported
    from clew.ports import Clock, Store
    from clew.store.copy import Copied, Source, Target, Tell
    from clew.store.diagnosis import Advance
    from clew.store.diagnosis import Diagnosis as Diagnosis  # noqa: PLC0414  # given on
    from clew.store.diagnosis import Finding as Finding  # noqa: PLC0414  # given on
    from clew.store.diagnosis import Repaired as Repaired  # noqa: PLC0414  # given on
    from clew.store.sqlite.backup import Manifest, Progress, Restored


async def open_configured_store(
    config: Config, clock: Clock | None = None, *, report: Report = quiet
) -> Store:
    """The store of this configuration, open. `clock` is another than the host's.

    `report` is told how an update of an older store goes on.
    """
    return await open_store(
        config.store.url, durability=config.store.durability, clock=clock, report=report
    )


async def import_file(
    config: Config,
    lines: Iterable[bytes],
    *,
    as_new: bool,
    dry_run: bool,
    advance: Callable[[int], None],
    report: Report = quiet,
) -> Imported:
    """Read a transcript of this machine into the store, line by line.

    Unlike `sessions.import` it adds to a session that the transcript goes on with.
    """
    from clew.transfer import import_transcript  # noqa: PLC0415  # only who imports pays for it

    store = await open_configured_store(config, report=report)
    try:
        return await import_transcript(
            store, lines, as_new=as_new, dry_run=dry_run, advance=advance
        )
    finally:
        await store.close()


async def fill_demo_store(
    config: Config,
    *,
    now: int,
    seed: int,
    sessions: int,
    messages: int,
    progress: Callable[[int], None],
) -> None:
    """Fill a new store with conversations that were made up; `InvalidInput` if it has sessions."""
    from clew.testing.clock import FakeClock  # noqa: PLC0415  # only a demo needs it
    from clew.testing.corpus import Corpus, load  # noqa: PLC0415  # only a demo needs it

    clock = FakeClock(now)
    store = await open_configured_store(config, clock)
    try:
        before = await store.stats()
        if before.sessions or before.archived or before.trashed:
            raise InvalidInput(
                f"{config.data_dir} already has sessions. Give another directory with --home."
            )
        made = Corpus(now=now, seed=seed).conversations(sessions, messages)
        await load(store, made, progress=progress, clock=clock)
    finally:
        await store.close()


def retention_policy(config: Config) -> Retention:
    """What `[session]` says about old sessions."""
    return Retention(
        retention_days=config.session.retention_days,
        max_storage_bytes=config.session.max_storage_bytes,
        action=config.session.retention_action,
    )


class StoreFacts(msgspec.Struct, frozen=True):
    """What kind of store it is; its contents are `Store.stats`."""

    path: str
    engine: str
    schema: int


async def describe_store(config: Config) -> StoreFacts:
    """The place, the database engine, and the schema that an open store of this clew has."""
    if is_postgres(config.store.url):
        from clew.store.postgres.doctor import describe  # noqa: PLC0415  # only a demo needs it

        return StoreFacts(*await describe(config.store.url))
    import apsw  # noqa: PLC0415  # only who asks about SQLite pays for it

    from clew.store.sqlite.schema import shipped_migrations  # noqa: PLC0415  # only who asks about SQLite pays for it

    return StoreFacts(
        path=str(sqlite_path(config.store.url)),
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

    path = _backup_path(config)
    return back_up(path, target, now=now, force=force, progress=progress)


def restore_store(
    config: Config, source: Path, *, now: int, replace: bool, progress: Progress
) -> Restored:
    """Put a backup in the place of the store."""
    from clew.store.sqlite.backup import restore  # noqa: PLC0415

    path = _backup_path(config)
    return restore(path, source, now=now, replace=replace, progress=progress)


def _backup_path(config: Config) -> Path:
    if is_postgres(config.store.url):
        raise InvalidInput(
            "The store is in PostgreSQL, which has its own backups: use pg_dump and pg_restore, or "
            "`clew store copy` for a SQLite file of everything. Nothing was changed."
        )
    return sqlite_path(config.store.url)


async def examine_store(config: Config, *, now: int, full: bool, advance: Advance) -> Diagnosis:
    """Look for what is wrong with the store."""
    if is_postgres(config.store.url):
        need_postgres()
        from clew.store.postgres import doctor  # noqa: PLC0415

        return await doctor.examine(config.store.url, full=full, advance=advance)
    from clew.store.sqlite.doctor import examine  # noqa: PLC0415

    path = sqlite_path(config.store.url)
    return examine(path, now=now, home=config.data_dir, full=full, advance=advance)


async def mend_store(config: Config, diagnosis: Diagnosis, *, now: int) -> tuple[Repaired, ...]:
    """Put right what a diagnosis says can be."""
    if is_postgres(config.store.url):
        from clew.store.postgres.repair import repair_database  # noqa: PLC0415

        return await repair_database(config.store.url, diagnosis)
    from clew.store.sqlite.repair import repair_file  # noqa: PLC0415

    return repair_file(sqlite_path(config.store.url), diagnosis, now=now, home=config.data_dir)


async def copy_store(
    source: str, target: str, *, now: int, progress: Progress, tell: Tell
) -> Copied:
    """Bring everything of one store into another, new or empty one."""
    from clew.store.copy import StoreCopy  # noqa: PLC0415

    return await StoreCopy(
        copy_source(source, now=now), copy_target(target, now=now), progress=progress, tell=tell
    ).run()


def copy_source(url: str, *, now: int) -> Source:
    """A store as the side that is read, not opened yet."""
    if is_postgres(url):
        need_postgres()
        from clew.store.postgres.copy_side import PostgresSource  # noqa: PLC0415

        return PostgresSource(url)
    from clew.store.sqlite.copy_side import SqliteSource  # noqa: PLC0415

    return SqliteSource(sqlite_path(url), now=now)


def copy_target(url: str, *, now: int) -> Target:
    """A store as the side that is written, not opened yet."""
    if is_postgres(url):
        need_postgres()
        from clew.store.postgres.copy_side import PostgresTarget  # noqa: PLC0415

        return PostgresTarget(url)
    from clew.store.sqlite.copy_side import SqliteTarget  # noqa: PLC0415

    return SqliteTarget(sqlite_path(url), now=now)
