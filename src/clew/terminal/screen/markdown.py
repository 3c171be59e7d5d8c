"""Markdown on the screen, also while it streams: pieces that are complete are drawn only once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec
from markdown_it import MarkdownIt
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

from clew.core.text import strip_controls
from clew.terminal.plain_output import ControlFilter
from clew.terminal.screen.styles import TAB, Palette, is_blank

CHUNK: Final = 60
"""Lines of a long listing that are coloured at once."""

MANY: Final = 400
"""A longer listing is coloured in chunks."""


_CODE_SPAN: Final = re.compile(r"`[^`]*`")
_ONLY_MARKS: Final = re.compile(r"[ \t]*(?:[-=#*_`~|>+:]{1,3}|\d{1,3}[.)]?)[ \t]*")

LONGEST: Final = 200_000
"""Characters; a longer text is shown as plain text."""

STREAMED: Final = 80
"""Lines of a listing that are coloured again with each drawing while it streams."""

NARROWEST: Final = 8
"""Columns that deeply nested text gets at least; wider text is cut."""

COLOURED: Final = 30_000
"""Characters of code; longer code is not coloured."""


class Piece(msgspec.Struct, frozen=True):
    """Some lines of Markdown that are drawn on their own.

    `number` is that of a list's item. `joined`: nothing is between it and the piece before.
    """

    source: str
    number: int | None = None
    joined: bool = False
    is_code: bool = False


def _make_parser() -> MarkdownIt:
    # A definition such as `[1]: https://…` is shown as text: its references may be drawn already.
    parser = MarkdownIt("commonmark", {"html": False})
    return parser.enable(["strikethrough", "table"]).disable("reference")


_PARSER: Final = _make_parser()
_BLOCKS: Final = _make_parser().disable(["inline", "text_join"])


def parse(piece: Piece) -> list[Token]:
    """The piece's tokens, without control characters, not even as `&#27;`."""
    tokens = _PARSER.parse(piece.source)
    if piece.number is not None and tokens and tokens[0].type == "ordered_list_open":
        tokens[0].attrs["start"] = piece.number
    for token in tokens:
        _clean(token)
    return tokens


def split(text: str, number: int | None = None, *, joined: bool = False) -> list[Piece]:
    """The pieces of a text, in order; nothing but blank lines is lost.

    `number` and `joined` are for a text that begins in the middle of a list.
    """
    lines = text.split("\n")
    cuts = list(_list_cuts(_BLOCKS.parse(text)))
    if number is not None and cuts and cuts[0].number is not None:
        cuts = _renumber(cuts, number)
    if joined and cuts:
        cuts[0] = msgspec.structs.replace(cuts[0], joined=True)
    ends = [cut.line for cut in cuts[1:]] + ([len(lines)] if cuts else [])
    return [
        Piece("\n".join(lines[cut.line : end]), cut.number, cut.joined, cut.is_code)
        for cut, end in zip(cuts, ends, strict=True)
    ]


class _Cut(msgspec.Struct, frozen=True):
    line: int
    number: int | None = None
    joined: bool = False
    is_code: bool = False
    of: int = 0


def _list_cuts(tokens: Sequence[Token]) -> Iterator[_Cut]:
    number: int | None = None
    items = lists = 0
    for token in tokens:
        if token.map is None or token.nesting < 0:
            continue
        line = token.map[0]
        if token.level == 0 and token.type in ("bullet_list_open", "ordered_list_open"):
            ordered = token.type == "ordered_list_open"
            number = int(token.attrs.get("start", 1)) if ordered else None
            items, lists = 0, lists + 1
        elif token.level == 1 and token.type == "list_item_open":
            at = None if number is None else number + items
            yield _Cut(line, at, items > 0, of=lists)
            items += 1
        elif token.level == 0:
            yield _Cut(line, is_code=token.type == "fence")


def _renumber(cuts: list[_Cut], number: int) -> list[_Cut]:
    """The text begins with a later item of a list."""
    same = [cut for cut in cuts if cut.of == cuts[0].of]
    counted = [
        msgspec.structs.replace(cut, number=number + index) for index, cut in enumerate(same)
    ]
    return counted + cuts[len(same) :]


def chunk(piece: Piece, most: int = MANY) -> list[Piece]:
    """A listing of more than `most` lines, in parts that can be drawn one by one."""
    if not piece.is_code or piece.source.count("\n") <= most + 1:
        return [piece]
    lines = piece.source.split("\n")
    first = lines[0]
    fence = first[: len(first) - len(first.lstrip(" `~"))]
    body = lines[1:]
    while body and not body[-1]:
        body.pop()
    if body and body[-1].strip() and set(body[-1].strip()) == {fence.strip()[0]}:
        body.pop()
    return [
        Piece("\n".join([first, *body[at : at + CHUNK], fence]), joined=at > 0, is_code=True)
        for at in range(0, len(body), CHUNK)
    ]


def close_marks(piece: Piece) -> Piece:
    """The piece with bold words or code at its end closed.

    Otherwise their marks would come and go while they stream.
    """
    paragraph = piece.source.rpartition("\n\n")[2]
    if piece.is_code or "```" in paragraph:
        return piece
    prose = _CODE_SPAN.sub("", paragraph)
    for mark in ("`", "**"):
        last = prose.rpartition(mark)[2]
        if prose.count(mark) % 2 and last[:1] != " ":
            source = piece.source.rstrip()
            bare = source.removesuffix(mark)
            closed = bare if bare != source else source + mark
            return msgspec.structs.replace(piece, source=closed)
    return piece


class Stream:
    """A text that grows: its complete pieces, and the rest, whose meaning may still change."""

    def __init__(self) -> None:
        self.final: list[Piece] = []
        self._rest = ""
        self._is_settled = True
        self._number: int | None = None
        self._joined = False

    def feed(self, text: str) -> None:
        """Add text. It is parsed when it is drawn."""
        self._rest += text
        self._is_settled = self._is_settled and "\n" not in text

    def take_rest(self, *, patient: bool = False) -> list[Piece]:
        """Move complete pieces to `final`. Returns the rest as it looks now.

        `patient` leaves out a last line that is only marks: a `-` below a line would make it a
        heading, until more text makes it a list.
        """
        if not self._is_settled:
            self._settle()
            self._is_settled = True
        rest = self._rest
        if patient:
            above, _, open_line = rest.rpartition("\n")
            rest = above if _ONLY_MARKS.fullmatch(open_line) else rest
        return split(rest, self._number, joined=self._joined)

    def _settle(self) -> None:
        # Only whole lines decide: `#` may become a heading or a `#hashtag`.
        whole, newline, open_line = self._rest.rpartition("\n")
        pieces = split(whole + newline, self._number, joined=self._joined)
        if len(pieces) > 1:
            last = pieces.pop()
            self.final += pieces
            self._rest = last.source + open_line
            self._number, self._joined = last.number, last.joined


def _clean(token: Token) -> None:
    block = token.type in ("fence", "code_block")
    token.content = strip_controls(token.content, keep_newlines=block)
    for name, value in token.attrs.items():
        if isinstance(value, str):
            token.attrs[name] = strip_controls(value, keep_newlines=False)
    if token.children:
        for child in token.children:
            _clean(child)
        token.children = list(_without_echoes(token.children))


def _without_echoes(tokens: Iterable[Token]) -> Iterator[Token]:
    """Show a link whose text is its address only once."""
    held: list[Token] = []
    for token in tokens:
        if token.type == "link_open":
            held = [token]
        elif token.type == "link_close" and held:
            said = "".join(each.content for each in held[1:])
            href = str(held[0].attrs.get("href", ""))
            yield from held[1:] if said in (href, href.removeprefix("mailto:")) else [*held, token]
            held = []
        elif held:
            held.append(token)
        else:
            yield token
    yield from held


class MarkdownText:
    """A text in Markdown."""

    def __init__(self, text: str | None = None) -> None:
        self.text = "" if text is None else strip_controls(text)
        """The text so far, without control characters."""
        self._filter = ControlFilter()
        self._stream = Stream() if text is None else None
        self._pieces: list[Piece] | None = None
        self._drawn: dict[Piece, list[Strip]] = {}
        self._for: tuple[Palette, int] | None = None

    def feed(self, text: str) -> None:
        """Add text that streams."""
        if self._stream is not None:
            shown = self._filter.feed(text)
            self.text += shown
            self._stream.feed(shown)

    def finish(self, text: str | None = None) -> None:
        """The text is complete: this one, or what was fed."""
        if text is None and self._stream is None:
            return
        self.text = self.text + self._filter.end() if text is None else strip_controls(text)
        self._stream = self._pieces = None

    def draw(self, palette: Palette, width: int) -> list[Strip]:
        """Its lines."""
        if self._for != (palette, width):
            self._drawn = {}
            self._for = (palette, width)
        if len(self.text) > LONGEST:
            return palette.write(self.text, width)
        if self._stream is not None:
            rest = self._stream.take_rest(patient=True)
            rest[-1:] = map(close_marks, rest[-1:])
            pieces = [part for piece in self._stream.final for part in chunk(piece)]
            pieces += [part for piece in rest for part in chunk(piece, STREAMED)]
            keep = len(pieces) - 1
        else:
            if self._pieces is None:
                self._pieces = [part for piece in split(self.text) for part in chunk(piece)]
            pieces, keep = self._pieces, len(self._pieces)
        return self._join(pieces, keep, palette, width)

    def _join(self, pieces: list[Piece], keep: int, palette: Palette, width: int) -> list[Strip]:
        lines: list[Strip] = []
        for index, piece in enumerate(pieces):
            drawn = self._drawn.get(piece)
            if drawn is None:
                drawn = typeset(piece, palette, width)
                if index < keep:
                    self._drawn[piece] = drawn
            if lines and drawn and not piece.joined:
                lines.append(palette.strip([], width))
            lines += drawn
        return lines


def typeset(piece: Piece, palette: Palette, width: int) -> list[Strip]:
    """The lines of a piece."""
    tokens = parse(piece)
    if piece.is_code and tokens:
        code, language = tokens[0].content.removesuffix("\n"), _language(tokens[0])
        return list(_list_code(code, language, palette, max(1, width)))
    lines = palette.draw(_Markdown(tokens, palette), width)
    while lines and is_blank(lines[-1]):
        lines.pop()
    while lines and is_blank(lines[0]):
        lines.pop(0)
    return lines


def _list_code(code: str, language: str, palette: Palette, width: int) -> Iterator[Strip]:
    """A listing on a background of its own. Rich would take four times as long."""
    ground = palette["code"]
    inner = max(1, width - 2)
    edge = Segment(" ", ground)
    for line in _colour(code.expandtabs(TAB), language, palette):
        strip = palette.strip(line, len(code) * 2 + inner, ground)
        parts = [strip] if strip.cell_length <= inner else _break(strip, palette, inner)
        for part in parts:
            whole = Strip([edge, *part]).extend_cell_length(width, ground)
            yield whole.crop(0, width) if whole.cell_length > width else whole


def _colour(code: str, language: str, palette: Palette) -> list[list[Segment]]:
    lines: list[list[Segment]] = [[]]
    lexer = None if len(code) > COLOURED else _find_lexer(language)
    tokens = [((), code)] if lexer is None else lexer.get_tokens(code)
    for kind, text in tokens:
        style = palette.syntax.get_style(kind)
        first, *more = text.split("\n")
        lines[-1].append(Segment(first, style))
        lines += [[Segment(part, style)] for part in more]
    return lines


@lru_cache(maxsize=64)
def _find_lexer(language: str) -> Any:
    # Without these options a lexer strips empty lines at both ends, and adds one.
    options = {"stripnl": False, "ensurenl": False}
    try:
        return get_lexer_by_name(language, **options)
    except ClassNotFound:
        return None


def _break(strip: Strip, palette: Palette, width: int) -> list[Strip]:
    text = Text(no_wrap=False, end="")
    for segment in strip:
        text.append(segment.text, segment.style)
    parts = text.wrap(palette.console, width, overflow="fold")
    return [palette.strip(part.render(palette.console), width, palette["code"]) for part in parts]


def _language(token: Token) -> str:
    return (token.info or "").partition(" ")[0] or "text"


class _Heading(rich_markdown.Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _CodeBlock(rich_markdown.CodeBlock):
    def __init__(self, lexer_name: str, palette: Palette) -> None:
        super().__init__(lexer_name, "ansi_dark")
        self._palette = palette

    @classmethod
    def create(cls, markdown: rich_markdown.Markdown, token: Token) -> _CodeBlock:
        if not isinstance(markdown, _Markdown):
            raise TypeError(markdown)
        return cls(_language(token), markdown.palette)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).removesuffix("\n")
        for strip in _list_code(code, self.lexer_name, self._palette, options.max_width):
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
        del last_number  # items are drawn one by one, and more may come
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
    """Markdown that is already parsed and cleaned."""

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

    def __init__(self, tokens: list[Token], palette: Palette) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = tokens
        self.palette = palette
