"""The channels of the configuration: each is built by its type, its entry point or its factory.

The library of a platform is imported only if a channel of that type is configured.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from clew.config import Config, Secret, reveal
from clew.core.channels.kinds import COMMON, TYPES, ChannelSetup
from clew.core.keys import normalise_word
from clew.core.settings import ChannelConfig
from clew.errors import InvalidConfig
from clew.files.durable import put_bytes

if TYPE_CHECKING:
    from clew.core.channels.kinds import ChannelCheck
    from clew.ports import Channel

GROUP: Final = "clew.channels"
"""The entry points of packages that bring a channel: a type, and its factory."""

NOT_HERE: Final = ("cli", "web", "api", "cron", "hook", "node", "agent", "subagent", "webhook")
"""Names that keys use for something else."""


class Configured(NamedTuple):
    """A section `[channels.NAME]`: its name, and the type and account that it means.

    `memory` is where the channel may remember what it has reported.
    """

    label: str
    kind: str
    account: str
    config: ChannelConfig
    memory: Path


def list_configured(config: Config) -> tuple[Configured, ...]:
    """The sections of the file; `InvalidConfig` for two with the same account."""
    found: dict[tuple[str, str], Configured] = {}
    for label, each in config.channels.items():
        kind = normalise_word(each.type or label)
        if kind in NOT_HERE or not kind:
            raise InvalidConfig(f"channels.{label}: {kind or 'that'} is not a type of channel.")
        account = each.account or ("default" if kind == normalise_word(label) else label.lower())
        memory = config.data_dir / "channels" / f"{label}.json"
        one = Configured(label, kind, account, each, memory)
        before = found.setdefault((kind, account), one)
        if before is not one:
            raise InvalidConfig(
                f"channels.{before.label} and channels.{label} are both the {kind} account "
                f"{account}: give one of them another `account`."
            )
    return tuple(found.values())


def list_mentioned(config: Config) -> tuple[tuple[str, str], ...]:
    """The accounts that answer in groups only if they are spoken to."""
    return tuple(
        (each.kind, each.account)
        for each in list_configured(config)
        if each.config.groups == "mention"
    )


def build_channels(config: Config) -> tuple[Channel, ...]:
    """All channels that are configured; `InvalidConfig` for one that can't work."""
    return tuple(build_channel(each) for each in list_configured(config))


def build_channel(one: Configured, *, token: str | None = None) -> Channel:
    """One channel. `token` replaces the configured one, before that is stored."""
    factory = _find_factory(one)
    if token is None and one.config.token is not None:
        token = reveal(one.config.token)
    setup = ChannelSetup(
        name=one.kind,
        account=one.account,
        token=token,
        groups=one.config.groups,
        settings=_settings_of(one, token),
        memory=one.memory,
    )
    try:
        channel: Channel = factory(setup)
    except (ImportError, TypeError, ValueError) as error:
        raise InvalidConfig(f"channels.{one.label} can't be built: {error}") from error
    if (channel.name, channel.account) != (one.kind, one.account):
        raise InvalidConfig(
            f"channels.{one.label}: its factory made a channel {channel.name} "
            f"({channel.account}), not {one.kind} ({one.account}). It must use the setup's name "
            "and account."
        )
    return channel


def _settings_of(one: Configured, token: str | None) -> dict[str, Any]:
    """The other settings, with secrets revealed; `InvalidConfig` for one that is missing."""
    given = {
        name: value
        for name, value in msgspec.structs.asdict(one.config).items()
        if name not in COMMON and value is not None
    }
    kind = TYPES.get(one.kind) if one.config.factory is None else None
    if kind is not None:
        known = (*kind.required, *kind.optional)
        for name in given:
            if name not in known:
                raise InvalidConfig(
                    f"channels.{one.label}.{name} means nothing to {one.kind}: it has "
                    f"{', '.join(known)}."
                )
        missing = [each for each in kind.required if each not in given and each != "token"]
        if "token" in kind.required and token is None:
            missing.insert(0, "token")
        if missing:
            raise InvalidConfig(
                f"channels.{one.label}.{missing[0]} is missing. `clew channels add {one.kind}` "
                "asks for it."
            )
    options = {name: reveal(secret) for name, secret in one.config.options.items()}
    return options | {
        name: reveal(value) if isinstance(value, Secret) else value for name, value in given.items()
    }


def _find_factory(one: Configured) -> Callable[[ChannelSetup], Any]:
    if one.config.factory is not None:
        return _load(one.config.factory, f"channels.{one.label}.factory")
    kind = TYPES.get(one.kind)
    if kind is not None:
        try:
            return _load(kind.factory, f"channels.{one.label}")
        except ModuleNotFoundError as error:
            raise InvalidConfig(
                f"channels.{one.label} needs the package {error.name}: pip install "
                f"'clew[{kind.extra}]'."
            ) from error
    for found in entry_points(group=GROUP, name=one.kind):
        return _load(found.value, f"the entry point {one.kind}")
    raise InvalidConfig(
        f"channels.{one.label}: {one.kind} is not a type of channel here. There are "
        f"{', '.join(list_types())}; a channel of your own has a `factory`."
    )


def _load(place: str, source: str) -> Callable[[ChannelSetup], Any]:
    module, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            raise InvalidConfig(f"{source}: there is no module {module}.") from error
        raise
    except AttributeError as error:
        raise InvalidConfig(f"{source}: {module} has no {name}.") from error
    loaded: Callable[[ChannelSetup], Any] = found
    return loaded


def list_types() -> Iterator[str]:
    """The types that can be configured here."""
    yield from sorted({*TYPES, *(each.name for each in entry_points(group=GROUP))})


def introduce(kind: str) -> str | None:
    """What a person does at a platform before a channel of that type can be added."""
    found = TYPES.get(kind)
    if found is None or found.introduction is None:
        return None
    module, _, name = found.introduction.partition(":")
    text: str = getattr(importlib.import_module(module), name)()
    return text


# --- for the command line -----------------------------------------------------------------------


async def check_channel(channel: Channel) -> ChannelCheck:
    """Who a channel is on its platform; `ChannelRefused` or `ReplyDelayed` if it can't say."""
    from clew.core.channels.kinds import ChannelCheck
    from clew.errors import ClewError, ReplyDelayed
    from clew.ports import HoldsConnections, IsTestable

    if not isinstance(channel, IsTestable):
        return ChannelCheck(who=f"{channel.name} ({channel.account}), which can't be tested")
    try:
        return await channel.check()
    except ClewError:
        raise
    except Exception as error:
        raise ReplyDelayed(f"{channel.name} can't be reached: {error}") from error
    finally:
        if isinstance(channel, HoldsConnections):
            await channel.close()


async def claim_channel(channel: Channel, code: str, tell: Callable[[str], object]) -> str:
    """Wait for the person who writes the code; returns them as `owners` names them."""
    from clew.ports import HoldsConnections
    from clew.runtime.inbound.claim import wait_for_owner

    try:
        owner = await wait_for_owner(channel, code, tell=tell)
    finally:
        if isinstance(channel, HoldsConnections):
            await channel.close()
    return f"{channel.name}:{owner.id}"


def make_code() -> str:
    """A code for `claim_channel`."""
    from clew.runtime.inbound.claim import make_code as make

    return make()


def store_secret(config: Config, label: str, field: str, text: str) -> str:
    """Keep a secret in a file that only this user can read; returns how the config names it."""
    path = secret_path(config, label, field)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a file that was there may be readable for others
    put_bytes(path, text.encode())
    return f"file:{path}"


def secret_path(config: Config, label: str, field: str) -> Path:
    """The file of a channel's secret."""
    return config.file.parent / "secrets" / f"{label}-{field}"
