"""Leases and attachments in PostgreSQL: who may run the next turn, whose terminal has it open.

Whoever takes a hold locks the session's row first. In a transaction a process lives if it has a row
in `processes`; that a row may be a dead process's is looked into before, outside: see `presence`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from clew.core.turn import LEASE_MS, Attachment, Lease
from clew.errors import LeaseHeld, SessionAttached, StaleLease
from clew.store.postgres.connection import Connection, fetch, fetch_one
from clew.store.postgres.database import Database
from clew.store.postgres.presence import listed, process_of
from clew.store.postgres.sessions import lock
from clew.store.rows import ATTACHMENT_COLUMNS, attachment_from, optional, plain, text

_HELD = """
SELECT session_id, holder, epoch, expires_at FROM leases
WHERE session_id = $1 AND holder IS NOT NULL
  AND expires_at > coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
"""

_ACQUIRE = """
INSERT INTO leases AS l (session_id, holder, epoch, expires_at) VALUES ($1, $2, 1, $3)
ON CONFLICT (session_id) DO UPDATE
SET holder = excluded.holder, epoch = l.epoch + 1, expires_at = excluded.expires_at
RETURNING epoch
"""

_ATTACH = f"""
INSERT INTO attachments ({ATTACHMENT_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (session_id) DO UPDATE SET host = excluded.host, process = excluded.process,
  pid = excluded.pid, started_at = excluded.started_at, terminal = excluded.terminal,
  since = excluded.since, beat_at = excluded.beat_at
"""

_ATTACHED = f"SELECT {ATTACHMENT_COLUMNS} FROM attachments WHERE session_id = $1"


class PostgresLeases:
    """`ports.Leases`."""

    _db: Database

    async def acquire_lease(self, session_id: str, holder: str, *, ttl: int = LEASE_MS) -> Lease:
        """See `ports.Leases`."""
        try:
            return await self._acquire(session_id, holder, ttl)
        except LeaseHeld as held:
            if not await self._db.find_dead([held.holder]):
                raise
        return await self._acquire(session_id, holder, ttl)

    async def _acquire(self, session_id: str, holder: str, ttl: int) -> Lease:
        async def job(connection: Connection) -> Lease:
            await lock(connection, session_id)
            now = await self._db.now(connection)
            held = await lock_lease(connection, session_id, now)
            if held is not None and held.holder != holder:
                raise LeaseHeld(session_id, held.holder, held.expires_at)
            bindings = (session_id, text(holder), now + ttl)
            ((epoch,),) = await fetch(connection, _ACQUIRE, bindings)
            return Lease(session_id, holder, epoch, now + ttl)

        return await self._db.write(job, about=session_id)

    async def renew_lease(self, lease: Lease, *, ttl: int = LEASE_MS) -> Lease:
        """See `ports.Leases`."""

        async def job(connection: Connection) -> Lease:
            expires_at = await self._db.now(connection) + ttl
            renewed = await fetch(
                connection,
                """UPDATE leases SET expires_at = $1
                   WHERE session_id = $2 AND epoch = $3 AND holder IS NOT NULL RETURNING 1""",
                (expires_at, text(lease.session_id), lease.epoch),
            )
            if not renewed:
                current = await fetch_one(
                    connection,
                    "SELECT epoch FROM leases WHERE session_id = $1",
                    (text(lease.session_id),),
                )
                raise StaleLease(lease.session_id, lease.epoch, current[0] if current else 0)
            return Lease(lease.session_id, lease.holder, lease.epoch, expires_at)

        return await self._db.write(job, about=lease.session_id)

    async def release_lease(self, lease: Lease) -> None:
        """See `ports.Leases`."""

        async def job(connection: Connection) -> None:
            await connection.execute(
                "UPDATE leases SET holder = NULL WHERE session_id = $1 AND epoch = $2",
                (text(lease.session_id), lease.epoch),
            )

        # Done twice it is done once: it may be repeated.
        await self._db.write(job, about=lease.session_id, repeatable=True)

    async def find_lease(self, session_id: str) -> Lease | None:
        """See `ports.Leases`."""
        return await find_living_lease(self._db, session_id)


class PostgresAttachments:
    """`ports.Attachments`."""

    _db: Database

    async def attach(
        self, session_id: str, *, terminal: str | None = None
    ) -> tuple[Attachment, Attachment | None]:
        """See `ports.Attachments`."""
        try:
            return await self._attach(session_id, terminal)
        except SessionAttached:
            if await self.find_attachment(session_id) is not None:
                raise
        return await self._attach(session_id, terminal)

    async def _attach(
        self, session_id: str, terminal: str | None
    ) -> tuple[Attachment, Attachment | None]:
        me = self._db.presence.info

        async def job(connection: Connection) -> tuple[Attachment, Attachment | None]:
            await lock(connection, session_id)
            before = await _attached(connection, session_id)
            others = before is not None and before.process != me.process
            if before is not None and others and before.process in await listed(connection):
                raise SessionAttached(
                    session_id,
                    pid=before.pid,
                    host=before.host,
                    since=before.since,
                    local_time=time.strftime("%H:%M", time.localtime(before.since / 1000)),
                )
            now = await self._db.now(connection)
            mine = Attachment(
                session_id, me.host, me.process, me.pid, me.started_at, terminal, now, now
            )
            await connection.execute(
                _ATTACH,
                (
                    session_id, text(me.host), me.process, me.pid, me.started_at,
                    optional(terminal), now, now,
                ),
            )  # fmt: skip
            return mine, before if others else None

        return await self._db.write(job, about=session_id)

    async def detach(self, session_id: str) -> None:
        """See `ports.Attachments`."""

        async def job(connection: Connection) -> None:
            await connection.execute(
                "DELETE FROM attachments WHERE session_id = $1 AND process = $2",
                (text(session_id), self._db.presence.info.process),
            )

        await self._db.write(job, about=session_id, repeatable=True)

    async def beat(self) -> None:
        """See `ports.Attachments`."""

        async def job(connection: Connection) -> None:
            await connection.execute(
                "UPDATE attachments SET beat_at = $1 WHERE process = $2",
                (await self._db.now(connection), self._db.presence.info.process),
            )

        await self._db.write(job, repeatable=True)

    async def find_attachment(self, session_id: str) -> Attachment | None:
        """See `ports.Attachments`."""

        async def job(connection: Connection) -> Attachment | None:
            found = await _attached(connection, session_id)
            lives = found is not None and found.process in await listed(connection)
            return found if lives else None

        found = await self._db.read(job)
        if found is None or await self._db.find_dead([f"{found.process}@{found.host}"]):
            return None
        return found


async def find_living_lease(db: Database, session_id: str) -> Lease | None:
    """The lease that is alive: not given back, not run out, its process there."""

    async def job(connection: Connection) -> Lease | None:
        row = await fetch_one(connection, _HELD, (text(session_id), db.given_now))
        return await _living(connection, row)

    found = await db.read(job)
    return None if found is None or await db.find_dead([found.holder]) else found


async def lock_lease(connection: Connection, session_id: str, now: int) -> Lease | None:
    """The same inside a transaction, and nobody renews or takes it until that ends."""
    row = await fetch_one(connection, f"{_HELD} FOR UPDATE", (text(session_id), now))
    return await _living(connection, row)


async def _living(connection: Connection, row: tuple[object, ...] | None) -> Lease | None:
    if row is None:
        return None
    session_id, holder, epoch, expires_at = row
    lease = Lease(session_id, plain(holder) or "", epoch, expires_at)  # type: ignore[arg-type]  # the schema's promise
    process = process_of(lease.holder)
    return lease if process is None or process in await listed(connection) else None


async def _attached(connection: Connection, session_id: str) -> Attachment | None:
    row = await fetch_one(connection, _ATTACHED, (text(session_id),))
    return None if row is None else attachment_from(row)


async def bury_dead_holders(db: Database) -> None:
    """Find out which holders of anything have died, before a transaction relies on who lives."""

    async def job(connection: Connection) -> list[str]:
        leases = await fetch(connection, "SELECT holder FROM leases WHERE holder IS NOT NULL")
        attached = await fetch(connection, "SELECT process || '@' || host FROM attachments")
        return [plain(holder) or "" for (holder,) in (*leases, *attached)]

    await db.find_dead(await db.read(job))


async def held_sessions(
    connection: Connection, now: int, among: Iterable[str] | None = None
) -> set[str]:
    """Sessions that are attached or leased by somebody alive."""
    leases, attachments = await living_holds(connection, now, among)
    return {*leases, *attachments}


async def living_holds(
    connection: Connection, now: int, among: Iterable[str] | None = None
) -> tuple[dict[str, str], dict[str, Attachment]]:
    """Who holds the leases, and the terminals' holds, that are alive: by session."""
    alive = await listed(connection)
    only = () if among is None else ([text(each) for each in among],)
    attached = await fetch(
        connection,
        f"SELECT {ATTACHMENT_COLUMNS} FROM attachments"
        + " WHERE session_id = ANY ($1)" * len(only),
        only,
    )
    leased = await fetch(
        connection,
        "SELECT session_id, holder FROM leases WHERE holder IS NOT NULL AND expires_at > $1"
        + " AND session_id = ANY ($2)" * len(only),
        (now, *only),
    )
    leases = {session_id: plain(holder) or "" for session_id, holder in leased}
    attachments = {each.session_id: each for each in map(attachment_from, attached)}
    # Of a holder that is no process nothing is known: it counts as living.
    known = {holder: process_of(holder) for holder in leases.values()}
    return (
        {each: who for each, who in leases.items() if known[who] is None or known[who] in alive},
        {each: hold for each, hold in attachments.items() if hold.process in alive},
    )
