"""`clew pick`: the picker, and then the chosen session; or only its id, for scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.options import ALONE

if TYPE_CHECKING:
    from clew.client.client import Client
    from clew.core.session import Session
    from clew.terminal.picker import Picked


@click.command("pick")
@click.option("--print", "prints", is_flag=True, help="Print the id of the chosen one, no chat.")
@click.option("--all", "everywhere", is_flag=True, help="Begin with all directories (--print).")
@click.option("--no-resume-hint", is_flag=True, help="Don't say at the end how to come back.")
@gateway_options
@json_option
@pass_app
def pick_command(app: App, prints: bool, everywhere: bool, no_resume_hint: bool) -> None:
    """Choose a session, by its name or by what was said in it, and go on with it.

    The same as `clew --resume` alone. Type to search; Tab shows all directories, Ctrl+F goes on in
    a branch, Esc leaves. With --print or --json nothing is opened: the chosen session is printed,
    and nothing (or null) if none was.

    \b
    Examples:
      clew pick
      clew show "$(clew pick --print)"
      clew pick --all --json
      clew pick --url https://clew.example.org --token file:~/clew.token
    """
    if prints or app.json:
        _print_choice(app, everywhere=everywhere)
        return
    if everywhere:
        raise click.UsageError("--all goes with --print or --json; in the picker press Tab.")
    from clew.cli.chat import run_chat
    from clew.cli.conversation import Choice

    choice = Choice(resume=ALONE, url=app.url, token=app.token)
    run_chat(app, choice, plain=False, hint=not no_resume_hint)


def _print_choice(app: App, *, everywhere: bool) -> None:
    async def pick(client: Client) -> Picked | None:
        return await _pick(app, client, everywhere=everywhere)

    picked = app.call(pick)
    if app.json:
        session = None if picked is None else _to_value(picked.session)
        app.emit({"session": session, "forks": picked is not None and picked.forks})
    elif picked is not None:
        app.say(picked.session.id)


async def _pick(app: App, client: Client, *, everywhere: bool) -> Picked | None:
    from clew.client.place import locate
    from clew.errors import InvalidInput
    from clew.terminal.picker import PickerSetup, run_picker

    if not (await client.sessions.names(limit=1)).names:
        app.note("No sessions found")
        return None
    # The answer may go to a program: then the picker is drawn beside it.
    if not (sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())):
        raise InvalidInput("Nobody is here to choose. `clew list` shows what there is.")
    setup = PickerSetup(
        client=client,
        place=locate(scope=app.config.session.scope),
        now=app.clock,
        zone=app.zone,
        everywhere=everywhere,
    )
    picked = await run_picker(setup, dark=app.is_dark)
    if picked is None:
        app.note("No session selected")
    return picked


def _to_value(session: Session) -> dict[str, Any]:
    """The session with the id that people type, as every command prints it."""
    import msgspec

    from clew.core.session import Session

    value: dict[str, Any] = msgspec.to_builtins(session)
    shown = (*Session.__struct_fields__, "short_id")
    return {name: value[name] for name in shown if name in value}
