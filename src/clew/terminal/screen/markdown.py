"""Markdown in pieces: where a text can be cut so that what is before the cut never changes.

A `Piece` is a block at the top level, or one item of a list there. While a text streams, every
piece but the last is final, so it is drawn once. What a model writes is never markup for a
browser, so HTML is text here; and a link's address stands beside its words. How a piece looks is
in `typeset`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from clew.core.text import strip_controls

CHUNK: Final = 60
"""Lines of code that are coloured in one go where there are many."""

MANY: Final = 400
"""A longer listing is coloured in chunks."""


_CODE_SPAN: Final = re.compile(r"`[^`]*`")
_ONLY_MARKS: Final = re.compile(r"[ \t]*(?:[-=#*_`~|>+:]{1,3}|\d{1,3}[.)]?)[ \t]*")


class Piece(msgspec.Struct, frozen=True):
    """Some lines of Markdown that are drawn by themselves.

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
    """The piece's tokens, with nothing in them that drives a terminal, not even as `&#27;`."""
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
    """The piece as if the bold words or the code at its end were over.

    Else one would see their marks come and go while they stream.
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
    """A text that grows: its final pieces, and the rest that may still become anything."""

    def __init__(self) -> None:
        self.final: list[Piece] = []
        self._rest = ""
        self._is_settled = True
        self._number: int | None = None
        self._joined = False

    def feed(self, text: str) -> None:
        """More of it. It is looked at when somebody wants to see it."""
        self._rest += text
        self._is_settled = self._is_settled and "\n" not in text

    def take_rest(self, *, patient: bool = False) -> list[Piece]:
        """Move what has become final to `final`; returns the rest as it looks now.

        Who is `patient` sees no line that is only marks yet: the `-` below a line makes a heading
        of it, for the moment until it is the beginning of a list.
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
    """A link whose words are its address is said once."""
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
