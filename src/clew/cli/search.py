"""`clew search`: find messages by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.options import HyphenWords, complete_session, parse_time_option
from clew.cli.sessions import PAGE, here
from clew.core.channels.speech import name_of
from clew.core.message import ROLES
from clew.core.names import recent_name
from clew.core.text import columns, cut, strip_controls

if TYPE_CHECKING:
    from clew.api.sessions import FoundMessages
    from clew.client.client import Client
    from clew.core.search.hits import SearchHit

NOTHING_FOUND: Final = 1
LEAST_NAME: Final = 8
"""Columns that the name of a session has at least."""


class SearchCommand(HyphenWords):
    """Takes `-staging` as an unwanted word, not as options."""

    hyphened = re.compile(r"-(?!-|n\d*$|h$).")


@click.command("search", cls=SearchCommand)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--session",
    "typed",
    metavar="ID",
    shell_complete=complete_session,
    help="Only in this session, with its inherited messages.",
)
@click.option("--platform", metavar="NAME", help="Only on this platform.")
@click.option("--here", "only_here", is_flag=True, help="Only in sessions of this directory.")
@click.option("--role", type=click.Choice(ROLES), help="Only what this role said.")
@click.option("--since", metavar="WHEN", help="Not before: a date, a time, or a duration like 7d.")
@click.option("--until", metavar="WHEN", help="Not after.")
@click.option(
    "-n",
    "limit",
    metavar="N",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="How many messages.",
)
@click.option("--cursor", metavar="CURSOR", help="Go on where the JSON of the same search ended.")
@client_command
def search_command(
    app: App,
    /,
    words: tuple[str, ...],
    typed: str | None,
    limit: int,
    cursor: str | None,
    **filters: Any,
) -> None:
    """Find messages in which all the words occur, best first.

    Words match other forms of themselves ("tests" finds "testing"). Put "exact phrases" in double
    quotes inside single ones, a hyphen before what you do not want, and a star after the beginning
    of a word. Exit code 1 when nothing is found.

    \b
    Examples:
      clew search login redirect
      clew search '"connection refused"' -staging
      clew search deploy* --since 7d --role user
    """
    where = _filters(app, **filters)
    query = " ".join(words)
    page = app.call(lambda client: _search(client, query, typed, limit, cursor, where))
    if app.json:
        hits = [
            msgspec.to_builtins(hit) | {"short_id": page.short_ids[hit.session_id]}
            for hit in page.hits
        ]
        app.emit({"hits": hits, "cursor": page.cursor, "cut": page.cut})
    else:
        app.say("\n".join(render(app, page)))
    if not page.hits:
        raise click.exceptions.Exit(NOTHING_FOUND)


async def _search(  # noqa: PLR0917  # each is an option
    client: Client,
    query: str,
    typed: str | None,
    limit: int,
    cursor: str | None,
    where: dict[str, Any],
) -> FoundMessages:
    """The first `limit` hits, in as many pages as it takes."""
    if typed is not None:
        where["session"] = (await client.sessions.resolve(typed, purpose="read")).id
    page = await client.sessions.search(query, limit=min(limit, PAGE), cursor=cursor, **where)
    while page.cursor is not None and len(page.hits) < limit:
        more = await client.sessions.search(
            query, limit=min(limit - len(page.hits), PAGE), cursor=page.cursor, **where
        )
        page = msgspec.structs.replace(
            more,
            hits=page.hits + more.hits,
            cut=page.cut or more.cut,
            short_ids=page.short_ids | more.short_ids,
        )
    return page


def _filters(
    app: App,
    *,
    platform: str | None,
    only_here: bool,
    role: Any,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    return {
        "platform": platform,
        "cwd": here() if only_here else None,
        "role": role,
        "since": parse_time_option(app, "--since", since),
        "until": parse_time_option(app, "--until", until, end_of_day=True),
    }


def render(app: App, page: FoundMessages) -> Iterator[str]:
    """Two lines for each hit: the place, and the text."""
    if not page.hits:
        yield "Nothing found."
    for index, hit in enumerate(page.hits):
        if index:
            yield ""
        yield _where(app, hit, page.short_ids[hit.session_id])
        yield _what(app, hit)
    if page.cut:
        yield ""
        yield app.colour("Not all matches were looked at. Add a word, --since or --session.", "dim")
    elif page.cursor is not None:
        yield ""
        yield app.colour("… and more: -n shows more of them", "dim")


def _where(app: App, hit: SearchHit, short_id: str) -> str:
    marks = [f"#{hit.seq}", hit.role, app.ago(hit.at)]
    marks += [] if hit.author is None else [name_of(hit.author)]
    marks += [hit.platform] if hit.platform != "cli" else []
    marks += ["archived"] if hit.archived else []
    place = " · ".join(strip_controls(mark, keep_newlines=False) for mark in marks)
    name = recent_name(hit.title, None, hit.preview, hit.session_id)
    if app.width is not None:
        room = app.width - len(short_id) - 4
        place = cut(place, room - LEAST_NAME)
        name = cut(name, room - columns(place))
    return f"{app.colour(short_id, 'id')}  {app.colour(name, 'bold')}  {app.colour(place, 'dim')}"


def _what(app: App, hit: SearchHit) -> str:
    """The snippet on one line of the terminal, with its match coloured."""
    text, start, end = hit.snippet.text, hit.snippet.start, hit.snippet.end
    if app.width is not None:
        room = app.width - 2
        if columns(text[:end]) > room:
            begin = start
            while begin and columns(text[begin:start]) < room // 3:
                begin -= 1
            text, start, end = f"…{text[begin:]}", start - begin + 1, end - begin + 1
        text = cut(text, room)
    return f"  {text[:start]}{app.colour(text[start:end], 'match') if end else ''}{text[end:]}"
