"""The channels of a gateway, and whether they work."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.fields import Word
from clew.api.operation import NoParams, Params, row
from clew.api.status import ChannelView


class TryChannel(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A channel by its name; `account`, if there are several of that name."""

    name: Word
    account: Word | None = None


class ChannelList(msgspec.Struct, frozen=True):
    """The channels that are configured, with their state."""

    channels: tuple[ChannelView, ...]


class ChannelTested(msgspec.Struct, frozen=True):
    """Whether the platform knows the channel: as whom, and what it lacks.

    `works` is None for a channel that has no test; its state says whether it listens.
    """

    channel: ChannelView
    works: bool | None
    ms: int
    who: str | None = None
    problems: tuple[str, ...] = ()


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "channels.list", "GET", "channels", "read", NoParams, ChannelList,
    "List the channels, with their state and the time of their last message.",
)  # fmt: skip
TEST: Final = row(
    "channels.test", "POST", "channels/{name}/test", "admin", TryChannel, ChannelTested,
    "Ask the platform of a channel whether it knows the channel's account.",
)  # fmt: skip
ROWS: Final = (LIST, TEST)
