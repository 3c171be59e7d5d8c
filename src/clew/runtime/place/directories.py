"""Directories and their sessions: the current directory, its key, and directories that moved.

Looks at the disk and asks the store; `core.keys` decides. Inside a directory it only checks whether
there is a `.git`, and it never runs git.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from clew.core.keys import (
    Claim,
    Identity,
    KeyDecision,
    Place,
    Scope,
    candidate_keys,
    check_key,
    choose_cli_key,
    home_of,
    recorded_identity,
    weigh_claim,
)
from clew.core.session import OWNER, Session, SessionFacts, SessionFilter
from clew.errors import InvalidInput
from clew.files.directories import directory_exists, identify
from clew.ports import Store

__all__ = [
    "KeyChoice",
    "Place",
    "directory_facts",
    "find_cli_key",
    "find_identity",
    "fork_here",
    "list_home",
    "move_here",
    "walk_sessions",
]

MOST: Final = 1_000
"""Sessions of a page."""
REMEMBERED: Final = 500
"""How many of the newest CLI sessions are searched for those of a renamed directory."""
UNKNOWN: Final = Identity(-1, -1)
"""The identity of a directory that probably exists but can't be accessed."""

KeyRule = Literal["explicit", "ours", "moved", "free"]


class KeyChoice(msgspec.Struct, frozen=True):
    """The key of a place, and the session that it leads to, if it has begun.

    `moved_from` is the old path of a directory that moved here with its sessions.
    """

    key: str
    session: Session | None
    moved_from: str | None = None
    rule: KeyRule = "ours"


# --- the disk ---------------------------------------------------------------------------------


def directory_facts(path: Path | str) -> dict[str, Any]:
    """What a session's metadata stores under `directory`; empty if the directory is gone."""
    identity = find_identity(str(path))
    facts: dict[str, Any] = {}
    return facts if identity in (None, UNKNOWN) else facts | msgspec.to_builtins(identity)


def find_identity(path: str) -> Identity | None:
    """The identity of a directory; None if there is none, `UNKNOWN` if it can't be accessed."""
    try:
        return Identity(*identify(Path(path)))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError:
        return UNKNOWN


# --- the key ----------------------------------------------------------------------------------


async def find_cli_key(
    store: Store, place: Place, explicit: str | None = None, *, follow: bool = True
) -> KeyChoice:
    """The key of this place, and its session. An explicit key is used unchanged.

    Sessions whose directory was moved or renamed to this place are updated, unless `follow` is off:
    then the result only says what would happen.
    """
    if explicit is not None:
        key = check_key(explicit)
        return KeyChoice(key, await store.find_route(key), None, "explicit")
    claims, decision = await _decide(store, place)
    claim = next(each for each in claims if each.key == decision.key)
    if decision.standing == "ours":
        return KeyChoice(decision.key, await store.find_route(decision.key))
    if decision.standing == "moved" and claim.directory is not None:
        return await _bring(store, place, claim.directory, decision.key, follow=follow)
    old = await _find_old_home(store, place)
    if old is not None:
        return await _bring(store, place, old, decision.key, follow=follow)
    return KeyChoice(decision.key, None, None, "free")


async def _decide(store: Store, place: Place) -> tuple[list[Claim], KeyDecision]:
    claims: list[Claim] = []
    for number, key in enumerate(candidate_keys(place)):
        claims.append(await _claim(store, place, key))
        # The place may already have the second key although the first is free now: check both.
        if number and weigh_claim(place, claims[-1]) != "theirs":
            break
    decision = choose_cli_key(place, claims)
    if decision is None:
        raise InvalidInput("Other directories have all keys of this one. Choose one with --key.")
    return claims, decision


async def _claim(store: Store, place: Place, key: str) -> Claim:
    """Who has a key: the session it leads to, else the last one (`/new` clears the route)."""
    session = await store.find_route(key)
    if session is None:
        session = next(iter(await store.find_keys(key, limit=1)), None)
    if session is None:
        return Claim(key)
    home = home_of(session, place.scope)
    present = None if home is None else find_identity(home)
    return Claim(key, True, home, recorded_identity(session), present)


# --- moved directories ------------------------------------------------------------------------


async def _find_old_home(store: Store, place: Place) -> str | None:
    """The old path of this directory, if a session was made there and nothing is there now."""
    where = SessionFilter(viewer=OWNER, platform="cli", archived=None)
    for session in (await store.list_sessions(where, limit=REMEMBERED)).sessions:
        home, recorded = home_of(session, place.scope), recorded_identity(session)
        if home is None or home == place.project or recorded is None:
            continue
        if recorded.is_same(place.identity) and not directory_exists(home):
            return home
    return None


async def _bring(store: Store, place: Place, old: str, key: str, *, follow: bool) -> KeyChoice:
    """Move the sessions of a directory that moved to its new path."""
    session = await _find_led(store, place, old, key)
    if not follow:
        return KeyChoice(key, session, old, "moved")
    moved = [
        each
        for each in await list_home(store, old, place.scope)
        if (recorded := recorded_identity(each)) and recorded.is_same(place.identity)
    ]
    await asyncio.gather(*(_follow(store, each, place, old) for each in moved))
    if session is None:
        return KeyChoice(key, None, old, "moved")
    await store.set_route(key, session.id)
    return KeyChoice(key, await store.get_session(session.id), old, "moved")


async def _find_led(store: Store, place: Place, old: str, key: str) -> Session | None:
    """The session that the directory's old key led to; none after a `/new`."""
    before = msgspec.structs.replace(place, project=old, basename=Path(old).name)
    for each in (key, *candidate_keys(before)):
        session = await store.find_route(each)
        if session is not None and home_of(session, place.scope) == old:
            return session
    return None


async def list_home(store: Store, directory: str, scope: Scope) -> list[Session]:
    """All CLI sessions that belong to a directory, archived ones too."""
    column = "project" if scope == "git" else "cwd"
    where = {column: directory, "platform": "cli", "archived": None}
    return [each async for each in walk_sessions(store, where, first=MOST)]


async def walk_sessions(
    store: Store, where: dict[str, Any], *, viewer: str = OWNER, first: int = 100
) -> AsyncIterator[Session]:
    """Iterate over the sessions of a list; reads page by page, as needed."""
    cursor: str | None = None
    limit = first
    while True:
        chosen = SessionFilter(viewer=viewer, **where)
        page = await store.list_sessions(chosen, limit=limit, cursor=cursor)
        for session in page.sessions:
            yield session
        cursor, limit = page.cursor, MOST
        if cursor is None:
            return


async def move_here(store: Store, session: Session, place: Place) -> Session:
    """Let a session belong to this place from now on. Its position in lists does not change."""
    return await _settle(store, session, place, place.cwd)


async def fork_here(
    store: Store, session: Session, place: Place, *, at: int | None = None
) -> Session:
    """Fork a session; the fork belongs to this place."""
    return await move_here(store, await store.fork_session(session.id, at=at), place)


async def _follow(store: Store, session: Session, place: Place, old: str) -> None:
    """Update the path of a session; one of a subdirectory stays in that subdirectory."""
    below = Path(session.cwd or old)
    inner = below.relative_to(old) if below.is_relative_to(old) else Path()
    await _settle(store, session, place, str(Path(place.project) / inner))


async def _settle(store: Store, session: Session, place: Place, cwd: str) -> Session:
    metadata = {**session.metadata, "directory": place.facts}
    facts = SessionFacts(cwd=cwd, project=place.project, metadata=metadata)
    return await store.describe_session(session.id, facts)
