"""`clew doctor`: what is sound, what is not, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click
import msgspec

from clew.cli.app import App, json_option, only_here, pass_app
from clew.cli.tables import wrap
from clew.core.text import pad, strip_controls

if TYPE_CHECKING:
    from clew.config import Config
    from clew.wiring import Catalogue, Diagnosis, Finding, Repaired

Level = Literal["ok", "warning", "problem"]
MARKS: Final = {"ok": ("✓", "good"), "warning": ("!", "warning"), "problem": ("✗", "error")}
PROBLEM: Final = 1
UNUSABLE: Final = 4
LEAST: Final = 20
"""Columns that text has in a terminal that is too narrow for it."""
CHECKS: Final = 8
"""How often `examine_store` says that it got further; once more with all rows."""


class Remark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding about what is around the store, in the same shape. None of it can be mended."""

    name: str
    level: Level
    what: str
    advice: str = ""


@click.command("doctor")
@click.option("--full", is_flag=True, help="Check every row, not a sample. Takes longer.")
@click.option("--fix", is_flag=True, help="Put right what is safe to.")
@only_here
@json_option
@pass_app
@click.pass_context
def doctor_command(ctx: click.Context, app: App, full: bool, fix: bool) -> None:
    """Check that the store is sound and that a model can answer.

    Only looks, unless told to --fix; others may go on using it. The model is not asked: that is
    `clew model test`. Exits with 0 if nothing is wrong, 1 if something is, 4 if the store can't be
    used.

    \b
    Examples:
      clew doctor
      clew doctor --full --json
      clew doctor --fix
    """
    from clew.wiring import mend_store

    diagnosis = _examine(app, full=full)
    around = tuple(_look_around(app.config))
    if not app.json:
        app.say("\n".join(_lines(app, (*diagnosis.findings, *around))))
    mended: tuple[Repaired, ...] = ()
    if fix:
        with app.progress("Mending"):
            mended = app.wait(mend_store(app.config, diagnosis, now=app.now))
    if mended:
        diagnosis = _examine(app, full=full)
    if app.json:
        app.emit(
            {
                "sound": diagnosis.sound and _is_well(around),
                "usable": diagnosis.usable,
                "findings": (*diagnosis.findings, *around),
                "fixed": mended,
            }
        )
    for each in mended if not app.json else ():
        first, *further = _wrapped(app, f"{each.name}: {each.what}", len("fixed  "))
        app.say("\n".join([f"{app.colour('fixed', 'good')}  {first}", *further]))
    if not diagnosis.usable:
        ctx.exit(UNUSABLE)
    ctx.exit(0 if diagnosis.sound and _is_well(around) else PROBLEM)


def _is_well(around: Sequence[Remark]) -> bool:
    return all(remark.level != "problem" for remark in around)


def _examine(app: App, *, full: bool) -> Diagnosis:
    from clew.wiring import examine_store

    with app.progress("Checking", total=CHECKS + full) as bar:
        return app.wait(examine_store(app.config, now=app.now, full=full, advance=bar.advance))


def _look_around(config: Config) -> Iterator[Remark]:
    """The config file, the memory files and the model. Nothing is sent to anybody."""
    from clew.errors import ClewError
    from clew.wiring import open_catalogue

    yield _check_private("config file", config.file, "it may hold keys")
    for name in ("USER.md", "MEMORY.md"):
        yield _check_private(name, config.data_dir / name, "it is about you")
    catalogue = open_catalogue(config)
    try:
        info = catalogue.get_model()
    except ClewError as error:
        yield Remark("model", "problem", str(error), "`clew model set NAME` chooses another.")
        return
    _, source = catalogue.choose_default()
    if info.problem is None:
        yield Remark("model", "ok", f"{info.name} ({source})")
    else:
        # Nobody chose the embedded one, so that it is not installed may be just right.
        level: Level = "warning" if info.embedded and config.model is None else "problem"
        yield Remark("model", level, f"{info.name} can't be used ({source})", info.problem)
    if info.embedded:
        yield _check_weights(catalogue)


def _check_weights(catalogue: Catalogue) -> Remark:
    from clew.wiring import are_weights_sound

    path = catalogue.find_weights()
    if path is None:
        return Remark("weights", "ok", "not here yet; `clew model pull` fetches them")
    if not are_weights_sound(path):
        what = f"{path} is damaged"
        return Remark("weights", "problem", what, "Delete it, then run `clew model pull`.")
    return Remark("weights", "ok", f"whole, in {path.parent}")


def _check_private(name: str, path: Path, reason: str) -> Remark:
    """Whether others may read what is one's own."""
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        return Remark(name, "ok", "there is none")
    except OSError as error:
        return Remark(name, "warning", f"{path} can't be looked at: {error.strerror}")
    if mode & 0o077:
        what = f"others may read {path} ({mode:04o}), and {reason}"
        return Remark(name, "warning", what, f"`chmod go= {path}` keeps it to you.")
    return Remark(name, "ok", "only its owner may read it")


def _lines(app: App, findings: Sequence[Finding | Remark]) -> list[str]:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
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
