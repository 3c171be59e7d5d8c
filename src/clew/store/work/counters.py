"""The counters of a session, compared with its messages and corrected, for `clew doctor`."""

from __future__ import annotations

from typing import NamedTuple

from clew.core.names import counted
from clew.store.diagnosis import FIX, SAMPLE, Finding, some
from clew.store.work.thread import NO_LIMIT, count_hidden
from clew.store.work.transaction import Transaction

_NEWEST = "SELECT id FROM sessions WHERE purged_at IS NULL ORDER BY updated_at DESC LIMIT $1"

_COUNT = """
SELECT message_count, content_bytes, head, coalesce(forked_at_seq, 0),
  (SELECT count(*) FROM messages WHERE session_id = s.id),
  (SELECT coalesce(max(seq), 0) FROM messages WHERE session_id = s.id),
  (SELECT CAST(coalesce(sum(size), 0) AS bigint) FROM scratchpad WHERE session_id = s.id),
  (SELECT CAST(coalesce(sum(octet_length(content) + coalesce(octet_length(parts), 0)
     + coalesce(octet_length(tool_calls), 0)), 0) AS bigint)
   FROM messages WHERE session_id = s.id)
FROM sessions s WHERE id = $1
"""

_LOCK = "SELECT 1 FROM sessions WHERE id = $1 FOR NO KEY UPDATE"
_CORRECT = "UPDATE sessions SET message_count = $2, content_bytes = $3 WHERE id = $1"


class Counters(NamedTuple):
    """(message_count, content_bytes) as stored and as counted; `whole`: no message is missing."""

    stored: tuple[int, int]
    actual: tuple[int, int]
    whole: bool


async def count_session(tx: Transaction, session_id: str) -> Counters:
    """Count a session's thread anew."""
    row = await tx.one(_COUNT, (session_id,))
    assert row is not None
    count, size, head, knot, own, last, scratch, said = row
    shown = head - await count_hidden(tx, session_id, head)
    whole = own == head - knot and (last == head or own == 0)
    return Counters((count, size), (shown, said + scratch), whole)


async def check_counters(tx: Transaction, *, full: bool, restore: str) -> list[Finding]:
    """Check the newest sessions, or all with `full`. `restore`: the advice for lost messages.

    `head` and gaps are the thread itself and can't be computed again; the counters can.
    """
    sessions = await tx.fetch(_NEWEST, (NO_LIMIT if full else SAMPLE,))
    wrong, torn = [], []
    for (session_id,) in sessions:
        counters = await count_session(tx, session_id)
        if not counters.whole:
            torn.append(session_id)
        elif counters.stored != counters.actual:
            wrong.append(session_id)
    findings = []
    if torn:
        what = f"messages are missing from {some(torn)}"
        findings.append(Finding("threads", "problem", what, restore))
    if wrong:
        findings.append(Finding("counters", "problem", f"wrong for {some(wrong)}", FIX, "counters"))
    if not findings:
        what = f"right for {counted(len(sessions), 'session')}"
        findings.append(Finding("counters", "ok", what))
    return findings


async def correct_counters(tx: Transaction, session_id: str) -> bool:
    """Correct the counters of one session; returns whether they were wrong."""
    await tx.fetch(_LOCK, (session_id,))
    counters = await count_session(tx, session_id)
    if counters.stored == counters.actual or not counters.whole:
        return False
    await tx.run(_CORRECT, (session_id, *counters.actual))
    return True
