"""The SQLite store beside a model in memory, over random histories.

`run(examples, directory)` is what `python -m benchmarks.proof` calls with more of them.
"""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import apsw

from clew.core.search.query import spaceless_tokens
from clew.core.text import decode_text
from clew.ports import Clock, Store
from clew.store.sqlite.store import SqliteStore
from clew.testing.machine import run_machine
from tests.sizes import pick

EXAMPLES = pick(30, 200)


def run(examples: int, directory: Path) -> None:
    numbers = count()
    latest = directory / "none yet"

    async def open_empty(clock: Clock) -> Store:
        nonlocal latest
        shutil.rmtree(latest, ignore_errors=True)  # the history before this one has ended
        latest = directory / f"{next(numbers)}"
        # What is tested here does not depend on the sync of a disk, nor on how busy the machine is:
        # a search that ran out of time finds less.
        path = latest / "sessions.db"
        return SqliteStore(path, durability="normal", clock=clock, search_seconds=30)

    async def check(store: Store) -> None:
        check_file(latest / "sessions.db")

    run_machine(open_empty, examples=examples, check=check)


def check_file(path: Path) -> None:
    """What a sound file looks like: both indexes in step, nothing dangling, nothing left over."""
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.execute(
        "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)"
    )
    assert connection.execute("SELECT count(*) FROM spaceless_queue").get == 0
    rows = connection.execute("SELECT id, content FROM messages").fetchall()
    indexed = connection.execute("SELECT id FROM messages_spaceless_docsize").fetchall()
    expected = {row_id for row_id, content in rows if spaceless_tokens(decode_text(str(content)))}
    assert {row_id for (row_id,) in indexed} == expected
    unread = connection.execute(
        """SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session_id
           WHERE s.purged_at IS NOT NULL AND m.seq >
             coalesce((SELECT max(forked_at_seq) FROM sessions c WHERE c.parent_id = s.id), 0)"""
    ).get
    assert unread == 0
    connection.close()


def test_the_store_answers_as_the_model_does(tmp_path: Path) -> None:
    run(EXAMPLES, tmp_path)
