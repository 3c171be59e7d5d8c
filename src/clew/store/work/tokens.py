"""The tokens of the gateway."""

from __future__ import annotations

from clew.core.tokens import SCOPES, Token, write_scopes
from clew.errors import RecordNotFound
from clew.store.rows import Row, plain, text
from clew.store.work.transaction import Engine, Transaction

_COLUMNS = "id, name, person, scopes, created_at, expires_at, revoked_at, kind"
_ADD = f"INSERT INTO tokens ({_COLUMNS}, digest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
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
            text(token.id), text(token.name), text(token.person), write_scopes(token.scopes),
            token.created_at, token.expires_at, token.revoked_at, token.kind, digest,
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
    token_id, name, person, scopes = (plain(each) or "" for each in row[:4])
    words = scopes.split(",")
    return Token(
        id=token_id,
        name=name,
        person=person,
        scopes=tuple(each for each in SCOPES if each in words),
        created_at=row[4],
        expires_at=row[5],
        revoked_at=row[6],
        kind="cookie" if row[7] == "cookie" else "bearer",
    )
