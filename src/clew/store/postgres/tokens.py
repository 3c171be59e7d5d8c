"""Credentials of the gateway in PostgreSQL."""

from __future__ import annotations

from clew.core.tokens import Token
from clew.errors import RecordNotFound
from clew.store.postgres.connection import Connection, fetch, fetch_one
from clew.store.postgres.database import Database
from clew.store.rows import Row, plain, text

_COLUMNS = "id, name, person, scope, created_at, expires_at, revoked_at"
_ADD = f"INSERT INTO tokens ({_COLUMNS}, digest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
_FIND = f"SELECT {_COLUMNS} FROM tokens WHERE digest = $1"
_LIST = f"SELECT {_COLUMNS} FROM tokens ORDER BY created_at, ordinal"
_REVOKE = f"""
UPDATE tokens SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2 RETURNING {_COLUMNS}
"""


class PostgresTokens:
    """`ports.Tokens`."""

    _db: Database

    async def add_token(self, token: Token, digest: bytes) -> None:
        """See `ports.Tokens`."""

        async def job(connection: Connection) -> None:
            await connection.execute(
                _ADD,
                (
                    text(token.id), text(token.name), text(token.person), token.scope,
                    token.created_at, token.expires_at, token.revoked_at, digest,
                ),
            )  # fmt: skip

        await self._db.write(job)

    async def find_token(self, digest: bytes) -> Token | None:
        """See `ports.Tokens`."""

        async def job(connection: Connection) -> Token | None:
            row = await fetch_one(connection, _FIND, (digest,))
            return None if row is None else _token_from(row)

        return await self._db.read(job)

    async def list_tokens(self) -> tuple[Token, ...]:
        """See `ports.Tokens`."""

        async def job(connection: Connection) -> tuple[Token, ...]:
            return tuple(map(_token_from, await fetch(connection, _LIST)))

        return await self._db.read(job)

    async def revoke_token(self, token_id: str) -> Token:
        """See `ports.Tokens`."""

        async def job(connection: Connection) -> Token:
            now = await self._db.now(connection)
            row = await fetch_one(connection, _REVOKE, (now, text(token_id)))
            if row is None:
                raise RecordNotFound("token", token_id)
            return _token_from(row)

        return await self._db.write(job, repeatable=True)


def _token_from(row: Row) -> Token:
    return Token(plain(row[0]) or "", plain(row[1]) or "", plain(row[2]) or "", *row[3:])
