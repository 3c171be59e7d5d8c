"""Tokens of the gateway, as they are listed: never the secret itself."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

Scope = Literal["read", "chat", "write", "admin"]
SCOPES: Final[tuple[Scope, ...]] = ("read", "chat", "write", "admin")
"""In rising order: each includes the rights of those before it."""
SECRET_PREFIX: Final = "clew_"  # noqa: S105  # the beginning of every one of them
"""Every secret begins with it, so that a leaked one can be recognised."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token. It belongs to a person, and its scope never changes."""

    id: str
    name: str
    person: str
    scope: Scope
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


def covers(scope: Scope, needed: Scope) -> bool:
    """Whether a token of this scope may do what needs that scope."""
    return SCOPES.index(scope) >= SCOPES.index(needed)


def digest_of(secret: str) -> bytes:
    """The hash of a secret that is stored. A secret is 256 random bits, so a fast hash is safe."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def is_usable(token: Token, now: int) -> bool:
    """Whether a token is neither revoked nor expired."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)
