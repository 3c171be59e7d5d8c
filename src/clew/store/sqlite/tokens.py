"""Credentials of the gateway in SQLite."""

from __future__ import annotations

import apsw

from clew.core.tokens import Token
from clew.errors import RecordNotFound
from clew.store.rows import plain, text
from clew.store.sqlite.connection import Row, fetch_one
from clew.store.sqlite.database import Database

_COLUMNS = "id, name, person, scope, created_at, expires_at, revoked_at"


class SqliteTokens:
    """`ports.Tokens`."""

    _db: Database

    async def add_token(self, token: Token, digest: bytes) -> None:
        """See `ports.Tokens`."""

        def job(connection: apsw.Connection) -> None:
            connection.execute(
                f"INSERT INTO tokens ({_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    text(token.id), text(token.name), text(token.person), token.scope,
                    token.created_at, token.expires_at, token.revoked_at, digest,
                ),
            )  # fmt: skip

        await self._db.write(job)

    async def find_token(self, digest: bytes) -> Token | None:
        """See `ports.Tokens`."""
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE digest = ?"

        def job(connection: apsw.Connection) -> Token | None:
            row = fetch_one(connection, sql, (digest,))
            return None if row is None else _token_from(row)

        return await self._db.read(job)

    async def list_tokens(self) -> tuple[Token, ...]:
        """See `ports.Tokens`."""
        sql = f"SELECT {_COLUMNS} FROM tokens ORDER BY created_at, rowid"

        def job(connection: apsw.Connection) -> tuple[Token, ...]:
            return tuple(map(_token_from, connection.execute(sql)))

        return await self._db.read(job)

    async def revoke_token(self, token_id: str) -> Token:
        """See `ports.Tokens`."""

        def job(connection: apsw.Connection) -> Token:
            row = fetch_one(
                connection,
                f"""UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?
                    RETURNING {_COLUMNS}""",
                (self._db.clock(), text(token_id)),
            )
            if row is None:
                raise RecordNotFound("token", token_id)
            return _token_from(row)

        return await self._db.write(job)


def _token_from(row: Row) -> Token:
    return Token(plain(row[0]) or "", plain(row[1]) or "", plain(row[2]) or "", *row[3:])
