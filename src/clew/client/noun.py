"""The base of the nouns of a `Client`: how a method calls its operation, and reads pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from clew.api.operation import Operation, P, R

T = TypeVar("T")


class Page(Protocol):
    """A part of a list. `cursor` is where the next part begins, None after the last."""

    @property
    def cursor(self) -> str | None: ...


PageT = TypeVar("PageT", bound=Page)


class Do(Protocol):
    """Call an operation, by its row of the table and its parameters."""

    async def __call__(self, operation: Operation[P, R], params: P, /) -> R: ...


class Noun:
    """The operations about one noun, each a method."""

    def __init__(self, do: Do) -> None:
        self._do = do


async def iterate(
    get: Callable[[str | None], Awaitable[PageT]], rows: Callable[[PageT], Iterable[T]]
) -> AsyncIterator[T]:
    """The rows of all pages, in order."""
    cursor, is_last = None, False
    while not is_last:
        page = await get(cursor)
        for each in rows(page):
            yield each
        cursor, is_last = page.cursor, page.cursor is None
