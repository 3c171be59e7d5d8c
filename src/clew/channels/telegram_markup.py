"""Markdown in Telegram's HTML: the few tags that Telegram reads, everything else as text.

Whatever the text is, the result is something that Telegram accepts: tags are balanced, and links
lead to web, mail and Telegram addresses only.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_TAG: Final = re.compile(r"<[^>]*>")
_LINKS: Final = ("http://", "https://", "mailto:", "tg://")
_MARKS: Final = {
    "strong_open": "<b>",
    "strong_close": "</b>",
    "em_open": "<i>",
    "em_close": "</i>",
    "s_open": "<s>",
    "s_close": "</s>",
}


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


def to_html(text: str) -> str:
    """A Markdown text as Telegram's HTML."""
    rendered = _Writer().write(_parser().parse(text))
    # A text of which nothing would be seen, such as the definition of a link, is shown as it is.
    return rendered if _TAG.sub("", rendered).strip() else html.escape(text, quote=False)


class _Writer:
    """Writes the tokens of a document, block by block."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._lists: list[int | None] = []
        self._quotes = 0
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
        if written and not written.endswith("<blockquote>"):
            count = 1 if self._lists else lines
            have = len(written) - len(written.rstrip("\n"))
            self._out.append("\n" * max(0, count - have))

    def _block(self, token: Token) -> None:  # noqa: PLR0912  # one case for each kind of block
        match token.type:
            case "heading_open":
                self._gap()
                self._heading = True
                self._out.append("<b>")
            case "heading_close":
                self._heading = False
                self._out.append("</b>")
            case "paragraph_open":
                self._gap()
            case "inline":
                self._out.append(_inline(token.children or (), bold=self._heading))
            case "fence" | "code_block":
                self._gap()
                words = (token.info or "").split()
                code = html.escape(token.content.rstrip("\n"), quote=False)
                name = html.escape(words[0]) if words else ""
                inner = f'<code class="language-{name}">{code}</code>' if name else code
                self._out.append(f"<pre>{inner}</pre>")
            case "hr":
                self._gap()
                self._out.append("———")
            case "html_block":
                self._gap()
                self._out.append(html.escape(token.content.rstrip("\n"), quote=False))
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
            case "list_item_close":
                self._pending = ""
            case "blockquote_open":
                self._gap()
                self._quotes += 1
                if self._quotes == 1:  # Telegram has no quote within a quote
                    self._out.append("<blockquote>")
            case "blockquote_close":
                self._quotes -= 1
                if self._quotes == 0:
                    self._out.append("</blockquote>")
            case _:
                pass

    def _item(self) -> None:
        self._pending = ""
        self._gap(1)
        number = self._lists[-1]
        if number is not None:
            self._lists[-1] = number + 1
        mark = "•" if number is None else f"{number}."
        self._pending = f"{'    ' * (len(self._lists) - 1)}{mark} "


def _inline(tokens: Sequence[Token], *, bold: bool) -> str:
    out: list[str] = []
    links: list[bool] = []
    for token in tokens:
        match token.type:
            case "text" | "html_inline":
                out.append(html.escape(token.content, quote=False))
            case "code_inline":
                out.append(f"<code>{html.escape(token.content, quote=False)}</code>")
            case "softbreak" | "hardbreak":
                out.append("\n")
            case "link_open":
                target = str(token.attrGet("href") or "")
                links.append(target.startswith(_LINKS))
                out.append(f'<a href="{html.escape(target)}">' if links[-1] else "")
            case "link_close":
                out.append("</a>" if links.pop() else "")
            case "image":
                out.append(html.escape(token.content or "image", quote=False))
            case "strong_open" | "strong_close" if bold:
                pass  # a heading is bold already
            case kind if kind in _MARKS:
                out.append(_MARKS[kind])
            case _:
                pass
    return "".join(out)
