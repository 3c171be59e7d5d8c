"""`clew link`: one conversation that goes on across surfaces, without a code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.resolve import complete_session, resolve
from clew.cli.tables import session_name
from clew.core.channelkeys import complete_key
from clew.core.keys import check_key
from clew.core.session import Session
from clew.core.text import strip_controls
from clew.errors import InvalidInput

if TYPE_CHECKING:
    from clew.ports import Store


@click.command("link")
@click.argument("key", metavar="KEY")
@click.argument("typed", metavar="[ID]", required=False, shell_complete=complete_session)
@click.option(
    "--undo", is_flag=True, help="Let the key lead nowhere: its next message begins anew."
)
@json_option
@pass_app
def link_command(app: App, key: str, typed: str | None, undo: bool) -> None:
    """Let a key lead to a session: a chat elsewhere goes on with it.

    KEY is telegram:CHAT, discord:CHANNEL, slack:CHANNEL, email:ADDRESS, or a key of the gateway
    such as agent:main:main. In a chat, /link does the same with a code.

    \b
    Examples:
      clew link telegram:123456 550e
      clew link --undo telegram:123456
    """
    if undo == (typed is not None):
        raise click.UsageError("Give a session, or --undo.")
    key = complete_key(check_key(key))

    async def change(store: Store) -> tuple[Session | None, Session, dict[str, str]]:
        from clew.clock import host_clock
        from clew.runtime.linking import link

        before = await store.find_route(key)
        if typed is not None:
            after = await link(store, key, await resolve(store, typed), host_clock())
        elif before is None:
            raise InvalidInput(f"{strip_controls(key)} leads nowhere.")
        else:
            await store.clear_route(key)
            after = before
        named = [each.id for each in (before, after) if each is not None]
        return before, after, await store.shorten_ids(named)

    before, after, short_ids = app.run(change)
    shown = strip_controls(key, keep_newlines=False)
    value = {"key": key, "session": None if undo else session_value(after, short_ids)}
    if undo:
        app.answer(value, f"{shown} leads nowhere now: its next message begins a new session.")
        return
    back = f"--undo {shown}" if before is None else f"{shown} {short_ids[before.id]}"
    done = f'{shown} leads to "{session_name(after)}" now.'
    app.answer(value, f"{done} To undo: clew link {back}")
