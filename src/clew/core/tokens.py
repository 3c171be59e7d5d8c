"""Tokens of the gateway without their secrets, and what their scopes allow.

Which scope an operation or a slash command needs is a column of its row (`api`, `core.commands`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from clew.core.session import OWNER
from clew.core.turn import ApprovalScope
from clew.errors import Forbidden, InvalidInput

Scope = Literal["read", "chat", "write", "approve", "store", "admin"]
Scopes = tuple[Scope, ...]
"""The scopes of a token, as `make_scopes` writes them: two equal sets are equal tuples."""
TokenKind = Literal["bearer", "cookie"]
"""How a secret is sent: in the header `Authorization`, or by a browser as its cookie."""

MEANINGS: Final[dict[Scope, str]] = {
    "read": "looks at what its person may see",
    "chat": "talks, with a guest's tools: no files, no shell, no memory written",
    "write": "talks with all tools; changes and deletes sessions and memory",
    "approve": "answers approvals, but never with always",
    "store": "writes records of its own, for programs that keep theirs in clew",
    "admin": "does everything: jobs, tokens, guests, imports, answers with always",
}
"""What a token with each scope does."""
SCOPES: Final[tuple[Scope, ...]] = tuple(MEANINGS)
_INCLUDED: Final[dict[Scope, Scopes]] = {
    "read": (),
    "chat": ("read",),
    "write": ("read", "chat"),
    "approve": ("read",),
    "store": ("read",),
    "admin": ("read", "chat", "write", "approve", "store"),
}
OWNERS: Final[Scopes] = ("approve", "store", "admin")
"""These exist for the owner only."""
ALL: Final[Scopes] = ("admin",)
PRESETS: Final[dict[str, Scopes]] = {"terminal": ("write", "approve")}
"""The scopes that common uses need (`clew token create --for terminal`)."""
SECRET_PREFIX: Final = "clew_"  # noqa: S105  # the beginning of every one of them
"""Every secret begins with it, so that a leaked one can be recognised."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token. It belongs to a person, and its scopes never change."""

    id: str
    name: str
    person: str
    scopes: Scopes
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    kind: TokenKind = "bearer"


def make_scopes(given: Iterable[str]) -> Scopes:
    """A set of scopes in the order of the table, without those that another one includes.

    `InvalidInput` for a word that is not a scope, and for none at all.
    """
    named = set(given)
    unknown = sorted(named - set(SCOPES))
    if unknown or not named:
        what = f'"{unknown[0][:40]}" is not a scope' if unknown else "A token needs a scope"
        raise InvalidInput(f"{what}. There are: {', '.join(SCOPES)}.")
    included = {each for scope in SCOPES if scope in named for each in _INCLUDED[scope]}
    return tuple(each for each in SCOPES if each in named - included)


def read_scopes(text: str) -> Scopes:
    """Scopes as a person writes them, `write,approve`; see `make_scopes`."""
    return make_scopes(each.strip().lower() for each in text.split(","))


def write_scopes(scopes: Scopes) -> str:
    """Scopes as text, for people and for a column: the inverse of `read_scopes`."""
    return ",".join(scopes)


def covers(scopes: Iterable[Scope], needed: Scope) -> bool:
    """Whether a token with these scopes may do what needs that scope."""
    return any(each == needed or needed in _INCLUDED[each] for each in scopes)


def check_answer(scopes: Scopes, how_long: ApprovalScope) -> None:
    """`Forbidden` for an answer to an approval that these scopes may not give.

    What is allowed for always becomes a rule of the configuration.
    """
    needed: Scope = "admin" if how_long == "always" else "approve"
    if not covers(scopes, needed):
        raise Forbidden(
            f'Answering an approval with "{how_long}" needs a token with the scope {needed}; this '
            f"one has {write_scopes(scopes)}. Nothing was allowed."
        )


def scopes_of(person: str) -> Scopes:
    """The scopes of what a person says without a token: in a terminal, on a channel, as a job."""
    return ALL if person == OWNER else ("chat",)


def has_own_tools(person: str, scopes: Scopes) -> bool:
    """Whether a turn has the owner's tools: files, the shell, MCP servers, writing the memory.

    A turn of another person, or that was accepted with less than `write`, has a guest's.
    """
    return person == OWNER and covers(scopes, "write")


def describe_scopes(scopes: Scopes) -> str:
    """What a token may do, as one sentence."""
    said = [MEANINGS[each] for each in scopes]
    return f"It {'; it '.join(said)}."


def digest_of(secret: str) -> bytes:
    """The hash of a secret that is stored. A secret is 256 random bits, so a fast hash is safe."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def is_usable(token: Token, now: int) -> bool:
    """Whether a token is neither revoked nor expired."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)
