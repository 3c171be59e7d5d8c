"""Links: one session that is used from several surfaces.

A link is a route: from now on that key leads to this session. `/link` on one surface gives a code,
which is typed on the other within ten minutes. The code is only in the store, so it works between
processes too. `clew link` does the same from the command line, without a code.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any, Final

from clew.core.channels.session_choice import RETURNED
from clew.core.session import OWNER, Session, may_see
from clew.errors import InvalidInput
from clew.ports import Store
from clew.runtime.commits import note

CODE_MS: Final = 600_000
TRIES: Final = 5
"""Wrong codes after which the right one is no longer valid."""


LINK: Final = "link"
"""Metadata key of the session's code: its hash, when it expires, and wrong tries."""

_LETTERS: Final = "23456789abcdefghjkmnpqrstuvwxyz"
_BEGINNING: Final = 4
_SECRET: Final = 8
_CODE: Final = re.compile(rf"([0-9a-f]{{{_BEGINNING}}})-?([{_LETTERS}]{{{_SECRET}}})")
_MANY: Final = 200
_WRONG: Final = "That code is not valid, or no longer. /link on the other side gives a new one."


async def offer_link(store: Store, session: Session, now: int) -> str:
    """Make a code that leads to the session, once; an earlier code of it becomes invalid."""
    secret = "".join(secrets.choice(_LETTERS) for _ in range(_SECRET))
    noted = {"digest": _digest(session.id, secret), "expires_at": now + CODE_MS, "tries": 0}
    await note(store, session.id, lambda before: before | {LINK: noted})
    # The code begins like the session's id, to find it; the rest can't be guessed.
    return f"{session.id[:_BEGINNING]}-{secret}"


async def redeem_link(
    store: Store, typed: str, key: str, now: int, *, viewer: str = OWNER
) -> Session:
    """Let a key lead to the session of a code; `InvalidInput` if the code is not valid.

    If several use one code at the same time, only one succeeds.
    """
    match = _CODE.fullmatch(typed.strip().lower())
    if match is None:
        raise InvalidInput("A code looks like 3fa2-k7qmxd9p; /link on the other side gives one.")
    for session in await store.find_sessions(match[1], limit=_MANY):
        if may_see(viewer, session.person) and await _use_up(store, session, match[2], now):
            return await link(store, key, session, now)
    raise InvalidInput(_WRONG)


async def _use_up(store: Store, session: Session, secret: str, now: int) -> bool:
    """Use up the session's code if it matches, in one step; otherwise count a wrong try."""
    given = _digest(session.id, secret)
    is_it = False

    def take(noted: dict[str, Any]) -> dict[str, Any]:
        nonlocal is_it
        code: dict[str, Any] = noted.get(LINK) or {}
        is_it = False
        if not _counts(code, now):
            return noted
        is_it = hmac.compare_digest(str(code["digest"]), given)
        return noted | {LINK: None if is_it else code | {"tries": code["tries"] + 1}}

    await note(store, session.id, take)
    return is_it


async def link(store: Store, key: str, session: Session, now: int) -> Session:
    """Let a key lead to a session from now on; the session is not reset by its age."""
    await store.set_route(key, session.id)
    return await return_to(store, session, now)


async def return_to(store: Store, session: Session, now: int) -> Session:
    """Note that a person came back to a session on purpose, so that it is not reset."""
    return await note(store, session.id, lambda before: before | {RETURNED: now, LINK: None})


def _counts(noted: dict[str, Any], now: int) -> bool:
    return bool(noted) and noted["tries"] < TRIES and now < noted["expires_at"]


def _digest(session_id: str, secret: str) -> str:
    return hashlib.sha256(f"link\0{session_id}\0{secret}".encode()).hexdigest()
