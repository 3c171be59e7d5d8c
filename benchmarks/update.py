"""The update of a store from before schema 5, which writes every message anew.

The floor is a bare `VACUUM INTO`, which writes everything anew as well, messages and index.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import apsw

from benchmarks.corpora import Setting
from benchmarks.timing import Finding
from clew.store.sqlite.database import Database
from clew.store.sqlite.schema import shipped_migrations

# What the step changes, changed back. Of the messages it needs the columns alone, in any order.
_AS_BEFORE = """
DROP INDEX inbox_queued; DROP INDEX inbox_open; DROP INDEX inbox_key; DROP INDEX inbox_claimed;
DROP INDEX inbox_settled; DROP INDEX outbox_line; DROP INDEX outbox_due; DROP INDEX outbox_sending;
DROP INDEX outbox_status; DROP TABLE inbox_cursors; DROP TABLE undone;
ALTER TABLE inbox DROP COLUMN settled_at;
ALTER TABLE inbox DROP COLUMN position;
ALTER TABLE sessions DROP COLUMN undo_steps;
ALTER TABLE sessions DROP COLUMN forked_at_step;
CREATE INDEX inbox_open ON inbox (status, session_id) WHERE status IN ('queued', 'claimed');
CREATE INDEX outbox_open ON outbox (key) WHERE status IN ('pending', 'sending', 'uncertain');
CREATE TABLE undone (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id    TEXT NOT NULL,
  undone_at  INTEGER NOT NULL,
  PRIMARY KEY (session_id, turn_id)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 4;
PRAGMA wal_checkpoint(TRUNCATE);
"""


async def update(setting: Setting) -> list[Finding]:
    """How long the update of a whole store takes, its copy included."""
    kept = await setting.copy("thousand" if setting.quick else "million")
    with closing(apsw.Connection(str(kept.path))) as connection:
        connection.execute(_AS_BEFORE).fetchall()
        messages = connection.execute("SELECT count(*) FROM messages").get
        began = time.perf_counter()
        connection.execute("VACUUM INTO ?", (str(setting.folder() / "vacuum.db"),)).fetchall()
        floor = time.perf_counter() - began
    before = kept.path.stat().st_size
    steps = _Steps()
    began = time.perf_counter()
    database = Database(kept.path, clock=lambda: 1, version="benchmark")
    database.open(shipped_migrations()[:5], report=steps)
    taken = time.perf_counter() - began
    await database.close()
    rebuilt = began + taken - steps.began
    return [
        Finding(
            topic="update",
            what=f"a store of {messages:,} messages, with its copy",
            clew=f"{taken:.1f} s",
            floor=f"{floor:.1f} s",
            compared=f"{taken / floor:.1f} x VACUUM INTO",
        ),
        Finding(
            topic="update",
            what="the messages alone",
            clew=f"{rebuilt:.1f} s",
            floor=f"{floor:.1f} s",
            compared=f"{rebuilt / floor:.1f} x, the file {_grown(kept.path, before)}",
        ),
    ]


class _Steps:
    """Notes when the first thousand messages were written anew."""

    began = 0.0

    def __call__(self, what: str, _done: int, _total: int) -> None:
        if what == "Updating messages":
            self.began = self.began or time.perf_counter()


def _grown(path: Path, before: int) -> str:
    return f"{path.stat().st_size / before:.2f} x as large"
