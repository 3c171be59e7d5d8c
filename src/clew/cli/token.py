"""`clew token`: who may use the gateway, and how far each may go."""

from __future__ import annotations

import click

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.options import Duration
from clew.cli.tables import Column, table
from clew.core.session import OWNER
from clew.core.tokens import SCOPES, Scope, Token, is_usable


@click.group("token")
def token_group() -> None:
    """Credentials of the gateway. A token belongs to a person, and its scope is fixed.

    read sees; chat also talks; write also changes and deletes; admin also makes tokens.
    """


@token_group.command("create")
@click.option("--name", required=True, metavar="NAME", help="What it is for, in your words.")
@click.option("--scope", type=click.Choice(SCOPES), required=True, help="How far it reaches.")
@click.option("--expires", type=Duration(), metavar="SPAN", help="When it ends: 12h, 30d, 52w.")
@click.option("--person", default=OWNER, metavar="PERSON", help="Whose it is; yours if left out.")
@gateway_options
@json_option
@pass_app
def token_create(app: App, name: str, scope: Scope, expires: int | None, person: str) -> None:
    """Make a token. It is shown now and never again; clew keeps only its digest.

    \b
    Examples:
      clew token create --name laptop --scope write --expires 30d
      clew token create --name dashboard --scope read
      clew token create --name alice --scope chat --person alice
    """
    expires_at = None if expires is None else app.now + expires

    made = app.call(
        lambda client: client.tokens.create(name, scope, person=person, expires_at=expires_at)
    )
    if app.json:
        app.emit(made)
        return
    end = "until you revoke it" if expires_at is None else f"until {app.local_time(expires_at)}"
    app.note(f"A token of {person} with the scope {scope}, good {end}. Keep it: it is shown once.")
    app.say(made.secret)


@token_group.command("list")
@gateway_options
@json_option
@pass_app
def token_list(app: App) -> None:
    """List the tokens, those that ended too. Secrets are not kept, so they are not shown.

    \b
    Examples:
      clew token list
      clew token list --json
    """
    tokens = app.call(lambda client: client.tokens.list())
    if app.json:
        app.emit({"tokens": tokens})
        return
    if not tokens:
        app.say("There are no tokens. `clew token create` makes one.")
        return
    columns = (
        Column("ID", "id"),
        Column("NAME", "bold", least=8, optional=1),
        Column("PERSON", least=6, optional=2),
        Column("SCOPE"),
        Column("MADE", "dim", optional=3),
        Column("STATE"),
    )
    rows = [
        (each.id, each.name, each.person, each.scope, app.ago(each.created_at), _state(app, each))
        for each in tokens
    ]
    app.say("\n".join(table(app, columns, rows)))


def _state(app: App, token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if not is_usable(token, app.now):
        return "expired"
    return "good" if token.expires_at is None else f"until {app.local_time(token.expires_at)}"


@token_group.command("revoke")
@click.argument("token_id", metavar="ID")
@gateway_options
@json_option
@pass_app
def token_revoke(app: App, token_id: str) -> None:
    """End a token for good. Streams that are open with it close within a second.

    \b
    Examples:
      clew token revoke 5f0c1a2b3c4d5e6f
    """
    token = app.call(lambda client: client.tokens.revoke(token_id))
    app.answer(token, f'The token "{token.name}" of {token.person} is revoked.')
