"""What a look at a store found, and what was put right: the words that all stores share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from clew.core.names import format_count

Level = Literal["ok", "warning", "problem"]
Advance = Callable[[int], None]

SAMPLE: Final = 50
"""Newest sessions, and newest and random messages, that are looked at one by one."""

FIX: Final = "`clew doctor --fix` puts it right."


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at. `advice` says what to do, `fix` what mending may do."""

    name: str
    level: Level
    what: str
    advice: str = ""
    fix: Literal["permissions", "processes", "queue", "index", "counters"] | None = None


class Diagnosis(msgspec.Struct, frozen=True):
    """All findings. A store that is not `usable` can't be opened as it is."""

    findings: tuple[Finding, ...]
    usable: bool = True

    @property
    def sound(self) -> bool:
        """Whether there is nothing to worry about; warnings are no worry."""
        return self.usable and all(finding.level != "problem" for finding in self.findings)


class Mended(msgspec.Struct, frozen=True):
    """One thing that was put right, in the words of a sentence."""

    name: str
    what: str


def some(names: list[str]) -> str:
    """The first few of many."""
    more = f" and {format_count(len(names) - 3)} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
