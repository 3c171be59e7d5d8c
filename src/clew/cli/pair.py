"""`clew pair`: who may talk to the agent on channels, beside its owner."""

from __future__ import annotations

import click

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.tables import Column, table
from clew.core.channels.people import Pairing, describe_person, spell_code
from clew.core.text import strip_controls


@click.group("pair")
def pair_group() -> None:
    """Guests: people who may talk to your agent on channels.

    A stranger who writes to it is told a code, and tells you. The code counts once, for an hour.
    People whom you always want to let in can stand in the configuration too, under guests.
    """


@pair_group.command("list")
@gateway_options
@json_option
@pass_app
def pair_list(app: App) -> None:
    """List who asks to be let in, your guests, and whom you refused.

    \b
    Examples:
      clew pair list
      clew pair list --json
    """
    pairings = app.call(lambda client: client.pairings.list())
    if app.json:
        app.emit({"pairings": pairings})
        return
    if not pairings:
        app.say("There are no guests, and no requests to be let in.")
        return
    columns = (
        Column("PERSON", "bold", least=8),
        Column("NAME", least=6, optional=1),
        Column("STATE"),
        Column("CODE"),
        Column("SINCE", "dim", optional=2),
    )
    rows = [
        (
            _plain(each.person),
            _plain(each.name or ""),
            _state(app, each),
            _code(app, each),
            app.ago(each.decided_at or each.asked_at or 0),
        )
        for each in pairings
    ]
    app.say("\n".join(table(app, columns, rows)))


@pair_group.command("approve")
@click.argument("who", metavar="CODE|PERSON")
@gateway_options
@json_option
@pass_app
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
@gateway_options
@json_option
@pass_app
def pair_refuse(app: App, who: str) -> None:
    """Keep a person out, a guest too. Their messages are not answered, and they are not told.

    `clew pair approve` lets them in again.

    \b
    Examples:
      clew pair refuse telegram:456
      clew pair refuse ABCD-EFGH
    """
    pairing = app.call(lambda client: client.pairings.refuse(who))
    app.answer(pairing, f"{describe_person(pairing)} may not talk to your agent.")


def _state(app: App, pairing: Pairing) -> str:
    if pairing.status != "waiting":
        return "let in" if pairing.status == "paired" else "refused"
    return "asks" if pairing.is_open(app.now) else "too late"


def _code(app: App, pairing: Pairing) -> str:
    return spell_code(pairing.code) if pairing.code and pairing.is_open(app.now) else ""


def _plain(text: str) -> str:
    return strip_controls(text, keep_newlines=False)
