"""The findings and repairs of `clew doctor`, as values that both engines use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from clew.core.names import format_count

Level = Literal["ok", "warning", "problem"]
Advance = Callable[[int], None]

SAMPLE: Final = 50
"""How many of the newest sessions, the newest messages and random messages are checked."""

FIX: Final = "`clew doctor --fix` puts it right."


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was checked. `advice` says what to do, `fix` what `repair` can do."""

    name: str
    level: Level
    what: str
    advice: str = ""
    fix: (
        Literal[
            "rescue",
            "permissions",
            "processes",
            "queue",
            "index",
            "counters",
            "usage",
            "checksums",
        ]
        | None
    ) = None


class Diagnosis(msgspec.Struct, frozen=True):
    """All findings. A store that is not `usable` can't be opened as it is."""

    findings: tuple[Finding, ...]
    usable: bool = True

    @property
    def sound(self) -> bool:
        """Whether there is no problem; warnings don't count."""
        return self.usable and all(finding.level != "problem" for finding in self.findings)


class Repaired(msgspec.Struct, frozen=True):
    """One thing that was repaired, as a sentence."""

    name: str
    what: str


def some(names: list[str]) -> str:
    """The first few of many."""
    more = f" and {format_count(len(names) - 3)} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
