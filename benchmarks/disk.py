"""Bytes on disk for each byte of content: texts, and the parts and tool calls beside them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from benchmarks.corpora import Setting
from benchmarks.timing import Finding

ENGLISH = 2.5

# Text and index are the messages and everything that makes them found; the rest is what sessions
# and turns know besides.
_TEXT_AND_INDEX = ("messages", "messages_thread", "messages_fts", "messages_spaceless")


async def disk(setting: Setting) -> list[Finding]:
    """How much a store is bigger than what was said in it."""
    findings = []
    for name in ("thousand",) if setting.quick else ("million", "mixed", "cjk"):
        kept = await setting.corpus(name)
        content, parts, whole = _sizes(kept.path)
        bar = ENGLISH if name == "million" else None
        ratio = sum(parts.values()) / content
        index = parts["messages_fts"] + parts["messages_spaceless"]
        findings.append(
            Finding(
                topic="disk",
                what=f"text and index, {name}",
                clew=f"{ratio:.2f} bytes per byte",
                compared=f"index {index / content:.2f}, whole file {whole / content:.2f}",
                bar="" if bar is None else str(bar),
                ok=None if bar is None else ratio <= bar,
            )
        )
    return findings


def _sizes(path: Path) -> tuple[int, dict[str, int], int]:
    """Bytes of content, of each part that holds or finds it, and of the file."""
    with closing(apsw.Connection(str(path))) as connection:
        content = connection.execute("SELECT sum(content_bytes) FROM sessions").get
        parts = dict.fromkeys(_TEXT_AND_INDEX, 0)
        for table, size in connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
            part = next(
                (each for each in reversed(_TEXT_AND_INDEX) if table.startswith(each)), None
            )
            if part is not None:
                parts[part] += size
        whole = connection.pragma("page_count") * connection.pragma("page_size")
    return content, parts, whole
