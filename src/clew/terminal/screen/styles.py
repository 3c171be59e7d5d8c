"""The themes of the full screen, dark and light, and text in their styles as strips."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    String,
)
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme
from textual.app import App
from textual.strip import Strip
from textual.theme import Theme

from clew.core.text import strip_controls

TAB: Final = 4

COLOURS: Final = {
    "user": "background: $foreground 7%; color: $foreground;",
    "mark": "color: $primary;",
    "cursor": "color: $accent;",
    "dim": "color: $text-muted;",
    "tool": "color: $text-secondary;",
    "ok": "color: $text-success;",
    "warning": "color: $text-warning;",
    "error": "color: $text-error;",
    "added": "color: $text-success; background: $success 12%;",
    "removed": "color: $text-error; background: $error 12%;",
    "heading": "color: $text-primary; text-style: bold;",
    "strong": "color: $foreground; text-style: bold;",
    "code": "color: $foreground; background: $foreground 5%;",
    "quote": "color: $text-muted;",
    "link": "color: $text-accent;",
    "hit": "color: $foreground; background: $warning 35%;",
    "hit-now": "color: $background; background: $warning;",
    "hint": "color: $background; background: $primary;",
    "comment": "color: $text-muted; text-style: italic;",
    "keyword": "color: $text-accent;",
    "string": "color: $text-success;",
    "number": "color: $text-warning;",
    "name": "color: $text-primary;",
}
"""How each kind of text looks; the names are component classes, `transcript--<name>`."""

RULES: Final = "\n".join(f"& > .transcript--{name} {{ {rule} }}" for name, rule in COLOURS.items())

DARK: Final = Theme(
    name="clew-dark",
    primary="#6ea8d8",
    secondary="#8fb8a8",
    accent="#d8a86e",
    warning="#e0b050",
    error="#e07070",
    success="#7fbf7f",
    foreground="#dcdcdc",
    background="#16181c",
    surface="#1c1f24",
    panel="#262a31",
    dark=True,
)
LIGHT: Final = Theme(
    name="clew-light",
    primary="#205d92",
    secondary="#2f6f5c",
    accent="#8f5a10",
    warning="#8a5a00",
    error="#b02a37",
    success="#28703a",
    foreground="#202428",
    background="#fbfbf9",
    surface="#f3f3f0",
    panel="#e8e8e3",
    dark=False,
)


def get_styles(base: Style, get: Callable[[str], Style]) -> dict[str, Style]:
    """The component classes as styles on one background."""
    styles = {"base": base}
    for name, rule in COLOURS.items():
        style = get(f"transcript--{name}")
        styles[name] = base + (style if "background:" in rule else _front(style))
    return styles


class Palette:
    """The styles of one theme; draws text in them."""

    def __init__(self, styles: dict[str, Style]) -> None:
        self.styles = styles
        self.base = styles["base"]
        """Text on the transcript's background."""
        self.syntax = CodeStyles(self.styles)
        self.console = Console(
            file=io.StringIO(),
            width=80,
            color_system="truecolor",
            force_terminal=True,
            legacy_windows=False,
            theme=_theme(self.styles),
            _environ={},
        )

    def __getitem__(self, name: str | None) -> Style:
        return self.base if name is None else self.styles[name]

    def over(self, ground: str, name: str) -> Style:
        """A style in front of another one's background."""
        return self.styles[ground] + _front(self.styles[name])

    def strip(self, segments: Iterable[Segment], width: int, base: Style | None = None) -> Strip:
        """Segments as a line that is safe to show, at most `width` cells wide."""
        ground = self.base if base is None else base
        cleaned = [
            Segment(text, ground + _plain(segment.style) if segment.style else ground)
            for segment in segments
            if not segment.control and (text := clean(segment.text))
        ]
        line = _whole(Strip(cleaned))
        return line if line.cell_length <= width else _whole(line.crop(0, width), width)

    def draw(self, what: RenderableType, width: int, base: Style | None = None) -> list[Strip]:
        """Anything that Rich can draw, line by line."""
        width = max(1, width)
        options = self.console.options.update(width=width, height=None, highlight=False)
        lines = self.console.render_lines(what, options, pad=False)
        return [self.strip(line, width, base) for line in lines]

    def write(self, text: str, width: int, style: Style | None = None) -> list[Strip]:
        """Plain text: its lines, broken where they are too long."""
        return list(self._write(strip_controls(text), max(1, width), style or self.base))

    def _write(self, text: str, width: int, style: Style) -> Iterator[Strip]:
        for line in text.split("\n"):
            if line.isascii() and len(line) <= width and line.isprintable():
                yield Strip([Segment(line, style)] if line else [], len(line))
            else:
                shown = Text(line.expandtabs(TAB), style=style, end="")
                for part in shown.wrap(self.console, width, overflow="fold", tab_size=TAB):
                    yield self.strip(part.render(self.console), width, style)


def _whole(line: Strip, width: int | None = None) -> Strip:
    """The line; in one style, if a style begins inside a character of several parts.

    Such a character may also make the line too long: then the end is cut until it fits.
    """
    text = line.text
    if text.isascii():
        return line
    safe = clean(text)
    while width is not None and cell_len(safe) > width:
        safe = clean(safe[:-1])
    if safe == text and cell_len(text) == line.cell_length:
        return line
    return Strip([Segment(safe, next(iter(line)).style)])


def clean(text: str) -> str:
    """A part of a line, with printable text only."""
    if text.isprintable():
        return text
    return strip_controls(text.expandtabs(TAB), keep_newlines=False)


def is_blank(strip: Strip) -> bool:
    """Whether it shows nothing."""
    return not strip.text.strip()


def _front(style: Style) -> Style:
    """The style without its background."""
    return Style(
        color=style.color,
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
    )


def _plain(style: Style) -> Style:
    """The style without links and data: text of a model must not control the terminal."""
    return style.clear_meta_and_links() if style.link or style.meta else style


def _theme(styles: dict[str, Style]) -> RichTheme:
    heading, dim = styles["heading"], styles["dim"]
    return RichTheme(
        {
            **{f"markdown.h{level}": heading for level in range(1, 7)},
            "markdown.h1": heading + Style(underline=True),
            "markdown.paragraph": Style(),
            "markdown.strong": _front(styles["strong"]),
            "markdown.em": Style(italic=True),
            "markdown.s": Style(strike=True),
            "markdown.code": styles["code"],
            "markdown.code_block": Style(),
            "markdown.block_quote": styles["quote"],
            "markdown.hr": dim,
            "markdown.item": Style(),
            "markdown.item.bullet": dim,
            "markdown.item.number": dim,
            "markdown.link": _front(styles["link"]),
            "markdown.link_url": dim,
            "markdown.table.border": dim,
            "markdown.table.header": heading,
        }
    )


class CodeStyles:
    """The styles of code, by Pygments' token types."""

    def __init__(self, styles: dict[str, Style]) -> None:
        ground = styles["code"]
        names = {
            Comment: "comment",
            Keyword: "keyword",
            Operator.Word: "keyword",
            Name.Builtin: "keyword",
            Name.Tag: "keyword",
            Name.Function: "name",
            Name.Class: "name",
            Name.Decorator: "name",
            Name.Attribute: "name",
            String: "string",
            Number: "number",
        }
        self._styles: dict[tuple[str, ...], Style] = {(): ground}
        for kind, name in names.items():
            self._styles[kind] = ground + _front(styles[name])

    def get_style(self, kind: tuple[str, ...]) -> Style:
        """The style of the nearest kind that has one."""
        style = self._styles.get(kind)
        if style is None:
            style = self._styles[kind] = self.get_style(kind[:-1])
        return style


def apply_theme(app: App[Any], *, dark: bool) -> None:
    """Register both themes with an app, and choose one."""
    for theme in (DARK, LIGHT):
        app.register_theme(theme)
    app.theme = theme_name(dark=dark)


def theme_name(*, dark: bool) -> str:
    """The theme for a dark or a light terminal."""
    return DARK.name if dark else LIGHT.name
