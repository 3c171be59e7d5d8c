"""Plain text as HTML: everything is escaped, line breaks stay, web addresses become links.

The result is safe because only these few tags are ever written. `markdown_html` renders Markdown.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

REL: Final = "noopener noreferrer nofollow"
"""On every link: the linked page gets no referrer and no endorsement."""

# Possessive, so that each character is looked at only once. A name before the host
# (`https://bank.example@other.example`) would deceive, so it makes no link.
_ADDRESS: Final = re.compile(
    r"""
    \b https?:// [^\W_] [\w.-]*+ (?: : [0-9]{1,5} )?+ (?! [\w@] | :[\w@] )
    (?: [/?\#] [^\s<>"'`\\^{|}]*+ )?+
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TRAILING: Final = ".,;:!?*_~)]"
_PAIRS: Final = {")": "(", "]": "["}


def to_preformatted(text: str) -> str:
    """`text` as it is, in `<pre>`."""
    # A line feed right after <pre> is dropped by browsers.
    return f"<pre>{escape(text.strip(chr(10)), quote=False)}</pre>\n"


def to_paragraph(text: str) -> str:
    """`text` in `<p>`, with its lines; spaces stay, for a page that shows them."""
    return f"<p>{link_up(text.strip(chr(10))).replace(chr(10), '<br>')}</p>\n"


def link_up(text: str) -> str:
    """`text` escaped, with its web addresses as links."""
    pieces = []
    done = 0
    for match in _ADDRESS.finditer(text):
        address = _trim(match[0])
        pieces.append(escape(text[done : match.start()], quote=False))
        pieces.append(to_link(address, address))
        done = match.start() + len(address)
    pieces.append(escape(text[done:], quote=False))
    return "".join(pieces)


def to_link(address: str, text: str) -> str:
    """A link to a web address."""
    shown = escape(text, quote=False)
    return f'<a href="{escape(address)}" target="_blank" rel="{REL}">{shown}</a>'


def _trim(address: str) -> str:
    """The address without the end of the sentence: `(see https://example.org/a_(b)).`"""
    counts = {mark: address.count(mark) for mark in "()[]"}
    end = len(address)
    while end and (last := address[end - 1]) in _TRAILING:
        opening = _PAIRS.get(last)
        if opening is not None:
            if counts[last] <= counts[opening]:
                break
            counts[last] -= 1
        end -= 1
    return address[:end]
