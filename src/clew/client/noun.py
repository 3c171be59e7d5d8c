"""What the nouns of a `Client` are made of: a way to do an operation."""

from __future__ import annotations

from typing import Protocol

from clew.api.operation import Operation, P, R


class Do(Protocol):
    """Do an operation: its row of the table, and its parameters."""

    async def __call__(self, operation: Operation[P, R], params: P, /) -> R: ...


class Noun:
    """Operations about one thing, each a method."""

    def __init__(self, do: Do) -> None:
        self._do = do
