"""What the SQLite store promises about its file, beyond the ports."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import pytest

from clew.core.changes import AddMessage, StartTurn
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import NewSession, Session, SessionEdit, SessionFilter
from clew.errors import ClewError, SessionAttached, StoreFull, StoreReadOnly, StoreUnusable
from clew.store import open_sqlite, open_store
from clew.store.sqlite.connection import READERS
from clew.store.sqlite.engine import DIALECT, spell
from clew.store.sqlite.errors import translate
from clew.store.sqlite.store import SqliteStore
from clew.store.work.listing import list_query
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import found, make, read, record, say
from tests.patience import PATIENCE
from tests.store.files import Child
from tests.store.test_state_machine import check_file

ID = "aaaaaaaa-0000-4000-8000-000000000000"
SOURCE = Path(__file__).resolve().parent.parent.parent / "src" / "clew"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    async with await open_sqlite(f"sqlite://{path}", clock=clock) as store:
        yield store


def shell(path: Path, sql: str, *options: str) -> str:
    """What the system's own `sqlite3` answers: another SQLite than clew's, and older."""
    done = subprocess.run(
        ["sqlite3", "-bail", *options, str(path), sql],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def by_hand(path: Path) -> Iterator[apsw.Connection]:
    """A connection that clew knows nothing of."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(5_000)
        yield connection


# --- the file -------------------------------------------------------------------------------------


async def test_only_its_owner_may_read_the_store(store: SqliteStore, path: Path) -> None:
    await say(store, (await make(store)).id, "secret")

    files = [each for each in path.parent.rglob("*") if each.is_file()]
    assert {"sessions.db", "sessions.db-wal", "sessions.db-shm", "store.lock"} <= {
        each.name for each in files
    }
    assert {each.name: oct(each.stat().st_mode & 0o777) for each in files} == {
        each.name: "0o600" for each in files
    }
    for directory in (path.parent, path.parent / "processes"):
        assert oct(directory.stat().st_mode & 0o777) == "0o700"


async def test_every_table_is_strict(store: SqliteStore, by_hand: apsw.Connection) -> None:
    rows = by_hand.execute(
        "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
    ).fetchall()
    tables = {name: strict for name, strict in rows if not str(name).startswith("sqlite_")}

    assert len(tables) > 15
    assert set(tables.values()) == {1}


async def test_foreign_keys_are_on_in_every_connection(store: SqliteStore) -> None:
    def look(connection: apsw.Connection) -> object:
        return connection.pragma("foreign_keys")

    assert await store._db.read(look) == 1
    assert await store._db.write(look) == 1


async def test_commits_are_synced_by_default(store: SqliteStore, path: Path) -> None:
    def look(connection: apsw.Connection) -> object:
        return connection.pragma("synchronous")

    assert await store._db.write(look) == 2
    async with await open_sqlite(str(path), durability="normal") as other:
        assert await other._db.write(look) == 1


async def test_the_views_read_well_in_the_sqlite3_shell(
    store: SqliteStore, path: Path, clock: FakeClock
) -> None:
    session = await make(store, title="Plans", cwd="/here")
    await say(store, session.id, "hello there")
    other = await make(store)
    await say(store, other.id, "first words")
    await store.edit_session(other.id, SessionEdit(archived=True))

    sessions = json.loads(shell(path, "SELECT * FROM v_sessions ORDER BY name", "-json"))
    messages = json.loads(shell(path, "SELECT * FROM v_messages ORDER BY content", "-json"))

    assert [(row["name"], row["state"], row["messages"]) for row in sessions] == [
        ("Plans", "active", 1),
        ("first words", "archived", 1),
    ]
    assert {row["updated"] for row in sessions} == {"2026-05-01 12:00:00"}
    assert [(row["at"], row["role"], row["seq"], row["content"]) for row in messages] == [
        ("2026-05-01 12:00:00", "user", 1, "first words"),
        ("2026-05-01 12:00:00", "user", 1, "hello there"),
    ]


# --- the indexes ----------------------------------------------------------------------------------


async def test_messages_changed_by_hand_are_found_as_they_are(
    store: SqliteStore, path: Path
) -> None:
    session = await make(store)
    await say(store, session.id, "apple", "banana", "苹果")

    shell(
        path,
        f"""UPDATE messages SET content = 'cherry' WHERE seq = 1;
            DELETE FROM messages WHERE seq = 2;
            UPDATE messages SET content = '香蕉 damson' WHERE seq = 3;
            INSERT INTO messages (session_id, seq, role, content, at)
              VALUES ('{session.id}', 4, 'user', 'elder 樱桃', 1);""",
    )

    for gone in ("apple", "banana", "苹果", "苹"):
        assert await found(store, gone) == set()
    for word, seq in (("cherry", 1), ("damson", 3), ("香蕉", 3), ("elder", 4), ("樱", 4)):
        assert await found(store, word) == {(session.id, seq)}, word
    check_file(path)


async def test_a_write_indexes_what_was_changed_by_hand(store: SqliteStore, path: Path) -> None:
    session = await make(store)
    await say(store, session.id, "苹果")
    shell(path, "UPDATE messages SET content = '香蕉' WHERE seq = 1")

    await say(store, session.id, "anything")

    assert shell(path, "SELECT count(*) FROM spaceless_queue") == "0"
    check_file(path)


async def test_a_row_that_moves_by_hand_is_found_where_it_is(
    store: SqliteStore, path: Path
) -> None:
    session = await make(store)
    await say(store, session.id, "apple 苹果")

    shell(path, "UPDATE messages SET id = 1000 WHERE seq = 1")

    for word in ("apple", "苹果"):
        assert await found(store, word) == {(session.id, 1)}
    await say(store, session.id, "later")
    check_file(path)


async def test_a_vacuum_keeps_search_right(
    store: SqliteStore, path: Path, by_hand: apsw.Connection
) -> None:
    gone, session = await make(store), await make(store)
    await say(store, gone.id, *["apple 苹果"] * 50)
    await say(store, session.id, "apple", "苹果", "banana")
    await store.delete_sessions([gone.id])
    await store.purge_sessions([gone.id])

    by_hand.execute("VACUUM")

    assert await found(store, "apple") == {(session.id, 1)}
    assert await found(store, "苹果") == {(session.id, 2)}
    await say(store, session.id, "apple 香蕉")
    assert await found(store, "apple") == {(session.id, 1), (session.id, 4)}
    assert await found(store, "香蕉") == {(session.id, 4)}
    check_file(path)


async def test_a_list_goes_along_an_index(store: SqliteStore, by_hand: apsw.Connection) -> None:
    fields: list[dict[str, Any]] = [{}, {"platform": "cli"}, {"cwd": "/here"}]
    for viewer, field, archived, trashed, after in product(
        ("owner", "telegram:7"), fields, (False, True), (False, True), (None, (0, 10**12, "0"))
    ):
        where = SessionFilter(viewer=viewer, archived=archived, trashed=trashed, **field)
        sql, bindings = list_query(DIALECT, where, archived=archived, after=after, limit=20)

        steps = plan(by_hand, spell(sql).sql, bindings)

        assert [step for step in steps if "USING INDEX" in step], (where, steps)
        assert not [step for step in steps if "TEMP B-TREE" in step], (where, steps)


def plan(connection: apsw.Connection, sql: str, bindings: tuple[object, ...] = ()) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings).fetchall()
    return [str(row[3]) for row in rows]


RESOLVERS: dict[str, tuple[Callable[[SqliteStore], Awaitable[object]], str]] = {
    "id": (lambda store: store.find_sessions("aaaa"), "sqlite_autoindex_sessions_1"),
    "title": (lambda store: store.find_titles("plans"), "sessions_title"),
    "key": (lambda store: store.find_route("cli:a"), "sqlite_autoindex_sessions_1"),
    "short id": (lambda store: store.shorten_ids(["aaaa"]), "sqlite_autoindex_sessions_1"),
    "names": (lambda store: store.get_names(["aaaa"]), "sqlite_autoindex_sessions_1"),
    "word": (lambda store: store.search("plans", SearchFilter(viewer="owner")), "VIRTUAL TABLE"),
    "word of a guest": (
        lambda store: store.search("plans 狐", SearchFilter(viewer="telegram:7", role="user")),
        "VIRTUAL TABLE",
    ),
}


@pytest.mark.parametrize("what", RESOLVERS)
async def test_a_session_is_found_through_an_index(store: SqliteStore, what: str) -> None:
    session = await make(store, title="plans")
    await say(store, session.id, "plans")
    call, index = RESOLVERS[what]

    steps = await plans_of(store, lambda: call(store))

    assert [step for step in steps if index in step], steps
    assert not [step for step in steps if step in ("SCAN sessions", "SCAN messages", "SCAN m")]


DELIVERY: dict[str, tuple[Callable[[SqliteStore], Awaitable[object]], str]] = {
    "a message": (lambda store: store.get_inbound("i"), "sqlite_autoindex_inbox_1"),
    "the messages of a turn": (lambda store: store.list_taken_inbound("t"), "inbox_turn"),
    "a delivery": (lambda store: store.get_outbound("o"), "sqlite_autoindex_outbox_1"),
}


@pytest.mark.parametrize("what", DELIVERY)
async def test_inbox_and_outbox_are_read_through_an_index(store: SqliteStore, what: str) -> None:
    session = await make(store)
    await store.accept(NewInbound(id="i", channel="c", key="k"))
    await record(store, session.id, StartTurn(turn_id="t", inbound=("i",)))
    await store.add_outbound(session.id, NewOutbound(id="o", key="k", channel="c"))
    call, index = DELIVERY[what]

    steps = await plans_of(store, lambda: call(store))

    assert steps[0].startswith("SEARCH"), steps
    assert index in steps[0], steps


CHANGES: dict[str, tuple[Callable[[SqliteStore], Awaitable[object]], set[str]]] = {
    "claim messages": (lambda store: store.claim_inbound("me"), {"inbox"}),
    "release messages": (lambda store: store.release_inbound("me"), {"inbox"}),
    "claim replies": (lambda store: store.claim_outbound("me"), {"outbox"}),
    "doubt replies": (lambda store: store.doubt_outbound("me"), {"outbox"}),
    "purge": (lambda store: store.purge_sessions([ID]), {"sessions", "s", "messages", "m"}),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_what_is_over_is_not_looked_at_again(store: SqliteStore, what: str) -> None:
    await make(store, id=ID)
    await store.delete_sessions([ID])
    call, tables = CHANGES[what]

    steps = await plans_of(store, lambda: call(store))

    assert not [step for step in steps if step.removeprefix("SCAN ") in tables], steps
    assert not [step for step in steps if step.startswith("SCAN m ")], steps


async def plans_of(store: SqliteStore, call: Callable[[], Awaitable[object]]) -> list[str]:
    """The query plans of all that the store is asked during a call."""
    statements: list[str] = []
    everybody = threading.Barrier(READERS)

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))
        everybody.wait(PATIENCE)

    def watch_writer(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))

    await asyncio.gather(*(store._db.read(watch) for _ in range(READERS)))
    await store._db.write(watch_writer)
    statements.clear()
    await call()
    # Not those of triggers, which SQLite shows as comments, or with the row that they are about.
    seen = [
        sql
        for sql in statements
        if re.search(r"^\s*(WITH|SELECT|UPDATE|DELETE)\b", sql) and "old.id" not in sql
    ]
    assert seen

    def explain(connection: apsw.Connection) -> list[str]:
        return [
            step for sql in seen for step in plan(connection, sql, ("1",) * count_bindings(sql))
        ]

    return await store._db.read(explain)


def count_bindings(sql: str) -> int:
    return max(map(int, re.findall(r"\?(\d+)", sql)), default=sql.count("?"))


# --- only SQLite opens the file -------------------------------------------------------------------

AUDITED = """
import sys
names = []
def audit(event, args):
    if event in ("open", "os.open", "shutil.copyfile") or event.startswith("sqlite3"):
        names.append((event, str(args[0])))
sys.addaudithook(audit)

import asyncio, contextlib
from pathlib import Path
from clew.core.changes import AddMessage, StartTurn
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.message import Draft
from clew.core.session import Retention
from clew.core.search.hits import SearchFilter
from clew.core.session import NewSession, SessionFilter
from clew.store import open_sqlite, open_store
from clew.store.sqlite import backup, doctor, repair

path = Path(sys.argv[1])

async def work():
    async with await open_store(str(path)) as store:
        session, _ = await store.open_session(NewSession(key="cli:a"))
        lease = await store.acquire_lease(session.id, "me")
        await store.append(session.id, lease.epoch, Draft(role="user", content="apple"))
        await store.release_lease(lease)
        await store.put_blob(b"x", "text/plain")
        await store.attach(session.id)
        fork = await store.fork_session(session.id)
        await store.list_sessions(SessionFilter(viewer="owner"))
        assert (await store.search("apple", SearchFilter(viewer="owner"))).hits
        await store.stats()
        await store.retain(Retention())
        await store.delete_sessions([fork.id])
        await store.purge_sessions([fork.id])
        backup.back_up(path, path.parent / "copy.db", now=1)
        doctor.examine(path, now=1, full=True)

asyncio.run(work())
diagnosis = doctor.examine(path, now=1, full=True)
repair.repair_file(path, diagnosis, now=1)
backup.restore(path.parent / "copy.db", path, now=2, replace=True)
doctor.examine(path, now=1)
for event, name in names:
    print(event, name)
"""


def test_nothing_but_sqlite_opens_the_file(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr

    opened = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert any(name.endswith("store.lock") for name in opened), "the hook sees what is opened"
    live = {f"sessions.db{suffix}" for suffix in ("", "-wal", "-shm", "-journal")}
    assert [name for name in opened if Path(name).name in live] == []


def test_no_module_of_the_store_reads_or_copies_files_of_its_own() -> None:
    """The few that do are named here; each works on a file that is not the living database."""
    found = set()
    for module in sorted((SOURCE / "store").rglob("*.py")):
        if "postgres" in module.parts:
            continue  # it has no database file
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in OPENERS:
                    found.add((module.relative_to(SOURCE / "store").as_posix(), name))
    assert {module for module, _ in found} <= set(HARMLESS), found


OPENERS = {
    "open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text", "copyfile", "copy2",
    "copy", "sqlite3",
}  # fmt: skip
HARMLESS = {
    "__init__.py": "opens a store, through its own room",
    "migrations.py": "the SQL of the migrations",
    "presence.py": "files of processes",
    "sqlite/backup.py": "copies, manifests and directories; the store goes through SQLite",
    "sqlite/connection.py": "/proc/self/mountinfo",
    "sqlite/doctor.py": "files of processes",
    "sqlite/store.py": "its own `open` of the database, through SQLite",
    "sqlite/database.py": "its own `open`, which goes through SQLite",
}


# --- what goes wrong ------------------------------------------------------------------------------


def driver_errors() -> list[type[Exception]]:
    kinds = [value for value in vars(apsw).values() if isinstance(value, type)]
    return [kind for kind in kinds if issubclass(kind, apsw.Error)]


@pytest.mark.parametrize("kind", driver_errors())
def test_every_error_of_the_driver_is_put_in_clews_words(kind: type[Exception]) -> None:
    ours = translate(kind("what SQLite says"), Path("/home/u/sessions.db"))

    assert isinstance(ours, ClewError)
    assert str(ours).endswith(".")
    assert type(ours) is not ClewError


async def test_errors_of_the_driver_never_leave_the_store(store: SqliteStore) -> None:
    def wrong(connection: apsw.Connection) -> None:
        connection.execute("SELECT no_such_column FROM sessions")

    for run in (store._db.read, store._db.write):
        with pytest.raises(StoreUnusable):
            await run(wrong)


@pytest.fixture
async def small(store: SqliteStore) -> Session:
    """A session in a store that may not grow by more than a few pages."""
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me", ttl=10**9)
    await store.append(session.id, lease.epoch, Draft(role="user", content="kept"))

    def limit(connection: apsw.Connection) -> None:
        connection.pragma("max_page_count", connection.pragma("page_count") + 4)

    await store._db.write(limit)
    return session


async def test_a_full_disk_is_said_and_survived(
    store: SqliteStore, small: Session, path: Path
) -> None:
    lease = await store.acquire_lease(small.id, "me")

    with pytest.raises(StoreFull):
        await store.append(small.id, lease.epoch, Draft(role="user", content="x" * 1_000_000))

    assert await read(store, small.id) == ["kept"]

    def grow(connection: apsw.Connection) -> None:
        connection.pragma("max_page_count", 2**30)

    await store._db.write(grow)
    await store.append(small.id, lease.epoch, Draft(role="user", content="x" * 1_000_000))
    assert len(await store.get_messages(small.id)) == 2
    check_file(path)


REFUSED = """
import asyncio, os, sys
from clew.errors import ClewError
from clew.store import open_sqlite, open_store
from clew.store.sqlite.store import SqliteStore
from clew.store.work.listing import list_query

if os.getuid() == 0:  # root may write everywhere
    os.setgroups([])
    os.setuid(65534)
try:
    asyncio.run(open_store(sys.argv[1]))
except ClewError as error:
    print(error.code, error)
"""


def test_a_directory_that_can_not_be_written_to_is_named() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o555)

        done = subprocess.run(
            [sys.executable, "-c", REFUSED, f"{directory}/sessions.db"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )

        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(("store_unavailable", "store_read_only"))
        assert directory in done.stdout
        assert list(Path(directory).iterdir()) == []


async def test_a_place_that_is_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreUnusable, match=str(tmp_path / "file")):
        await open_store(str(tmp_path / "file" / "sessions.db"))


async def test_a_store_that_can_not_be_written_to_says_so(store: SqliteStore) -> None:
    session = await make(store)

    def lock(connection: apsw.Connection) -> None:
        connection.pragma("query_only", True)

    await store._db.write(lock)

    with pytest.raises(StoreReadOnly, match="can't be written"):
        await store.delete_sessions([session.id])
    assert await store.get_session(session.id) == session


# --- attachments of processes that end ------------------------------------------------------------

ATTACHED = """
import asyncio, sys
from clew.store import open_sqlite, open_store

async def main():
    async with await open_store(sys.argv[1]) as store:
        await store.attach(sys.argv[2], terminal="tty1")
        print("attached", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def test_a_living_process_keeps_its_session_and_a_killed_one_loses_it(
    store: SqliteStore, path: Path
) -> None:
    session = await make(store)
    with Child(ATTACHED, path, session.id) as child:
        child.wait_for("attached")
        held = await store.find_attachment(session.id)
        assert held is not None
        assert (held.pid, held.terminal) == (child.process.pid, "tty1")
        with pytest.raises(SessionAttached, match=str(child.process.pid)):
            await store.attach(session.id)

        child.process.kill()
        child.process.wait(PATIENCE)

        assert await store.find_attachment(session.id) is None
        mine, dead = await store.attach(session.id)
    assert dead == held
    assert mine.pid == os.getpid()


async def test_a_holder_on_another_host_lives_by_its_beat(
    store: SqliteStore, by_hand: apsw.Connection, clock: FakeClock
) -> None:
    session = await make(store)
    await store.attach(session.id)
    by_hand.execute("UPDATE attachments SET host = 'elsewhere', process = 'theirs'")

    clock.advance(30 * SECOND - 1)
    with pytest.raises(SessionAttached, match="elsewhere"):
        await store.attach(session.id)
    clock.advance(SECOND)

    _, dead = await store.attach(session.id)
    assert dead is not None
    assert dead.host == "elsewhere"


async def test_a_purge_that_was_interrupted_is_finished_by_the_next(
    store: SqliteStore, path: Path, by_hand: apsw.Connection
) -> None:
    session, other = await make(store), await make(store)
    await say(store, session.id, *["apple"] * 500)
    await store.delete_sessions([session.id, other.id])
    # As it is when the process dies after the first step.
    by_hand.execute("UPDATE sessions SET purged_at = 1 WHERE id = ?", (session.id,))

    await store.purge_sessions([other.id])

    assert by_hand.execute("SELECT count(*) FROM messages").get == 0
    assert by_hand.execute("SELECT count(*) FROM sessions").get == 0
    check_file(path)


async def test_a_very_common_word_is_cut_to_its_newest_matches(store: SqliteStore) -> None:
    session = await make(store)
    lease = await store.acquire_lease(session.id, "me")
    await store.record(
        session.id,
        lease.epoch,
        *(AddMessage(Draft(role="user", content="common")) for _ in range(1_500)),
    )

    page = await store.search("common", SearchFilter(viewer="owner"), limit=100)

    assert page.cut
    assert min(hit.seq for hit in page.hits) > 500
    rare = await store.open_session(NewSession(key="cli:rare"))
    await say(store, rare[0].id, "common rarity")
    page = await store.search("rarity common", SearchFilter(viewer="owner"))
    assert not page.cut
    assert len(page.hits) == 1
