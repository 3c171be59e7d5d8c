"""Markdown in Slack's mrkdwn and back: what the agent writes, and what people have written.

Whatever the text is, `&`, `<` and `>` are escaped, so it mentions nobody and calls no channel;
links lead to web and mail addresses only. mrkdwn has no escape for `*`, `_` and `~`: a literal one
between spaces may be read as a mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LINKS: Final = ("http://", "https://", "mailto:")
_MARKS: Final = {"strong": "*", "em": "_", "s": "~"}
_BREAK: Final = "\u200b"
"""A space without width: Slack reads a mark only at the border of a word."""
_CONTROL: Final = re.compile(r"<([^<>]*)>")
_TICKS: Final = re.compile(r"`(?=``)")
_REFERENCE: Final = re.compile(r"[@#][A-Z0-9]+")


def escape(text: str) -> str:
    """A text that Slack shows as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """What an escaped text shows."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def list_references(text: str) -> Iterator[str]:
    """The people (`@U1`) and channels (`#C1`) that a message of Slack refers to without a name."""
    for match in _CONTROL.finditer(text):
        if _REFERENCE.fullmatch(match[1]):
            yield match[1]


def to_plain(text: str, name_of: Callable[[str], str | None]) -> str:
    """A message of Slack as people read it. `name_of` has the names of `list_references`."""
    out: list[str] = []
    place = 0
    for match in _CONTROL.finditer(text):
        out += (unescape(text[place : match.start()]), _read_control(match[1], name_of))
        place = match.end()
    return "".join([*out, unescape(text[place:])])


def _read_control(inside: str, name_of: Callable[[str], str | None]) -> str:
    target, bar, label = inside.partition("|")
    target, label = unescape(target), unescape(label)
    if target[:1] in ("@", "#"):
        return f"{target[0]}{label or name_of(target) or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].partition('^')[2] or target[1:]}"
    if not bar or label in (target, target.partition("://")[2], target.removeprefix("mailto:")):
        return label if target.startswith("mailto:") and label else target
    return f"{label} ({target})"


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


def to_mrkdwn(text: str) -> str:
    """A Markdown text in Slack's mrkdwn."""
    rendered = _Writer().write(_parser().parse(text))
    # A text of which nothing would be seen, such as the definition of a link, is shown as it is.
    return rendered if rendered.strip(f"{_BREAK} \n>") else escape(text)


class _Writer:
    """Writes the tokens of a document, block by block; a quote is written apart, then marked."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._lists: list[int | None] = []
        self._quotes: list[tuple[list[str], list[int | None]]] = []
        self._pending = ""
        self._heading = False

    def write(self, tokens: Sequence[Token]) -> str:
        for token in tokens:
            self._block(token)
        return "".join(self._out).strip("\n")

    def _gap(self, lines: int = 2) -> None:
        """Begin a block: after an empty line, or in a list on a new line."""
        if self._pending:
            self._out.append(self._pending)
            self._pending = ""
            return
        written = "".join(self._out[-3:])
        if written:
            count = 1 if self._lists else lines
            have = len(written) - len(written.rstrip("\n"))
            self._out.append("\n" * max(0, count - have))

    def _block(self, token: Token) -> None:
        match token.type:
            case "heading_open" | "heading_close":
                self._heading = token.type == "heading_open"
                if self._heading:
                    self._gap()
            case "paragraph_open":
                self._gap()
            case "inline":
                self._out.append(_Inline(bold=self._heading).write(token.children or ()))
            case "fence" | "code_block":
                self._gap()
                code = _TICKS.sub(f"`{_BREAK}", escape(token.content.rstrip("\n")))
                self._out.append(f"```\n{code}\n```")
            case "hr":
                self._gap()
                self._out.append("———")
            case "html_block":
                self._gap()
                self._out.append(escape(token.content.rstrip("\n")))
            case "blockquote_open":
                self._gap()
                self._quotes.append((self._out, self._lists))
                self._out, self._lists = [], []
            case "blockquote_close":
                quoted = "".join(self._out).strip("\n")
                self._out, self._lists = self._quotes.pop()
                self._out.append("\n".join(f"> {line}" for line in quoted.split("\n")))
            case kind if "list" in kind:
                self._list(token)
            case _:
                pass

    def _list(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                if not self._lists:
                    self._gap()
                start = token.attrGet("start")
                first = int(start) if start is not None else 1
                self._lists.append(first if token.type == "ordered_list_open" else None)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._item()
            case _:
                self._pending = ""

    def _item(self) -> None:
        self._pending = ""
        self._gap(1)
        number = self._lists[-1]
        if number is not None:
            self._lists[-1] = number + 1
        mark = "•" if number is None else f"{number}."
        self._pending = f"{'    ' * (len(self._lists) - 1)}{mark} "


class _Inline:
    """Writes one line or paragraph. A mark ends with its line, and holds only between words."""

    def __init__(self, *, bold: bool) -> None:
        self._out: list[str] = []
        self._marks: list[str] = []
        self._bold = bold
        self._link: list[str] | None = None

    def write(self, tokens: Sequence[Token]) -> str:
        if self._bold:
            self._open("*")
        for token in tokens:
            self._token(token)
        if self._bold:
            self._close("*")
        return "".join(self._out)

    def _token(self, token: Token) -> None:
        kind, _, end = token.type.rpartition("_")
        match token.type:
            case "text" | "html_inline":
                self._text(token.content)
            case "code_inline":
                self._code(token.content)
            case "softbreak" | "hardbreak":
                self._newline()
            case "link_open":
                target = str(token.attrGet("href") or "")
                self._link = [target] if target.startswith(_LINKS) else None
            case "link_close":
                self._close_link()
            case "image":
                self._image(token)
            case _ if kind in _MARKS and self._link is None:
                if not (self._bold and kind == "strong"):  # a heading is bold already
                    (self._open if end == "open" else self._close)(_MARKS[kind])
            case _:
                pass

    def _text(self, text: str) -> None:
        if self._link is not None:
            self._link.append(text)
            return
        before = self._out[-1][-1:] if self._out else ""
        if text and self._after_mark and (text[0].isalnum() or text[0] == before):
            self._out.append(_BREAK)
        self._out.append(escape(text))
        self._after_mark = False

    _after_mark = False

    def _open(self, mark: str) -> None:
        if mark in self._marks:
            return
        before = self._out[-1][-1:] if self._out else ""
        if before.isalnum() or before == mark:
            self._out.append(_BREAK)
        self._marks.append(mark)
        self._out.append(mark)

    def _close(self, mark: str) -> None:
        if mark not in self._marks:
            return
        self._marks.remove(mark)
        if self._out and self._out[-1] == mark:
            self._out.pop()  # nothing is marked
            return
        self._out.append(mark)
        self._after_mark = True

    def _code(self, code: str) -> None:
        if self._link is not None:
            self._link.append(code)
        elif "`" in code or not code.strip():
            self._out.append(escape(code))
        else:
            before = self._out[-1][-1:] if self._out else ""
            gap = _BREAK if before.isalnum() or before == "`" else ""
            self._out.append(f"{gap}`{escape(code)}`")
            self._after_mark = True

    def _newline(self) -> None:
        if self._link is not None:
            self._link.append(" ")
            return
        marks = tuple(self._marks)
        for mark in reversed(marks):
            self._close(mark)
        self._out.append("\n")
        self._after_mark = False
        for mark in marks:
            self._open(mark)

    def _close_link(self) -> None:
        if self._link is None:
            return
        target, *words = self._link
        self._link = None
        label = " ".join("".join(words).split())
        where = escape(target).replace("|", "%7C").replace(" ", "%20")
        shown = escape(label).replace("|", "¦")
        plain = label in ("", target, target.removeprefix("mailto:"))
        self._out.append(f"<{where}>" if plain else f"<{where}|{shown}>")
        self._after_mark = False

    def _image(self, token: Token) -> None:
        source = str(token.attrGet("src") or "")
        if self._link is None and source.startswith(_LINKS):
            self._link = [source, token.content or "image"]
            self._close_link()
        else:
            self._text(token.content or "image")
