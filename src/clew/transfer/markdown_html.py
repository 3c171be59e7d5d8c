"""Markdown as safe HTML: no scripts, no styles, nothing that loads, links to the web only.

HTML in the text is shown as text, code is coloured by CSS classes, and the result passes an
allow-list. Rendering takes time in proportion to the length, except for colours: five hundred
hostile characters kept the lexer for Scala busy for more than 25 seconds. So `message_html` runs
this in a process that can be killed. Messages are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from clew.core.text import strip_controls
from clew.transfer.plain_html import REL, link_up, to_link, to_preformatted

NESTING: Final = 20
"""How deep lists and quotes may nest. Deeper ones are shown as plain text."""
LONGEST_CODE: Final = 20_000
"""Longer code has no colours; in characters."""

NAMES: Final = {
    "bash": "bash sh zsh shell",
    "c": "c h",
    "clojure": "clojure clj",
    "console": "console shell-session",
    "cpp": "cpp c++ cc hpp",
    "csharp": "csharp cs c#",
    "css": "css",
    "dart": "dart",
    "diff": "diff patch",
    "docker": "docker dockerfile",
    "elixir": "elixir ex exs",
    "erlang": "erlang",
    "go": "go golang",
    "graphql": "graphql",
    "haskell": "haskell hs",
    "html": "html",
    "http": "http",
    "ini": "ini cfg conf",
    "java": "java",
    "javascript": "javascript js mjs",
    "json": "json jsonl",
    "jsx": "jsx",
    "kotlin": "kotlin kt",
    "latex": "latex tex",
    "lua": "lua",
    "make": "make makefile",
    "markdown": "markdown md",
    "nginx": "nginx",
    "nix": "nix",
    "ocaml": "ocaml",
    "perl": "perl",
    "php": "php",
    "powershell": "powershell ps1 pwsh",
    "protobuf": "protobuf proto",
    "pycon": "pycon",
    "python": "python py python3",
    "r": "r",
    "ruby": "ruby rb",
    "rust": "rust rs",
    "scala": "scala",
    "scss": "scss",
    "sql": "sql postgresql sqlite",
    "swift": "swift",
    "terraform": "terraform tf hcl",
    "toml": "toml",
    "tsx": "tsx",
    "typescript": "typescript ts",
    "vim": "vim",
    "xml": "xml svg",
    "yaml": "yaml yml",
    "zig": "zig",
}
LANGUAGES: Final = {alias: name for name, aliases in NAMES.items() for alias in aliases.split()}
"""The languages that have colours, by the names that people write after a fence."""

TAGS: Final = frozenset(
    {
        *("h1", "h2", "h3", "h4", "h5", "h6", "p", "hr", "blockquote", "ul", "ol", "li", "pre"),
        *("table", "thead", "tbody", "tr", "th", "td"),
        *("a", "br", "code", "em", "s", "span", "strong"),
    }
)
SCHEMES: Final = frozenset({"http", "https", "mailto"})
ALIGNS: Final = frozenset({"left", "center", "right"})
CLASSES: Final = {
    "pre": frozenset({"highlight"}),
    "code": frozenset(f"language-{name}" for name in NAMES),
    "span": frozenset(STANDARD_TYPES.values()) - {""},
}
CLEANER: Final = nh3.Cleaner(
    tags=TAGS,
    # Keep the content of all tags: what looked like a tag in the text was escaped already.
    clean_content_tags=frozenset(),
    attributes={"a": frozenset({"href", "title"}), "ol": frozenset({"start"})},
    tag_attribute_values={"td": {"align": ALIGNS}, "th": {"align": ALIGNS}},
    set_tag_attribute_values={"a": {"target": "_blank"}},
    link_rel=REL,
    url_schemes=SCHEMES,
    url_relative="deny",
    allowed_classes=CLASSES,
)

_WEB: Final = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_COLUMNS: Final = re.compile(r"^[ \t>|:-]*+$", re.MULTILINE)
_COLOURS: Final = HtmlFormatter(nowrap=True)


def render(text: str, *, colours: bool = True) -> str:
    """`text` as HTML. A text that nests too deeply is shown as plain text."""
    text = strip_controls(text)
    parser = _parser(_has_room_for_tables(text), colours)
    tokens = parser.parse(text)
    if _is_too_deep(tokens):
        return to_preformatted(text)
    for token in tokens:
        if token.type in ("td_open", "th_open"):
            _align(token)
        elif token.children:
            token.children = list(_without_images(token.children))
    drawn: str = parser.renderer.render(tokens, parser.options, {})
    # Again: `&#x202e;` became a character only now.
    return CLEANER.clean(strip_controls(drawn))


def get_style(name: str = "default") -> str:
    """The CSS of the colours: one of Pygments' styles, by its name."""
    css: str = HtmlFormatter(style=name).get_style_defs(".highlight")
    return css


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  # its name there
        """Whether it is a web or mail address. Other links are shown as text."""
        return _WEB.match(url) is not None


@cache
def _parser(tables: bool, colours: bool) -> MarkdownIt:
    options = {"html": False, "maxNesting": NESTING, "highlight": _colour if colours else _frame}
    parser = _Parser("js-default", options)
    if not tables:
        parser.disable("table")
    return parser


def _has_room_for_tables(text: str) -> bool:
    """Whether tables have no more cells than there are characters.

    Rows are filled up to the width of the first one, so a few short lines could become megabytes.
    """
    widest = max((match[0].count("|") for match in _COLUMNS.finditer(text)), default=0)
    return (widest + 1) * (text.count("\n") + 1) <= len(text) or widest == 0


def _is_too_deep(tokens: Sequence[Token]) -> bool:
    """Whether the parser reached its limit, after which it drops text."""
    return any(
        token.level + 1 >= NESTING and token.type in ("blockquote_open", "list_item_open")
        for token in tokens
    )


def _align(token: Token) -> None:
    """The alignment of a cell as an attribute: styles are not allowed."""
    style = str(token.attrs.pop("style", ""))
    if style.startswith("text-align:"):
        token.attrs["align"] = style.removeprefix("text-align:")


def _without_images(tokens: Sequence[Token]) -> Iterator[Token]:
    """Images as links, since nothing is loaded; addresses in the text as links too."""
    inside = 0
    for token in tokens:
        inside += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "image":
            address = str(token.attrs.get("src", ""))
            shown = _words(token) or address
            yield _raw(escape(shown, quote=False) if inside else to_link(address, shown))
        elif token.type == "text" and not inside:
            yield _raw(link_up(token.content))
        else:
            yield token


def _words(token: Token) -> str:
    """The text of an image, without its marks."""
    if token.children is None:
        return token.content
    spaces = {"softbreak": " ", "hardbreak": " "}
    return "".join(spaces.get(each.type) or _words(each) for each in token.children)


def _raw(html: str) -> Token:
    return Token("html_inline", "", 0, content=html)


def _frame(code: str, _name: str, _more: str) -> str:
    return f"<pre><code>{escape(code, quote=False)}</code></pre>"


def _colour(code: str, name: str, more: str) -> str:
    language = LANGUAGES.get(name.lower())
    if language is None or len(code) > LONGEST_CODE:
        return _frame(code, name, more)
    drawn = highlight(code, _lexer(language), _COLOURS)
    return f'<pre class="highlight"><code class="language-{language}">{drawn}</code></pre>'


@cache
def _lexer(language: str) -> Any:
    return get_lexer_by_name(language, stripnl=False)
