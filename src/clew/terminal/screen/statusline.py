"""The status line at the bottom: the session, its cost, and what happens in it now.

On a narrow screen the least important parts are left out.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec
from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from clew.core.names import format_cost
from clew.core.text import columns, cut, strip_controls

SEPARATOR: Final = " · "
TITLE: Final = 16
"""Columns that a title gets at least; other parts are left out for it."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The values to show. `working`: seconds of the running turn; `elsewhere`: in words."""

    title: str = ""
    model: str = ""
    context_tokens: int | None = None
    context_window: int | None = None
    cost: int | None = 0
    calls: int = 0
    queued: int = 0
    working: int | None = None
    waiting: int = 0
    elsewhere: str = ""
    mode: str | None = None
    thinking: str | None = None
    read_only: bool = False


class Part(msgspec.Struct, frozen=True):
    """A part of the line. The highest rank is left out first."""

    rank: int
    text: str
    style: str = "quiet"


def list_parts(facts: Facts) -> tuple[Part, ...]:
    """Everything but the title, from left to right."""
    parts: list[Part] = []
    if facts.waiting:
        parts.append(Part(0, "waits for your answer", "warning"))
    elif facts.working is not None:
        parts.append(Part(0, f"working {_lasted(facts.working)}, Ctrl+C stops", "working"))
    if facts.read_only:
        parts.append(Part(1, "read-only", "warning"))
    if facts.elsewhere:
        parts.append(Part(1, facts.elsewhere, "warning"))
    if facts.queued:
        parts.append(Part(2, f"{facts.queued} queued", "working"))
    if facts.mode == "plan":
        parts.append(Part(3, "plan mode", "warning"))
    elif facts.mode == "plan_paused":
        parts.append(Part(6, "plan paused"))
    parts.append(Part(4, strip_controls(facts.model, keep_newlines=False)))
    if facts.thinking not in (None, "off"):
        parts.append(Part(8, f"thinking {facts.thinking}"))
    if facts.context_tokens is not None and facts.context_window:
        share = facts.context_tokens * 100 // facts.context_window
        parts.append(Part(5, f"{share}% context", "warning" if share >= 80 else "quiet"))
    if facts.calls:
        parts.append(Part(7, "$?" if facts.cost is None else format_cost(facts.cost)))
    return tuple(part for part in parts if part.text)


def fit(facts: Facts, width: int) -> tuple[str, tuple[Part, ...]]:
    """The title and the parts that fit into this width."""
    title = " ".join(strip_controls(facts.title, keep_newlines=False).split())
    parts = list(list_parts(facts))
    while parts and _width(parts) + min(TITLE, columns(title)) + len(SEPARATOR) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    room = width - _width(parts) - (len(SEPARATOR) if parts else 0)
    return cut(title, max(0, room)), tuple(parts)


def _width(parts: list[Part]) -> int:
    return sum(columns(part.text) for part in parts) + len(SEPARATOR) * max(0, len(parts) - 1)


def _lasted(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"


class StatusLine(Widget):
    """The facts, drawn."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; background: $panel; color: $text; }
    StatusLine > .status--title { text-style: bold; }
    StatusLine > .status--quiet { color: $text-muted; }
    StatusLine > .status--working { color: $text-success; }
    StatusLine > .status--warning { color: $text-warning; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "status--title",
        "status--quiet",
        "status--working",
        "status--warning",
    }

    facts: reactive[Facts] = reactive(Facts())

    def render(self) -> Text:
        """Title on the left, everything else on the right."""
        width = self.content_size.width
        title, parts = fit(self.facts, width)
        text = Text(no_wrap=True, end="")
        text.append(title, self._style("title"))
        text.append(" " * max(0, width - _width(list(parts)) - columns(title)))
        for number, part in enumerate(parts):
            if number:
                text.append(SEPARATOR, self._style("quiet"))
            text.append(part.text, self._style(part.style))
        return text

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"status--{name}")
