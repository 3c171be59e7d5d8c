"""Guests, and those who ask to be, in SQLite."""

from __future__ import annotations

import apsw

from clew.core.guests import CODE_MS, TOLD_MS, Decided, NewPairing, Pairing
from clew.core.jsontext import to_json
from clew.errors import RecordNotFound
from clew.store.rows import PAIRING_COLUMNS, optional, pairing_from, text
from clew.store.sqlite.connection import fetch, fetch_one
from clew.store.sqlite.database import Database

_ASK = f"""
INSERT INTO pairings (person, channel, status, name, code, told, reply_to, asked_at, expires_at)
VALUES (?1, ?2, 'waiting', ?3, ?4, 1, ?5, ?6, ?7)
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
WHERE status = 'waiting' AND channel = ?1 AND expires_at > ?2 AND person <> ?3
"""

# Nobody asked for these to be kept, and everybody can write: they must not pile up.
_FORGET = "DELETE FROM pairings WHERE status = 'waiting' AND expires_at < ?1"
_FORGET_TOLD = """
DELETE FROM outbox
WHERE session_id IS NULL AND status NOT IN ('pending', 'sending') AND updated_at < ?1
"""

_FIND = f"SELECT {PAIRING_COLUMNS} FROM pairings WHERE person = ?1"

_LIST = f"""
SELECT {PAIRING_COLUMNS} FROM pairings
ORDER BY status = 'waiting' DESC, coalesce(decided_at, asked_at) DESC, person
"""

_REDEEM = f"""
UPDATE pairings SET status = 'paired', code = NULL, decided_at = ?2, decided_by = ?3
WHERE code = ?1 AND status = 'waiting' AND expires_at > ?2 RETURNING {PAIRING_COLUMNS}
"""

_DECIDE = f"""
INSERT INTO pairings (person, channel, status, decided_at, decided_by)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (person) DO UPDATE SET status = excluded.status, code = NULL,
  decided_at = excluded.decided_at, decided_by = excluded.decided_by
RETURNING {PAIRING_COLUMNS}
"""


class SqlitePairings:
    """`ports.Pairings`."""

    _db: Database

    async def ask_pairing(self, new: NewPairing, *, most: int) -> Pairing | None:
        """See `ports.Pairings`."""

        def job(connection: apsw.Connection) -> Pairing | None:
            now = self._db.clock()
            person, channel = text(new.person), text(new.channel)
            connection.execute(_FORGET, (now - CODE_MS,))
            connection.execute(_FORGET_TOLD, (now - TOLD_MS,))
            ((others,),) = fetch(connection, _COUNT_OTHERS, (channel, now, person))
            known = fetch_one(connection, _FIND, (person,))
            if others >= most and (known is None or pairing_from(known).is_late(now)):
                return None
            reply_to = None if new.reply_to is None else to_json(new.reply_to)
            row = fetch_one(
                connection,
                _ASK,
                (
                    person, channel, optional(new.name), text(new.code), reply_to, now,
                    now + CODE_MS,
                ),
            )  # fmt: skip
            return pairing_from(row or known or ())

        return await self._db.write(job)

    async def find_pairing(self, person: str) -> Pairing | None:
        """See `ports.Pairings`."""

        def job(connection: apsw.Connection) -> Pairing | None:
            row = fetch_one(connection, _FIND, (text(person),))
            return None if row is None else pairing_from(row)

        return await self._db.read(job)

    async def list_pairings(self) -> tuple[Pairing, ...]:
        """See `ports.Pairings`."""

        def job(connection: apsw.Connection) -> tuple[Pairing, ...]:
            return tuple(map(pairing_from, connection.execute(_LIST)))

        return await self._db.read(job)

    async def redeem_pairing(self, code: str, *, by: str) -> Pairing:
        """See `ports.Pairings`."""

        def job(connection: apsw.Connection) -> Pairing:
            row = fetch_one(connection, _REDEEM, (text(code), self._db.clock(), text(by)))
            if row is None:
                raise RecordNotFound("code", code)
            return pairing_from(row)

        return await self._db.write(job)

    async def decide_pairing(
        self, person: str, channel: str, status: Decided, *, by: str
    ) -> Pairing:
        """See `ports.Pairings`."""

        def job(connection: apsw.Connection) -> Pairing:
            bindings = (text(person), text(channel), status, self._db.clock(), text(by))
            return pairing_from(fetch_one(connection, _DECIDE, bindings) or ())

        return await self._db.write(job)
