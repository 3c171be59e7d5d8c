"""The command line with its store in PostgreSQL: nothing changes for whoever uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import psycopg
import pytest
from click.testing import Result

from clew.store import open_store
from tests.cli.conftest import Home
from tests.postgres.server import Server
from tests.weights import have_embeddings


class PostgresHome(Home):
    """A home whose store is elsewhere."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(path)
        self.url = url

    def clew(self, *args: str, env: dict[str, str] | None = None) -> Result:
        return super().clew(*args, env={"CLEW_STORE": self.url} | (env or {}))

    def ask(self, *args: str, **options: object) -> Result:
        return super().ask(*args, env={"CLEW_STORE": self.url}, **options)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path, url: str) -> PostgresHome:
    return PostgresHome(tmp_path / "home", url)


@pytest.fixture
def secret_url(server: Server, database: str) -> str:
    """A URL with a password, which this server does not ask for."""
    return server.url(database, tcp=True).replace("clew@", "clew:hunter2@")


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_day_with_clew(home: PostgresHome, tmp_path: Path) -> None:
    home.script("Forty-two.", "Still forty-two.", "And now?", "More.")
    assert "Forty-two." in done(home.ask("what is the answer?"))
    (session,) = home.json("list")["sessions"]
    assert "Still" in done(home.ask("--resume", session["id"], "and now?"))
    shown = done(home.clew("show", session["id"]))
    assert "what is the answer?" in shown
    assert "Still forty-two." in shown
    assert session["id"][:8] in done(home.clew("search", "answers"))
    done(home.clew("rename", session["id"], "The answer"))
    done(home.clew("pin", session["id"]))
    done(home.clew("fork", session["id"]))
    assert len(home.json("list")["sessions"]) == 2
    file = tmp_path / "out.jsonl"
    done(home.clew("export", session["id"], "--output", str(file)))
    done(home.clew("import", str(file), "--as-new"))
    assert len(home.json("list")["sessions"]) == 3
    done(home.clew("delete", session["id"], "--yes"))
    assert len(home.json("list")["sessions"]) == 2
    done(home.clew("undo"))
    assert len(home.json("list")["sessions"]) == 3
    assert done(home.clew("stats")).startswith("sessions")
    done(home.clew("memory", "show"))
    done(home.clew("prune", "--older-than", "30d", "--dry-run"))
    assert not list(home.path.glob("*.db")), "nothing of the store is in the home"


def test_the_chat_talks_and_remembers(home: PostgresHome) -> None:
    home.script("Hello!", "You said hi.")
    said = home.chat("hi", "what did I say?", env={"CLEW_STORE": home.url})
    assert said.exit_code == 0, said.output
    assert "You said hi." in said.stdout
    (session,) = home.json("list")["sessions"]
    assert session["message_count"] == 4


def test_status_names_the_server(home: PostgresHome, secret_url: str) -> None:
    shown = home.json("status")["store"]
    assert shown["engine"].startswith("PostgreSQL 1")
    assert shown["path"].startswith("PostgreSQL at ")
    assert shown["schema"] >= 2
    assert "PostgreSQL at 127.0.0.1" in done(home.clew("--store", secret_url, "status"))


def test_doctor_finds_all_well(home: PostgresHome, server: Server, database: str) -> None:
    home.script("Hello!")
    done(home.ask("hi"))
    found = {each["name"]: each for each in home.json("doctor", "--full")["findings"]}
    assert found["counters"]["what"] == "right for 1 session"
    assert found["search index"]["what"] == "in step, 2 messages"
    assert found["whole index"]["level"] == found["references"]["level"] == "ok"
    assert found["processes"]["what"] == "no other process has it open"
    assert found["latency"]["what"].endswith("for one round")
    assert found["notifications"]["what"] == "arrive"
    assert found["durability"]["level"] == "warning"  # the tests' server does not sync


def test_doctor_finds_and_mends_what_is_wrong(
    home: PostgresHome, server: Server, database: str
) -> None:
    home.script("Hello!", "Well.")
    done(home.ask("hi"))
    server.execute("UPDATE sessions SET message_count = 77", database)
    server.execute("DELETE FROM messages_words WHERE message_id % 2 = 0", database)
    server.execute("INSERT INTO processes VALUES ('dead', 'h', 1, 'v', 'c', 1, 4711)", database)
    result = home.clew("doctor")
    assert result.exit_code == 1
    assert "✗ counters" in result.stdout
    assert "✗ search index" in result.stdout
    assert "1 row left behind by processes that died" in result.stdout
    fixed = home.clew("doctor", "--fix")
    assert fixed.exit_code == 0, fixed.output
    assert "fixed  counters: the counters of 1 session corrected" in fixed.stdout
    assert "fixed  search index: 1 message indexed again" in fixed.stdout
    assert "fixed  process rows: 1 row of a dead process removed" in fixed.stdout
    server.execute("UPDATE messages_words SET words = 'other'::tsvector", database)
    server.execute("UPDATE usage_changes SET turns = turns + 1", database)
    assert "✗ usage" in home.clew("doctor").stdout
    assert home.clew("doctor").exit_code == 1
    again = home.clew("doctor", "--fix")
    assert again.exit_code == 0
    assert "fixed  usage: what 1 turn has spent was summed up again" in again.stdout
    assert home.clew("doctor", "--full").exit_code == 0


def test_doctor_names_who_is_there(home: PostgresHome) -> None:
    async def look() -> dict[str, str]:
        async with await open_store(home.url):
            result = await asyncio.to_thread(home.clew, "doctor", "--json")
        findings = msgspec.json.decode(result.stdout)["findings"]
        found: dict[str, str] = next(each for each in findings if each["name"] == "processes")
        return found

    assert f"pid {os.getpid()}" in asyncio.run(look())["what"]


def test_a_server_that_is_not_there_is_code_4(home: PostgresHome) -> None:
    away = "postgresql://clew:hunter2@127.0.0.1:9/clew"
    for command in (("doctor",), ("list",), ("status",)):
        result = home.clew("--store", away, *command)
        assert result.exit_code == 4, result.output
        assert "PostgreSQL at 127.0.0.1:9/clew" in result.output
        assert "hunter2" not in result.output


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_backups_are_the_servers_own(home: PostgresHome, tmp_path: Path, command: str) -> None:
    result = home.clew(command, str(tmp_path / "x.db"))
    assert result.exit_code == 2
    assert "pg_dump" in result.stderr
    assert "clew store copy" in result.stderr


def test_the_password_is_never_shown(home: PostgresHome, secret_url: str) -> None:
    outputs = []
    for command in (
        ("status",),
        ("status", "--json"),
        ("config", "show"),
        ("config", "show", "--json"),
        ("doctor",),
        ("backup", "x"),
        ("config", "set", "store.url", secret_url),
        ("config", "set", "store.url", f"{secret_url}?sslpassword=hunter2"),
        ("-v", "store", "copy", secret_url, secret_url),
        ("store", "copy", str(home.path / "none.db"), secret_url),
        ("-v", "--store", "postgresql://clew:hunter2@[::1/clew", "list"),
        ("-v", "--store", "postgresql://clew:hun%ter2@h/clew", "list"),
        ("-v", "--store", "postgresql://clew:a@hunter2@h/clew", "list"),
        ("-v", "--store", "postgresql://clew:hunter2@localhost:x/clew", "list"),
        ("-v", "--store", "mysql://clew:hunter2@h/clew", "list"),
    ):
        result = home.clew(*command, env={"CLEW_STORE": secret_url})
        outputs.append((command, result.output))
    for command, output in outputs:
        assert "hunter2" not in output, command
        assert "hun%ter2" not in output, command
        assert "(this is a bug" not in output, command
    for file in home.path.rglob("*"):
        if file.is_file() and file.name != "config.toml":
            assert b"hunter2" not in file.read_bytes()


def test_no_process_tells_the_password(
    home: PostgresHome, server: Server, database: str, secret_url: str
) -> None:
    program = """
import asyncio, sys
from clew.store import open_store

async def main():
    async with await open_store(sys.argv[1]):
        print("open", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, secret_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        rows = server.execute("SELECT * FROM processes", database)
        sessions = server.execute(
            "SELECT application_name, query FROM pg_stat_activity WHERE datname IS NOT NULL"
        )
        assert len(rows) == 1
        assert "hunter2" not in str(rows + sessions)


def test_vector_memory_keeps_its_vectors_there(home: PostgresHome, url: str) -> None:
    have_embeddings()
    home.path.mkdir(parents=True, exist_ok=True)
    (home.path / "MEMORY.md").write_text("# Home\n- Mrs. Halvorsen keeps our spare key\n- tea\n")
    done(home.clew("config", "set", "memory.mode", "vector"))
    for _ in range(2):
        found = home.json("memory", "search", "who can let me in when I am locked out")
        assert found["hits"][0]["text"] == "Mrs. Halvorsen keeps our spare key"
        assert (found["hits"][0]["vector_rank"], found["notice"]) == (1, None)
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT source, model, length(vector) FROM memory_vectors")
        kept = rows.fetchall()
    assert kept == [(str(home.path / "MEMORY.md"), "all-minilm-l6-v2", 384 * 4)] * 2
