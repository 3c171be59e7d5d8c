"""From what a person typed to the session that is meant.

An exact id, the shortest unique beginning of one (case and hyphens don't matter), then an exact
title whatever its case. Resuming has more steps: they are in `runtime.resuming`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clew.core.ids import id_prefix
from clew.core.resume import SHOWN, AmbiguousSession, shown_value
from clew.core.session import OWNER, Session, SessionFilter
from clew.errors import AmbiguousId, ClewError, NotFound, SessionNotFound

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from clew.ports import Store

F = TypeVar("F", bound=Callable[..., Any])


async def resolve(store: Store, typed: str) -> Session:
    """The session that is meant; `SessionNotFound` or `AmbiguousId` otherwise."""
    prefix = id_prefix(typed)
    found = await store.find_sessions(prefix, limit=SHOWN + 1) if prefix else ()
    found = found or await store.find_titles(typed, limit=SHOWN + 1)
    if not found:
        from clew.runtime.resuming import advise

        raise SessionNotFound(shown_value(typed), await advise(store, typed))
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
    from clew.runtime.resuming import find_trashed

    found = await find_trashed(store, typed)
    if not found:
        raise SessionNotFound(shown_value(typed), "`clew trash list` shows what is in the trash.")
    return await _only(store, typed, found[: SHOWN + 1])


async def _only(store: Store, typed: str, found: Sequence[Session]) -> Session:
    if len(found) == 1:
        return found[0]
    raise AmbiguousSession(
        shown_value(typed), found, await store.shorten_ids([each.id for each in found])
    )


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
