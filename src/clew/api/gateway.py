"""The gateway as a process: another configuration for it, and ending it without losing a turn."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.operation import NoParams, row


class DrainStarted(msgspec.Struct, frozen=True):
    """The gateway takes no new messages. `running`: sessions whose turns it finishes first."""

    running: tuple[str, ...]


class ConfigReloaded(msgspec.Struct, frozen=True):
    """`used`: keys that changed and are in use now. `waiting`: those that need a restart."""

    used: tuple[str, ...]
    waiting: tuple[str, ...]


# --- the rows of the table ---------------------------------------------------------------------

DRAIN: Final = row(
    "gateway.drain", "POST", "drain", "admin", NoParams, DrainStarted,
    "Take no new messages, finish the running turns, and end. Waiting messages stay in the inbox.",
    status=202,
)  # fmt: skip
RELOAD: Final = row(
    "gateway.reload", "POST", "reload", "admin", NoParams, ConfigReloaded,
    "Read the configuration anew. If anything in it is wrong, the old one stays.",
)  # fmt: skip
ROWS: Final = (DRAIN, RELOAD)
