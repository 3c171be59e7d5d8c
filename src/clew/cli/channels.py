"""`clew channels`: the accounts on platforms that people write to the agent with.

They are sections of the config file; a gateway listens on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew import config as configuration
from clew.cli.app import App, local_command
from clew.cli.tables import Column, answer_table
from clew.core.channels.kinds import TYPES
from clew.core.channels.people import spell_code
from clew.core.settings import ChannelConfig, Secret, get_type
from clew.errors import InvalidInput, RecordNotFound

if TYPE_CHECKING:
    from clew.wiring.channels import Configured


@click.group("channels")
def channels_group() -> None:
    """Bots and accounts on Telegram and other platforms.

    A gateway (`clew serve`) listens on them, and answers you there. Other people are let in with
    `clew pair`.
    """


@channels_group.command("list")
@local_command
def channels_list(app: App) -> None:
    """List the channels that are configured. `clew status` says whether they work.

    \b
    Examples:
      clew channels list
      clew channels list --json
    """
    from clew.wiring.channels import list_configured

    columns = (
        Column("NAME", "bold"), Column("TYPE"), Column("ACCOUNT"), Column("GROUPS"),
        Column("TOKEN", "dim"),
    )  # fmt: skip
    found = list_configured(app.config)
    rows = [
        (each.label, each.kind, each.account, each.config.groups, str(each.config.token or "-"))
        for each in found
    ]
    values = [
        {"name": each.label, "type": each.kind, "account": each.account,
         "groups": each.config.groups}
        for each in found
    ]  # fmt: skip
    answer_table(
        app, values, columns, rows, empty="No channels. `clew channels add telegram` adds one."
    )


@channels_group.command("add")
@click.argument("kind", metavar="TYPE")
@click.option("--name", metavar="NAME", help="Its name in the config file. [default: the type]")
@click.option(
    "--set",
    "given",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting of this type, such as token=env:NAME; what is missing is asked for.",
)
@click.option(
    "--groups",
    type=click.Choice(["mention", "always"]),
    help="Answer in groups only if mentioned (default), or always.",
)
@click.option("--no-owner", is_flag=True, help="Don't wait for you to write to it.")
@local_command
def channels_add(  # noqa: PLR0917  # click passes them all
    app: App,
    kind: str,
    name: str | None,
    given: tuple[str, ...],
    groups: str | None,
    no_owner: bool,
) -> None:
    """Add a channel: check its token with the platform, and make you its owner.

    The token is kept in a file that only you can read. Then write the code that is shown to the
    bot, in a private chat: whoever writes it is the owner. It counts for ten minutes.

    \b
    Examples:
      clew channels add telegram
      clew channels add telegram --name work --groups always
      clew channels add telegram --set token=env:TELEGRAM_TOKEN --no-owner
    """
    from clew.wiring.channels import (
        build_channel,
        check_channel,
        claim_channel,
        list_types,
        make_code,
    )

    label = name or kind
    if label in app.config.channels:
        raise InvalidInput(
            f"There is a channel {label} already: `clew channels remove {label}`, or give this one "
            "another --name."
        )
    if kind not in list_types():
        raise InvalidInput(f"{kind} is not a type of channel: {', '.join(list_types())}.")
    settings = _read_settings(app, kind, given)
    if groups is not None:
        settings["groups"] = groups
    one = _configured(app, label, kind, settings)
    checked = app.wait(check_channel(build_channel(one)))
    app.note(f"The {kind} account is {checked.who}.")
    for problem in checked.problems:
        app.note(f"Note: {problem}")
    for hint in checked.hints:
        app.note(hint)
    owner = None
    if not no_owner:
        code = make_code()
        where = f" ({checked.contact})" if checked.contact else ""
        app.note(
            f"Write this code to {checked.who}{where}, in a private chat: {spell_code(code)}\n"
            "Waiting for it, ten minutes at most. Ctrl-C ends without changing anything."
        )
        owner = app.wait(claim_channel(build_channel(one), code, app.note))
    _save(app, one, settings, owner)
    whose = "" if owner is None else f" Its owner is {owner}: that is you."
    app.answer(
        {"name": label, "type": kind, "account": one.account, "who": checked.who, "owner": owner},
        f"Added {label}.{whose} A gateway listens on it from its next start: clew serve",
    )


@channels_group.command("test")
@click.argument("name")
@local_command
def channels_test(app: App, name: str) -> None:
    """Ask the platform whether the token is good, and which rights are missing.

    \b
    Example:
      clew channels test telegram
    """
    from clew.wiring.channels import build_channel, check_channel

    checked = app.wait(check_channel(build_channel(_find(app, name))))
    problems = (f"Note: {each}" for each in checked.problems)
    lines = [f"{name} is {checked.who}.", *problems, *checked.hints]
    app.answer(
        {"name": name, "who": checked.who, "problems": list(checked.problems)}, "\n".join(lines)
    )


@channels_group.command("remove")
@click.argument("name")
@local_command
def channels_remove(app: App, name: str) -> None:
    """Take a channel out of the config file, and delete its token's file if clew made it.

    Sessions and what was said stay, and so do `owners` and `guests`.

    \b
    Example:
      clew channels remove telegram
    """
    from clew.wiring.channels import secret_path

    one = _find(app, name)
    for field in ChannelConfig.__struct_fields__:
        if f"channels.{one.label}.{field}" in app.config.sources:
            configuration.unset_value(app.places.file, f"channels.{one.label}.{field}")
        value = getattr(one.config, field)
        path = secret_path(app.config, one.label, field)
        if isinstance(value, Secret) and value.text == f"file:{path}":
            path.unlink(missing_ok=True)
    one.memory.unlink(missing_ok=True)
    app.answer(
        {"name": name, "removed": True},
        f"Removed {name}. A gateway that runs still listens on it until it is restarted.",
    )


def _find(app: App, name: str) -> Configured:
    from clew.wiring.channels import list_configured

    for each in list_configured(app.config):
        if each.label == name:
            return each
    raise RecordNotFound("channel", name)


def _read_settings(app: App, kind: str, given: Sequence[str]) -> dict[str, Any]:
    """The settings of the command line; those that the type needs besides are asked for."""
    from clew.wiring.channels import introduce

    settings: dict[str, Any] = {}
    for each in given:
        key, sign, value = each.partition("=")
        if not sign or key not in ChannelConfig.__struct_fields__:
            raise InvalidInput(f'--set is KEY=VALUE with a setting of channels, not "{each}".')
        settings[key] = value
    required = TYPES[kind].required if kind in TYPES else ()
    missing = [field for field in required if field not in settings]
    if missing and (introduction := introduce(kind)) is not None:
        app.note(introduction)
    for field in missing:
        is_secret = "Secret" in str(get_type(("channels", kind, field)))
        words = f"The {field.replace('_', ' ')} of the {kind} account"
        more = " (it is not shown)" if is_secret else ""
        settings[field] = click.prompt(f"{words}{more}", hide_input=is_secret, err=True).strip()
    return settings


def _configured(app: App, label: str, kind: str, settings: dict[str, Any]) -> Configured:
    """The channel as it is going to be in the file; `InvalidConfig` for a wrong setting."""
    from clew.wiring.channels import list_configured

    checked: dict[str, Any] = {"type": kind}
    for key, value in settings.items():
        setting = configuration.Setting(f"channels.{label}.{key}", value, "channels add")
        checked[key] = configuration.check(setting, spelled=True).value
    own = ChannelConfig(**checked)
    channels = {**app.config.channels, label: own}
    found = list_configured(msgspec.structs.replace(app.config, channels=channels))
    return next(each for each in found if each.label == label)


def _save(app: App, one: Configured, settings: dict[str, Any], owner: str | None) -> None:
    """Write the section, with secrets in files of their own; the owner last."""
    from clew.wiring.channels import store_secret

    file = app.places.file
    if one.label != one.kind:
        configuration.set_value(file, f"channels.{one.label}.type", one.kind)
    for key, value in settings.items():
        is_secret = isinstance(getattr(one.config, key), Secret)
        if is_secret and not value.startswith(("env:", "file:")):
            value = store_secret(app.config, one.label, key, value)  # noqa: PLW2901  # where it is
        configuration.set_value(file, f"channels.{one.label}.{key}", value)
    if owner is not None and owner not in app.config.owners:
        owners = msgspec.json.encode([*app.config.owners, owner]).decode()
        configuration.set_value(file, "owners", owners)
