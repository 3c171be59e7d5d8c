"""aider: a Markdown file in a repository, with one session after the other.

It is imported when its path is named, and never found by itself: a cloned repository may bring one.
`#### ` is what the person said, `> ` what the program and its tools said, the rest is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from clew.transfer.jsonl import Line
from clew.transfer.readers.files import entry_of, open_own, split_lines
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import About, Answer, Entry, make_lines, read_time, user_said

NAME: Final = ".aider.chat.history.md"
_START: Final = re.compile(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")


class _Piece(NamedTuple):
    """A session in the file: when it began, and where it is."""

    started: str
    low: int
    high: int


class Aider:
    """The reader of aider's sessions."""

    name = "aider"
    label = "aider"

    def find(self, home: Home) -> Iterator[Source]:  # noqa: ARG002  # see above
        """See `Reader`. Nothing is found: a path must be named."""
        return iter(())

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        if path.is_dir():
            path = path / NAME
        file = entry_of(path)
        if file is None:
            return
        counts: dict[str, int] = {}
        for piece in _split(path):
            counts[piece.started] = counts.get(piece.started, 0) + 1
            number = "" if counts[piece.started] == 1 else f" ({counts[piece.started]})"
            yield Source(
                agent=self.name,
                id=f"{path.parent.name} {piece.started}{number}",
                path=path,
                root=path.parent,
                stamp=f"{piece.high - piece.low}:{file.at}",
                at=read_time(piece.started) or file.at,
                size=piece.high - piece.low,
                inside=f"{piece.low}:{piece.high}",
            )

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        return path.name == NAME or bool(_START.match(first.lstrip()))

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        low, high = map(int, source.inside.split(":"))
        with open_own(source.path, source.root) as stream:
            stream.seek(low)
            raw = stream.read(high - low)
        reading.advance(source.size)
        text = raw.decode(errors="replace")
        head, _, rest = text.partition("\n")
        at = read_time(head.removeprefix("# aider chat started at ").strip())
        about = About(
            agent=self.name, id=source.id, directory=str(source.path.parent), created_at=at
        )
        return make_lines(about, _entries(rest, at, reading))


def _split(path: Path) -> Iterator[_Piece]:
    started, low = None, 0
    end = 0
    with open_own(path, path.parent) as stream:
        for raw in split_lines(stream):
            found = None if raw.data is None else _START.fullmatch(raw.data)
            if found is not None:
                if started is not None:
                    yield _Piece(started, low, raw.offset)
                started, low = found[1].decode(), raw.offset
            end = raw.offset + raw.size
    if started is not None:
        yield _Piece(started, low, end)


def _entries(text: str, at: int | None, reading: Reading) -> Iterator[Entry]:
    said: list[str] = []
    answered: list[str] = []
    number, speaks = 0, False
    for line in text.split("\n"):
        if line.startswith("####"):
            if not speaks:  # lines that follow each other are one message
                number += 1
                yield from _exchange(number, said, answered, at, reading)
                said, answered = [], []
            said.append(line[4:].strip())
        elif line.startswith(">"):
            reading.lost["notices of the program"] += 1
        else:
            answered.append(line.removesuffix("  "))
        speaks = line.startswith("####")
    yield from _exchange(number + 1, said, answered, at, reading)


def _exchange(
    number: int, said: list[str], answered: list[str], at: int | None, reading: Reading
) -> Iterator[Entry]:
    question, text = "\n".join(said).strip(), "\n".join(answered).strip()
    if question.startswith("/") and not text:
        reading.lost["commands"] += 1
        return
    if question:
        yield user_said(f"{number}u", question, at=at)
    answer = Answer()
    answer.say(text)
    if answer:
        yield answer.said(f"{number}a", at=at)
