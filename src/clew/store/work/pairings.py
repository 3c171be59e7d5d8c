"""Guests, and people who ask to become guests."""

from __future__ import annotations

from clew.core.channels.people import CODE_MS, Decided, NewPairing, Pairing
from clew.core.text import to_json
from clew.errors import RecordNotFound
from clew.store.rows import PAIRING_COLUMNS, optional, pairing_from, text
from clew.store.work.transaction import Engine, Transaction

_ASK = f"""
INSERT INTO pairings (person, channel, status, name, code, told, reply_to, asked_at, expires_at)
VALUES ($1, $2, 'waiting', $3, $4, 1, $5, $6, $7)
ON CONFLICT (person) DO UPDATE SET
  name = coalesce(excluded.name, pairings.name), reply_to = excluded.reply_to,
  code = CASE WHEN pairings.expires_at > excluded.asked_at THEN pairings.code
    ELSE excluded.code END,
  told = CASE WHEN pairings.expires_at > excluded.asked_at THEN pairings.told + 1 ELSE 1 END,
  asked_at = CASE WHEN pairings.expires_at > excluded.asked_at THEN pairings.asked_at
    ELSE excluded.asked_at END,
  expires_at = CASE WHEN pairings.expires_at > excluded.asked_at THEN pairings.expires_at
    ELSE excluded.expires_at END
WHERE pairings.status = 'waiting'
RETURNING {PAIRING_COLUMNS}
"""

_COUNT_OTHERS = """
SELECT count(*) FROM pairings
WHERE status = 'waiting' AND channel = $1 AND expires_at > $2 AND person <> $3
"""

# Anyone can write to the gateway, so the rows that strangers cause must not pile up.
_FORGET = "DELETE FROM pairings WHERE status = 'waiting' AND expires_at < $1"

_FIND = f"SELECT {PAIRING_COLUMNS} FROM pairings WHERE person = $1"

_LIST = f"""
SELECT {PAIRING_COLUMNS} FROM pairings
ORDER BY status = 'waiting' DESC, coalesce(decided_at, asked_at) DESC, person
"""

_REDEEM = f"""
UPDATE pairings SET status = 'paired', code = NULL, decided_at = $2, decided_by = $3
WHERE code = $1 AND status = 'waiting' AND expires_at > $2 RETURNING {PAIRING_COLUMNS}
"""

_DECIDE = f"""
INSERT INTO pairings (person, channel, status, decided_at, decided_by)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (person) DO UPDATE SET status = excluded.status, code = NULL,
  decided_at = excluded.decided_at, decided_by = excluded.decided_by
RETURNING {PAIRING_COLUMNS}
"""


class SharedPairings:
    """`ports.Pairings`."""

    _engine: Engine

    async def ask_pairing(self, new: NewPairing, *, most: int) -> Pairing | None:
        """See `ports.Pairings`."""

        async def work(tx: Transaction) -> Pairing | None:
            now = await tx.now()
            person, channel = text(new.person), text(new.channel)
            await tx.run(_FORGET, (now - CODE_MS,))
            ((others,),) = await tx.fetch(_COUNT_OTHERS, (channel, now, person))
            known = await tx.one(_FIND, (person,))
            if others >= most and (known is None or pairing_from(known).is_late(now)):
                return None
            reply_to = None if new.reply_to is None else to_json(new.reply_to)
            bindings = (
                person, channel, optional(new.name), text(new.code), reply_to, now, now + CODE_MS,
            )  # fmt: skip
            row = await tx.one(_ASK, bindings)
            # No row: it was decided, perhaps by another process since `known` was read.
            return pairing_from(row or await tx.one(_FIND, (person,)) or ())

        return await self._engine.write(work)

    async def find_pairing(self, person: str) -> Pairing | None:
        """See `ports.Pairings`."""
        row = await self._engine.read(lambda tx: tx.one(_FIND, (text(person),)))
        return None if row is None else pairing_from(row)

    async def list_pairings(self) -> tuple[Pairing, ...]:
        """See `ports.Pairings`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST))
        return tuple(map(pairing_from, rows))

    async def redeem_pairing(self, code: str, *, by: str) -> Pairing:
        """See `ports.Pairings`."""

        async def work(tx: Transaction) -> Pairing:
            row = await tx.one(_REDEEM, (text(code), await tx.now(), text(by)))
            if row is None:
                raise RecordNotFound("code", code)
            return pairing_from(row)

        return await self._engine.write(work)

    async def decide_pairing(
        self, person: str, channel: str, status: Decided, *, by: str
    ) -> Pairing:
        """See `ports.Pairings`."""

        async def work(tx: Transaction) -> Pairing:
            bindings = (text(person), text(channel), status, await tx.now(), text(by))
            return pairing_from(await tx.one(_DECIDE, bindings) or ())

        return await self._engine.write(work, repeatable=True)
