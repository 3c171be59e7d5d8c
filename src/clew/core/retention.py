"""What becomes of sessions that nobody has used for long: values for the store's `retain`."""

from __future__ import annotations

from typing import Literal

import msgspec

RetentionAction = Literal["archive", "delete"]
DAY_MS = 86_400_000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The policy: idle days, then bytes of content. 0 or less switches either off."""

    retention_days: int = 90
    max_storage_bytes: int = 52_428_800
    action: RetentionAction = "archive"

    def idle_cutoff(self, now: int) -> int | None:
        """Sessions not updated since then have expired; None when days don't matter."""
        return now - self.retention_days * DAY_MS if self.retention_days > 0 else None


class Retained(msgspec.Struct, frozen=True):
    """What a retention pass did, or would do: ids, oldest first, by reason."""

    action: RetentionAction
    idle: tuple[str, ...] = ()
    oversize: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Every session that was, or would be, put away."""
        return self.idle + self.oversize
