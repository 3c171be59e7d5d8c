"""From what a person typed to the session that is meant.

An exact id, the shortest unique beginning of one (case and hyphens don't matter), then an exact
title whatever its case. Resuming has more steps and is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from clew.core.ids import id_prefix
from clew.core.session import OWNER, Session, SessionFilter
from clew.core.text import cut, fold, strip_controls
from clew.errors import AmbiguousId, ClewError, NotFound, SessionNotFound

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from clew.ports import Store

F = TypeVar("F", bound=Callable[..., Any])

SHOWN: Final = 10
"""Candidates that an error names."""
REMEMBERED: Final = 500
"""Newest sessions whose titles are compared with a mistyped one."""


class AmbiguousSession(AmbiguousId):
    """Several sessions fit; here they are, newest first, ready to be shown."""

    def __init__(self, typed: str, found: Sequence[Session], short_ids: dict[str, str]) -> None:
        self.sessions = found[:SHOWN]
        self.short_ids = short_ids
        super().__init__(typed, tuple(session.id for session in self.sessions))
        if len(found) > SHOWN:
            self.args = (f'"{typed}" fits more than {SHOWN} sessions. Type more of the id.',)


async def resolve(store: Store, typed: str) -> Session:
    """The session that is meant; `SessionNotFound` or `AmbiguousId` otherwise."""
    prefix = id_prefix(typed)
    found = await store.find_sessions(prefix, limit=SHOWN + 1) if prefix else ()
    found = found or await store.find_titles(typed, limit=SHOWN + 1)
    if not found:
        raise SessionNotFound(_shown(typed), await _advice(store, typed))
    return await _only(store, typed, found)


async def resolve_many(
    store: Store, typed_ids: Sequence[str]
) -> tuple[tuple[Session, ...], tuple[ClewError, ...]]:
    """Each session that is meant, once, and what was wrong with the others."""
    sessions: dict[str, Session] = {}
    failures: list[ClewError] = []
    for typed in typed_ids:
        try:
            session = await resolve(store, typed)
        except (NotFound, AmbiguousId) as error:
            failures.append(error)
        else:
            sessions[session.id] = session
    return tuple(sessions.values()), tuple(failures)


async def resolve_trashed(store: Store, typed: str) -> Session:
    """The session in the trash that is meant."""
    found = await _find_trashed(store, typed)
    if not found:
        raise SessionNotFound(_shown(typed), "`clew trash list` shows what is in the trash.")
    return await _only(store, typed, found[: SHOWN + 1])


async def _find_trashed(store: Store, typed: str) -> list[Session]:
    from clew.cli.pages import list_up_to

    page = await list_up_to(store, SessionFilter(viewer=OWNER, trashed=True), None)
    prefix, title = id_prefix(typed), fold(typed.strip())
    found = [each for each in page.sessions if prefix and each.id.startswith(prefix)]
    return found or [each for each in page.sessions if each.title and fold(each.title) == title]


async def _only(store: Store, typed: str, found: Sequence[Session]) -> Session:
    if len(found) == 1:
        return found[0]
    raise AmbiguousSession(
        _shown(typed), found, await store.shorten_ids([each.id for each in found])
    )


def _shown(typed: str) -> str:
    return cut(strip_controls(typed, keep_newlines=False), 60)


async def _advice(store: Store, typed: str) -> str:
    """Where it may be: in the trash, under one of the nearest titles, or in the list."""
    import difflib  # only to be helpful

    trashed = await _find_trashed(store, typed)
    if trashed:
        return f"It is in the trash: `clew trash restore {trashed[0].id}` brings it back."
    everything = SessionFilter(viewer=OWNER, archived=None)
    newest = await store.list_sessions(everything, limit=REMEMBERED)
    titles = {fold(session.title): session.title for session in newest.sessions if session.title}
    wanted = fold(typed.strip())
    near = [title for title in titles if wanted and wanted in title][:3]
    near += [each for each in difflib.get_close_matches(wanted, titles) if each not in near]
    if not near:
        return "`clew list` shows the sessions."
    names = [f'"{strip_controls(titles[each], keep_newlines=False)}"' for each in near[:3]]
    return f"Did you mean {' or '.join(names)}?"


def session_argument(command: F) -> F:
    """One session: the parameter `typed`."""
    return click.argument("typed", metavar="ID", shell_complete=complete_session)(command)


def sessions_argument(*, required: bool = True) -> Callable[[F], F]:
    """Some sessions: the parameter `typed_ids`."""
    return click.argument(
        "typed_ids",
        metavar="ID..." if required else "[ID]...",
        nargs=-1,
        required=required,
        shell_complete=complete_session,
    )


def complete_session(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids for the shell's Tab key, with their names beside them."""
    from click.shell_completion import CompletionItem

    from clew.cli.app import App
    from clew.cli.tables import session_name

    async def look(store: Store) -> list[CompletionItem]:
        if incomplete:
            found = await store.find_sessions(incomplete, limit=50)
        else:
            found = (await store.list_sessions(SessionFilter(viewer=OWNER), limit=20)).sessions
        short_ids = await store.shorten_ids([each.id for each in found])
        return [CompletionItem(short_ids[each.id], help=session_name(each)) for each in found]

    app = ctx.ensure_object(App)
    flags = ctx.find_root().params
    app.configure(
        home=flags.get("home"), store=flags.get("store"), file=flags.get("file"), verbose=False
    )
    try:
        return app.run(look)
    except ClewError:
        return []  # a shell that completes has no place for messages
