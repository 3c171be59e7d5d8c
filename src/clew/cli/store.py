"""`clew backup`, `restore`, `store copy` and `doctor`: the whole store, on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click
import msgspec

from clew.cli.app import App, local_command
from clew.cli.tables import wrap
from clew.core.names import counted
from clew.core.redaction import hide_password
from clew.core.text import pad, strip_controls

if TYPE_CHECKING:
    from clew.config import Config
    from clew.wiring import Catalogue, Diagnosis, Finding, Repaired

Level = Literal["ok", "warning", "problem"]
MARKS: Final = {"ok": ("✓", "good"), "warning": ("!", "warning"), "problem": ("✗", "error")}
PROBLEM: Final = 1
UNUSABLE: Final = 4
MIN_WIDTH: Final = 20
"""Columns for text in a terminal that is too narrow for it."""
CHECKS: Final = 8
"""How often `examine_store` reports progress; once more if it checks all rows."""


@click.group("store")
def store_group() -> None:
    """Move everything to another store."""


@store_group.command("copy", short_help="Copy everything into a new store.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@local_command
def copy_command(app: App, source: str, target: str) -> None:
    """Copy everything of the store FROM into a new or empty store TO.

    Each is a file or a URL: SQLite to PostgreSQL, back, or to another file. Neither may be in use
    meanwhile. If it is interrupted, the same command goes on where it was; at the end everything is
    read back and compared. FROM does not change. To use the copy, run `clew config set store.url`.
    A password is safer in ~/.pgpass than in a URL.

    \b
    Examples:
      clew store copy ~/.local/share/clew/sessions.db postgresql://clew@db.example/clew
      clew store copy postgresql://clew@db.example/clew ~/everything.db
    """
    from clew.wiring import copy_store

    with app.progress("Copying") as bar:
        copied = app.wait(
            copy_store(source, target, now=app.now, progress=bar.reach, tell=bar.relabel)
        )
    _warn_of_damage(app, copied.damaged, "FROM, and so of the copy")
    sessions, messages = copied.count("sessions"), copied.count("messages")
    what = f"Copied {counted(sessions, 'session')} and {counted(messages, 'message')}, "
    what += f"{counted(copied.rows, 'row')} in all, to {copied.target}; read back and compared."
    if copied.passed_over:
        what += f"\n{counted(copied.passed_over, 'row')} of them were there from an earlier start."
    named = target if hide_password(target) == target else "URL (the one with the password)"
    what += f"\nTo use it: clew config set store.url {named}"
    app.answer(msgspec.to_builtins(copied), what)


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite an older file of that name.")
@local_command
def backup_command(app: App, file: Path, force: bool) -> None:
    """Copy the whole store to FILE. The store may be in use meanwhile.

    The copy is checked; `clew restore` compares it with FILE.manifest.json.

    \b
    Examples:
      clew backup ~/clew-monday.db
      clew backup --force /media/stick/clew.db
    """
    from clew.wiring import back_up_store

    with app.progress("Backing up", unit="bytes") as bar:
        manifest = back_up_store(app.config, file, now=app.now, force=force, progress=bar.reach)
    what = _contents(manifest.sessions, manifest.messages)
    _warn_of_damage(app, manifest.damaged, "the store, and so of its backup")
    app.answer({"file": str(file)} | msgspec.to_builtins(manifest), f"Backed up to {file}: {what}.")


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace a store that has sessions.")
@local_command
def restore_command(app: App, file: Path, replace: bool) -> None:
    """Replace the store by a backup.

    No other process may have the store open. A store that has sessions is replaced only with
    --replace, and then kept beside the new one.

    \b
    Examples:
      clew restore ~/clew-monday.db
      clew restore --replace ~/clew-monday.db
    """
    from clew.wiring import restore_store

    with app.progress("Restoring", unit="bytes") as bar:
        restored = restore_store(app.config, file, now=app.now, replace=replace, progress=bar.reach)
    if not restored.hashed:
        app.note(f"{file} has no manifest: only the database itself was checked.")
    _warn_of_damage(app, restored.damaged, "the backup, and so of the store")
    what = f"Restored: {_contents(restored.sessions, restored.messages)}."
    if restored.kept:
        what += f"\nThe previous store is kept as {restored.kept}."
    app.answer(msgspec.to_builtins(restored, enc_hook=str), what)


def _warn_of_damage(app: App, messages: int, where: str) -> None:
    if messages:
        were = "is" if messages == 1 else "are"
        app.note(
            f"{counted(messages, 'message')} of {where}, {were} damaged. "
            "`clew doctor --full` names them; an older backup may have them whole."
        )


def _contents(sessions: int, messages: int) -> str:
    return f"{counted(sessions, 'session')}, {counted(messages, 'message')}"


# --- clew doctor --------------------------------------------------------------------------------


class Remark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding about the files and the model beside the store. `--fix` does not repair it."""

    name: str
    level: Level
    what: str
    advice: str = ""


@click.command("doctor")
@click.option("--full", is_flag=True, help="Check every row, not a sample. Takes longer.")
@click.option("--fix", is_flag=True, help="Repair what is safe to repair.")
@local_command
def doctor_command(app: App, full: bool, fix: bool) -> None:
    """Check that the store is sound and that a model can answer.

    Changes nothing without --fix; the store may be in use meanwhile. The model is not called:
    `clew model test` does that. The exit code is 0 if nothing is wrong, 1 if something is, 4 if the
    store can't be used.

    \b
    Examples:
      clew doctor
      clew doctor --full --json
      clew doctor --fix
    """
    from clew.wiring import repair_store

    diagnosis = _examine(app, full=full)
    around = tuple(_check_surroundings(app.config))
    if not app.json:
        app.say("\n".join(_lines(app, (*diagnosis.findings, *around))))
    repaired: tuple[Repaired, ...] = ()
    if fix:
        with app.progress("Repairing"):
            repaired = app.wait(repair_store(app.config, diagnosis, now=app.now))
    if repaired:
        diagnosis = _examine(app, full=full)
    sound = diagnosis.sound and all(remark.level != "problem" for remark in around)
    if app.json:
        app.emit(
            {
                "sound": sound,
                "usable": diagnosis.usable,
                "findings": (*diagnosis.findings, *around),
                "fixed": repaired,
            }
        )
    for each in repaired if not app.json else ():
        first, *further = _wrapped(app, f"{each.name}: {each.what}", len("fixed  "))
        app.say("\n".join([f"{app.colour('fixed', 'good')}  {first}", *further]))
    if not diagnosis.usable:
        raise click.exceptions.Exit(UNUSABLE)
    if not sound:
        raise click.exceptions.Exit(PROBLEM)


def _examine(app: App, *, full: bool) -> Diagnosis:
    from clew.wiring import examine_store

    with app.progress("Checking", total=CHECKS + 2 * full) as bar:
        return app.wait(examine_store(app.config, now=app.now, full=full, advance=bar.advance))


def _check_surroundings(config: Config) -> Iterator[Remark]:
    """Check the config file, the memory files and the model. Nothing is sent over the network."""
    from clew.errors import ClewError
    from clew.wiring import list_warnings, open_catalogue

    yield _check_private("config file", config.file, "it may hold keys")
    for name in ("USER.md", "MEMORY.md"):
        yield _check_private(name, config.data_dir / name, "it is about you")
    for each in list_warnings(config):
        yield Remark("configuration", "warning", each)
    if config.memory.mode == "vector":
        yield _check_embeddings(config)
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
        # The embedded model was not chosen, so it need not be installed.
        level: Level = "warning" if info.embedded and config.model is None else "problem"
        yield Remark("model", level, f"{info.name} can't be used ({source})", info.problem)
    if info.embedded:
        yield _check_weights(catalogue)


def _check_embeddings(config: Config) -> Remark:
    from clew.errors import ClewError
    from clew.wiring.embeddings import check_embedder

    try:
        check_embedder(config)
    except ClewError as error:
        what, _, advice = str(error).partition(". ")
        return Remark("memory", "problem", what, advice)
    return Remark("memory", "ok", f"vector, with {config.memory.embeddings}")


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
    """Check that no other user of the machine may read a file."""
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        return Remark(name, "ok", "there is none")
    except OSError as error:
        return Remark(name, "warning", f"{path} can't be read: {error.strerror}")
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
    """Text as lines that fit the terminal; all but the first are indented."""
    clean = strip_controls(text, keep_newlines=False)
    if app.width is None:
        return [clean]
    first, *further = wrap(clean, max(MIN_WIDTH, app.width - indent))
    return [first, *(" " * indent + line for line in further)]
