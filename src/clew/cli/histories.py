"""`clew import` of other agents' histories: scan, import, watch, and their reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec

from clew.cli.options import parse_time_option
from clew.cli.tables import Column, answer_table
from clew.core.names import counted, format_bytes, format_count
from clew.core.text import strip_controls
from clew.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from clew.cli.app import App
    from clew.transfer.histories import Brought, Found, Totals

INCOMPLETE: Final = 1
STOPPED: Final = 130

OUTCOMES: Final = {
    "created": "new",
    "extended": "continued",
    "forked": "forked",
    "unchanged": "unchanged",
    "away": "thrown away here before",
    "empty": "empty",
    "failed": "failed",
}
"""The words for what became of a session, in the order in which they are said."""


class Wanted(NamedTuple):
    """The options of an import."""

    agent: str | None = None
    since: str | None = None
    dry_run: bool = False
    branches: bool = False
    again: bool = False
    routes: bool = False


def check(
    app: App, file: str | None, wanted: Wanted, *, as_new: bool, cwd: str | None, trust: bool
) -> None:
    """Refuse options that mean nothing for a history."""
    if app.gateway is not None:
        raise click.UsageError(
            "Histories are imported where the store is: run it there, without --url."
        )
    given = {"--as-new": as_new, "--cwd": cwd is not None, "--trust": trust}
    for option, is_given in given.items():
        if is_given:
            raise click.UsageError(f"{option} is for clew's own transcripts, not for histories.")
    if file == "-":
        raise click.UsageError("A history is read from its files: name a path, or none.")
    if file is not None and not Path(file).exists():
        raise NotFound(f"There is no file or directory {file}.")
    if wanted.agent == "clew":
        raise click.UsageError("Transcripts of clew need no --from: `clew import FILE`.")


def is_foreign(file: str) -> bool:
    """Whether a path that was named is another agent's history."""
    from clew.wiring.histories import guess_agent

    return guess_agent(Path(file)) is not None


def run(
    app: App,
    file: str | None,
    wanted: Wanted,
    *,
    everything: bool = False,
    scan: bool = False,
    watch: bool = False,
) -> None:
    """Do what was asked for."""
    if scan or (file is None and wanted.agent is None and not everything and not watch):
        if not scan and not app.json:
            app.note("Whose history? `clew import --from AGENT`, or --all. Found here:")
        _scan(app)
    elif watch:
        _watch(app, wanted)
    else:
        _import(app, file, wanted)


# --- scan ---------------------------------------------------------------------------------------


def _scan(app: App) -> None:
    from clew.wiring.histories import scan_histories

    with app.progress("Looking"):
        found = app.wait(scan_histories(app.config, report=app.report_update, tell=app.note))
    columns = (
        Column("AGENT", "id"),
        Column("SESSIONS", align="right"),
        Column("NEW", align="right"),
        Column("CHANGED", align="right", optional=1),
        Column("MESSAGES", align="right", optional=2),
        Column("SIZE", align="right", optional=3),
        Column("PROBLEM", "warning", least=16, optional=4),
    )
    rows = [_row(each) for each in found]
    answer_table(
        app,
        msgspec.to_builtins(found),
        columns,
        rows,
        empty="No histories of other agents are on this machine.",
    )
    if rows and not app.json:
        names = [each.agent for each in found if each.new or each.changed]
        app.note(
            f"`clew import --from {names[0]}` imports one, `clew import --all` everything."
            if names
            else "All of it is imported."
        )


def _row(found: Found) -> tuple[str, ...]:
    return (
        found.agent,
        format_count(found.sessions),
        format_count(found.new),
        format_count(found.changed),
        "" if found.messages is None else format_count(found.messages),
        format_bytes(found.bytes),
        found.problem or "",
    )


# --- import -------------------------------------------------------------------------------------


def _import(app: App, file: str | None, wanted: Wanted) -> None:
    from clew.transfer.histories import add_up
    from clew.wiring.histories import import_histories, list_sources

    since = parse_time_option(app, "--since", wanted.since)
    with app.progress("Looking"):
        chosen = list_sources(
            agent=wanted.agent,
            path=None if file is None else Path(file),
            since=since,
            tell=app.note,
        )
    if not chosen:
        where = f"in {file}" if file is not None else "on this machine"
        whose = wanted.agent or "other agents"
        raise InvalidInput(f"There are no sessions of {whose} {where}. Nothing was imported.")
    results: list[Brought] = []
    stopped = False
    total = sum(each.size for _, sources in chosen for each in sources)
    try:
        with app.progress("Importing", total=total or None, unit="bytes") as bar:
            app.wait(
                import_histories(
                    app.config,
                    chosen,
                    results.append,
                    dry_run=wanted.dry_run,
                    branches=wanted.branches,
                    again=wanted.again,
                    routes=wanted.routes,
                    now=app.now,
                    advance=bar.advance,
                    report=app.report_update,
                )
            )
    except KeyboardInterrupt:
        stopped = True
    totals = add_up(results, stopped=stopped)
    value = {
        "totals": msgspec.to_builtins(totals),
        "dry_run": wanted.dry_run,
        "sessions": [msgspec.to_builtins(each) for each in results],
    }
    app.answer(value, "\n".join(_report(totals, dry_run=wanted.dry_run)))
    if not app.json:
        for line in _losses(totals, wanted):
            app.note(line)
    if stopped:
        raise click.exceptions.Exit(STOPPED)
    if totals.failed:
        raise click.exceptions.Exit(INCOMPLETE)


def _report(totals: Totals, *, dry_run: bool) -> list[str]:
    parts = [
        f"{totals.outcomes[name]:,} {word}"
        for name, word in OUTCOMES.items()
        if name in totals.outcomes
    ]
    said = f"{counted(totals.sessions, 'session')}: {', '.join(parts)}." if parts else "Nothing."
    new = counted(totals.messages, "new message")
    if dry_run:
        return [f"Dry run: {said} An import would bring {new}."]
    if totals.stopped:
        return [f"Stopped. {said} {new.capitalize()}. Run it again to go on."]
    return [f"{said} {new.capitalize()}."]


def _losses(totals: Totals, wanted: Wanted) -> list[str]:
    """What was left out, and why."""
    from clew.transfer.histories import describe_losses

    lines = []
    if totals.lost:
        lines.append(f"Without a place in clew: {describe_losses(totals.lost)}.")
    if totals.broken:
        lines.append(f"Could not be read and was left out: {counted(totals.broken, 'line')}.")
    if totals.branches and not wanted.branches:
        lines.append(
            f"Branches that were left, and not imported: {totals.branches:,}. --branches makes "
            "forks of them."
        )
    if totals.outcomes.get("away"):
        lines.append("What was thrown away here stays away: --again imports it once more.")
    lines += [
        f"{strip_controls(each.native_id, keep_newlines=False)}: {each.error}"
        for each in totals.failed
    ]
    return lines


# --- watch --------------------------------------------------------------------------------------


def _watch(app: App, wanted: Wanted) -> None:
    from clew.wiring.histories import watch_histories

    def tell(brought: Brought) -> None:
        new = counted(brought.messages, "new message")
        name = strip_controls(brought.name or brought.native_id, keep_newlines=False)
        app.answer(msgspec.to_builtins(brought), f"{brought.agent}  {name}  {new}")
        sys.stdout.flush()

    app.note("Following what other agents write. Ctrl+C ends it.")
    agents = () if wanted.agent is None else (wanted.agent,)
    try:
        app.wait(watch_histories(app.config, agents, tell, report=app.report_update))
    except KeyboardInterrupt:
        app.note("Stopped. Everything that was imported stays.")
