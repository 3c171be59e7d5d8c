"""A thread as one HTML page: no scripts, nothing loaded from elsewhere, everything escaped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html import escape

from clew.core.message import Message
from clew.core.session import Session
from clew.transfer.thread import Block, Clean, blocks, header, speaker, title_of

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


async def write_html(
    session: Session,
    pages: AsyncIterator[tuple[Message, ...]],
    clean: Clean,
    *,
    thinking: bool = False,
) -> AsyncIterator[str]:
    """The file, piece by piece."""
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
                yield f'<section class="{last.lower()}">\n<h2>{last}</h2>\n'
            for block in blocks(message, clean, thinking=thinking):
                yield _draw(block)
    yield "</section>\n" if last else ""
    yield _TAIL


def _draw(block: Block) -> str:
    body = escape(block.body)
    if block.kind == "text":
        return f'<div class="text">{body}</div>\n'
    if block.kind == "note":
        return f'<p class="note">{body}</p>\n'
    # A line feed right after <pre> is dropped by browsers: one that is part of the text stays.
    return f"<details><summary>{escape(block.title)}</summary>\n<pre>\n{body}</pre>\n</details>\n"
