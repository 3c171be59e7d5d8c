"""`clew token` and `clew pair`: who may use the gateway, and who may talk to the agent."""

from __future__ import annotations

import inspect

import click

from clew.cli.app import App, client_command
from clew.cli.options import Duration
from clew.cli.tables import Column, answer_table
from clew.core.channels.people import Pairing, describe_person, spell_code
from clew.core.session import OWNER
from clew.core.tokens import (
    MEANINGS,
    PRESETS,
    Scopes,
    Token,
    describe_scopes,
    is_usable,
    read_scopes,
    write_scopes,
)
from clew.errors import InvalidInput


class ScopeSet(click.ParamType[Scopes]):
    """Scopes, with commas between them."""

    name = "scopes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Scopes:
        """`write,approve` as a set."""
        try:
            return read_scopes(str(value))
        except InvalidInput as error:
            self.fail(str(error), param, ctx)


@click.group("token")
def token_group() -> None:
    """Tokens of the gateway. A token belongs to a person, and its scopes never change."""


@token_group.command("create")
@click.option("--name", required=True, metavar="NAME", help="What it is for, in your words.")
@click.option(
    "--scope",
    "scopes",
    type=ScopeSet(),
    metavar="SCOPES",
    help="What it allows: one of the scopes above, or several with commas.",
)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(tuple(PRESETS)),
    help="What will use it, in place of --scope.",
)
@click.option(
    "--expires", type=Duration(), metavar="SPAN", help="How long it is valid: 12h, 30d, 52w."
)
@click.option("--person", default=OWNER, metavar="PERSON", help="Who it belongs to. [default: you]")
@click.option("--yes", is_flag=True, help="Make a token with the scope admin without asking.")
@client_command
def token_create(  # noqa: PLR0917  # click passes them all
    app: App,
    name: str,
    scopes: Scopes | None,
    purpose: str | None,
    expires: int | None,
    person: str,
    yes: bool,
) -> None:
    """Make a token. It is shown now and never again: clew stores only its digest.

    {scopes}

    Each of them includes read; write includes chat, and admin all others. approve, store and admin
    are only for you, the owner. --for terminal makes write,approve, for clew on another machine: it
    works in directories that gateway.workspaces allows.

    \b
    Examples:
      clew token create --name laptop --for terminal --expires 30d
      clew token create --name dashboard --scope read
      clew token create --name alice --scope chat --person alice
    """
    scopes = _choose_scopes(scopes, purpose)
    meaning = describe_scopes(scopes)
    if "admin" in scopes and not yes and not app.confirm(f"{meaning} Make such a token?"):
        app.note("No token was made.")
        raise click.exceptions.Exit(1)
    expires_at = None if expires is None else app.now + expires
    made = app.call(
        lambda client: client.tokens.create(name, scopes, person=person, expires_at=expires_at)
    )
    if app.json:
        app.emit(made)
        return
    end = "until you revoke it" if expires_at is None else f"until {app.local_time(expires_at)}"
    app.note(
        f"A token of {person} with the scopes {write_scopes(scopes)}, valid {end}. {meaning} "
        "It is shown only once."
    )
    app.say(made.secret)


_lines = [f"  {each:<8} {meaning}" for each, meaning in MEANINGS.items()]
# The table of the code itself, so that the help can't say something else.
token_create.help = inspect.cleandoc(token_create.help or "").replace(
    "{scopes}", "\n".join(["\b", "Scopes:", *_lines])
)


def _choose_scopes(scopes: Scopes | None, purpose: str | None) -> Scopes:
    if (scopes is None) is (purpose is None):
        raise click.UsageError("What may it do? Give --scope or --for, one of the two.")
    return scopes if scopes is not None else PRESETS[purpose or ""]


@token_group.command("list")
@client_command
def token_list(app: App) -> None:
    """List the tokens, also those that ended. Their secrets are not stored.

    \b
    Examples:
      clew token list
      clew token list --json
    """
    tokens = app.call(lambda client: client.tokens.list())
    columns = (
        Column("ID", "id"),
        Column("NAME", "bold", least=8, optional=1),
        Column("PERSON", least=6, optional=2),
        Column("SCOPES"),
        Column("MADE", "dim", optional=3),
        Column("STATE"),
    )
    rows = [
        (
            each.id,
            each.name,
            each.person,
            write_scopes(each.scopes),
            app.ago(each.created_at),
            _token_state(app, each),
        )
        for each in tokens
    ]
    empty = "There are no tokens. `clew token create` makes one."
    answer_table(app, {"tokens": tokens}, columns, rows, empty=empty)


def _token_state(app: App, token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if not is_usable(token, app.now):
        return "expired"
    return "valid" if token.expires_at is None else f"until {app.local_time(token.expires_at)}"


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
@client_command
def token_revoke(app: App, token_id: str) -> None:
    """End a token for good. Streams that are open with it close within a second.

    \b
    Examples:
      clew token revoke 5f0c1a2b3c4d5e6f
    """
    token = app.call(lambda client: client.tokens.revoke(token_id))
    app.answer(token, f'The token "{token.name}" of {token.person} is revoked.')


@click.group("pair")
def pair_group() -> None:
    """Guests: people who may talk to your agent on channels.

    A stranger who writes to it gets a code and tells it to you. The code works once, for an hour.
    You can also name guests in the configuration, under guests.
    """


@pair_group.command("list")
@client_command
def pair_list(app: App) -> None:
    """List people who ask to be let in, your guests, and refused people.

    \b
    Examples:
      clew pair list
      clew pair list --json
    """
    pairings = app.call(lambda client: client.pairings.list())
    columns = (
        Column("PERSON", "bold", least=8),
        Column("NAME", least=6, optional=1),
        Column("STATE"),
        Column("CODE"),
        Column("SINCE", "dim", optional=2),
    )
    rows = [
        (
            each.person,
            each.name or "",
            _pairing_state(app, each),
            spell_code(each.code) if each.code and each.is_open(app.now) else "",
            app.ago(each.decided_at or each.asked_at or 0),
        )
        for each in pairings
    ]
    empty = "There are no guests, and no requests to be let in."
    answer_table(app, {"pairings": pairings}, columns, rows, empty=empty)


@pair_group.command("approve")
@click.argument("who", metavar="CODE|PERSON")
@client_command
def pair_approve(app: App, who: str) -> None:
    """Let a person in, by the code that they told you or as CHANNEL:ID.

    \b
    Examples:
      clew pair approve ABCD-EFGH
      clew pair approve telegram:456
    """
    pairing = app.call(lambda client: client.pairings.approve(who))
    app.answer(pairing, f"{describe_person(pairing)} is let in.")


@pair_group.command("refuse")
@click.argument("who", metavar="CODE|PERSON")
@client_command
def pair_refuse(app: App, who: str) -> None:
    """Keep a person out, guests too. Their messages get no answer.

    `clew pair approve` lets them in again.

    \b
    Examples:
      clew pair refuse telegram:456
      clew pair refuse ABCD-EFGH
    """
    pairing = app.call(lambda client: client.pairings.refuse(who))
    app.answer(pairing, f"{describe_person(pairing)} may not talk to your agent.")


def _pairing_state(app: App, pairing: Pairing) -> str:
    if pairing.status != "waiting":
        return "let in" if pairing.status == "paired" else "refused"
    return "asks" if pairing.is_open(app.now) else "too late"
