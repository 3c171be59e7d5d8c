"""Markdown in Discord's dialect: what Discord shows differently is written as it reads it.

`__x__` is underlined there, `<#1>` and `<t:1>` become something else, a table stays a heap of
lines. So a text is parsed as the Markdown that models write, and written anew: marks that are no
marks are escaped. Addresses are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

_URL: Final = re.compile(r"https?://[^\s<>\[\]()\\`*|]+")
_MARK: Final = re.compile(r"([\\*_~`|<\[\]])")
_AT_START: Final = re.compile(r"^([ \t]*)(#{1,3}|-#?|\+|>+|\d{1,9}\.)(?=[ \t]|$)", re.MULTILINE)
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+\-.#]+")
_TICKS: Final = re.compile(r"`+")
_THREE: Final = re.compile(r"`{3,}")
_JOINT: Final = "\u200b"
"""Has no width: keeps marks apart that would be read as one."""
_INVISIBLE: Final = re.compile(r"[\s\u200b>*_~`|#-]+")
_SPANS: Final = {"strong": "**", "em": "*", "s": "~~"}
_WEB: Final = ("http://", "https://")


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def to_discord(text: str) -> str:
    """A Markdown text as Discord's."""
    tokens = _parser().parse(text)
    if not tokens:
        return _escape(text)
    written = _Writer(text).blocks(SyntaxTreeNode(tokens).children)
    # A text of which nothing would be seen, such as the definition of a link, is shown as it is.
    return written if _INVISIBLE.sub("", written) else _escape(text)


class _Writer:
    def __init__(self, source: str) -> None:
        self._lines = source.splitlines()

    def blocks(self, nodes: Sequence[SyntaxTreeNode], *, tight: bool = False) -> str:
        written = [each for each in map(self._block, nodes) if each]
        return ("\n" if tight else "\n\n").join(written)

    def _block(self, node: SyntaxTreeNode) -> str:  # noqa: PLR0911  # one for each kind of block
        match node.type:
            case "heading":
                return _heading(int(node.tag[1:]), self._inside(node))
            case "paragraph":
                return _keep_starts(self._inside(node))
            case "fence":
                return _fence(node.content, (node.info.split() or [""])[0])
            case "code_block":
                return _fence(node.content, "")
            case "hr":
                return "———"
            case "bullet_list" | "ordered_list":
                return self._list(node)
            case "blockquote":
                # A quote within a quote is the same quote there.
                inner = self.blocks(node.children)
                return "\n".join(
                    line if line.startswith("> ") else f"> {line}" for line in inner.split("\n")
                )
            case "table":
                first, last = node.map or (0, 0)
                return _fence("\n".join(self._lines[first:last]), "")
            case _:
                return _keep_starts(_escape(node.content.rstrip("\n"))) if node.content else ""

    def _list(self, node: SyntaxTreeNode) -> str:
        start = node.attrGet("start")
        number = (1 if start is None else int(start)) if node.type == "ordered_list" else None
        items = []
        for item in node.children:
            mark = "-" if number is None else f"{number}."
            number = None if number is None else number + 1
            inner = self.blocks(item.children, tight=True)
            first, *rest = inner.split("\n")
            items.append("\n".join([f"{mark} {first}", *(f"  {line}" for line in rest)]))
        return "\n".join(items)

    def _inside(self, node: SyntaxTreeNode) -> str:
        return "".join(_spans(each.children) for each in node.children)


def _heading(level: int, text: str) -> str:
    line = " ".join(text.split("\n"))
    if not line:
        return ""
    # There are three sizes of headings; those below are bold.
    return f"{'#' * level} {line}" if level <= 3 else f"**{line.replace('**', '')}**"


def _fence(content: str, language: str) -> str:
    # Three of them would end the block, wherever they are.
    inner = _THREE.sub(lambda found: _JOINT.join(found[0]), content.rstrip("\n"))
    if inner.endswith("`"):
        inner += _JOINT
    name = language if _LANGUAGE.fullmatch(language) and inner.strip() else ""
    return f"```{name}\n{inner if inner.strip() else _JOINT}\n```"


def _spans(nodes: Sequence[SyntaxTreeNode]) -> str:
    out = ""
    for node in nodes:
        span = _span(node)
        # Two marks side by side would be read as one.
        if out and span and out[-1] in "*~`" and span[0] == out[-1]:
            out += _JOINT
        out += span
    return out


def _span(node: SyntaxTreeNode) -> str:  # noqa: PLR0911  # one for each kind of span
    match node.type:
        case "text" | "html_inline":
            return _escape(node.content)
        case "code_inline":
            return _code(node.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "link":
            return _link(node)
        case "image":
            return _escape(node.content or "image")
        case kind if kind in _SPANS:
            inner = _spans(node.children)
            mark = _SPANS[kind]
            if not _INVISIBLE.sub("", inner):
                return inner
            # A mark within the same mark says nothing new, and would end it.
            return inner if _is_within(node, kind) else f"{mark}{inner}{mark}"
        case _:
            return ""


def _is_within(node: SyntaxTreeNode, kind: str) -> bool:
    above = node.parent
    while above is not None:
        if above.type == kind:
            return True
        above = above.parent
    return False


def _code(content: str) -> str:
    longest = max((len(each) for each in _TICKS.findall(content)), default=0)
    if longest > 1:
        return _escape(content)
    mark = "``" if longest else "`"
    pad = " " if content.startswith("`") or content.endswith("`") or not content.strip() else ""
    return f"{mark}{pad}{content}{pad}{mark}"


def _link(node: SyntaxTreeNode) -> str:
    target = str(node.attrGet("href") or "")
    label = _spans(node.children)
    if not target.startswith(_WEB):
        return label
    plain = "".join(each.content for each in node.walk() if each.type == "text")
    if plain in (target, target.removeprefix("mailto:")):
        return target
    if not label.strip():
        return target
    if "://" in plain:
        return f"{label} ({target})"  # a label that is an address itself is not accepted
    safe = target.replace("(", "%28").replace(")", "%29")
    return f"[{label}]({safe})"


def _escape(text: str) -> str:
    """A text whose characters are no marks; addresses stay as they are."""
    out, place = [], 0
    for match in _URL.finditer(text):
        out += [_MARK.sub(r"\\\1", text[place : match.start()]), match[0]]
        place = match.end()
    return "".join([*out, _MARK.sub(r"\\\1", text[place:])])


def _keep_starts(text: str) -> str:
    """Escape what would begin a heading, a list or a quote."""

    def escape(found: re.Match[str]) -> str:
        mark = found[2]
        escaped = f"{mark[:-1]}\\." if mark.endswith(".") else f"\\{mark}"
        return f"{found[1]}{escaped}"

    return _AT_START.sub(escape, text)
