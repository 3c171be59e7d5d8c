"""Credentials of the gateway, as they are listed: never the secret itself."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

Scope = Literal["read", "chat", "write", "admin"]
SCOPES: Final[tuple[Scope, ...]] = ("read", "chat", "write", "admin")
"""Each may all that those before it may."""
SECRET_PREFIX: Final = "clew_"  # noqa: S105  # the beginning of every one of them
"""So that a secret that got somewhere it should not be can be recognised."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A credential. It belongs to a person, and its scope is fixed for good."""

    id: str
    name: str
    person: str
    scope: Scope
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


def covers(scope: Scope, needed: Scope) -> bool:
    """Whether a credential of this scope may do what needs that one."""
    return SCOPES.index(scope) >= SCOPES.index(needed)


def digest_of(secret: str) -> bytes:
    """What is kept of a secret. It is 256 random bits, so a fast hash is a safe one."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def is_usable(token: Token, now: int) -> bool:
    """Whether a credential still opens anything."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)
