"""`clew pick`: the picker, and then the chosen session; or only its id, for scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from clew.cli.app import App, json_option, pass_app
from clew.cli.options import ALONE

if TYPE_CHECKING:
    from clew.ports import Store
    from clew.terminal.entrance import Picked


@click.command("pick")
@click.option("--print", "prints", is_flag=True, help="Print the id of the chosen one, no chat.")
@click.option("--all", "everywhere", is_flag=True, help="Begin with all directories (--print).")
@click.option("--no-resume-hint", is_flag=True, help="Don't say at the end how to come back.")
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
    """
    if prints or app.json:
        _print_choice(app, everywhere=everywhere)
        return
    if everywhere:
        raise click.UsageError("--all goes with --print or --json; in the picker press Tab.")
    from clew.cli.chat import run_chat
    from clew.cli.talking import Choice

    run_chat(app, Choice(resume=ALONE), plain=False, hint=not no_resume_hint)


def _print_choice(app: App, *, everywhere: bool) -> None:
    from clew.cli.jsonout import session_value
    from clew.core.session import OWNER, SessionFilter
    from clew.errors import InvalidInput

    async def pick(store: Store) -> tuple[Picked | None, dict[str, str]]:
        if not (await store.list_sessions(SessionFilter(viewer=OWNER), limit=1)).sessions:
            app.note("No sessions found")
            return None, {}
        # The answer may go to a program: then the picker is drawn beside it.
        if not (sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())):
            raise InvalidInput("Nobody is here to choose. `clew list` shows what there is.")
        picked = await _open_picker(app, store, everywhere=everywhere)
        if picked is None:
            app.note("No session selected")
            return None, {}
        return picked, await store.shorten_ids([picked.session.id])

    picked, short = app.run(pick)
    if app.json:
        session = None if picked is None else session_value(picked.session, short)
        app.emit({"session": session, "forks": picked is not None and picked.forks})
    elif picked is not None:
        app.say(picked.session.id)


async def _open_picker(app: App, store: Store, *, everywhere: bool) -> Picked | None:
    from clew.client.place import locate
    from clew.core.session import OWNER
    from clew.terminal.picker.app import PickerApp, spare_collector

    spare_collector()
    picker = PickerApp(
        store,
        place=locate(scope=app.config.session.scope),
        viewer=OWNER,
        now=app.clock,
        zone=app.zone,
        everywhere=everywhere,
        dark=app.is_dark,
    )
    return await picker.run_async()
