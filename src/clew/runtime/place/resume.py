"""Finds the session that a person means by what they typed, with advice if there is none.

One resolver for `--resume VALUE`, for commands that read and for commands that change: its steps
are an argument (`core.resume.PURPOSES`). Every look-up uses an index of the store, so it costs the
same with 50,000 sessions as with twenty; only the last step, a part of a title, searches all of
them. `core.resume` decides what the results mean. `--continue` is below; the terminal's breadcrumb
is passed in (`terminal.breadcrumbs` stores it) and may be out of date. `transfer.resume_file` opens
transcript files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from clew.core.keys import (
    Identity,
    Place,
    Purpose,
    here_filter,
    home_of,
    id_prefix,
    is_ask_key,
    is_id,
    recorded_identity,
)
from clew.core.resume import (
    PURPOSES,
    Breadcrumb,
    Rejected,
    Resolution,
    Step,
    candidate_of,
    check_value,
    id_part,
    is_transcript_of,
    settle,
    shown_value,
)
from clew.core.session import OWNER, Session, SessionFilter, may_see
from clew.core.text import fold, strip_controls
from clew.errors import AmbiguousId, SessionNotFound
from clew.ports import Store
from clew.runtime.place.directories import KeyChoice, find_cli_key, walk_sessions

MOST: Final = 1_000
"""Sessions that one look-up returns at most."""
REMEMBERED: Final = 500
"""How many of the newest sessions are compared by title and file name."""


async def look_up(
    store: Store,
    value: str,
    place: Place | None = None,
    *,
    purpose: Purpose = "resume",
    viewer: str = OWNER,
) -> Resolution:
    """The sessions that a value may mean: those of the first step that finds any.

    With a `place`, its sessions come first at each step. Files are not looked for.
    """
    value = check_value(value) if purpose == "resume" else value.strip()
    if not value:
        return Resolution(value)
    rejected: list[Rejected] = []
    for step in PURPOSES[purpose]:
        found, turned_down = await _look(store, step, value, place, viewer=viewer)
        rejected += turned_down if viewer == OWNER else []
        visible = [each for each in found if may_see(viewer, each.person)]
        if visible:
            return settle(value, step, visible, place, _known(rejected, visible))
    for each in await find_trashed(store, value, viewer=viewer):
        fits: Step = "id_part" if id_prefix(value) else "title"
        rejected.append(Rejected(each.id, fits, "it is in the trash"))
    return Resolution(value, rejected=tuple(rejected))


async def get_meant(
    store: Store, value: str, *, purpose: Purpose = "resume", viewer: str = OWNER
) -> Session:
    """The session that a value means; `SessionNotFound` or `AmbiguousId` with the candidates."""
    if purpose != "resume":
        _check_named(value)
    resolution = await look_up(store, value, purpose=purpose, viewer=viewer)
    return await get_resumed(store, resolution, purpose=purpose, viewer=viewer)


async def get_trashed(store: Store, value: str, *, viewer: str = OWNER) -> Session:
    """The session in the trash that a value means, by the beginning of its id or its title."""
    _check_named(value)
    found = await find_trashed(store, value.strip(), viewer=viewer)
    if not found:
        advice = "`clew trash list` shows what is in the trash."
        raise SessionNotFound(shown_value(value), advice)
    return await _only(store, value, found)


def _check_named(value: str) -> None:
    """Raise `SessionNotFound` for an empty name, as for any other name that does not exist."""
    if not value.strip():
        raise SessionNotFound(shown_value(value))


async def get_resumed(
    store: Store, resolution: Resolution, *, purpose: Purpose = "resume", viewer: str = OWNER
) -> Session:
    """The one session of a resolution; `SessionNotFound` or `AmbiguousId` otherwise."""
    value = resolution.value
    if not resolution.matches:
        near_only = purpose != "resume"
        advice = await advise(store, value, near_only=near_only, viewer=viewer)
        raise SessionNotFound(shown_value(value), advice)
    return await _only(store, value, resolution.matches)


async def _only(store: Store, value: str, found: Sequence[Session]) -> Session:
    if len(found) == 1:
        return found[0]
    shown = found[: AmbiguousId.SHOWN + 1]
    short_ids = await store.shorten_ids([each.id for each in shown])
    candidates = [candidate_of(each, short_ids[each.id]) for each in shown]
    raise AmbiguousId(shown_value(value), candidates)


async def _look(
    store: Store, step: Step, value: str, place: Place | None, *, viewer: str
) -> tuple[Sequence[Session], list[Rejected]]:
    """The sessions that one step finds, and those it rejects."""
    match step:
        case "id":
            whole = id_prefix(value)
            own = await store.find_sessions(value, limit=1) if is_id(whole or "") else ()
            return own or await store.find_imports(value, limit=MOST), []
        case "title":
            return await store.find_titles(value, limit=MOST), []
        case "id_part" | "digits":
            find = _find_parts if step == "id_part" else _find_digits
            return await find(store, value), []
        case "key":
            return await _find_by_key(store, value)
        case "fragment":
            return await _find_fragments(store, value, place, viewer=viewer)
    return (), []  # a path: the client checks its own disk, see `find_file`


async def _find_parts(store: Store, value: str) -> list[Session]:
    part = id_part(value)
    found: list[Session] = []
    if part is not None:
        found += await store.find_sessions(part, limit=MOST)
        found += await store.find_endings(part, limit=MOST)
    newest = await store.list_sessions(SessionFilter(viewer=OWNER, archived=None), limit=REMEMBERED)
    return found + [each for each in newest.sessions if is_transcript_of(value, each)]


async def _find_digits(store: Store, value: str) -> list[Session]:
    """Sessions whose id begins (with any length) or ends with this."""
    begins = await store.find_sessions(value, limit=MOST)
    return [*begins, *await store.find_endings(value, limit=MOST)]


async def _find_by_key(store: Store, key: str) -> tuple[list[Session], list[Rejected]]:
    """The session that a key leads to; if it leads nowhere, those that once had it."""
    led = await store.find_route(key)
    had = await store.find_keys(key, limit=MOST)
    if led is None:
        return list(had), []
    why = "it had this key once, which leads to another session now"
    return [led], [Rejected(each.id, "key", why) for each in had if each.id != led.id]


async def _find_fragments(
    store: Store, value: str, place: Place | None, *, viewer: str
) -> tuple[list[Session], list[Rejected]]:
    """Sessions with this in their titles, those of this directory first."""
    wanted = fold(value)
    found: list[Session] = []
    rejected: list[Rejected] = []
    for where in _filters(place):
        async for session in walk_sessions(store, where | {"text": value}, viewer=viewer):
            if session.title is not None and wanted in fold(session.title):
                found.append(session)
            elif len(rejected) < AmbiguousId.SHOWN:
                why = "it began with these words, but its title does not have them"
                rejected.append(Rejected(session.id, "fragment", why))
            if len(found) > AmbiguousId.SHOWN:
                break
        if found:
            break
    return found, list({each.session_id: each for each in rejected}.values())


def _filters(place: Place | None) -> list[dict[str, Any]]:
    everywhere: dict[str, Any] = {"archived": None}
    if place is None:
        return [everywhere]
    return [everywhere | here_filter(place), everywhere]


def _known(rejected: Sequence[Rejected], matches: Sequence[Session]) -> list[Rejected]:
    """The rejected ones that did not match after all."""
    ids = {each.id for each in matches}
    return [each for each in rejected if each.session_id not in ids]


# --- advice -----------------------------------------------------------------------------------


async def advise(store: Store, typed: str, *, near_only: bool = True, viewer: str = OWNER) -> str:
    """Advice where the session may be: in the trash, under a similar title, or in the list.

    Without `near_only` the three nearest titles are named, even if they are not similar.
    """
    import difflib  # noqa: PLC0415  # only needed for advice

    trashed = await find_trashed(store, typed, viewer=viewer)
    if trashed:
        return f"It is in the trash: `clew trash restore {trashed[0].id}` brings it back."
    everything = SessionFilter(viewer=viewer, archived=None)
    newest = await store.list_sessions(everything, limit=REMEMBERED)
    titles = {fold(session.title): session.title for session in newest.sessions if session.title}
    wanted = fold(typed.strip())
    near = [title for title in titles if wanted and wanted in title][:3]
    cutoff = 0.6 if near_only else 0.0
    matches = difflib.get_close_matches(wanted, titles, cutoff=cutoff)
    near += [each for each in matches if each not in near]
    if not near:
        return "`clew list` shows the sessions."
    names = [f'"{strip_controls(titles[each], keep_newlines=False)}"' for each in near[:3]]
    if near_only:
        return f"Did you mean {' or '.join(names)}?"
    return f"Nearest titles: {', '.join(names)}."


async def find_trashed(store: Store, typed: str, *, viewer: str = OWNER) -> list[Session]:
    """Find sessions in the trash by the beginning of the id, else by title."""
    trash = [each async for each in walk_sessions(store, {"trashed": True}, viewer=viewer)]
    prefix, title = id_prefix(typed), fold(typed.strip())
    found = [each for each in trash if prefix and each.id.startswith(prefix)]
    return found or [each for each in trash if each.title and fold(each.title) == title]


# --- `--continue` -----------------------------------------------------------------------------

Why = Literal["breadcrumb", "directory", "anywhere", "fresh", "none"]


class Continued(msgspec.Struct, frozen=True):
    """The session that `--continue` opens (None: a new one), why, and the notice to show."""

    session: Session | None
    why: Why
    note: str | None = None


async def locate_continue(
    store: Store,
    place: Place,
    breadcrumb: Breadcrumb | None,
    key: str | None = None,
    *,
    viewer: str = OWNER,
    follow: bool = True,
    asks: bool = False,
) -> tuple[KeyChoice, Continued]:
    """The key of a place, and what `--continue` goes on with there.

    With `follow` off, the sessions of a directory that was renamed stay where they are: the result
    says what would be found. `asks`: it is a single question that goes on.
    """
    choice = await find_cli_key(store, place, key, follow=follow)
    old = None if follow else choice.moved_from
    found = await find_continue(store, place, breadcrumb, viewer, moved_from=old)
    if asks:
        found = await _prefer_asked(store, place, breadcrumb, viewer, found)
    return choice, found


async def _prefer_asked(
    store: Store, place: Place, breadcrumb: Breadcrumb | None, viewer: str, found: Continued
) -> Continued:
    """What a question goes on with: the last one here, unless what a chat would is newer."""
    newest = await _find_newest(store, here_filter(place), viewer, asked=True)
    since = 0
    if found.why == "fresh" and breadcrumb is not None:
        since = breadcrumb.at
    elif found.why != "anywhere" and found.session is not None:
        since = found.session.updated_at
    if newest is None or newest.updated_at <= since:
        return found
    return Continued(newest, "directory")


async def find_continue(
    store: Store,
    place: Place,
    breadcrumb: Breadcrumb | None,
    viewer: str = OWNER,
    *,
    moved_from: str | None = None,
) -> Continued:
    """This terminal's last session, else this directory's newest, else the newest, else none."""
    if breadcrumb is not None and _is_here(breadcrumb.cwd, place):
        if breadcrumb.fresh:
            return Continued(None, "fresh", "/new was the last thing here: a new session begins.")
        session = await _find_crumb(store, breadcrumb, viewer)
        if session is not None:
            return Continued(session, "breadcrumb")
    session = await _find_newest(store, here_filter(place), viewer)
    if session is None and moved_from is not None:
        before = msgspec.structs.replace(place, cwd=moved_from, project=moved_from)
        session = await _find_newest(store, here_filter(before), viewer, of=place.identity)
    if session is not None:
        return Continued(session, "directory")
    session = await _find_newest(store, {}, viewer)
    if session is None:
        return Continued(None, "none", "There is no session to continue: a new one begins.")
    home = strip_controls(home_of(session, place.scope) or "no directory", keep_newlines=False)
    note = f'There is no session in this directory: continuing "{session.name}" from {home}.'
    return Continued(session, "anywhere", note)


def _is_here(directory: str, place: Place) -> bool:
    try:
        return str(Path(directory).resolve()) == place.cwd
    except (OSError, ValueError, RuntimeError):
        return False


async def _find_crumb(store: Store, breadcrumb: Breadcrumb, viewer: str) -> Session | None:
    if breadcrumb.session_id is None:
        return None
    try:
        session = await store.get_session(breadcrumb.session_id)
    except SessionNotFound:
        return None
    usable = session.platform == "cli" and session.deleted_at is None
    return session if usable and may_see(viewer, session.person) else None


async def _find_newest(
    store: Store,
    where: dict[str, Any],
    viewer: str,
    *,
    of: Identity | None = None,
    asked: bool = False,
) -> Session | None:
    """The newest CLI session with a message in it; lists have the pinned ones first.

    Those of single questions are passed over, unless `asked`.
    """
    newest: Session | None = None
    where = where | {"platform": "cli", "archived": None}
    async for session in walk_sessions(store, where, viewer=viewer, first=20):
        # A sub-agent's own session is not a person's conversation.
        recorded = recorded_identity(session)
        if of is not None and (recorded is None or not recorded.is_same(of)):
            continue
        if not asked and is_ask_key(session.key):
            continue
        if session.message_count and session.kind != "subagent":
            if newest is None or session.updated_at > newest.updated_at:
                newest = session
            if not session.pinned:
                break
    return newest
