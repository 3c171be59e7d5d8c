"""What a reader of another agent's history is, and what it says about one session.

A reader has a `name` (the platform of imported sessions), a `label` for people, and four methods.
It reads; `transfer.histories` decides what to do with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from clew.transfer.jsonl import Line

SETTLED_MS = 600_000
"""A file that was not changed for so long has no answer that is still being written."""


class Home(NamedTuple):
    """Where agents keep their files: the person's home directory and some variables."""

    directory: Path
    variables: Mapping[str, str]

    def place(self, variable: str, *default: str) -> Path:
        """The directory that a variable names, else the one below the home."""
        named = self.variables.get(variable)
        return Path(named).expanduser() if named else self.directory.joinpath(*default)

    def data(self, *parts: str) -> Path:
        """A directory below the one for data of programs."""
        return self.place("XDG_DATA_HOME", ".local", "share").joinpath(*parts)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One session of another agent, found but not read.

    `id` is the one that its agent has for it; `parent` that of the session which a sub-agent worked
    for. `stamp` changes whenever the session does; `at` is when that was, in milliseconds. `root`
    is the directory that no link may leave. `inside` names the session in a file with several.
    `messages` is known where counting needs no reading.
    """

    agent: str
    id: str
    path: Path
    root: Path
    stamp: str
    at: int
    size: int = 0
    parent: str | None = None
    inside: str = ""
    messages: int | None = None
    title: str | None = None


class Reading:
    """One reading of a source: what is asked for, and what was noticed on the way.

    `lost` counts records that have no place in clew, by kind; `broken` the lines that could not be
    read. `branches` are the ends of other branches; `branch` asks for one of them instead of the
    active one. `settled`: nothing is being written any more. `held_back`: something at the end
    was left for a later import.
    """

    def __init__(
        self,
        *,
        settled: bool = True,
        branch: str | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.settled = settled
        self.branch = branch
        self.advance = advance
        self.lost: Counter[str] = Counter()
        self.broken = 0
        self.branches: tuple[str, ...] = ()
        self.held_back = False
        self.keys: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads the history of one agent."""

    name: str
    label: str

    def find(self, home: Home) -> Iterator[Source]:
        """The sessions of this machine. Reads no more than directories and indexes."""
        ...

    def open(self, path: Path) -> Iterator[Source]:
        """The sessions in a file or directory that a person named."""
        ...

    def recognises(self, path: Path, first: bytes) -> bool:
        """Whether a file is this agent's, by its first bytes or its tables."""
        ...

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """The session as lines of a transcript. Raises `OSError` or `InvalidInput`."""
        ...
