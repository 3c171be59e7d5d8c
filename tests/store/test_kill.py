"""Killed processes, as in `make kill N=2000`, but fewer."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from benchmarks.inspector import inspect_file
from benchmarks.processes.writer import Ledger, text_of
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.store import open_store
from tests.patience import PATIENCE
from tests.sizes import pick

ROOT = Path(__file__).parents[2]
ROUNDS = pick(40, 200)


def test_kills_lose_nothing_that_was_acknowledged() -> None:
    # A process of its own: it forks, and pytest may have threads.
    loop = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill", "--rounds", str(ROUNDS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert loop.returncode == 0, loop.stdout + loop.stderr


@pytest.fixture
async def survived(tmp_path: Path) -> tuple[Path, str]:
    """A store with a session of three messages."""
    path = tmp_path / "sessions.db"
    async with await open_store(f"sqlite://{path}") as store:
        session, _ = await store.open_session(NewSession(key="kill:test"))
        lease = await store.acquire_lease(session.id, "test")
        for number in range(1, 4):
            await store.append(session.id, lease.epoch, Draft(role="user", content=text_of(number)))
    return path, session.id


async def test_the_inspector_is_content_with_what_is_sound(survived: tuple[Path, str]) -> None:
    path, session = survived
    with closing(apsw.Connection(str(path))) as connection:
        assert inspect_file(connection, Ledger(said={session: 3})) == []
        assert inspect_file(connection, Ledger(said={session: 2})) == []  # one more, not yet told


@pytest.mark.parametrize(
    ("damage", "acknowledged", "complaint"),
    [
        ("SELECT 1", 4, "acknowledged"),
        ("DELETE FROM messages WHERE seq = 2", 3, "lost"),
        ("UPDATE messages SET content = 'Message 1 about the backup' WHERE seq = 2", 3, "doubled"),
        ("UPDATE sessions SET head = 2", 3, "head"),
        ("INSERT INTO messages_fts (messages_fts) VALUES ('delete-all')", 3, "messages_fts"),
        ("DELETE FROM messages_spaceless", 3, "messages_spaceless"),
    ],
)
async def test_the_inspector_complains_about(
    survived: tuple[Path, str], damage: str, acknowledged: int, complaint: str
) -> None:
    path, session = survived
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(damage)
        problems = inspect_file(connection, Ledger(said={session: acknowledged}))
    assert any(complaint in problem for problem in problems), problems
