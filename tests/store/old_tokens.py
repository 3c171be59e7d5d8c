"""Tokens as they were before scopes were a set, and what becomes of them."""

from __future__ import annotations

from typing import NamedTuple

from clew.core.tokens import Scopes, TokenKind

MONTH = 30 * 24 * 3_600_000


class OldToken(NamedTuple):
    """A row with one scope; `scopes` and `kind` are what an update makes of it."""

    name: str
    person: str
    scope: str
    expires_at: int | None
    scopes: Scopes
    kind: TokenKind = "bearer"

    def insert(self, number: int, digest: str) -> str:
        """The statement that an older clew would have run."""
        return f"""
            INSERT INTO tokens (id, name, person, scope, digest, created_at, expires_at)
            VALUES ('{number}', '{self.name}', '{self.person}', '{self.scope}', {digest}, 1,
                    {self.expires_at or "NULL"})"""


OLD_TOKENS = (
    OldToken("first", "owner", "admin", None, ("admin",)),
    OldToken("laptop", "owner", "write", 99, ("write", "approve")),  # it answered approvals
    OldToken("phone", "owner", "chat", None, ("chat",)),
    OldToken("screen", "owner", "read", None, ("read",)),
    OldToken("alice", "alice", "write", None, ("write",)),
    OldToken("browser", "owner", "admin", 1 + MONTH, ("admin",), "cookie"),
    OldToken("browser", "owner", "admin", None, ("admin",)),  # a person called it so
    OldToken("browser", "owner", "read", 1 + MONTH, ("read",)),
)
