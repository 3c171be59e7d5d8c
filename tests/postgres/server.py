"""A real PostgreSQL server for the tests: started for them, in a directory that goes with them.

The server refuses to run as root, so root starts it as the user `postgres`. Nothing is synced to
disk: what is tested here does not depend on it, and a database from a template takes milliseconds.
Benchmarks say otherwise, by settings of their own.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import psycopg

from tests.patience import PATIENCE

NEEDED = (
    "The tests of the PostgreSQL store need a PostgreSQL server's programs (initdb, postgres) on "
    "the PATH or under /usr/lib/postgresql. `make test` installs them where it may; by hand: "
    "apt-get install postgresql"
)

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "fatal",
}


def find_programs() -> Path:
    """The directory with the newest server's programs."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(versions, key=lambda path: float(path.parts[-3]), default=None)
    assert newest is not None, NEEDED
    return newest.parent


class Server:
    """One server with its own data, port and socket."""

    def __init__(self, *, superuser: str = "clew", **settings: str) -> None:
        self._programs = find_programs()
        self._superuser = superuser
        self._settings = SETTINGS | settings
        self._numbers = count()
        self._user: str | None = None
        if os.geteuid() == 0:
            self._user = "postgres"
            try:
                pwd.getpwnam(self._user)
            except KeyError:
                raise AssertionError(
                    "PostgreSQL refuses root, and there is no user postgres."
                ) from None
        self.home = Path(tempfile.mkdtemp(prefix="clew-pg-"))
        if self._user is not None:
            shutil.chown(self.home, self._user)
        self._data = self.home / "data"
        self._run("initdb", "-D", self._data, "-U", superuser, "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync", "--no-instructions")  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._start_somewhere()

    def _start_somewhere(self, attempts: int = 5) -> None:
        """Start it on a port of its own: not the usual one, where another server may be."""
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = int(probe.getsockname()[1])
            attempts -= 1
            try:
                return self.start()
            except AssertionError as error:  # another may have been quicker to take the port
                if "in use" not in str(error) or not attempts:
                    raise

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self._programs / program, *map(str, arguments)],
            capture_output=True, text=True, user=self._user, cwd=self.home, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-p", str(self.port),
                 f"-cunix_socket_directories={self.home}", *settings],
                stdout=log, stderr=log, user=self._user, cwd=self.home,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            said = (self.home / "log").read_text(errors="replace")
            assert self._process.poll() is None, f"PostgreSQL ended: {said}"
            assert time.monotonic() < deadline, f"PostgreSQL did not start: {said}"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT is a fast shutdown, SIGQUIT a crash."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process = None

    def remove(self) -> None:
        """End it and forget its data."""
        if self._process is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home, ignore_errors=True)

    def url(self, database: str, *, tcp: bool = False, port: int | None = None) -> str:
        """Where a database of this server is."""
        if tcp or port is not None:
            return f"postgresql://{self._superuser}@127.0.0.1:{port or self.port}/{database}"
        return f"postgresql://{self._superuser}@/{database}?host={self.home}&port={self.port}"

    def guard(self, rules: str, certificate: Path | None = None, key: Path | None = None) -> None:
        """Let in who these rules of pg_hba.conf let in, over TLS if there is a certificate."""
        (self._data / "pg_hba.conf").write_text(rules)
        if certificate is not None and key is not None:
            for file, name in ((certificate, "server.crt"), (key, "server.key")):
                shutil.copy(file, self._data / name)
                (self._data / name).chmod(0o600)
                if self._user is not None:
                    shutil.chown(self._data / name, self._user)
            self._settings["ssl"] = "on"
        self.stop()
        self.start()

    def execute(self, sql: str, database: str = "postgres") -> list[tuple]:
        """Run a statement outside of clew."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, template: str = "template1") -> str:
        """A new database, a copy of another; its name."""
        name = f"t{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def empty(self, database: str) -> None:
        """Leave nothing in a database of clew's, and nobody connected to it."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(
                """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()"""
            )
            tables = connection.execute(
                """SELECT relname FROM pg_class WHERE relkind = 'r' AND relname <> 'clew_schema'
                   AND relnamespace = 'public'::regnamespace"""
            ).fetchall()
            # No triggers: every table is emptied anyway.
            away = "; ".join(f"DELETE FROM {table}" for (table,) in tables)
            connection.execute(f"SET session_replication_role = replica; {away}")

    def drop_database(self, name: str) -> None:
        """Away with it, whoever is connected."""
        with contextlib.suppress(psycopg.OperationalError):
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
