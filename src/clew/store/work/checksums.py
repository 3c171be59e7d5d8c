"""Which messages are damaged, and which were changed by hand: their checksums tell."""

from __future__ import annotations

from typing import Final

from clew.core.names import counted
from clew.store.diagnosis import Finding, some
from clew.store.work.thread import read_line
from clew.store.work.transaction import Dialect, Transaction

_DAMAGED = """
SELECT seq FROM messages
WHERE session_id = $1 AND seq > $2 AND seq <= $3 AND checksum <> {checksum} ORDER BY seq
"""

_SUSPECT = """
SELECT session_id, seq, checksum IS NULL FROM messages
WHERE checksum IS NULL OR checksum <> {checksum} ORDER BY id
"""

_COUNT = "SELECT count(*) FROM messages WHERE checksum <> {checksum}"


KEEP: Final = "If they are as you want them, `clew doctor --full --fix` keeps them so."

_ACCEPT = "UPDATE messages SET checksum = {checksum} WHERE checksum IS NULL"


async def list_damaged(tx: Transaction, dialect: Dialect, session_id: str) -> tuple[int, ...]:
    """See `ports.Log`."""
    sql = _DAMAGED.format(checksum=dialect.checksum)
    found: list[int] = []
    for part in reversed((await read_line(tx, session_id)).segments):
        rows = await tx.fetch(sql, (part.session_id, part.low, part.high))
        found += [seq for (seq,) in rows]
    return tuple(found)


async def count_damaged(tx: Transaction, dialect: Dialect) -> int:
    """How many messages of the whole store are damaged."""
    ((count,),) = await tx.fetch(_COUNT.format(checksum=dialect.checksum))
    return int(count)


async def check_checksums(tx: Transaction, dialect: Dialect, *, restore: str) -> list[Finding]:
    """Check every message. `restore`: the advice for damaged ones."""
    rows = await tx.fetch(_SUSPECT.format(checksum=dialect.checksum))
    ((total,),) = await tx.fetch("SELECT count(*) FROM messages")
    changed = [f"{session} message {seq}" for session, seq, by_hand in rows if by_hand]
    damaged = [f"{session} message {seq}" for session, seq, by_hand in rows if not by_hand]
    findings = []
    if damaged:
        what = f"{counted(len(damaged), 'message')} damaged: {some(damaged)}"
        findings.append(Finding("checksums", "problem", what, restore))
    else:
        what = f"right for {counted(total - len(changed), 'message')}"
        findings.append(Finding("checksums", "ok", what))
    if changed:
        what = f"{counted(len(changed), 'message')}: {some(changed)}"
        findings.append(Finding("changed by hand", "warning", what, KEEP, "checksums"))
    return findings


async def accept_changes(tx: Transaction, dialect: Dialect) -> str:
    """Give a checksum to what was changed by hand; returns what was done, for people."""
    count = await tx.run(_ACCEPT.format(checksum=dialect.checksum))
    return f"{counted(count, 'message')} changed by hand kept as they are"
