"""`clew cron`: jobs that a gateway runs by the clock.

The jobs are in a file beside the store; a gateway that runs notices a change within a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import Column, table

if TYPE_CHECKING:
    from clew.core.cron import CronJob
    from clew.core.turn import Turn
    from clew.ports import Store
    from clew.runtime.cron import CronFile


@click.group("cron")
def cron_group() -> None:
    """Jobs that the gateway runs by the clock.

    A job says something to the agent when it is due, in a session of its own. What was missed while
    no gateway ran is run once.
    """


def _open_file(app: App) -> CronFile:
    from clew.wiring import open_cron_file

    return open_cron_file(app.config)


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
    from clew.api.handlers.cron import make_job
    from clew.api.operation import read_params
    from clew.api.table import get_operation

    said = {name: value for name, value in given.items() if value is not None}
    params: Any = read_params(get_operation("cron.add"), said | {"text": " ".join(words)})
    job = make_job(params, app.now, app.config.session.timezone)
    _open_file(app).add_job(job)
    app.answer(_value(job), f'Added "{job.name}"; it is due {app.local_time(job.due_at)}.')


@cron_group.command("list")
@json_option
@pass_app
def cron_list(app: App) -> None:
    """List the jobs, and when each is due.

    \b
    Example:
      clew cron list
    """
    jobs = _open_file(app).list_jobs()
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
@json_option
@pass_app
def cron_remove(app: App, name: str) -> None:
    """Take a job away. Its sessions stay.

    \b
    Example:
      clew cron remove news
    """
    job = _open_file(app).remove_job(name)
    app.answer(_value(job), f'Removed "{job.name}". Its sessions are still there.')


@cron_group.command("run")
@click.argument("name")
@json_option
@pass_app
def cron_run(app: App, name: str) -> None:
    """Run a job now, here, and show its answer. When it is due next stays as it is.

    What it delivers is sent by the gateway, now or when one runs again.

    \b
    Example:
      clew cron run news
    """
    from clew.cli.talking import run_talk

    job = _open_file(app).get_job(name)
    run_talk(app, _run(app, job))


async def _run(app: App, job: CronJob) -> int:
    import asyncio

    from clew.cli.talking import on_signals
    from clew.runtime.cron import begin_run
    from clew.wiring import House, open_configured_store

    store = await open_configured_store(app.config)
    try:
        house = House(app.config, store)
        try:
            at = house.runtime.clock()
            ticket = await begin_run(house.runtime, house.models, job, f"{job.name}@now-{at}")
            session_id = ticket.inbound.session_id if ticket.inbound is not None else None
            stopping: set[asyncio.Future[bool]] = set()

            def stop(_number: int) -> None:
                stopping.add(asyncio.ensure_future(house.runtime.stop(session_id or "")))

            with on_signals(stop):
                await asyncio.wait({ticket.turn})
            if ticket.turn.cancelled():
                return 130
            turn = ticket.turn.result()
            _open_file(app).note_run(job, ran_at=at)
            return await _tell(app, store, turn)
        finally:
            await house.close()
    finally:
        await store.close()


async def _tell(app: App, store: Store, turn: Turn) -> int:
    from clew.core.text import strip_controls

    thread = await store.get_messages(turn.session_id, 50)
    said = [each.content for each in thread if each.turn_id == turn.id and each.role == "assistant"]
    answer = said[-1] if said else None
    value = {
        "session_id": turn.session_id,
        "turn_id": turn.id,
        "status": turn.status,
        "answer": answer,
        "error": turn.error,
    }
    if turn.status == "done":
        app.answer(value, strip_controls(answer or ""))
        return 0
    if app.json:
        app.emit(value)
    else:
        app.note(f"The run is {turn.status}: {turn.error or 'nobody said why'}.")
    return 1
