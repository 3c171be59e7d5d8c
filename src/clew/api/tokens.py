"""Tokens of the gateway."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Moment, RowId, Word
from clew.api.operation import NoParams, Params, row
from clew.core.session import OWNER
from clew.core.tokens import Scope, Token


class CreateToken(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token for a person; without `expires_at` it is valid until it is revoked.

    `scopes` is a set: each adds to the others.
    """

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=6)]
    person: Word = OWNER
    expires_at: Moment | None = None


class OneToken(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of a token."""

    id: RowId


class TokenList(msgspec.Struct, frozen=True):
    """All tokens, oldest first. `current` is the id of the one that this was asked with."""

    tokens: tuple[Token, ...]
    current: str | None = None


class NewToken(msgspec.Struct, frozen=True):
    """A token and its secret, which is never shown again."""

    token: Token
    secret: str


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "tokens.list", "GET", "tokens", "admin", NoParams, TokenList,
    "List the tokens.",
)  # fmt: skip
CREATE: Final = row(
    "tokens.create", "POST", "tokens", "admin", CreateToken, NewToken,
    "Create a token. Its secret is shown once.", status=201,
)  # fmt: skip
REVOKE: Final = row(
    "tokens.revoke", "DELETE", "tokens/{id}", "admin", OneToken, Token,
    "Revoke a token.",
)  # fmt: skip
ROWS: Final = (
    LIST,
    CREATE,
    REVOKE,
)
