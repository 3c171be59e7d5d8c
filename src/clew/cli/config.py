"""`clew config`: what is configured, and changing it."""

from __future__ import annotations

import re

import click

from clew import config as configuration
from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import Column, table
from clew.cli.words import HyphenWords
from clew.config import KEYS
from clew.errors import InvalidConfig


@click.group("config")
def config_group() -> None:
    """Show and change the configuration.

    Defaults, then the file, then CLEW_… variables, then flags: the last one that says something
    wins.
    """


@config_group.command("show")
@json_option
@pass_app
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
            key: {"value": config.value(key), "source": config.sources[key]} for key in KEYS
        })  # fmt: skip
        return
    columns = (Column("KEY"), Column("VALUE", "bold"), Column("FROM", "dim"))
    rows = [(key, _shown(config.value(key)), config.sources[key]) for key in KEYS]
    app.say("\n".join(table(app, columns, rows, whole=True)))


def _shown(value: object) -> str:
    return "(not set)" if value is None else str(value)


class SetCommand(HyphenWords):
    """Takes `-5` for a value, not for an option."""

    hyphened = re.compile(r"-\d")


@config_group.command("set", cls=SetCommand)
@click.argument("key")
@click.argument("value")
@json_option
@pass_app
def config_set(app: App, key: str, value: str) -> None:
    """Write one value into the config file, keeping the rest as it is.

    \b
    Examples:
      clew config set session.retention_days 30
      clew config set store.durability normal
    """
    setting = configuration.set_value(app.places.file, key, value)
    done = f"{key} is {setting.value} now, in {app.places.file}."
    app.answer({"key": key, "value": setting.value, "file": str(app.places.file)}, done)
    effective = app.config
    if effective.value(key) != setting.value:
        app.note(f"But {effective.sources[key]} still says {effective.value(key)}, and wins.")


@config_group.command("unset", short_help="Take one value out of the config file.")
@click.argument("key")
@json_option
@pass_app
def config_unset(app: App, key: str) -> None:
    """Take one value out of the config file, so that its default counts again.

    \b
    Example:
      clew config unset session.timezone
    """
    configuration.unset_value(app.places.file, key)
    value = app.config.value(key)
    done = f"{key} is {_shown(value)} now, from {app.config.sources[key]}."
    app.answer({"key": key, "value": value, "file": str(app.places.file)}, done)


@config_group.command("edit", short_help="Open the config file in your editor.")
@pass_app
def config_edit(app: App) -> None:
    """Open the config file in your editor; nothing is saved unless it is valid.

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
@json_option
@pass_app
def config_path(app: App) -> None:
    """Print where the config file is, or would be.

    \b
    Example:
      cat "$(clew config path)"
    """
    app.answer({"file": str(app.places.file)}, str(app.places.file))
