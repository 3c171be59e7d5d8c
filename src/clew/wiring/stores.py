"""The store of the configuration: open it, back it up, check, repair and copy it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.config import Config
from clew.core.session import Retention
from clew.core.text import strip_controls
from clew.errors import InvalidInput
from clew.files.durable import put_bytes
from clew.store import is_postgres, need_postgres, open_store, sqlite_path
from clew.store.migrations import Report, quiet

if TYPE_CHECKING:
    from clew.api.sessions import Imported
    from clew.core.keys import Place
    from clew.ports import Clock, Store
    from clew.store.copy import Copied, Source, Target, Tell
    from clew.store.diagnosis import Advance, Diagnosis, Repaired
    from clew.store.sqlite.backup import Manifest, Progress, Restored

BACKUP_NOTE: Final = "last_backup.json"
"""A file of the state directory: when the store was last backed up."""


async def open_configured_store(
    config: Config, clock: Clock | None = None, *, report: Report = quiet
) -> Store:
    """Open the store of this configuration. `clock` replaces the host's.

    `report` is called while an older store is updated.
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
    cwd: str | None,
    trusts: bool,
    advance: Callable[[int], None],
    report: Report = quiet,
) -> Imported:
    """Read a transcript of this machine into the store, line by line.

    Unlike `sessions.import` it adds messages to a session that is already there, and may be told
    to trust the file.
    """
    from clew.transfer import import_transcript

    place = find_import_place(config, cwd)
    store = await open_configured_store(config, report=report)
    try:
        return await import_transcript(
            store,
            lines,
            as_new=as_new,
            dry_run=dry_run,
            place=place,
            trusts=trusts,
            advance=advance,
        )
    finally:
        await store.close()


def find_import_place(config: Config, cwd: str | None) -> Place | None:
    """The place of an imported session; `InvalidInput` if there is no such directory."""
    from clew.client.seats import locate

    if cwd is None:
        return None
    if not Path(cwd).is_absolute() or not Path(cwd).is_dir():
        raise InvalidInput(
            f"There is no directory {strip_controls(cwd, keep_newlines=False)} for the session. "
            "Nothing was imported."
        )
    return locate(cwd, config.session.scope)


async def fill_demo_store(
    config: Config,
    *,
    now: int,
    seed: int,
    sessions: int,
    messages: int,
    progress: Callable[[int], None],
) -> None:
    """Fill a new store with made-up conversations; `InvalidInput` if it has sessions."""
    from clew.testing.clock import FakeClock
    from clew.testing.corpus import Corpus, load

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
    """The retention rules of `[session]`."""
    return Retention(
        retention_days=config.session.retention_days,
        max_storage_bytes=config.session.max_storage_bytes,
        action=config.session.retention_action,
    )


# --- on the file or database of a store that is not open here -----------------------------------


def back_up_store(
    config: Config, target: Path, *, now: int, force: bool, progress: Progress
) -> Manifest:
    """Copy the store to a file."""
    from clew.store.sqlite.backup import back_up

    path = _backup_path(config)
    made = back_up(path, target, now=now, force=force, progress=progress)
    # A note for `status`; the backup is there without it.
    with contextlib.suppress(OSError):
        put_bytes(config.state_dir / BACKUP_NOTE, msgspec.json.encode({"at": now}))
    return made


def find_backup_time(config: Config) -> int | None:
    """When the store was last backed up with this configuration; None if that is not known."""
    try:
        noted = (config.state_dir / BACKUP_NOTE).read_bytes()
        return msgspec.json.decode(noted, type=dict[str, int]).get("at")
    except (OSError, msgspec.DecodeError):
        return None


def restore_store(
    config: Config, source: Path, *, now: int, replace: bool, progress: Progress
) -> Restored:
    """Replace the store by a backup."""
    from clew.store.sqlite.backup import restore

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
    """Check the store."""
    if is_postgres(config.store.url):
        need_postgres()
        from clew.store.postgres import doctor

        return await doctor.examine(config.store.url, full=full, advance=advance)
    from clew.store.sqlite.doctor import examine

    path = sqlite_path(config.store.url)
    return examine(path, now=now, home=config.data_dir, full=full, advance=advance)


async def repair_store(config: Config, diagnosis: Diagnosis, *, now: int) -> tuple[Repaired, ...]:
    """Repair what a diagnosis says can be repaired."""
    if is_postgres(config.store.url):
        from clew.store.postgres.repair import repair_database

        return await repair_database(config.store.url, diagnosis)
    from clew.store.sqlite.repair import repair_file

    return repair_file(sqlite_path(config.store.url), diagnosis, now=now, home=config.data_dir)


async def copy_store(
    source: str, target: str, *, now: int, progress: Progress, tell: Tell
) -> Copied:
    """Copy everything of one store into a new or empty one."""
    from clew.store.copy import StoreCopy

    return await StoreCopy(
        copy_source(source, now=now), copy_target(target, now=now), progress=progress, tell=tell
    ).run()


def copy_source(url: str, *, now: int) -> Source:
    """A store to copy from; it is not opened yet."""
    if is_postgres(url):
        need_postgres()
        from clew.store.postgres.copy_side import PostgresSource

        return PostgresSource(url)
    from clew.store.sqlite.copy_side import SqliteSource

    return SqliteSource(sqlite_path(url), now=now)


def copy_target(url: str, *, now: int) -> Target:
    """A store to copy to; it is not opened yet."""
    if is_postgres(url):
        need_postgres()
        from clew.store.postgres.copy_side import PostgresTarget

        return PostgresTarget(url)
    from clew.store.sqlite.copy_side import SqliteTarget

    return SqliteTarget(sqlite_path(url), now=now)
