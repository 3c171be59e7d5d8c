"""The way from a method of the client to its operation."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from clew.core.params import Params
from clew.operations import get_operation, read_params

T = TypeVar("T")
P = TypeVar("P", bound=Params)


class Do(Protocol):
    """Do an operation: its name, its parameters, and the type of its answer in the table."""

    async def __call__(self, name: str, params: Params, gives: type[T], /) -> T: ...


def check(name: str, params: P) -> P:
    """The parameters, if the table allows them: refused here as they would be there."""
    checked: P = read_params(get_operation(name), msgspec.to_builtins(params))  # type: ignore[assignment]
    return checked
