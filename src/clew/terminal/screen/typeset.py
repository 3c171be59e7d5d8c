"""How a piece of Markdown looks: Rich's elements, made calmer and safe in a narrow window."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar, Final

from markdown_it.token import Token
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from rich import box
from rich import markdown as rich_markdown
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from textual.strip import Strip

from clew.terminal.screen.ink import TAB, Ink, is_blank
from clew.terminal.screen.markdown import Piece, parse

NARROWEST: Final = 8
"""Columns that are left for a text, however deep it is nested; what is wider is cut."""

COLOURED: Final = 30_000
"""Characters of code that are worth colouring in one go."""


def typeset(piece: Piece, ink: Ink, width: int) -> list[Strip]:
    """The lines of a piece."""
    tokens = parse(piece)
    if piece.is_code and tokens:
        code, language = tokens[0].content.removesuffix("\n"), _language(tokens[0])
        return list(_list_code(code, language, ink, max(1, width)))
    lines = ink.draw(_Markdown(tokens, ink), width)
    while lines and is_blank(lines[-1]):
        lines.pop()
    while lines and is_blank(lines[0]):
        lines.pop(0)
    return lines


def _list_code(code: str, language: str, ink: Ink, width: int) -> Iterator[Strip]:
    """A listing on a ground of its own. Rich would do it, at four times the cost."""
    ground = ink["code"]
    inner = max(1, width - 2)
    edge = Segment(" ", ground)
    for line in _colour(code.expandtabs(TAB), language, ink):
        strip = ink.strip(line, len(code) * 2 + inner, ground)
        parts = [strip] if strip.cell_length <= inner else _break(strip, ink, inner)
        for part in parts:
            whole = Strip([edge, *part]).extend_cell_length(width, ground)
            yield whole.crop(0, width) if whole.cell_length > width else whole


def _colour(code: str, language: str, ink: Ink) -> list[list[Segment]]:
    lines: list[list[Segment]] = [[]]
    lexer = None if len(code) > COLOURED else _find_lexer(language)
    tokens = [((), code)] if lexer is None else lexer.get_tokens(code)
    for kind, text in tokens:
        style = ink.syntax.get_style(kind)
        first, *more = text.split("\n")
        lines[-1].append(Segment(first, style))
        lines += [[Segment(part, style)] for part in more]
    return lines


@lru_cache(maxsize=64)
def _find_lexer(language: str) -> Any:
    # As it is: a lexer would else strip the lines at both ends, and add one.
    options = {"stripnl": False, "ensurenl": False}
    try:
        return get_lexer_by_name(language, **options)
    except ClassNotFound:
        return None


def _break(strip: Strip, ink: Ink, width: int) -> list[Strip]:
    text = Text(no_wrap=False, end="")
    for segment in strip:
        text.append(segment.text, segment.style)
    parts = text.wrap(ink.console, width, overflow="fold")
    return [ink.strip(part.render(ink.console), width, ink["code"]) for part in parts]


def _language(token: Token) -> str:
    return (token.info or "").partition(" ")[0] or "text"


class _Heading(rich_markdown.Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _CodeBlock(rich_markdown.CodeBlock):
    def __init__(self, lexer_name: str, ink: Ink) -> None:
        super().__init__(lexer_name, "ansi_dark")
        self._ink = ink

    @classmethod
    def create(cls, markdown: rich_markdown.Markdown, token: Token) -> _CodeBlock:
        if not isinstance(markdown, _Markdown):
            raise TypeError(markdown)
        return cls(_language(token), markdown.ink)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).removesuffix("\n")
        for strip in _list_code(code, self.lexer_name, self._ink, options.max_width):
            yield from strip
            yield Segment.line()


class _BlockQuote(rich_markdown.BlockQuote):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update(width=max(NARROWEST, options.max_width - 2))
        for line in console.render_lines(self.elements, inner, style=self.style, pad=False):
            yield Segment("▎ ", self.style)
            yield from line
            yield Segment.line()


class _ListItem(rich_markdown.ListItem):
    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._render(console, options, "• ", "markdown.item.bullet")

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        del last_number  # items are drawn one by one, and may still become more
        yield from self._render(console, options, f"{number:>2}. ", "markdown.item.number")

    def _render(
        self, console: Console, options: ConsoleOptions, mark: str, style_name: str
    ) -> RenderResult:
        style = console.get_style(style_name)
        inner = options.update(width=max(NARROWEST, options.max_width - len(mark)))
        lines = console.render_lines(self.elements, inner, style=self.style, pad=False)
        for line in lines or [[]]:
            yield Segment(mark, style)
            yield from line
            yield Segment.line()
            mark = " " * len(mark)


class _Table(rich_markdown.TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            border_style="markdown.table.border",
            header_style="markdown.table.header",
            show_edge=False,
        )
        if self.header is not None and self.header.row is not None:
            for cell in self.header.row.cells:
                table.add_column(cell.content, overflow="fold")
        if self.body is not None:
            for row in self.body.rows:
                table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Rule(rich_markdown.HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr")


class _Image(rich_markdown.ImageItem):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble("[image: ", self.text or self.destination, "] ", end="")


class _Markdown(rich_markdown.Markdown):
    """Markdown that was parsed, and cleaned, before."""

    elements: ClassVar[dict[str, type[rich_markdown.MarkdownElement]]] = {
        **rich_markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "blockquote_open": _BlockQuote,
        "list_item_open": _ListItem,
        "table_open": _Table,
        "hr": _Rule,
        "image": _Image,
    }

    def __init__(self, tokens: list[Token], ink: Ink) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = tokens
        self.ink = ink
