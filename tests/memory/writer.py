"""A process that writes memory: `writer.py DIR NAME COUNT`. Prints each line once it is written.

With COUNT 0 it writes until somebody kills it, whole texts by turns with single lines.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from clew.core.memory import AddLine
from clew.memory import MarkdownMemory


async def write(memory: MarkdownMemory, name: str, count: int) -> None:
    for number in itertools.count(1) if count == 0 else range(1, count + 1):
        line = f"{name} {number} " + "x" * 2000
        await memory.edit("memory", AddLine(line), by=name)
        print(name, number, flush=True)  # noqa: T201  # its receipt


if __name__ == "__main__":
    directory, name, count = sys.argv[1:]
    memory = MarkdownMemory(Path(directory))
    asyncio.run(write(memory, name, int(count)))
