"""A thread as Markdown. What was said stays Markdown; tools fold away in `<details>`.

Nothing that a message says can break out of its place: what could (an open fence, raw HTML, a
heading like ours) is shown in a fence of its own.
"""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator

from clew.core.message import Message
from clew.core.session import Session
from clew.transfer.thread import Block, Clean, blocks, header, speaker, title_of

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_FENCE = re.compile(r"(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>.*)")
_HIDDEN_FENCE = re.compile(r"[\s>*+\-\d.)]+(?:`{3,}|~{3,})")
_FOREIGN = re.compile(r"(?i)\s*(?:<(?!https?://)[a-z/!?]|(?:##\s*)?(?:user|assistant)\s*#*\s*$)")


async def write_markdown(
    session: Session,
    pages: AsyncIterator[tuple[Message, ...]],
    clean: Clean,
    *,
    thinking: bool = False,
) -> AsyncIterator[str]:
    """The file, piece by piece."""
    yield f"# {_inline(title_of(session, clean))}\n\n"
    for name, value in header(session, clean):
        yield f"- **{name}:** {_inline(value)}\n"
    last = None
    async for page in pages:
        for message in page:
            if speaker(message) != last:
                last = speaker(message)
                yield f"\n## {last}\n"
            for block in blocks(message, clean, thinking=thinking):
                yield f"\n{_draw(block)}\n"


def fence(text: str, language: str = "") -> str:
    """Text as a code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _draw(block: Block) -> str:
    if block.kind == "text":
        return block.body if _keeps_its_place(block.body) else fence(block.body, "markdown")
    if block.kind == "note":
        return f"*({_inline(block.body)})*"
    summary, code = html.escape(block.title), fence(block.body, block.language)
    return f"<details><summary>{summary}</summary>\n\n{code}\n\n</details>"


def _keeps_its_place(text: str) -> bool:
    """Whether Markdown ends where it ends: every fence closed, no raw HTML, no heading of ours."""
    lines = iter(text.split("\n"))
    for line in lines:
        opening = _FENCE.match(line)
        if opening is None:
            if _HIDDEN_FENCE.match(line) or _FOREIGN.match(line):
                return False
        elif not _closes(opening, lines):
            return False
    return True


def _closes(opening: re.Match[str], lines: Iterator[str]) -> bool:
    """Read on to the end of a fence; lines that leave its indentation could end it elsewhere."""
    indent, mark = opening["indent"], opening["mark"]
    if mark[0] == "`" and "`" in opening["info"]:
        return False
    for line in lines:
        if line.strip() and not line.startswith(indent):
            return False
        bare = line.removeprefix(indent).rstrip()
        if len(bare) >= len(mark) and not bare.strip(mark[0]):
            return True
    return False


def _inline(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
