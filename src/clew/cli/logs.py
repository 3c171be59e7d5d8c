"""`clew logs`: what the gateway of this machine has logged."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import TYPE_CHECKING, Final

import click

from clew.cli.app import App, local_command

if TYPE_CHECKING:
    from clew.core.gateway_events import GatewayEvent

LOOK_S: Final = 0.3


@click.command("logs")
@click.option(
    "-n", "count", type=click.IntRange(0), default=50, show_default=True, help="How many."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl+C.")
@click.option("--session", metavar="ID", help="Only of this session: its id, or the beginning.")
@click.option(
    "--level",
    type=click.Choice(("info", "warning", "error")),
    default="info",
    help="Only from this level on.",
)
@local_command
def logs_command(app: App, count: int, follow: bool, session: str | None, level: str) -> None:
    """Show what the gateway has logged: turns, deliveries, channels, sign-ins.

    A line never has the text of a message, nor a secret. With --json each line is an object.

    \b
    Examples:
      clew logs
      clew logs --follow --level warning
      clew logs --session 3f2a -n 200
    """
    app.wait(_show(app, count, session, level, follow=follow))


async def _show(app: App, count: int, session: str | None, level: str, *, follow: bool) -> None:
    from clew.gateway.log_file import LogReader, read_log

    def fits(event: GatewayEvent) -> bool:
        levels = ("info", "warning", "error")
        return levels.index(event.level) >= levels.index(level) and (
            session is None or (event.session or "").startswith(session)
        )

    reader = LogReader(app.config.state_dir)
    shown = deque((each for each in read_log(app.config.state_dir) if fits(each)), maxlen=count)
    for event in shown:
        _print(app, event)
    if not shown and not follow:
        app.note("Nothing is logged. `clew serve` runs a gateway, which logs what it does.")
    while follow:
        for event in reader.read():
            if fits(event):
                _print(app, event)
        sys.stdout.flush()
        await asyncio.sleep(LOOK_S)


def _print(app: App, event: GatewayEvent) -> None:
    if app.json:
        app.emit(event)
        return
    facts = [
        f"session {event.session[:8]}" if event.session else None,
        event.channel,
        f"{event.ms / 1000:.1f} s" if event.ms is not None else None,
        f"{event.input_tokens + event.output_tokens:,} tokens" if event.output_tokens else None,
        f"{event.count} times" if event.count > 1 else None,
    ]
    more = ", ".join(each for each in facts if each)
    mark = {"info": " ", "warning": "!", "error": "✗"}[event.level]
    app.say(f"{app.local_time(event.at)} {mark} {event.text}{f' ({more})' if more else ''}")
