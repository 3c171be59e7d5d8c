"""`clew cron`: jobs that a gateway runs on a schedule.

The jobs are in a file beside the store; a gateway that runs notices a change within a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, client_command
from clew.cli.tables import Column, answer_table

if TYPE_CHECKING:
    from clew.client.client import Client
    from clew.core.cron import CronJob
    from clew.core.turn import Turn


@click.group("cron")
def cron_group() -> None:
    """Jobs that the gateway runs on a schedule.

    When a job is due, its text is sent to the agent, in a session of its own. A job that was due
    while no gateway ran is run once afterwards.
    """


@cron_group.command("add")
@click.argument("name")
@click.argument("schedule")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option(
    "--session",
    metavar="WHICH",
    default="isolated",
    help="isolated: a new one each time (default); fixed: one for all; or a key.",
)
@click.option(
    "--deliver-to", metavar="PLACE", help="Where the answer goes: channel:id or channel:group:id."
)
@click.option("--agent", metavar="ID", default="main", help="Which agent does it.")
@click.option("--timezone", metavar="ZONE", help="The time zone of the schedule.")
@client_command
def cron_add(app: App, /, words: tuple[str, ...], **given: Any) -> None:
    """Add a job. SCHEDULE is a cron expression or an interval; quote it.

    \b
    Examples:
      clew cron add news "0 8 * * mon-fri" "What happened in my projects since yesterday?"
      clew cron add disk "every 2h" "Is any disk nearly full?" --deliver-to telegram:123
      clew cron add review "0 17 * * fri" "Sum up the week." --session fixed
    """
    given = {name: value for name, value in given.items() if value is not None}
    text = " ".join(words)
    job = app.call(lambda client: client.cron.add(text=text, **given), opens_store=False)
    app.answer(_value(job), f'Added "{job.name}"; it is due {app.local_time(job.due_at)}.')


@cron_group.command("list")
@client_command
def cron_list(app: App) -> None:
    """List the jobs, and when each is due.

    \b
    Example:
      clew cron list
    """
    jobs = app.call(lambda client: client.cron.list(), opens_store=False)
    columns = [
        Column("NAME"), Column("SCHEDULE"), Column("NEXT"), Column("LAST"),
        Column("SESSION"), Column("DELIVERS TO", optional=2, least=8),
        Column("TEXT", optional=1, least=12),
    ]  # fmt: skip
    rows = [
        (
            each.name,
            each.schedule,
            app.local_time(each.due_at),
            "" if each.last_run_at is None else app.ago(each.last_run_at),
            each.session,
            each.deliver_to or "",
            each.text,
        )
        for each in jobs
    ]
    value = {"jobs": [_value(each) for each in jobs]}
    answer_table(app, value, columns, rows, empty="There are no jobs. `clew cron add` makes one.")


def _value(job: CronJob) -> dict[str, Any]:
    """A job for JSON: all fields, and its key."""
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return fields | {"key": job.key}


@cron_group.command("remove")
@click.argument("name")
@client_command
def cron_remove(app: App, name: str) -> None:
    """Remove a job. Its sessions stay.

    \b
    Example:
      clew cron remove news
    """
    job = app.call(lambda client: client.cron.remove(name), opens_store=False)
    app.answer(_value(job), f'Removed "{job.name}". Its sessions are still there.')


@cron_group.command("run")
@click.argument("name")
@client_command
def cron_run(app: App, name: str) -> None:
    """Run a job now, and show its answer. This does not change when it is due next.

    The gateway delivers the answer, now or when one runs again.

    \b
    Example:
      clew cron run news
    """
    from clew.cli.conversation import answer_turn

    turn, answer = app.call(lambda client: _run(client, name))
    if code := answer_turn(app, turn, answer):
        raise click.exceptions.Exit(code)


async def _run(client: Client, name: str) -> tuple[Turn, str | None]:
    """Start a run, and wait for the end of its turn. Ctrl+C stops the turn."""
    import asyncio

    from clew.cli.conversation import on_signals

    accepted = await client.cron.run(name)
    stopping: set[asyncio.Future[object]] = set()

    def stop(_number: int) -> None:
        stopped = client.sessions.stop(accepted.session, queue=False)
        stopping.add(asyncio.ensure_future(stopped))

    with on_signals(stop):
        while True:
            waited = await client.queue.wait(accepted.inbound)
            if waited.turn is not None:
                await asyncio.gather(*stopping)
                return waited.turn, waited.answer
