"""`clew demo`: made-up sessions in a new directory, and commands to try there."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from clew import config as configuration
from clew.cli.app import App, json_option, only_here, pass_app
from clew.core.names import counted
from clew.errors import InvalidInput

if TYPE_CHECKING:
    from clew.client.client import Client

# From each line, the first query that finds something is shown as an example.
QUERIES: Final = (
    ("refund", "backup", "recipe", "chapter", "album", "trip"),
    ('"is that"', '"the server"', '"the parser"'),
    ("データベース", "数据库", "데이터베이스", "ฐานข้อมูล", "база", "größe"),
)


class Demo(msgspec.Struct, frozen=True):
    """What was made, and commands to try."""

    home: str
    sessions: int
    messages: int
    commands: tuple[str, ...]


@click.command("demo")
@click.option("--home", metavar="DIR", help="Make it there. [default: a new temporary directory]")
@click.option("--sessions", type=click.IntRange(1, 1_000_000), default=40, show_default=True)
@click.option("--messages", type=click.IntRange(1, 10_000_000), help="In all sessions together.")
@click.option(
    "--seed", type=int, default=54, show_default=True, help="Another seed makes other sessions."
)
@only_here
@json_option
@click.pass_context
@pass_app
def demo_command(
    app: App,
    ctx: click.Context,
    *,
    home: str | None,
    sessions: int,
    messages: int | None,
    seed: int,
) -> None:
    """Make sessions to look at, in a directory of their own. Your sessions are not touched.

    \b
    Examples:
      clew demo
      clew demo --home ./try --sessions 500
      clew demo --sessions 5000 --messages 100000
    """
    from clew.testing.corpus import USUAL_LENGTH
    from clew.wiring import fill_demo_store

    place = _scratch_home(home or ctx.find_root().params["home"])  # `clew --home X demo` too
    scratch = _app_at(place, verbose=app.verbose)
    total = sessions * USUAL_LENGTH if messages is None else messages
    with app.progress("Making messages", total) as bar:
        app.wait(
            fill_demo_store(
                scratch.config,
                now=app.now,
                seed=seed,
                sessions=sessions,
                messages=total,
                progress=bar.advance,
            )
        )
    demo = scratch.call(lambda client: _describe(client, place))
    made = f"{counted(demo.sessions, 'session')} with {counted(demo.messages, 'message')}"
    lines = [f"Made {made} in {demo.home}. Try:", "", *(f"  {each}" for each in demo.commands)]
    app.answer(
        demo, "\n".join([*lines, "", "You may delete this directory: nothing else uses it."])
    )


def _scratch_home(given: str | None) -> Path:
    """The directory to fill; never the one with the person's own sessions."""
    if given is None:
        return Path(tempfile.mkdtemp(prefix="clew-demo-"))
    place = Path(given).expanduser().absolute()
    if place.resolve() == configuration.locate().data_dir.resolve():
        raise InvalidInput(f"{place} has your own sessions. Give another directory with --home.")
    return place


def _app_at(place: Path, *, verbose: bool) -> App:
    """An app whose store is in that directory, whatever the environment says."""
    url = configuration.load(home=str(place), environ={}).store.url
    app = App()
    app.configure(home=str(place), store=url, file=None, verbose=verbose)
    return app


async def _describe(client: Client, place: Path) -> Demo:
    stats = await client.stats()
    commands = await _examples(client, f"clew --home {shlex.quote(str(place))}")
    return Demo(str(place), stats.sessions + stats.archived, stats.messages, commands)


async def _examples(client: Client, clew: str) -> tuple[str, ...]:
    """Commands that find something in this store."""
    newest = await client.sessions.list(limit=1)
    commands = [f"{clew} list", *(f"{clew} show {each.short_id}" for each in newest.sessions)]
    for queries in QUERIES:
        for query in queries:
            if (await client.sessions.search(query, limit=1)).hits:
                commands.append(f"{clew} search {_quoted(query)}")
                break
    return (*commands, f"{clew} stats")


def _quoted(query: str) -> str:
    """Quoted for a shell; `shlex` alone would quote every word that is not ASCII."""
    return query if query.isalnum() else shlex.quote(query)
