"""`clew config`: show and change the configuration."""

from __future__ import annotations

import re

import click
import msgspec

from clew import config as configuration
from clew.cli.app import App, local_command, only_here, pass_app
from clew.cli.options import HyphenWords
from clew.cli.tables import Column, table
from clew.core.settings import plain
from clew.errors import InvalidConfig


@click.group("config")
def config_group() -> None:
    """Show and change the configuration.

    A flag wins over a CLEW_… variable, that over the config file, and that over the default.
    """


@config_group.command("show")
@local_command
def config_show(app: App) -> None:
    """Print every value and where it came from.

    \b
    Examples:
      clew config show
      CLEW_SESSION_TRASH_DAYS=7 clew config show --json
    """
    config = app.config
    if app.json:
        app.emit({
            key: {"value": config.value(key), "source": source}
            for key, source in config.sources.items()
        })  # fmt: skip
        return
    columns = (Column("KEY"), Column("VALUE", "bold"), Column("FROM", "dim"))
    rows = [(key, _shown(config.value(key)), source) for key, source in config.sources.items()]
    app.say("\n".join(table(app, columns, rows, whole=True)))


def _shown(value: object) -> str:
    match value:
        case None:
            return "(not set)"
        case list() | dict():
            return msgspec.json.encode(value).decode()
    return str(value)


class SetCommand(HyphenWords):
    """Takes `-5` as a value, not as an option."""

    hyphened = re.compile(r"-\d")


@config_group.command("set", cls=SetCommand)
@click.argument("key")
@click.argument("value")
@local_command
def config_set(app: App, key: str, value: str) -> None:
    """Write one value into the config file, keeping the rest as it is.

    \b
    Examples:
      clew config set session.retention_days 30
      clew config set model ollama/qwen3
      clew config set providers.ollama.base_url http://localhost:11434/v1
      clew config set tools.allow '["shell(git status)", "shell(ls *)"]'
    """
    file = app.places.file
    written = plain(configuration.set_value(file, key, value).value)
    done = f"{key} is {_shown(written)} now, in {file}."
    app.answer({"key": key, "value": written, "file": str(file)}, done)
    effective = app.config.value(key)
    if effective != written:
        app.note(f"But {app.config.sources.get(key)} still says {_shown(effective)}, and wins.")


@config_group.command("unset", short_help="Remove one value from the config file.")
@click.argument("key")
@local_command
def config_unset(app: App, key: str) -> None:
    """Remove one value from the config file, so that its default is used again.

    \b
    Example:
      clew config unset session.timezone
    """
    configuration.unset_value(app.places.file, key)
    value = app.config.value(key)
    source = app.config.sources.get(key, "default")
    done = f"{key} is {_shown(value)} now, from {source}."
    app.answer({"key": key, "value": value, "file": str(app.places.file)}, done)


@config_group.command("edit", short_help="Open the config file in your editor.")
@only_here
@pass_app
def config_edit(app: App) -> None:
    """Open the config file in your editor; it is saved only if it is valid.

    \b
    Example:
      VISUAL=nano clew config edit
    """
    file = app.places.file
    text = configuration.read_text(file)
    draft = configuration.template() if text is None else text
    while True:
        edited = click.edit(draft, extension=".toml")
        if edited is None or edited == text:
            app.say("Nothing was changed.")
            return
        try:
            configuration.save(file, edited)
        except InvalidConfig as error:
            app.note(f"clew: {error}")
            if not app.confirm("Edit again? (No leaves the file as it was.)"):
                app.say("Nothing was changed.")
                return
            draft = edited
        else:
            app.say(f"Saved {file}.")
            return


@config_group.command("path")
@local_command
def config_path(app: App) -> None:
    """Print where the config file is, or would be.

    \b
    Example:
      cat "$(clew config path)"
    """
    app.answer({"file": str(app.places.file)}, str(app.places.file))
