"""Who is let in, and how: passwords, TLS and the grants that the guide names.

The guide's own statements are run here, on a server that trusts nobody.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from clew.core.message import Draft
from clew.core.search.hits import SearchFilter
from clew.core.session import NewSession, SessionFilter
from clew.errors import StoreReadOnly, StoreUnavailable
from clew.ports import Store
from clew.store import open_store
from clew.store.migrations import Migration
from clew.store.postgres.schema import shipped_migrations
from clew.store.postgres.store import PostgresStore
from tests.cli.conftest import Home
from tests.postgres.server import Server

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "postgresql.md"
PASSWORD = "correct horse"
RULES = """
local all postgres trust
host all all 127.0.0.1/32 scram-sha-256
"""
NEXT = Migration(len(shipped_migrations()) + 1, "next", "CREATE TABLE added (id BIGINT)")


def make_certificates(folder: Path) -> None:
    """A CA, another one, and a server's certificate from the first."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for name in ("ca", "other"):
        openssl("req", "-x509", *curve, "-keyout", f"{name}.key", "-out", f"{name}.crt",
                "-subj", f"/CN={name}", "-days", "2")  # fmt: skip
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-extfile", "names", "-out", "server.crt", "-days", "2")  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def guarded(certificates: Path) -> Iterator[Server]:
    """A server that asks for passwords and knows nobody but its superuser."""
    server = Server(superuser="postgres")
    try:
        server.guard(RULES, certificates / "server.crt", certificates / "server.key")
        yield server
    finally:
        server.remove()


@pytest.fixture
def owned(guarded: Server) -> Iterator[Server]:
    """... with the role and the database of the guide's first step."""
    (made,) = blocks("How")
    guarded_execute(guarded, made)
    yield guarded
    forget(guarded)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture(autouse=True)
def _no_password_from_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


def blocks(heading: str) -> list[str]:
    """The SQL that the guide has under a heading."""
    _, _, rest = GUIDE.read_text("utf-8").partition(f"# {heading}\n")
    part = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^ *```sql\n(.*?)```", part, re.MULTILINE | re.DOTALL)
    assert found, f"the guide has no SQL under {heading}"
    return [each.replace("…", PASSWORD) for each in found]


def guarded_execute(server: Server, sql: str, database: str = "postgres") -> None:
    for statement in filter(None, map(str.strip, sql.split(";"))):
        server.execute(statement, database)


def forget(server: Server) -> None:
    for (name,) in server.execute("SELECT datname FROM pg_database WHERE NOT datistemplate"):
        if name != "postgres":
            server.drop_database(name)
    for (name,) in server.execute("SELECT rolname FROM pg_roles WHERE oid >= 16384"):
        server.execute(f"DROP ROLE {name}")


def url_of(server: Server, user: str, database: str, more: str = "") -> str:
    return f"postgresql://{user}@localhost:{server.port}/{database}?hostaddr=127.0.0.1{more}"


async def use(store: Store) -> str:
    """Something of everything that a store is for."""
    session = await store.create_session(NewSession(key="cli:x", title="T"))
    lease = await store.acquire_lease(session.id, "me")
    for number in range(3):
        draft = Draft(role="user", content=f"running foxes {number}")
        await store.append(session.id, lease.epoch, draft)
    await store.release_lease(lease)
    gone = await store.fork_session(session.id)
    await store.delete_sessions([gone.id])
    await store.purge_sessions([gone.id])
    assert await look(store) == (1, 3)
    return session.id


async def look(store: Store) -> tuple[int, int]:
    page = await store.list_sessions(SessionFilter(viewer="owner"))
    found = await store.search("fox", SearchFilter(viewer="owner"))
    return len(page.sessions), len(found.hits)


# --- grants -----------------------------------------------------------------------------------


async def test_the_owner_of_a_database_may_do_everything(
    owned: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    async with await open_store(url_of(owned, "clew", "clew")) as store:
        await use(store)


@pytest.fixture
def team(guarded: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A database of others, with a schema for clew and the guide's three roles."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    for role in ("clew", "ada", "guest", "boss"):
        guarded.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    guarded.execute("CREATE DATABASE team OWNER boss")
    guarded.execute("CREATE TABLE theirs (id INT)", "team")
    guarded.execute("REVOKE CONNECT, TEMPORARY ON DATABASE team FROM PUBLIC")
    (schema,) = blocks("A schema in a database of others")
    guarded_execute(guarded, schema, "team")
    yield guarded
    forget(guarded)


async def test_the_owner_of_a_schema_may_do_everything_in_it_and_nothing_outside(
    team: Server,
) -> None:
    url = url_of(team, "clew", "team")
    async with await open_store(url) as store:
        await use(store)
    async with await PostgresStore.open(url, migrations=(*shipped_migrations(), NEXT)) as newer:
        assert await look(newer) == (1, 3)
    made = "SELECT DISTINCT relnamespace::regnamespace::text FROM pg_class WHERE relname IN {}"
    assert team.execute(made.format("('sessions', 'added')"), "team") == [("clew",)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(url) as outside:
        outside.execute("SELECT * FROM public.theirs")


async def test_a_user_may_do_everything_but_update_the_schema(team: Server) -> None:
    owner, url = url_of(team, "clew", "team"), url_of(team, "ada", "team")
    await (await open_store(owner)).close()
    (grants,) = blocks("A role that only uses it")
    guarded_execute(team, grants, "team")
    async with await open_store(url) as store:
        await use(store)
    steps = (*shipped_migrations(), NEXT)
    with pytest.raises(StoreReadOnly, match="owner") as refused:
        await PostgresStore.open(url, migrations=steps)
    assert "older clew" in str(refused.value)
    assert "pg_dump" in str(refused.value)
    async with await open_store(url) as store:  # which changed nothing
        assert await look(store) == (1, 3)
    await (await PostgresStore.open(owner, migrations=steps)).close()
    async with await PostgresStore.open(url, migrations=steps) as store:
        assert await look(store) == (1, 3)


async def test_a_user_can_not_make_the_tables(team: Server) -> None:
    (grants,) = blocks("A role that only uses it")
    guarded_execute(team, grants, "team")
    with pytest.raises(StoreReadOnly, match=r"needs clew's tables.*owner"):
        await open_store(url_of(team, "ada", "team"))


async def test_a_reader_may_look_and_not_write(team: Server) -> None:
    async with await open_store(url_of(team, "clew", "team")) as store:
        await use(store)
    (grants,) = blocks("A role that only reads")
    guarded_execute(team, grants, "team")
    async with await open_store(url_of(team, "guest", "team")) as store:
        assert await look(store) == (1, 3)
        with pytest.raises(StoreReadOnly):
            await store.create_session(NewSession(key="cli:x"))


# --- passwords --------------------------------------------------------------------------------


def listed(home: Home, url: str, **env: str) -> tuple[int, str]:
    result = home.clew("-v", "--store", url, "list", env=env)
    return result.exit_code, result.output


def test_a_password_comes_from_the_environment_or_a_file(
    owned: Server, home: Home, tmp_path: Path
) -> None:
    url = url_of(owned, "clew", "clew")
    assert listed(home, url, PGPASSWORD=PASSWORD)[0] == 0
    file = tmp_path / "pgpass"
    file.write_text(f"localhost:{owned.port}:clew:clew:{PASSWORD}\n")
    file.chmod(0o600)
    assert listed(home, url, PGPASSFILE=str(file))[0] == 0


def test_a_password_that_is_missing_or_wrong_is_said_without_it(owned: Server, home: Home) -> None:
    url = url_of(owned, "clew", "clew")
    for code, said in (
        listed(home, url),
        listed(home, url, PGPASSWORD="sesame"),
        listed(home, url_of(owned, "clew:sesame", "clew")),
    ):
        assert code == 4
        assert "password" in said
        assert "~/.pgpass" in said
        assert "sesame" not in said


# --- TLS --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_tls_is_asked_for_by_the_url(
    owned: Server, home: Home, certificates: Path, mode: str
) -> None:
    more = f"&sslmode={mode}"
    if mode != "require":
        more += f"&sslrootcert={certificates / 'ca.crt'}"
    url = url_of(owned, "clew", "clew", more)
    done = home.clew("--store", url, "doctor", env={"PGPASSWORD": PASSWORD})
    assert ", encrypted, " in done.output
    plain = url_of(owned, "clew", "clew", "&sslmode=disable")
    done = home.clew("--store", plain, "doctor", env={"PGPASSWORD": PASSWORD})
    assert ", not encrypted, " in done.output


async def test_a_server_that_nobody_vouches_for_is_refused(
    owned: Server, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    more = f"&sslmode=verify-full&sslrootcert={certificates / 'other.crt'}"
    with pytest.raises(StoreUnavailable, match=r"certificate.*sslrootcert"):
        await open_store(url_of(owned, "clew", "clew", more))


async def test_a_server_with_the_certificate_of_another_is_refused(
    owned: Server, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    more = f"&sslmode=verify-full&sslrootcert={certificates / 'ca.crt'}"
    url = url_of(owned, "clew", "clew", more).replace("localhost", "db.example")
    with pytest.raises(StoreUnavailable, match=r"certificate of another.*db\.example"):
        await open_store(url)
