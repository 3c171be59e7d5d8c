"""Sessions as arguments of commands: what a person typed, the session that is meant, completion.

Which session is meant is decided behind the API (`sessions.resolve`, `runtime.place.resume`), by
the same steps in process and at a gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from clew.core.ids import id_prefix
from clew.errors import AmbiguousId, ClewError, NotFound

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from clew.api.sessions import SessionView
    from clew.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE: Final = 3.0
"""Seconds that a completion may take."""


async def find_each(
    client: Client, typed_ids: Sequence[str], *, trashed: bool = False
) -> tuple[tuple[SessionView, ...], tuple[ClewError, ...]]:
    """Each session that is to be changed, once, and what was wrong with the others."""
    sessions: dict[str, SessionView] = {}
    failures: list[ClewError] = []
    for typed in typed_ids:
        try:
            session = await client.sessions.resolve(typed, purpose="change", trashed=trashed)
        except (NotFound, AmbiguousId) as error:
            failures.append(error)
        else:
            sessions[session.id] = session
    return tuple(sessions.values()), tuple(failures)


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

    app = ctx.ensure_object(App)
    flags = ctx.find_root().params
    app.configure(
        home=flags.get("home"), store=flags.get("store"), file=flags.get("file"), verbose=False
    )
    try:
        found = app.call(lambda client: _find_completions(client, incomplete))
    except (ClewError, TimeoutError, click.UsageError):
        return []  # a shell that completes has no place for messages
    return [CompletionItem(each.short_id, help=each.name) for each in found]


async def _find_completions(client: Client, incomplete: str) -> Sequence[SessionView]:
    """The newest sessions, or those whose id begins so."""
    async with asyncio.timeout(PATIENCE):
        if not incomplete:
            return (await client.sessions.list(limit=20)).sessions
        found = await client.sessions.find(incomplete, purpose="change")
    prefix = id_prefix(incomplete)
    return [each for each in found if prefix is not None and each.id.startswith(prefix)][:50]
