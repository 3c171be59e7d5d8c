"""How much of the long tests is done: a part of them in `make test`, all in `make proof`.

`pytest --full` does all. A short one finds the same mistakes, if they are not rare.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

_is_full = False


def set_full(is_full: bool) -> None:
    """Said once, before any test is read (`tests/conftest.py`)."""
    global _is_full  # noqa: PLW0603  # what pytest was started with
    _is_full = is_full


def pick(short: T, full: T) -> T:
    """The one of the two that this run is for."""
    return full if _is_full else short
