"""Leases and attachments in SQLite: who may run the next turn, whose terminal has it open."""

from __future__ import annotations

import time
from collections.abc import Sequence

import apsw

from clew.core.jsontext import to_json
from clew.core.turn import LEASE_MS, STALE_HEARTBEAT_MS, Attachment, Lease
from clew.errors import LeaseHeld, SessionAttached, StaleLease
from clew.store.rows import ATTACHMENT_COLUMNS, attachment_from, optional, plain, text
from clew.store.sqlite.connection import fetch, fetch_one
from clew.store.sqlite.database import Database
from clew.store.sqlite.sessions import get

_AMONG = "session_id IN (SELECT value FROM json_each(?))"
"""Of some sessions only: their ids come as a JSON list."""


class SqliteLeases:
    """`ports.Leases`."""

    _db: Database

    async def acquire_lease(self, session_id: str, holder: str, *, ttl: int = LEASE_MS) -> Lease:
        """See `ports.Leases`."""

        def job(connection: apsw.Connection) -> Lease:
            get(connection, session_id)
            now = self._db.clock()
            epoch = connection.execute(
                "SELECT epoch FROM leases WHERE session_id = ?", (session_id,)
            ).get
            held = find_lease(connection, self._db, session_id)
            if held is not None and held.holder != holder:
                raise LeaseHeld(session_id, held.holder, held.expires_at)
            lease = Lease(session_id, holder, (epoch or 0) + 1, now + ttl)
            connection.execute(
                "REPLACE INTO leases (session_id, holder, epoch, expires_at) VALUES (?, ?, ?, ?)",
                (session_id, text(holder), lease.epoch, lease.expires_at),
            )
            return lease

        return await self._db.write(job)

    async def renew_lease(self, lease: Lease, *, ttl: int = LEASE_MS) -> Lease:
        """See `ports.Leases`."""

        def job(connection: apsw.Connection) -> Lease:
            expires_at = self._db.clock() + ttl
            connection.execute(
                """UPDATE leases SET expires_at = ?
                   WHERE session_id = ? AND epoch = ? AND holder IS NOT NULL""",
                (expires_at, text(lease.session_id), lease.epoch),
            )
            if not connection.changes():
                current = connection.execute(
                    "SELECT epoch FROM leases WHERE session_id = ?", (text(lease.session_id),)
                ).get
                raise StaleLease(lease.session_id, lease.epoch, current or 0)
            return Lease(lease.session_id, lease.holder, lease.epoch, expires_at)

        return await self._db.write(job)

    async def release_lease(self, lease: Lease) -> None:
        """See `ports.Leases`."""

        def job(connection: apsw.Connection) -> None:
            connection.execute(
                "UPDATE leases SET holder = NULL WHERE session_id = ? AND epoch = ?",
                (text(lease.session_id), lease.epoch),
            )

        await self._db.write(job)

    async def find_lease(self, session_id: str) -> Lease | None:
        """See `ports.Leases`."""
        return await self._db.read(lambda connection: find_lease(connection, self._db, session_id))


class SqliteAttachments:
    """`ports.Attachments`."""

    _db: Database

    async def attach(
        self, session_id: str, *, terminal: str | None = None
    ) -> tuple[Attachment, Attachment | None]:
        """See `ports.Attachments`."""

        def job(connection: apsw.Connection) -> tuple[Attachment, Attachment | None]:
            get(connection, session_id)
            before = _held(connection, session_id)
            me = self._db.presence.info
            if before is not None and before.process != me.process and is_alive(self._db, before):
                raise SessionAttached(
                    session_id,
                    pid=before.pid,
                    host=before.host,
                    since=before.since,
                    local_time=time.strftime("%H:%M", time.localtime(before.since / 1000)),
                )
            now = self._db.clock()
            mine = Attachment(
                session_id, me.host, me.process, me.pid, me.started_at, terminal, now, now
            )
            connection.execute(
                f"REPLACE INTO attachments ({ATTACHMENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    session_id, me.host, me.process, me.pid, me.started_at, optional(terminal),
                    now, now,
                ),
            )  # fmt: skip
            dead = before if before is not None and before.process != me.process else None
            return mine, dead

        return await self._db.write(job)

    async def detach(self, session_id: str) -> None:
        """See `ports.Attachments`."""

        def job(connection: apsw.Connection) -> None:
            connection.execute(
                "DELETE FROM attachments WHERE session_id = ? AND process = ?",
                (text(session_id), self._db.presence.info.process),
            )

        await self._db.write(job)

    async def beat(self) -> None:
        """See `ports.Attachments`."""

        def job(connection: apsw.Connection) -> None:
            connection.execute(
                "UPDATE attachments SET beat_at = ? WHERE process = ?",
                (self._db.clock(), self._db.presence.info.process),
            )

        await self._db.write(job)

    async def find_attachment(self, session_id: str) -> Attachment | None:
        """See `ports.Attachments`."""

        def job(connection: apsw.Connection) -> Attachment | None:
            return living_attachments(connection, self._db, [session_id]).get(session_id)

        return await self._db.read(job)


def find_lease(connection: apsw.Connection, db: Database, session_id: str) -> Lease | None:
    """The lease that is alive: not given back, not run out, its process not known to be dead."""
    return living_leases(connection, db, [session_id]).get(session_id)


def living_leases(
    connection: apsw.Connection, db: Database, ids: Sequence[str] | None = None
) -> dict[str, Lease]:
    """The leases that are alive, of these sessions or of all."""
    sql = """SELECT session_id, holder, epoch, expires_at FROM leases
        WHERE holder IS NOT NULL AND expires_at > ?"""
    now = db.clock()
    if ids is None:
        rows = fetch(connection, sql, (now,))
    else:
        rows = fetch(connection, f"{sql} AND {_AMONG}", (now, among(ids)))
    leases = (Lease(row[0], plain(row[1]) or "", *row[2:]) for row in rows)
    return {each.session_id: each for each in leases if db.presence.is_living(each.holder)}


def living_attachments(
    connection: apsw.Connection, db: Database, ids: Sequence[str] | None = None
) -> dict[str, Attachment]:
    """The terminals' holds that are alive, of these sessions or of all."""
    sql = f"SELECT {ATTACHMENT_COLUMNS} FROM attachments"
    if ids is None:
        rows = fetch(connection, sql)
    else:
        rows = fetch(connection, f"{sql} WHERE {_AMONG}", (among(ids),))
    return {each.session_id: each for each in map(attachment_from, rows) if is_alive(db, each)}


def among(ids: Sequence[str]) -> str:
    """Ids as a query takes them with `json_each`."""
    return to_json([text(each) for each in ids])


def _held(connection: apsw.Connection, session_id: str) -> Attachment | None:
    row = fetch_one(
        connection,
        f"SELECT {ATTACHMENT_COLUMNS} FROM attachments WHERE session_id = ?",
        (text(session_id),),
    )
    return None if row is None else attachment_from(row)


def is_alive(db: Database, attachment: Attachment) -> bool:
    """Whether the holder is still there: by its lock on this host, by its heartbeat elsewhere."""
    if attachment.host == db.presence.info.host:
        return db.presence.is_alive(attachment.process)
    return attachment.beat_at > db.clock() - STALE_HEARTBEAT_MS


def held_sessions(connection: apsw.Connection, db: Database) -> set[str]:
    """Sessions that are attached or leased by somebody alive."""
    return {*living_attachments(connection, db), *living_leases(connection, db)}
