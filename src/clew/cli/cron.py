"""`clew cron`: jobs that a gateway runs on a schedule.

The jobs are in a file beside the store; a gateway that runs notices a change within a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, gateway_options, json_option, pass_app
from clew.cli.tables import Column, table
from clew.core.text import strip_controls

if TYPE_CHECKING:
    from clew.client.client import Client
    from clew.core.cron import CronJob
    from clew.core.turn import Turn


@click.group("cron")
def cron_group() -> None:
    """Jobs that the gateway runs on a schedule.

    A job says something to the agent when it is due, in a session of its own. What was missed while
    no gateway ran is run once.
    """


@cron_group.command("add")
@click.argument("name")
@click.argument("schedule")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option(
    "--session",
    metavar="WHICH",
    default="isolated",
    help="isolated: a fresh one each time (usual); fixed: one for all; or a key.",
)
@click.option(
    "--deliver-to", metavar="PLACE", help="Where the answer goes: channel:id or channel:group:id."
)
@click.option("--agent", metavar="ID", default="main", help="Which agent does it.")
@click.option("--timezone", metavar="ZONE", help="The zone that the schedule means.")
@gateway_options
@json_option
@pass_app
def cron_add(app: App, /, words: tuple[str, ...], **given: Any) -> None:  # fmt: skip
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
@gateway_options
@json_option
@pass_app
def cron_list(app: App) -> None:
    """List the jobs, and when each is due.

    \b
    Example:
      clew cron list
    """
    jobs = app.call(lambda client: client.cron.list(), opens_store=False)
    if app.json:
        app.emit({"jobs": [_value(each) for each in jobs]})
        return
    if not jobs:
        app.say("There are no jobs. `clew cron add` makes one.")
        return
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
    app.say("\n".join(table(app, columns, rows)))


def _value(job: CronJob) -> dict[str, Any]:
    """A job as JSON: everything, and its key."""
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return fields | {"key": job.key}


@cron_group.command("remove")
@click.argument("name")
@gateway_options
@json_option
@pass_app
def cron_remove(app: App, name: str) -> None:
    """Take a job away. Its sessions stay.

    \b
    Example:
      clew cron remove news
    """
    job = app.call(lambda client: client.cron.remove(name), opens_store=False)
    app.answer(_value(job), f'Removed "{job.name}". Its sessions are still there.')


@cron_group.command("run")
@click.argument("name")
@gateway_options
@json_option
@click.pass_context
def cron_run(ctx: click.Context, name: str) -> None:
    """Run a job now, and show its answer. When it is due next stays as it is.

    What it delivers is sent by the gateway, now or when one runs again.

    \b
    Example:
      clew cron run news
    """
    app = ctx.ensure_object(App)
    turn, answer = app.call(lambda client: _run(client, name))
    value = {
        "session_id": turn.session_id,
        "turn_id": turn.id,
        "status": turn.status,
        "answer": answer,
        "error": turn.error,
    }
    if app.json:
        app.emit(value)
    elif turn.status == "done":
        app.say(strip_controls(answer or ""))
    else:
        app.note(f"The run is {turn.status}: {turn.error or 'no reason is known'}.")
    if turn.status != "done":
        ctx.exit(1)


async def _run(client: Client, name: str) -> tuple[Turn, str | None]:
    """Begin a run, and wait for the end of its turn. Ctrl+C stops the turn."""
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
