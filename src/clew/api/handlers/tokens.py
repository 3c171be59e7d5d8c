"""Handlers of the operations about tokens. Only digests of secrets are stored."""

from __future__ import annotations

import secrets

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.tokens import CREATE, LIST, REVOKE, CreateToken, NewToken, OneToken, TokenList
from clew.core.session import OWNER
from clew.core.tokens import (
    OWNERS,
    SECRET_PREFIX,
    Scopes,
    Token,
    TokenKind,
    digest_of,
    make_scopes,
)
from clew.errors import InvalidInput


def make_token(
    name: str,
    scopes: Scopes,
    now: int,
    *,
    person: str = OWNER,
    expires_at: int | None = None,
    kind: TokenKind = "bearer",
) -> tuple[Token, str]:
    """Make a token and its secret; stores nothing."""
    token = Token(
        id=secrets.token_hex(8),
        name=name,
        person=person,
        scopes=scopes,
        created_at=now,
        expires_at=expires_at,
        kind=kind,
    )
    return token, SECRET_PREFIX + secrets.token_urlsafe(32)


@handles(LIST)
async def list_tokens(parts: Parts, _params: NoParams, caller: Caller) -> TokenList:
    """List all tokens."""
    return TokenList(await parts.store.list_tokens(), caller.token_id)


@handles(CREATE)
async def create_token(parts: Parts, params: CreateToken, _caller: Caller) -> NewToken:
    """Create a token; its secret is in the answer and nowhere else."""
    now = parts.clock()
    if params.person != params.person.strip():
        raise InvalidInput(f'"{params.person}" has spaces around it: write the name without them.')
    scopes = make_scopes(params.scopes)
    theirs = [each for each in scopes if each in OWNERS]
    if theirs and params.person != OWNER:
        raise InvalidInput(
            f"Only the owner has tokens with the scope {theirs[0]}: {params.person} may have "
            "read, chat or write."
        )
    if params.expires_at is not None and params.expires_at <= now:
        raise InvalidInput("That time has passed: the token could never be used.")
    token, secret = make_token(
        params.name, scopes, now, person=params.person, expires_at=params.expires_at
    )
    await parts.store.add_token(token, digest_of(secret))
    return NewToken(token, secret)


@handles(REVOKE)
async def revoke_token(parts: Parts, params: OneToken, _caller: Caller) -> Token:
    """Revoke a token."""
    return await parts.store.revoke_token(params.id)
