"""Credentials of the gateway, as they are listed: never the secret itself."""

from __future__ import annotations

from typing import Literal

import msgspec

Scope = Literal["read", "chat", "write", "admin"]


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A credential. It belongs to a person, and its scope is fixed for good."""

    id: str
    name: str
    person: str
    scope: Scope
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
