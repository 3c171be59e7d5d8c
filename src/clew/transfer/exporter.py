"""Exports of a session: Markdown, one HTML page, or JSON lines; redacted where asked.

A file is written in one step, for its owner only. In Markdown, messages stay Markdown and tools are
in `<details>`; a text that could change what follows it (an open fence, raw HTML, a heading like
ours) is put in a fence. The HTML page has no scripts, loads nothing, and escapes everything. JSON
lines lose nothing; `jsonl` writes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Literal, TypeAlias

from clew.core.message import Message
from clew.core.redaction import redact
from clew.core.session import Session
from clew.errors import ClewError, Conflict, InvalidInput
from clew.ports import Store
from clew.transfer.agent_files import write_agent_file
from clew.transfer.jsonl import write_jsonl
from clew.transfer.thread import Block, Clean, blocks, header, pages, speaker, title_of

Format: TypeAlias = Literal["md", "html", "jsonl", "claude-code", "codex"]

_ENDINGS: dict[str, Format] = {
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_FENCE = re.compile(r"(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>.*)")
_HIDDEN_FENCE = re.compile(r"[\s>*+\-\d.)]+(?:`{3,}|~{3,})")
_FOREIGN = re.compile(r"(?i)\s*(?:<(?!https?://)[a-z/!?]|(?:##\s*)?(?:user|assistant)\s*#*\s*$)")

_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2530; --dim: #66707c; --page: #fbfbfa;
  --card: #fff; --user: #eaf1fb; --edge: #dfe3e8; --accent: #2563a8; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #dfe4ea; --dim: #939daa; --page: #15181c; --card: #1c2026;
    --user: #1d2a3a; --edge: #303740; --accent: #7db3f0; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }}
main {{ max-width: 52rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem;
  color: var(--dim); font-size: .875rem; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
section {{ margin: 1.25rem 0; padding: 1rem 1.25rem; background: var(--card);
  border: 1px solid var(--edge); border-radius: .6rem; }}
section.user {{ background: var(--user); }}
h2 {{ margin: 0 0 .5rem; font-size: .8rem; letter-spacing: .04em; color: var(--accent); }}
.text, pre {{ margin: .6rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }}
pre {{ font: .8125rem/1.5 ui-monospace, monospace; max-height: 32rem; overflow: auto; }}
details {{ margin: .5rem 0; padding: .35rem .75rem; border: 1px solid var(--edge);
  border-radius: .4rem; }}
summary {{ cursor: pointer; color: var(--dim); font-size: .875rem; overflow-wrap: anywhere; }}
.note {{ color: var(--dim); font-size: .8125rem; overflow-wrap: anywhere; }}
@media print {{ pre {{ max-height: none; }} }}
</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<dl>
"""
_TAIL = "</main>\n</body>\n</html>\n"


def guess_format(name: str) -> Format:
    """The format for a file's ending; Markdown if it has none. `InvalidInput` for others."""
    ending = Path(name).suffix.lower()
    if ending and ending not in _ENDINGS:
        raise InvalidInput(
            f'clew writes no files with the ending "{ending}". Use .md, .html or .jsonl, '
            "or give --format."
        )
    return _ENDINGS.get(ending, "md")


def export_session(
    store: Store,
    session: Session,
    kind: Format,
    *,
    masked: bool | None = None,
    thinking: bool = False,
) -> AsyncIterator[str]:
    """The session as a file of that format, piece by piece.

    By default secrets are masked in Markdown and HTML, and not in JSON lines; `masked` decides
    otherwise. Undone turns are only in JSON lines. A file for another agent is never masked.
    """
    if kind == "claude-code" or kind == "codex":  # noqa: PLR1714  # so that types are narrowed
        return write_agent_file(store, session, kind)
    if kind == "jsonl":
        return write_jsonl(store, session, masked=bool(masked))
    write = write_html if kind == "html" else write_markdown
    clean = str if masked is False else redact
    return write(session, pages(store, session), clean, thinking=thinking)


def write_file(path: Path, content: str, *, force: bool = False) -> None:
    """Write a whole file in one step, readable by its owner only.

    `Conflict` if it exists, unless `force` is set.
    """
    if path.exists() and not force:
        raise Conflict(
            f"{path} already exists. Use --force to overwrite it, or -o to give another name."
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise ClewError(f"{path} can't be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


async def write_markdown(
    session: Session,
    pages: AsyncIterator[tuple[Message, ...]],
    clean: Clean,
    *,
    thinking: bool = False,
) -> AsyncIterator[str]:
    """The Markdown file, piece by piece."""
    yield f"# {_inline(title_of(session, clean))}\n\n"
    for name, value in header(session, clean):
        yield f"- **{name}:** {_inline(value)}\n"
    last = None
    async for page in pages:
        for message in page:
            if speaker(message) != last:
                last = speaker(message)
                yield f"\n## {_inline(last)}\n"
            for block in blocks(message, clean, thinking=thinking):
                yield f"\n{_markdown_block(block)}\n"


def fence(text: str, language: str = "") -> str:
    """Text as a code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _markdown_block(block: Block) -> str:
    if block.kind == "text":
        return block.body if _keeps_its_place(block.body) else fence(block.body, "markdown")
    if block.kind == "note":
        return f"*({_inline(block.body)})*"
    summary, code = escape(block.title), fence(block.body, block.language)
    return f"<details><summary>{summary}</summary>\n\n{code}\n\n</details>"


def _keeps_its_place(text: str) -> bool:
    """Whether Markdown can't change what follows: fences closed, no raw HTML, no such heading."""
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
    """Read lines to the end of a fence. False if a line that is less indented could end it."""
    indent, mark = opening["indent"], opening["mark"]
    if mark[0] == "`" and "`" in opening["info"]:
        return False
    for line in lines:
        if line.strip() and not line.startswith(indent):
            return False
        rest = line.removeprefix(indent).rstrip()
        bare = rest.lstrip()
        if len(bare) >= len(mark) and not bare.strip(mark[0]):
            return bare == rest  # a mark that is more indented may or may not end it
    return False


def _inline(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


async def write_html(
    session: Session,
    pages: AsyncIterator[tuple[Message, ...]],
    clean: Clean,
    *,
    thinking: bool = False,
) -> AsyncIterator[str]:
    """The HTML file, piece by piece."""
    yield _HEAD.format(title=escape(title_of(session, clean)))
    for name, value in header(session, clean):
        yield f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n"
    yield "</dl>\n</header>\n"
    last = None
    async for page in pages:
        for message in page:
            if speaker(message) != last:
                yield "</section>\n" if last else ""
                last = speaker(message)
                kind = "user" if message.role == "user" else "assistant"
                yield f'<section class="{kind}">\n<h2>{escape(last)}</h2>\n'
            for block in blocks(message, clean, thinking=thinking):
                yield _html_block(block)
    yield "</section>\n" if last else ""
    yield _TAIL


def _html_block(block: Block) -> str:
    body = escape(block.body)
    if block.kind == "text":
        return f'<div class="text">{body}</div>\n'
    if block.kind == "note":
        return f'<p class="note">{body}</p>\n'
    # Browsers drop the first newline after <pre>, so one is added: that of the text stays.
    return f"<details><summary>{escape(block.title)}</summary>\n<pre>\n{body}</pre>\n</details>\n"
