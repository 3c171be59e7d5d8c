"""The talk that every sample holds, and what an import of it must give."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

BEGIN = 1_760_000_000_000
"""When every sample began."""

STEP = 1_000


class Exchange(NamedTuple):
    """A question, perhaps a tool call with its result, and the answer."""

    question: str
    answer: str
    command: str | None = None
    result: str = ""


FIRST = Exchange("What is in this directory?", "One file: notes.txt.", "ls", "notes.txt")
SECOND = Exchange(
    "Read it\u2028please, and say “hi”.", "It says: buy milk 🥛.", "cat notes.txt", "buy milk"
)
THIRD = Exchange("Thanks. What else?", "Nothing else.")
OTHER = Exchange("No: delete it instead.", "I would rather not.")


class Talk(NamedTuple):
    """What was said; `left` are exchanges of a branch that was left after the common ones."""

    exchanges: tuple[Exchange, ...]
    left: tuple[Exchange, ...] = ()
    title: str = "Notes and milk"
    native: str = "3f2a4c1e-8f7b-4c57-9d62-1b8a3f0e5a10"

    def at(self, step: int) -> int:
        """The time of a step, in milliseconds."""
        return BEGIN + step * STEP


WHOLE = Talk((FIRST, SECOND))
LONGER = Talk((FIRST, SECOND, THIRD))
REWOUND = Talk((FIRST, OTHER), left=(SECOND,))


class Sample(NamedTuple):
    """How an agent's history is written.

    `write` writes a talk below a home directory and returns the file. `agent` is the reader's name.
    """

    agent: str
    write: Callable[[Path, Talk], Path]
    tools: bool = True
    titled: bool = True
    usage: bool = True
    found: bool = True
    lines: bool = True
    times: bool = True
    branches: bool = False
    form: str = ""
    summed: bool = False

    def said(self, talk: Talk) -> list[tuple[str, str]]:
        """The roles and texts that an import gives."""
        rows: list[tuple[str, str]] = []
        for each in talk.exchanges:
            rows.append(("user", each.question))
            if each.command is not None and self.tools:
                rows += [("assistant", ""), ("tool", each.result)]
            rows.append(("assistant", each.answer))
        return rows


def iso(at: int) -> str:
    """A time as most agents write it."""
    return (
        datetime.fromtimestamp(at / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def dump(line: Any) -> str:
    """A line as JSON, with U+2028 as it is."""
    return json.dumps(line, ensure_ascii=False) + "\n"


def write_lines(path: Path, lines: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(dump, lines)), encoding="utf-8")
    return path
