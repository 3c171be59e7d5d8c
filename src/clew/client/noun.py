"""The base of the nouns of a `Client`: a way to call an operation."""

from __future__ import annotations

from typing import Protocol

from clew.api.operation import Operation, P, R


class Do(Protocol):
    """Call an operation, by its row of the table and its parameters."""

    async def __call__(self, operation: Operation[P, R], params: P, /) -> R: ...


class Noun:
    """The operations about one noun, each a method."""

    def __init__(self, do: Do) -> None:
        self._do = do
