"""Types of channels: which settings each has, which it needs, and where it is built.

Values only. The modules behind them are imported when a channel of that type is configured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec


class ChannelType(msgspec.Struct, frozen=True, kw_only=True):
    """A type that ships with clew.

    `factory` is `module:function`; `extra` is what pip has to install for it. `required` and
    `optional` are the settings of `[channels.NAME]` that it reads, besides those of every channel.
    `introduction` is a `module:function` whose text says what a person does at the platform first.
    """

    factory: str
    extra: str
    required: tuple[str, ...] = ("token",)
    optional: tuple[str, ...] = ()
    introduction: str | None = None


class ChannelSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel is built from; its factory gets this. Secrets are already revealed.

    `name` is the type: the channel's name in keys, in `owners` and in the outbox. `settings` has
    the other keys of `[channels.NAME]`, and `options` of a channel of one's own. `memory` is a file
    in which the channel may remember up to where it has reported; it need not be there yet.
    """

    name: str
    account: str
    token: str | None = None
    groups: Literal["mention", "always"] = "mention"
    settings: dict[str, Any] = {}
    memory: Path | None = None


class ChannelCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Who a channel is on its platform, what it lacks, and how people write to it.

    `hints` are what a person has to do before they can write to it.
    """

    who: str
    problems: tuple[str, ...] = ()
    contact: str | None = None
    hints: tuple[str, ...] = ()


COMMON: Final = ("type", "account", "groups", "factory", "options", "token")
"""Settings that every channel has."""

TYPES: Final[dict[str, ChannelType]] = {
    "telegram": ChannelType(
        factory="clew.channels.telegram:build", extra="telegram", optional=("api_url",)
    ),
    "slack": ChannelType(
        factory="clew.channels.slack:build",
        extra="slack",
        required=("token", "app_token"),
        optional=("api_url",),
        introduction="clew.channels.slack_app:introduce",
    ),
    "discord": ChannelType(
        factory="clew.channels.discord:build", extra="discord", optional=("api_url",)
    ),
    "email": ChannelType(
        factory="clew.channels.email:build",
        extra="email",
        required=("address", "password", "imap", "smtp", "authserv_id"),
        optional=("username",),
    ),
}
