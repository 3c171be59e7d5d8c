from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from clew.core.changes import RedoTurn
from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER
from clew.core.tokens import Scopes
from clew.errors import (
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreInUse,
    StoreTooNew,
)
from clew.store.migrations import Migration
from clew.store.sqlite.backup import back_up, restore
from clew.store.sqlite.connection import connect
from clew.store.sqlite.database import Database
from clew.store.sqlite.schema import shipped_migrations, verified_copy
from clew.store.sqlite.store import SqliteStore
from clew.testing.contract.case import record
from tests.patience import PATIENCE
from tests.sizes import pick
from tests.store.files import (
    FORK,
    OLD,
    Child,
    contents,
    digest,
    fill,
    holding,
    made_with,
    query,
    snapshot,
)
from tests.store.old_tokens import OLD_TOKENS

NEXT = shipped_migrations()[-1].number + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


@pytest.fixture
def store(path: Path) -> Path:
    """A store of this version, with something in it."""
    fill(path, "one", "two")
    return path


def open_and_close(path: Path, *extra: Migration) -> None:
    database = Database(path, clock=lambda: 1, version="9.9")
    database.open([*shipped_migrations(), *extra])
    database._release()


def new_step(sql: str = "CREATE TABLE later (x)") -> Migration:
    return Migration(NEXT, "later", sql)


def version_of(path: Path) -> int:
    return int(query(path, "PRAGMA user_version")[0][0])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.005)


def test_the_shipped_migrations_are_numbered_without_gaps() -> None:
    steps = shipped_migrations()
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert steps[0].name == "ground"


def test_a_new_file_is_made_whole_and_private(path: Path) -> None:
    open_and_close(path)
    assert version_of(path) == NEXT - 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not list(path.parent.glob("*.before-*"))


def test_a_token_of_an_older_schema_may_do_what_it_could(path: Path) -> None:
    before = next(step.number for step in shipped_migrations() if step.name == "scopes") - 1
    database = Database(path, clock=lambda: 1, version="0.1")
    database.open(shipped_migrations()[:before])
    database._release()
    for number, token in enumerate(OLD_TOKENS):
        query(path, token.insert(number, f"x'0{number}'"))

    async def look() -> list[tuple[str, Scopes, str]]:
        async with SqliteStore(path) as store:
            assert await store.find_token(b"\x01") is not None
            return [(each.name, each.scopes, each.kind) for each in await store.list_tokens()]

    assert asyncio.run(look()) == [(each.name, each.scopes, each.kind) for each in OLD_TOKENS]


def test_deliveries_keep_their_order_when_the_outbox_is_made_anew(path: Path) -> None:
    database = Database(path, clock=lambda: 1, version="0.1")
    database.open(shipped_migrations()[:2])
    database._release()
    session = "aaaaaaaa-0000-4000-8000-000000000000"
    query(
        path,
        f"""INSERT INTO sessions (id, key, agent, person, platform, kind, created_at, updated_at)
            VALUES ('{session}', 'k', 'main', 'owner', 'cli', 'main', 1, 1)""",
    )
    for number, name in ((5, "b"), (9, "a"), (7, "c")):
        query(
            path,
            f"""INSERT INTO outbox (rowid, id, session_id, key, channel, address, content, status,
                  due_at, created_at, updated_at)
                VALUES ({number}, '{name}', '{session}', 'k', 'c', '{{"account":"of {name}"}}', '',
                  'pending', 1, 1, 1)""",
        )
    before = query(path, "SELECT rowid, * FROM outbox ORDER BY rowid")

    open_and_close(path)

    after = query(path, "SELECT rowid, * FROM outbox ORDER BY rowid")
    assert [row[: len(before[0])] for row in after] == before
    assert [row[len(before[0]) :] for row in after] == [
        ("of b", None), ("of c", None), ("of a", None),
    ]  # fmt: skip
    assert [row[1] for row in before] == ["b", "c", "a"]


def test_a_database_of_a_newer_clew_is_refused_untouched(store: Path) -> None:
    open_and_close(store, new_step())
    before = snapshot(store.parent)
    with pytest.raises(StoreTooNew, match="Update clew"):
        open_and_close(store)
    assert snapshot(store.parent) == before


def test_a_database_that_is_not_clews_is_refused_untouched(path: Path) -> None:
    path.parent.mkdir()
    query(path, "CREATE TABLE recipes (name TEXT)")
    before = snapshot(path.parent)
    with pytest.raises(StoreForeign, match="not clew's"):
        open_and_close(path)
    assert snapshot(path.parent) == before


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda data: b"\xff" * 100 + data[100:], id="header"),
        pytest.param(lambda _: b"not a database at all" * 500, id="text"),
        pytest.param(lambda data: data[:16], id="almost empty"),
    ],
)
def test_a_damaged_file_is_reported_and_never_replaced(
    store: Path, damaged: Callable[[bytes], bytes]
) -> None:
    store.write_bytes(damaged(store.read_bytes()))
    before = digest(store)
    with pytest.raises(StoreDamaged, match="clew restore BACKUP --replace"):
        open_and_close(store)
    assert digest(store) == before


def test_a_migration_is_preceded_by_a_verified_backup(store: Path) -> None:
    open_and_close(store, new_step())
    assert version_of(store) == NEXT
    assert contents(store) == ["one", "two"]
    backup = store.with_name(f"sessions.db.before-{NEXT:04d}")
    assert version_of(backup) == NEXT - 1
    assert contents(backup) == ["one", "two"]
    assert query(backup, "PRAGMA integrity_check") == [("ok",)]
    assert backup.stat().st_mode & 0o777 == 0o600


AS_BEFORE = """
SELECT id, session_id, seq, turn_id, role, content, parts, tool_call_id, tool_name, tool_calls,
  is_error, model, cost, at FROM messages ORDER BY id
"""


@pytest.mark.parametrize("number", [step.number for step in shipped_migrations()[:-1]])
def test_a_store_of_each_older_schema_is_brought_up_to_date_with_all_it_has(
    path: Path, number: int
) -> None:
    latest = shipped_migrations()[-1].number
    made_with(path, shipped_migrations()[:number])
    before = query(path, AS_BEFORE)
    assert version_of(path) == number

    async def look() -> None:
        async with SqliteStore(path) as store:
            (old,) = await store.find_keys("cli:old")
            assert old.id == OLD
            assert await store.find_endings(old.id[-4:]) == (old,)
            assert await store.find_titles("old") == (old,)
            (hit,) = (await store.search("狐狸", SearchFilter(viewer=OWNER))).hits
            assert hit.session_id == old.id
            for each in (OLD, FORK):
                assert [m.seq for m in await store.get_messages(each)] == [1]
                assert [m.seq for m in await store.get_messages(each, undone=True)] == [1, 2, 3]
            await record(store, FORK, RedoTurn("taken back"))
            assert [m.seq for m in await store.get_messages(FORK)] == [1, 2, 3]
            assert query(path, AS_BEFORE) == before
            lease = await store.acquire_lease(old.id, store.identity)
            added = await store.append(old.id, lease.epoch, Draft(role="user", content="new"))
            assert added.id == 100  # no id is given twice

    asyncio.run(look())

    assert version_of(path) == latest
    assert contents(path) == ["ключ und 狐狸", "no", "oh", "new"]
    assert query(path, "SELECT count(*) FROM messages WHERE checksum IS NULL") == [(0,)]
    assert query(path, "SELECT message_id FROM message_blobs") == [(11,)]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "PRAGMA foreign_key_check") == []
    assert query(path, "SELECT settled_at FROM inbox") == [(6,)]
    with closing(connect(path)) as connection:
        check = "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)"
        connection.execute(check)
    backup = path.with_name(f"sessions.db.before-{latest:04d}")
    assert version_of(backup) == number
    assert query(backup, AS_BEFORE) == before
    open_and_close(path)
    assert backup.exists()


def test_an_update_says_beforehand_what_it_needs_and_then_how_far_it_is(path: Path) -> None:
    made_with(path, shipped_migrations()[:4])
    reports: list[tuple[str, int, int]] = []
    database = Database(path, clock=lambda: 1, version="9.9")
    database.open(report=lambda *report: reports.append(report))
    database._release()

    (announced, *rest) = reports
    assert "MB of disk" in announced[0]
    assert f"sessions.db.before-{NEXT - 1:04d}" in announced[0]
    assert announced[1:] == (0, 0)
    assert {what for what, _, _ in rest} == {"Copying the store", "Updating messages"}
    assert rest[-1] == ("Updating messages", 3, 3)


def test_an_update_for_which_the_disk_has_no_room_is_refused_untouched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_with(path, shipped_migrations()[:4])
    before = snapshot(path.parent)
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 1 << 20))
    with pytest.raises(StoreFull, match=r"needs about .* MB .* there are 1 MB"):
        open_and_close(path)
    assert snapshot(path.parent) == before


MANY = f"""
WITH RECURSIVE n (i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n LIMIT 2997)
INSERT INTO messages (session_id, seq, role, content, at)
SELECT '{OLD}', i, 'user', 'number ' || i || hex(randomblob(1000)), i FROM n
"""

REBUILD_SLOWLY = """
import sys, time
from pathlib import Path
from clew.store.sqlite import schema
from clew.store.sqlite.database import Database

steps = [step for step in schema.shipped_migrations()]
stop = int(sys.argv[2])

def report(what, done, total):
    if what == "Updating messages" and done >= stop:
        print("there", flush=True)
        time.sleep(600)

database = Database(Path(sys.argv[1]), clock=lambda: 1, version="9.9")
database.open(steps, report=report)
print("opened", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("stop", [1000, 2000, 3000])
def test_an_update_that_is_killed_while_it_writes_messages_anew_leaves_the_old_store(
    path: Path, stop: int
) -> None:
    made_with(path, shipped_migrations()[:4])
    query(path, MANY)
    before = query(path, AS_BEFORE)
    with Child(REBUILD_SLOWLY, path, stop) as child:
        child.wait_for("there")
        child.process.send_signal(signal.SIGKILL)
        child.process.wait(PATIENCE)

    assert version_of(path) == 4
    assert query(path, AS_BEFORE) == before
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    open_and_close(path)
    assert version_of(path) == NEXT - 1
    assert query(path, AS_BEFORE) == before
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "PRAGMA freelist_count")[0][0] < 100


def test_a_migrated_store_is_the_same_as_a_new_one(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new" / "sessions.db"
    open_and_close(new)
    made_with(path, shipped_migrations()[:1])

    open_and_close(path)

    schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
    assert query(path, schema) == query(new, schema)


def test_an_older_backup_is_restored_and_brought_up_to_date_by_the_next_open(
    path: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old" / "sessions.db"
    made_with(old, shipped_migrations()[:1])
    backup = tmp_path / "backup.db"
    assert back_up(old, backup, now=8).schema == 1

    restore(path, backup, now=9)

    open_and_close(path)
    assert version_of(path) == NEXT - 1
    assert contents(path) == ["ключ und 狐狸", "no", "oh"]


def test_a_migration_that_fails_changes_nothing(store: Path) -> None:
    broken = new_step("CREATE TABLE later (x); INSERT INTO nowhere VALUES (1)")
    with pytest.raises(Exception, match="nowhere"):
        open_and_close(store, broken)
    assert version_of(store) == NEXT - 1
    assert query(store, "SELECT count(*) FROM sqlite_schema WHERE name = 'later'") == [(0,)]
    open_and_close(store, new_step())
    assert version_of(store) == NEXT


def test_nothing_is_migrated_when_the_copy_is_not_sound(store: Path) -> None:
    fill(store, *("many words " * 200 for _ in range(200)))
    data = bytearray(store.read_bytes())
    pages = len(data) // 4096
    data[pages // 3 * 4096 : pages // 2 * 4096] = b"\xa5" * ((pages // 2 - pages // 3) * 4096)
    store.write_bytes(data)
    with pytest.raises(StoreDamaged):
        open_and_close(store, new_step())
    assert version_of(store) == NEXT - 1
    assert not list(store.parent.glob("*.before-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_an_update_that_is_killed_at_any_moment_leaves_the_old_store_or_the_new(path: Path) -> None:
    made_with(path, shipped_migrations()[:4])
    query(path, MANY)
    before = query(path, AS_BEFORE)
    original = path.with_name("original.db")
    with closing(connect(path, mode="ro")) as connection:
        verified_copy(connection, original)
    rng, versions = random.Random(7), set()
    for _ in range(pick(4, 60)):
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        shutil.copy(original, path)
        with Child(MIGRATE, path, "") as child:
            child.wait_for("ready")
            go(child)
            time.sleep(rng.uniform(0, 0.6))
            child.process.send_signal(signal.SIGKILL)
            child.process.wait(PATIENCE)
        versions.add(version_of(path))
        assert query(path, AS_BEFORE) == before
        assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert versions <= {4, NEXT - 1}


def test_a_copy_that_was_left_half_by_a_kill_is_no_obstacle(store: Path) -> None:
    target = store.with_name("copy.db")
    target.with_name("copy.db.part").write_bytes(b"half a copy")
    target.with_name("copy.db.part-journal").write_bytes(b"and its journal")
    with closing(connect(store, mode="ro")) as connection:
        verified_copy(connection, target)
    assert contents(target) == ["one", "two"]
    assert not list(store.parent.glob("*.part*"))


MIGRATE = """
import sys
from pathlib import Path
from clew.errors import ClewError
from clew.store.sqlite.database import Database
from clew.store.migrations import Migration
from clew.store.sqlite.schema import shipped_migrations

steps = shipped_migrations()
extra = [Migration(steps[-1].number + 1, "later", sys.argv[2])] if sys.argv[2] else []
database = Database(Path(sys.argv[1]), clock=lambda: 1, version="9.9")
print("ready", flush=True)
sys.stdin.readline()
try:
    database.open([*steps, *extra])
except ClewError as error:
    print(type(error).__name__, flush=True)
else:
    print("opened", flush=True)
    sys.stdin.read()
    database._release()
"""

SLOW = """
CREATE TABLE later (x);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000)
INSERT INTO later SELECT randomblob(500) FROM n;
"""


def go(child: Child) -> None:
    assert child.process.stdin is not None
    child.process.stdin.write("go\n")
    child.process.stdin.flush()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_migration_that_is_killed_leaves_the_old_version_and_is_done_by_the_next_open(
    store: Path,
) -> None:
    log = store.with_name("sessions.db-wal")
    with Child(MIGRATE, store, SLOW) as child:
        child.wait_for("ready")
        go(child)
        # So much can only have come from the migration: it is in the middle of it.
        wait_until(lambda: log.exists() and log.stat().st_size > 8_000_000)
        assert child.process.poll() is None
        child.process.send_signal(signal.SIGKILL)
        child.process.wait(PATIENCE)
    assert version_of(store) == NEXT - 1
    assert contents(store) == ["one", "two"]
    assert query(store, "PRAGMA integrity_check") == [("ok",)]
    open_and_close(store, new_step())
    assert version_of(store) == NEXT
    assert contents(store) == ["one", "two"]


def test_an_older_process_with_the_store_open_keeps_a_newer_one_from_migrating(
    store: Path,
) -> None:
    with holding(store) as child:
        before = snapshot(store.parent)
        with pytest.raises(StoreInUse, match=f"pid {child.process.pid}, clew "):
            open_and_close(store, new_step())
        assert snapshot(store.parent) == before
    open_and_close(store, new_step())
    assert version_of(store) == NEXT


def test_two_processes_that_make_the_file_at_once_both_succeed(path: Path) -> None:
    with Child(MIGRATE, path, "") as one, Child(MIGRATE, path, "") as two:
        for child in (one, two):
            child.wait_for("ready")
        for child in (one, two):
            go(child)
        for child in (one, two):
            child.wait_for("opened")
    assert version_of(path) == NEXT - 1
    assert (one.process.returncode, two.process.returncode) == (0, 0)


def test_two_processes_that_want_to_migrate_at_once_both_go_on(store: Path) -> None:
    step = "CREATE TABLE later (x); INSERT INTO later VALUES (1);"
    with Child(MIGRATE, store, step) as one, Child(MIGRATE, store, step) as two:
        for child in (one, two):
            child.wait_for("ready")
        for child in (one, two):
            go(child)
        for child in (one, two):
            child.wait_for("opened")
    assert version_of(store) == NEXT
    assert query(store, "SELECT * FROM later") == [(1,)]


def test_a_copy_is_of_the_moment_at_which_its_transaction_began(store: Path) -> None:
    target = store.with_name("copy.db")
    with closing(connect(store, mode="ro")) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM messages").fetchall()
        fill(store, "three")
        verified_copy(connection, target)
    assert contents(target) == ["one", "two"]


RACE = """
import asyncio, os, sys, time
from pathlib import Path

from clew.core.session import NewSession
from clew.store.sqlite.store import SqliteStore


async def meet(path):
    async with SqliteStore(path) as store:
        await store.open_session(NewSession(key="race"))


failed = 0
for number in range(30):
    folder = Path(sys.argv[1]) / str(number)
    folder.mkdir()
    start = time.monotonic() + 0.02
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            while time.monotonic() < start:
                pass
            try:
                asyncio.run(meet(folder / "sessions.db"))
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed += sum(os.waitpid(child, 0)[1] != 0 for child in children)
sys.exit(failed != 0)
"""


def test_six_processes_that_make_thirty_files_at_once_all_succeed(tmp_path: Path) -> None:
    # In a process of its own: it forks, and pytest may have threads.
    race = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert race.returncode == 0, race.stdout + race.stderr
    made = sorted(tmp_path.glob("*/sessions.db"))
    assert [query(path, "SELECT count(*) FROM sessions") for path in made] == [[(1,)]] * 30


def test_what_a_start_killed_in_its_first_write_left_is_taken_up_by_the_next(
    path: Path, tmp_path: Path
) -> None:
    # A journal that must be rolled back first, which who only reads can't do.
    begun = tmp_path / "begun" / "sessions.db"
    begun.parent.mkdir()
    with closing(apsw.Connection(str(begun))) as connection:
        connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))")
        connection.execute("DROP TABLE t; PRAGMA user_version = 0")
        connection.execute("BEGIN; CREATE TABLE half (x); INSERT INTO half VALUES (zeroblob(9999))")
        connection.cache_flush()
        path.parent.mkdir(exist_ok=True)
        for ending in ("", "-journal"):
            path.with_name(path.name + ending).write_bytes(
                begun.with_name(begun.name + ending).read_bytes()
            )

    opened = Database(path, clock=lambda: 1, version="test")
    opened.open()
    asyncio.run(opened.close())
    assert version_of(path) == NEXT - 1
