"""A whole store from one database into another, and what may come between."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import apsw
import psycopg
import pytest

from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import SessionFilter
from clew.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    StoreDamaged,
    StoreInUse,
    StoreUnavailable,
    TargetNotEmpty,
)
from clew.ports import Store
from clew.store import is_postgres, open_store
from clew.store.copy import Copied, Progress, StoreCopy
from clew.store.postgres import doctor as postgres_doctor
from clew.store.postgres.schema import shipped_migrations as postgres_migrations
from clew.store.postgres.store import PostgresStore
from clew.store.sqlite import doctor as sqlite_doctor
from clew.store.sqlite.schema import shipped_migrations as sqlite_migrations
from clew.store.sqlite.store import SqliteStore
from clew.store.tables import TABLES
from clew.wiring import copy_source, copy_target
from tests.cli.conftest import Home
from tests.patience import PATIENCE
from tests.postgres.histories import fill
from tests.postgres.server import Server
from tests.store.files import digest, query

T = TypeVar("T")
NOW = 1_777_636_800_000


def copy(source: str, target: str, progress: Progress = lambda _done, _total: None) -> Copied:
    copying = StoreCopy(
        copy_source(source, now=NOW), copy_target(target, now=NOW), progress=progress, chunk_rows=7
    )
    return asyncio.run(copying.run())


def inside(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await open_store(url) as store:
            return await work(store)

    return asyncio.run(run())


def rows_of(url: str, server: Server) -> dict[str, list[tuple]]:
    """All that is in a store, without clew: truth values are numbers."""
    found = {}
    for table in TABLES:
        made = "ordinal" if is_postgres(url) else "rowid"
        order = made if table.ordered else ", ".join(table.key)
        sql = f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {order}"
        if is_postgres(url):
            with psycopg.connect(url) as connection:
                rows = connection.execute(sql).fetchall()
        else:
            rows = query(Path(url), sql)
        found[table.name] = [
            tuple(int(each) if isinstance(each, bool) else each for each in row) for row in rows
        ]
    return found


@pytest.fixture
def bare(server: Server) -> Iterator[str]:
    """The URL of a database in which nobody has made anything."""
    name = server.create_database()
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "sessions.db"
    asyncio.run(fill(str(path)))
    return path


def test_the_tables_of_a_copy_are_those_of_both_schemas(filled: Path, url: str) -> None:
    of_here = {
        "leases", "attachments", "processes", "messages_words", "usage_sums", "usage_changes",
        "memory_vectors", "clew_schema",
    }  # fmt: skip
    tables = {table.name: set(table.columns) for table in TABLES}
    with psycopg.connect(url) as connection:
        found: dict[str, set[str]] = {}
        for table, column in connection.execute(
            """SELECT relname, attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
               WHERE relkind = 'r' AND attnum > 0 AND relnamespace = 'public'::regnamespace"""
        ):
            found.setdefault(table, set()).add(column)
    assert set(found) - of_here == set(tables)
    for name, columns in tables.items():
        assert found[name] - {"ordinal", "preview_key"} == columns
        assert {
            row[0] for row in query(filled, f"SELECT name FROM pragma_table_info('{name}')")
        } == columns


def test_everything_goes_to_postgresql_and_back_and_is_the_same(
    filled: Path, bare: str, tmp_path: Path, server: Server
) -> None:
    before, bytes_before = rows_of(str(filled), server), digest(filled)
    assert all(before.values()), "every table has to be tried"
    there = copy(str(filled), bare)
    assert rows_of(bare, server) == before
    assert there.rows == sum(map(len, before.values()))
    back = tmp_path / "back.db"
    again = copy(bare, str(back))
    assert rows_of(str(back), server) == before
    assert again.tables == there.tables
    assert digest(filled) == bytes_before
    assert not list(tmp_path.glob("*.copying*"))
    assert back.stat().st_mode & 0o777 == 0o600


def test_one_file_is_copied_to_another(filled: Path, tmp_path: Path, server: Server) -> None:
    copy(str(filled), str(tmp_path / "new" / "sessions.db"))
    assert rows_of(str(tmp_path / "new" / "sessions.db"), server) == rows_of(str(filled), server)


def test_a_copy_is_sound_searchable_and_goes_on(filled: Path, bare: str, tmp_path: Path) -> None:
    async def look(store: Store) -> tuple[Any, ...]:
        listed = await store.list_sessions(SessionFilter(viewer="owner"), limit=50)
        hits = [
            {
                (hit.session_id, hit.seq)
                for hit in (await store.search(asked, SearchFilter(viewer="owner"))).hits
            }
            for asked in ("running", "日本語", "cafe", "fork")
        ]
        begun = SessionFilter(viewer="owner", text="QUICK brown")
        hits.append({(each.id, 0) for each in (await store.list_sessions(begun)).sessions})
        session = listed.sessions[-1]
        thread = await store.get_messages(session.id)
        lease = await store.acquire_lease(session.id, "test")
        added = await store.append(session.id, lease.epoch, Draft(role="user", content="onward"))
        await store.release_lease(lease)
        return listed.sessions, hits, thread, added.seq, added.id

    copy(str(filled), bare)
    copy(bare, str(tmp_path / "back.db"))
    checked = asyncio.run(postgres_doctor.examine(bare, full=True))
    assert {each.name for each in checked.findings if each.level != "ok"} == {"durability"}
    found = sqlite_doctor.examine(tmp_path / "back.db", now=NOW, full=True)
    assert [each for each in found.findings if each.level != "ok"] == []
    theirs, back = inside(bare, look), inside(str(tmp_path / "back.db"), look)
    assert theirs == back
    assert all(theirs[1])
    ((highest,),) = query(filled, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
    assert theirs[4] == highest + 1


def test_ids_of_messages_that_are_gone_are_not_given_again(
    filled: Path, bare: str, tmp_path: Path
) -> None:
    source = tmp_path / "source.db"
    copy(str(filled), str(source))
    query(source, "UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'messages'")
    copy(str(source), bare)
    copy(bare, str(tmp_path / "back.db"))
    sql = "SELECT seq FROM sqlite_sequence WHERE name = 'messages'"
    assert query(tmp_path / "back.db", sql) == [(5000,)]


DYING = """
import asyncio, os, signal, sys
from clew.store.copy import StoreCopy
from clew.wiring import copy_source, copy_target

source, target, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = 0

def progress(done, total):
    global calls
    calls += 1
    if calls == last:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(StoreCopy(copy_source(source, now=1), copy_target(target, now=1), progress=progress,
                    chunk_rows=7).run())
"""


def die_copying(source: str, target: str, calls: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", DYING, source, target, str(calls)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode


@pytest.mark.parametrize("calls", [21, 60])
def test_a_copy_that_is_killed_goes_on(
    filled: Path, bare: str, tmp_path: Path, server: Server, calls: int
) -> None:
    assert die_copying(str(filled), bare, calls) == -signal.SIGKILL
    with pytest.raises(StoreUnavailable, match="unfinished copy"):
        inside(bare, lambda store: store.stats())
    copied = copy(str(filled), bare)
    assert copied.passed_over > 0
    assert (copied.passed_over == copied.rows) == (calls == 60), "the last one dies reading back"
    assert rows_of(bare, server) == rows_of(str(filled), server)
    back = tmp_path / "back.db"
    assert die_copying(bare, str(back), calls) == -signal.SIGKILL
    assert not back.exists()
    assert copy(bare, str(back)).passed_over > 0
    assert rows_of(str(back), server) == rows_of(str(filled), server)


def test_a_copy_whose_connection_is_cut_fails_clearly_and_goes_on(
    filled: Path, bare: str, tmp_path: Path, server: Server
) -> None:
    def cut(done: int, _total: int) -> None:
        if done > 60:
            server.execute(
                """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE application_name = 'clew'"""
            )

    with pytest.raises(StoreUnavailable, match="PostgreSQL at"):
        copy(str(filled), bare, progress=cut)
    assert copy(str(filled), bare).passed_over > 60
    with pytest.raises(StoreUnavailable, match="PostgreSQL at"):
        copy(bare, str(tmp_path / "back.db"), progress=cut)
    assert copy(bare, str(tmp_path / "back.db")).passed_over > 60
    assert rows_of(str(tmp_path / "back.db"), server) == rows_of(str(filled), server)


def test_a_source_that_says_something_else_by_then_is_copied_anew(
    filled: Path, bare: str, tmp_path: Path, server: Server
) -> None:
    source = tmp_path / "source.db"
    copy(str(filled), str(source))
    die_copying(str(source), bare, 20)
    query(source, "UPDATE sessions SET title = 'changed'")
    assert copy(str(source), bare).passed_over == 0
    assert rows_of(bare, server) == rows_of(str(source), server)
    back = tmp_path / "back.db"
    die_copying(bare, str(back), 20)
    with psycopg.connect(bare) as connection:
        connection.execute("UPDATE sessions SET title = 'again'")
    assert copy(bare, str(back)).passed_over == 0
    assert rows_of(str(back), server) == rows_of(bare, server)


def test_an_unfinished_copy_of_another_store_is_left_alone(
    filled: Path, bare: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    copy(str(filled), str(other))
    die_copying(str(filled), bare, 20)
    with pytest.raises(Conflict, match="unfinished copy of another"):
        copy(str(other), bare)
    assert copy(str(filled), bare).passed_over > 0
    die_copying(str(filled), str(tmp_path / "new.db"), 20)
    with pytest.raises(Conflict, match="unfinished copy of another"):
        copy(str(other), str(tmp_path / "new.db"))


def test_a_target_that_has_anything_is_refused_untouched(
    filled: Path, url: str, tmp_path: Path, server: Server
) -> None:
    asyncio.run(fill(url, messages=2))
    before = rows_of(url, server)
    with pytest.raises(TargetNotEmpty, match="empty database"):
        copy(str(filled), url)
    assert rows_of(url, server) == before
    assert inside(url, lambda store: store.stats()).messages
    mine = tmp_path / "mine.db"
    asyncio.run(fill(str(mine), messages=2))
    kept = digest(mine)
    with pytest.raises(TargetNotEmpty):
        copy(url, str(mine))
    assert digest(mine) == kept


def test_an_empty_store_is_a_fine_target(filled: Path, tmp_path: Path, server: Server) -> None:
    new = tmp_path / "sessions.db"
    inside(str(new), lambda store: store.stats())
    copy(str(filled), str(new))
    assert rows_of(str(new), server) == rows_of(str(filled), server)


def test_neither_side_may_be_open_elsewhere(filled: Path, url: str, tmp_path: Path) -> None:
    async def refuse(held: str, source: str, target: str) -> None:
        async with await open_store(held):
            with pytest.raises(StoreInUse, match="pid"):
                await StoreCopy(
                    copy_source(source, now=NOW), copy_target(target, now=NOW), progress=print
                ).run()

    empty = tmp_path / "empty.db"
    asyncio.run(refuse(str(filled), str(filled), str(empty)))
    asyncio.run(refuse(url, str(filled), url))
    asyncio.run(refuse(url, url, str(empty)))
    asyncio.run(refuse(str(empty), url, str(empty)))


def test_what_another_program_changes_meanwhile_is_noticed(
    filled: Path, bare: str, tmp_path: Path
) -> None:
    source = tmp_path / "source.db"
    copy(str(filled), str(source))
    with closing(apsw.Connection(str(source))) as other:

        def meddle(done: int, _total: int) -> None:
            if done > 50:
                other.execute("UPDATE sessions SET title = 'x'")

        with pytest.raises(Conflict, match="was changed while"):
            copy(str(source), bare, progress=meddle)
    copy(str(source), bare)


def test_nobody_can_write_to_postgresql_while_it_is_copied(url: str, tmp_path: Path) -> None:
    asyncio.run(fill(url, messages=2))
    refused = []
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SET lock_timeout = '10ms'")

        def meddle(_done: int, _total: int) -> None:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("UPDATE sessions SET title = 'x'")
            refused.append(True)

        copy(url, str(tmp_path / "new.db"), progress=meddle)
        assert refused
        other.execute("BEGIN; UPDATE sessions SET title = 'x'")
        with pytest.raises(StoreInUse, match="not clew"):
            copy(url, str(tmp_path / "newer.db"))


def test_a_copy_that_does_not_say_the_same_never_becomes_a_store(
    filled: Path, tmp_path: Path
) -> None:
    target = tmp_path / "new.db"
    die_copying(str(filled), str(target), 45)
    query(tmp_path / "new.db.copying", "UPDATE sessions SET cwd = 'elsewhere'")
    with pytest.raises(StoreDamaged, match="sessions"):
        copy(str(filled), str(target))
    assert not target.exists()
    copy(str(filled), str(target))


def test_a_copy_says_what_it_does(filled: Path, bare: str) -> None:
    told: list[str] = []
    asyncio.run(
        StoreCopy(
            copy_source(str(filled), now=NOW),
            copy_target(bare, now=NOW),
            progress=lambda _done, _total: None,
            tell=told.append,
        ).run()
    )
    steps = [each for each in told if each.startswith("Building indexes (")]
    assert told == ["Copying", "Building indexes", *steps, "Comparing"]
    assert len(steps) > 20
    assert steps[-1] == f"Building indexes ({len(steps)} of {len(steps)})"


async def made_older(url: str) -> None:
    """A store with the first schema."""
    if is_postgres(url):
        await (await PostgresStore.open(url, migrations=postgres_migrations()[:1])).close()
    else:
        async with SqliteStore(Path(url), migrations=sqlite_migrations()[:1]):
            pass


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_a_store_of_an_older_clew_is_not_copied_before_the_command_that_is_named(
    bare: str, tmp_path: Path, side: str, kind: str
) -> None:
    older = bare if kind == "postgres" else str(tmp_path / "older.db")
    asyncio.run(made_older(older))
    fresh = str(tmp_path / "fresh.db")
    inside(fresh, lambda store: store.stats())
    other = str(tmp_path / "new.db") if side == "source" else fresh
    source, target = (older, other) if side == "source" else (other, older)
    with pytest.raises(StoreUnavailable, match="older clew") as refused:
        copy(source, target)
    named = re.search(r"`clew --store (\S+) list`", str(refused.value))
    assert named is not None
    assert named[1] == ("URL" if kind == "postgres" else older)

    assert Home(tmp_path / "home").clew("--store", older, "list").exit_code == 0

    copy(source, target)


def test_what_can_not_be_copied_is_said(filled: Path, bare: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        copy(bare, str(tmp_path / "new.db"))
    with pytest.raises(NotFound):
        copy(str(tmp_path / "none.db"), str(tmp_path / "new.db"))
    with pytest.raises(InvalidInput, match="onto itself"):
        copy(str(filled), str(filled))
