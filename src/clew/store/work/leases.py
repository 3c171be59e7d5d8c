"""Leases (which process may run the next turn) and attachments (which terminal has a session open).

Taking one locks the session's row first. The engine knows which processes are alive.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from clew.core.turn import LEASE_MS, Attachment, Lease
from clew.errors import LeaseHeld, SessionAttached, StaleLease
from clew.store.rows import ATTACHMENT_COLUMNS, Row, attachment_from, optional, plain, text
from clew.store.work.sessions import lock
from clew.store.work.transaction import Engine, Transaction

LONGEST_MS: Final = 3_600_000
"""The longest that a lease lasts without a renewal."""

_LEASES = "SELECT session_id, holder, epoch, expires_at FROM leases WHERE holder IS NOT NULL"
_LEASE = f"{_LEASES} AND session_id = $1"

_ACQUIRE = """
INSERT INTO leases (session_id, holder, epoch, expires_at) VALUES ($1, $2, 1, $3)
ON CONFLICT (session_id) DO UPDATE
SET holder = excluded.holder, epoch = leases.epoch + 1, expires_at = excluded.expires_at
RETURNING epoch
"""

_RENEW = """
UPDATE leases SET expires_at = $1 WHERE session_id = $2 AND epoch = $3 AND holder IS NOT NULL
"""

_RELEASE = "UPDATE leases SET holder = NULL WHERE session_id = $1 AND epoch = $2"
_EPOCH = "SELECT epoch FROM leases WHERE session_id = $1"

_ATTACH = f"""
INSERT INTO attachments ({ATTACHMENT_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (session_id) DO UPDATE SET host = excluded.host, process = excluded.process,
  pid = excluded.pid, started_at = excluded.started_at, terminal = excluded.terminal,
  since = excluded.since, beat_at = excluded.beat_at
"""

_ATTACHMENTS = f"SELECT {ATTACHMENT_COLUMNS} FROM attachments"
_ATTACHED = f"{_ATTACHMENTS} WHERE session_id = $1"
_DETACH = "DELETE FROM attachments WHERE session_id = $1 AND process = $2"
_BEAT = "UPDATE attachments SET beat_at = $1 WHERE process = $2"


class SharedLeases:
    """`ports.Leases`."""

    _engine: Engine

    async def acquire_lease(self, session_id: str, holder: str, *, ttl: int = LEASE_MS) -> Lease:
        """See `ports.Leases`."""
        try:
            return await self._acquire(session_id, holder, ttl)
        except LeaseHeld as held:
            if not await self._engine.find_dead([held.holder]):
                raise
        return await self._acquire(session_id, holder, ttl)

    async def _acquire(self, session_id: str, holder: str, ttl: int) -> Lease:
        async def work(tx: Transaction) -> Lease:
            await lock(tx, session_id)
            now = await tx.now()
            held = await lock_lease(self._engine, tx, session_id, now)
            if held is not None and held.holder != holder:
                raise LeaseHeld(session_id, held.holder, held.expires_at)
            expires_at = now + min(ttl, LONGEST_MS)
            ((epoch,),) = await tx.fetch(_ACQUIRE, (session_id, text(holder), expires_at))
            return Lease(session_id, holder, epoch, expires_at)

        return await self._engine.write(work, about=session_id)

    async def renew_lease(self, lease: Lease, *, ttl: int = LEASE_MS) -> Lease:
        """See `ports.Leases`."""

        async def work(tx: Transaction) -> Lease:
            session_id = text(lease.session_id)
            expires_at = await tx.now() + min(ttl, LONGEST_MS)
            if not await tx.run(_RENEW, (expires_at, session_id, lease.epoch)):
                current = await tx.one(_EPOCH, (session_id,))
                raise StaleLease(lease.session_id, lease.epoch, current[0] if current else 0)
            return Lease(lease.session_id, lease.holder, lease.epoch, expires_at)

        return await self._engine.write(work, about=lease.session_id)

    async def release_lease(self, lease: Lease) -> None:
        """See `ports.Leases`."""
        bindings = (text(lease.session_id), lease.epoch)
        await self._engine.write(
            lambda tx: tx.run(_RELEASE, bindings), about=lease.session_id, repeatable=True
        )

    async def find_lease(self, session_id: str) -> Lease | None:
        """See `ports.Leases`."""
        return await find_living_lease(self._engine, session_id)


class SharedAttachments:
    """`ports.Attachments`."""

    _engine: Engine

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
        me = self._engine.info

        async def work(tx: Transaction) -> tuple[Attachment, Attachment | None]:
            await lock(tx, session_id)
            row = await tx.one(_ATTACHED, (text(session_id),))
            before = None if row is None else attachment_from(row)
            if before is not None and before.process != me.process:
                if await self._engine.keep_living_attachments(tx, [before]):
                    raise _is_attached(before)
            else:
                before = None
            now = await tx.now()
            bindings = (
                session_id, text(me.host), me.process, me.pid, me.started_at, optional(terminal),
                now, now,
            )  # fmt: skip
            await tx.run(_ATTACH, bindings)
            mine = Attachment(
                session_id, me.host, me.process, me.pid, me.started_at, terminal, now, now
            )
            return mine, before

        return await self._engine.write(work, about=session_id)

    async def detach(self, session_id: str) -> None:
        """See `ports.Attachments`."""
        bindings = (text(session_id), self._engine.info.process)
        await self._engine.write(
            lambda tx: tx.run(_DETACH, bindings), about=session_id, repeatable=True
        )

    async def beat(self) -> None:
        """See `ports.Attachments`."""

        async def work(tx: Transaction) -> None:
            await tx.run(_BEAT, (await tx.now(), self._engine.info.process))

        await self._engine.write(work, repeatable=True)

    async def find_attachment(self, session_id: str) -> Attachment | None:
        """See `ports.Attachments`."""

        async def work(tx: Transaction) -> Attachment | None:
            found = await living_attachments(self._engine, tx, [session_id])
            return found.get(session_id)

        found = await self._engine.read(work)
        if found is None or await self._engine.find_dead([identity_of(found)]):
            return None
        return found


def _is_attached(attachment: Attachment) -> SessionAttached:
    return SessionAttached(
        attachment.session_id,
        pid=attachment.pid,
        host=attachment.host,
        since=attachment.since,
        local_time=time.strftime("%H:%M", time.localtime(attachment.since / 1000)),
    )


def identity_of(attachment: Attachment) -> str:
    """The identity of the process that has attached, as `ports.Processes` describes it."""
    return f"{attachment.process}@{attachment.host}"


async def find_living_lease(engine: Engine, session_id: str) -> Lease | None:
    """The lease that is alive: not given back, not expired, and its process alive."""

    async def work(tx: Transaction) -> Lease | None:
        row = await tx.one(_LEASE, (text(session_id),))
        # Reading the time may need a round trip, and most sessions have no holder.
        return None if row is None else await _living(engine, tx, row, await tx.now())

    found = await engine.read(work)
    return None if found is None or await engine.find_dead([found.holder]) else found


async def lock_lease(engine: Engine, tx: Transaction, session_id: str, now: int) -> Lease | None:
    """The same inside a transaction, which locks the lease against others until it ends."""
    row = await tx.one(f"{_LEASE} FOR UPDATE", (text(session_id),))
    return None if row is None else await _living(engine, tx, row, now)


async def _living(engine: Engine, tx: Transaction, row: Row, now: int) -> Lease | None:
    lease = _lease_from(row)
    if not _is_current(lease, now) or not await engine.keep_living_leases(tx, [lease]):
        return None
    return lease


def _is_current(lease: Lease, now: int) -> bool:
    """Whether a lease has not expired. One that ends too late was made before a clock change."""
    return now < lease.expires_at <= now + LONGEST_MS


def _lease_from(row: Row) -> Lease:
    return Lease(row[0], plain(row[1]) or "", row[2], row[3])


async def take_for_one_record(engine: Engine, tx: Transaction, session_id: str) -> int:
    """Take the lease and release it, in the transaction of a record; returns its epoch."""
    now = await tx.now()
    held = await lock_lease(engine, tx, session_id, now)
    if held is not None:
        raise LeaseHeld(session_id, held.holder, held.expires_at)
    ((epoch,),) = await tx.fetch(_ACQUIRE, (text(session_id), None, now))
    return int(epoch)


async def living_leases(
    engine: Engine, tx: Transaction, now: int, ids: Sequence[str] | None = None
) -> dict[str, Lease]:
    """The leases that are alive, of these sessions or of all, by session."""
    sql = f"{_LEASES} AND expires_at > $1"
    if ids is None:
        rows = await tx.fetch(sql, (now,))
    else:
        rows = await tx.fetch(f"{sql} AND session_id = ANY ($2)", (now, _stored(ids)))
    current = [each for each in map(_lease_from, rows) if _is_current(each, now)]
    living = await engine.keep_living_leases(tx, current)
    return {each.session_id: each for each in living}


async def living_attachments(
    engine: Engine, tx: Transaction, ids: Sequence[str] | None = None
) -> dict[str, Attachment]:
    """The attachments that are alive, of these sessions or of all, by session."""
    if ids is None:
        rows = await tx.fetch(_ATTACHMENTS)
    else:
        rows = await tx.fetch(f"{_ATTACHMENTS} WHERE session_id = ANY ($1)", (_stored(ids),))
    living = await engine.keep_living_attachments(tx, [*map(attachment_from, rows)])
    return {each.session_id: each for each in living}


def _stored(ids: Sequence[str]) -> list[str]:
    return [text(each) for each in ids]


async def held_sessions(
    engine: Engine, tx: Transaction, now: int, ids: Sequence[str] | None = None
) -> set[str]:
    """The sessions, of these or of all, that a live process has attached or leased."""
    leases = await living_leases(engine, tx, now, ids)
    return {*leases, *await living_attachments(engine, tx, ids)}


async def forget_dead_holders(engine: Engine) -> None:
    """Find out which holders have died, before a transaction needs to know who is alive."""

    async def work(tx: Transaction) -> list[str]:
        leases = map(_lease_from, await tx.fetch(_LEASES))
        attachments = map(attachment_from, await tx.fetch(_ATTACHMENTS))
        return [each.holder for each in leases] + [identity_of(each) for each in attachments]

    await engine.find_dead(await engine.read(work))
