"""Is what the database holds in step with itself? Read-only checks of its contents.

Each yields findings. Who else is there, and what surrounds the file, is looked at by `doctor`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from clew.core.names import counted, format_count
from clew.core.query import spaceless_tokens
from clew.core.text import decode_text
from clew.store.findings import FIX, SAMPLE, Advance, Finding, some
from clew.store.rows import byte_length
from clew.store.sqlite import migrating
from clew.store.sqlite.connection import connect, fetch, fetch_one, lock_path
from clew.store.sqlite.engine import Transaction, run_through
from clew.store.work.thread import hidden_messages

FAULTS = 3
"""Faults of a damaged file that are named."""

RESTORE = "`clew restore BACKUP --replace` puts a backup in its place and keeps this one."
_WORD = re.compile(r"(?<![\w\u0080-\U0010ffff])[A-Za-z0-9]{3,40}(?![\w\u0080-\U0010ffff])")
"""A word that every tokenizer would call one."""


def check_schema(connection: apsw.Connection, version: int, latest: int) -> Iterator[Finding]:
    if version < latest:
        what = f"{version}, this clew has {latest}"
        yield Finding("schema", "warning", what, "The next start updates it, after a backup.")
    else:
        yield Finding("schema", "ok", str(version))
    mode = connection.pragma("journal_mode")
    if mode != "wal":
        what = f"the journal mode is {mode}, not wal"
        yield Finding("journal", "problem", what, "Somebody changed it by hand: set it to wal.")


def check_contents(
    connection: apsw.Connection, path: Path, *, full: bool, advance: Advance
) -> Iterator[Finding]:
    sound = True
    for finding in _check_integrity(connection, full=full):
        sound = finding.level == "ok"
        yield finding
    advance(1)
    if not sound:
        return  # what else could be said of a damaged file would be guesses
    checks: tuple[Callable[..., Iterator[Finding]], ...] = (
        _check_references,
        _check_counters,
        _check_index,
    )
    for check in checks:
        connection.execute("BEGIN")  # all that a check reads is of one moment
        yield from check(connection, full=full)
        connection.execute("COMMIT")
        advance(1)
    if full:
        yield from _check_whole_index(connection, path)
        advance(1)


def find_faults(connection: apsw.Connection, *, full: bool) -> str:
    """What SQLite finds wrong with the file, in one line: its first faults, or nothing."""
    rows = fetch(connection, f"PRAGMA {'integrity_check' if full else 'quick_check'}(10)")
    lines = [line.strip() for (text,) in rows for line in str(text).splitlines()]
    faults = [line for line in lines if line not in ("", "ok") and not line.startswith("***")]
    return "; ".join(faults[:FAULTS])


def _check_integrity(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:
    faults = find_faults(connection, full=full)
    if faults:
        yield Finding("integrity", "problem", f"damaged: {faults}", RESTORE)
    else:
        yield Finding("integrity", "ok", "every page checked" if full else "quick check passed")


def _check_references(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:  # noqa: ARG001  # always whole
    broken = fetch(connection, 'SELECT "table", count(*) FROM pragma_foreign_key_check GROUP BY 1')
    if broken:
        what = ", ".join(f"{format_count(count)} in {table}" for table, count in broken)
        what = f"rows that belong to nothing: {what}"
        yield Finding("references", "problem", what, RESTORE)
    else:
        yield Finding("references", "ok", "every row belongs somewhere")


def _check_counters(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:
    """`head` and gaps are the thread itself and can't be recomputed; the counters can."""
    wrong, torn, looked_at = [], [], 0
    for (session_id,) in fetch(
        connection,
        "SELECT id FROM sessions WHERE purged_at IS NULL ORDER BY updated_at DESC LIMIT ?",
        (-1 if full else SAMPLE,),
    ):
        looked_at += 1
        counters = count_session(connection, session_id)
        if not counters.whole:
            torn.append(session_id)
        elif counters.stored != counters.actual:
            wrong.append(session_id)
    if torn:
        what = f"messages are missing from {some(torn)}"
        yield Finding("threads", "problem", what, RESTORE)
    if wrong:
        what = f"wrong for {some(wrong)}"
        yield Finding("counters", "problem", what, FIX, "counters")
    if not torn and not wrong:
        yield Finding("counters", "ok", f"right for {counted(looked_at, 'session')}")


class Counters(NamedTuple):
    """(message_count, content_bytes) as stored and as counted; `whole`: no message is missing."""

    stored: tuple[int, int]
    actual: tuple[int, int]
    whole: bool


def count_session(connection: apsw.Connection, session_id: str) -> Counters:
    """Count a session's thread anew."""
    row = fetch_one(
        connection,
        """SELECT message_count, content_bytes, head, coalesce(forked_at_seq, 0),
                  (SELECT count(*) FROM messages WHERE session_id = s.id),
                  (SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = s.id),
                  (SELECT coalesce(sum(size), 0) FROM scratchpad WHERE session_id = s.id)
           FROM sessions s WHERE id = ?""",
        (session_id,),
    )
    assert row is not None
    count, size, head, knot, own, last, scratch = row
    contents = connection.execute(
        "SELECT content, parts, tool_calls FROM messages WHERE session_id = ?", (session_id,)
    )
    size_now = sum(byte_length(str(each)) for texts in contents for each in texts if each)
    shown = head - run_through(hidden_messages(Transaction(connection), session_id, head))
    whole = own == head - knot and (last == head or own == 0)
    return Counters((count, size), (shown, size_now + scratch), whole)


def _check_index(connection: apsw.Connection, *, full: bool) -> Iterator[Finding]:  # noqa: ARG001  # the whole is another check
    messages, indexed, queued = fetch_one(
        connection,
        """SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM messages_fts_docsize),
                  (SELECT count(*) FROM spaceless_queue)""",
    ) or (0, 0, 0)
    if queued:
        what = f"{counted(queued, 'message')} {'waits' if queued == 1 else 'wait'} to be indexed"
        yield Finding("search queue", "warning", what, FIX, "queue")
    lost = [] if messages != indexed else [*_unfindable(connection, queued=bool(queued))]
    if messages != indexed:
        what = f"{format_count(indexed)} of {counted(messages, 'message')} indexed"
        yield Finding("search index", "problem", what, FIX, "index")
    elif lost:
        what = f"messages can't be found: rows {some(lost)}"
        yield Finding("search index", "problem", what, FIX, "index")
    else:
        yield Finding("search index", "ok", f"in step, {counted(messages, 'message')}")


# The dice have to name the row they are thrown for, or SQLite throws them once for all.
_SOME_MESSAGES = """
WITH RECURSIVE throws (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM throws LIMIT ?1)
SELECT id, content FROM messages_indexed WHERE id IN (
  SELECT * FROM (SELECT id FROM messages ORDER BY id DESC LIMIT ?1)
  UNION
  SELECT (SELECT id FROM messages
          WHERE id >= abs(random() / 2 + n) % (SELECT max(id) + 1 FROM messages)
          ORDER BY id LIMIT 1)
  FROM throws)
"""


def _unfindable(connection: apsw.Connection, *, queued: bool) -> Iterator[str]:
    """Messages of a sample that a word of their own does not find."""
    for row_id, content in fetch(connection, _SOME_MESSAGES, (SAMPLE,)):
        word = _WORD.search(content)
        found = word is None or fetch_one(
            connection,
            "SELECT 1 FROM messages_fts WHERE messages_fts MATCH ? AND rowid = ?",
            (f'"{word[0]}"', row_id),
        )
        if not found or not (queued or _has_pairs(connection, row_id, content)):
            yield str(row_id)


def _has_pairs(connection: apsw.Connection, row_id: int, content: str) -> bool:
    """Whether the index of scripts without spaces has a message exactly if it should."""
    wanted = spaceless_tokens(decode_text(content)) is not None
    sql = "SELECT 1 FROM messages_spaceless_docsize WHERE id = ?"
    return wanted == (fetch_one(connection, sql, (row_id,)) is not None)


def _check_whole_index(connection: apsw.Connection, path: Path) -> Iterator[Finding]:
    """FTS5 compares its index with every message. That is a write, so it is done to a copy."""
    with tempfile.TemporaryDirectory(prefix="clew-doctor-") as folder:
        copy_path = migrating.verified_copy(
            connection, Path(folder) / "copy.db", lock=lock_path(path)
        )
        with closing(connect(copy_path, mode="rw")) as copy:
            try:
                copy.execute(
                    "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)"
                )
                wrong = [
                    str(row_id)
                    for row_id, content in copy.execute("SELECT id, content FROM messages_indexed")
                    if not content.isascii() and not _has_pairs(copy, row_id, content)
                ]
            except apsw.CorruptError:
                wrong = ["(FTS5's own test)"]
    if wrong:
        what = f"does not say what the messages say: {some(wrong)}"
        yield Finding("whole index", "problem", what, FIX, "index")
    else:
        yield Finding("whole index", "ok", "compared with every message")
