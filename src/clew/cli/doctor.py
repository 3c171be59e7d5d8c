"""`clew doctor`: what is sound, what is not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import wrap
from clew.core.text import pad, strip_controls

if TYPE_CHECKING:
    from clew.wiring import Diagnosis, Mended

MARKS: Final = {"ok": ("✓", "good"), "warning": ("!", "warning"), "problem": ("✗", "error")}
PROBLEM: Final = 1
UNUSABLE: Final = 4
LEAST: Final = 20
"""Columns that text has in a terminal that is too narrow for it."""
CHECKS: Final = 8
"""How often `examine_store` says that it got further; once more with all rows."""


@click.command("doctor")
@click.option("--full", is_flag=True, help="Check every row, not a sample. Takes longer.")
@click.option("--fix", is_flag=True, help="Put right what is safe to.")
@json_option
@pass_app
@click.pass_context
def doctor_command(ctx: click.Context, app: App, full: bool, fix: bool) -> None:
    """Check that the store is sound. Only looks, unless told to --fix; others may go on using it.

    Exits with 0 if nothing is wrong, 1 if something is, 4 if the store can't be used.

    \b
    Examples:
      clew doctor
      clew doctor --full --json
      clew doctor --fix
    """
    from clew.wiring import mend_store

    diagnosis = _examine(app, full=full)
    if not app.json:
        app.say("\n".join(_lines(app, diagnosis)))
    mended: tuple[Mended, ...] = ()
    if fix:
        with app.progress("Mending"):
            mended = mend_store(app.config, diagnosis, now=app.now)
    if mended:
        diagnosis = _examine(app, full=full)
    if app.json:
        app.emit(
            {
                "sound": diagnosis.sound,
                "usable": diagnosis.usable,
                "findings": diagnosis.findings,
                "fixed": mended,
            }
        )
    for each in mended if not app.json else ():
        first, *further = _wrapped(app, f"{each.name}: {each.what}", len("fixed  "))
        app.say("\n".join([f"{app.colour('fixed', 'good')}  {first}", *further]))
    ctx.exit(0 if diagnosis.sound else PROBLEM if diagnosis.usable else UNUSABLE)


def _examine(app: App, *, full: bool) -> Diagnosis:
    from clew.wiring import examine_store

    with app.progress("Checking", total=CHECKS + full) as bar:
        return examine_store(app.config, now=app.now, full=full, advance=bar.advance)


def _lines(app: App, diagnosis: Diagnosis) -> list[str]:
    width = max(len(finding.name) for finding in diagnosis.findings)
    lines = []
    for finding in diagnosis.findings:
        mark, style = MARKS[finding.level]
        first, *further = _wrapped(app, finding.what, width + 4)
        lines += [f"{app.colour(mark, style)} {pad(finding.name, width)}  {first}", *further]
        for line in _wrapped(app, finding.advice, width + 4) if finding.advice else ():
            lines.append(" " * (width + 4) + app.colour(line.strip(), "dim"))
    return lines


def _wrapped(app: App, text: str, indent: int) -> list[str]:
    """Lines that fit beside what stands in the first one; the others are indented to it."""
    clean = strip_controls(text, keep_newlines=False)
    if app.width is None:
        return [clean]
    first, *further = wrap(clean, max(LEAST, app.width - indent))
    return [first, *(" " * indent + line for line in further)]
