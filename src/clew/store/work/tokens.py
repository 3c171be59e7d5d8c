"""The tokens of the gateway."""

from __future__ import annotations

from clew.core.tokens import Token
from clew.errors import RecordNotFound
from clew.store.rows import Row, plain, text
from clew.store.work.transaction import Engine, Transaction

_COLUMNS = "id, name, person, scope, created_at, expires_at, revoked_at"
_ADD = f"INSERT INTO tokens ({_COLUMNS}, digest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
_FIND = f"SELECT {_COLUMNS} FROM tokens WHERE digest = $1"
_LIST = f"SELECT {_COLUMNS} FROM tokens ORDER BY created_at, ordinal"
_REVOKE = f"""
UPDATE tokens SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2 RETURNING {_COLUMNS}
"""


class SharedTokens:
    """`ports.Tokens`."""

    _engine: Engine

    async def add_token(self, token: Token, digest: bytes) -> None:
        """See `ports.Tokens`."""
        bindings = (
            text(token.id), text(token.name), text(token.person), token.scope, token.created_at,
            token.expires_at, token.revoked_at, digest,
        )  # fmt: skip
        await self._engine.write(lambda tx: tx.run(_ADD, bindings))

    async def find_token(self, digest: bytes) -> Token | None:
        """See `ports.Tokens`."""
        row = await self._engine.read(lambda tx: tx.one(_FIND, (digest,)))
        return None if row is None else _token_from(row)

    async def list_tokens(self) -> tuple[Token, ...]:
        """See `ports.Tokens`."""
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST))
        return tuple(map(_token_from, rows))

    async def revoke_token(self, token_id: str) -> Token:
        """See `ports.Tokens`."""

        async def work(tx: Transaction) -> Token:
            row = await tx.one(_REVOKE, (await tx.now(), text(token_id)))
            if row is None:
                raise RecordNotFound("token", token_id)
            return _token_from(row)

        return await self._engine.write(work, repeatable=True)


def _token_from(row: Row) -> Token:
    return Token(plain(row[0]) or "", plain(row[1]) or "", plain(row[2]) or "", *row[3:])
