"""An operation as a value: its name, address, scope, parameters and result.

The rows are in the modules of their nouns (`api.sessions`, `api.chat`, …) and collected in `table`;
`api.handlers` carries them out. Only `chat.send` writes messages into a session of the agent,
through a turn; `records.add` writes into sessions that its own token has made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from clew.core.tokens import Scope
from clew.errors import InvalidInput

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Who = Literal["owner", "guest"]
"""`guest`: other people may use it too, for what is theirs."""
Answer = Literal["json", "file", "events"]
"""`file`: an `Exported`, sent as the file itself. `events`: JSON, or a stream if asked for."""


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of an operation. A field that is left out has its default; null clears it."""


class NoParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


P = TypeVar("P", bound=Params)
R = TypeVar("R")


class Operation(msgspec.Struct, Generic[P, R], frozen=True, kw_only=True):
    """One public operation. `etag` reads the version of a result, if it has one.

    `scope` and `who` are what a caller needs for all of it (`Caller.check`); `also` says what some
    parameters need beyond that, which the handler checks. `uploads`: its body may contain files,
    and so may be longer than others.
    """

    name: str
    method: Method
    path: str
    scope: Scope
    takes: type[P]
    gives: Any
    help: str
    who: Who = "owner"
    also: str = ""
    status: int = 200
    answer: Answer = "json"
    etag: Callable[[Any], str] | None = None
    uploads: bool = False

    @property
    def noun(self) -> str:
        """The noun: the name of its module, and of its handlers' module."""
        return self.name.partition(".")[0]

    @property
    def path_fields(self) -> tuple[str, ...]:
        """The parameters in the path."""
        parts = self.path.split("/")
        return tuple(part[1:-1] for part in parts if part.startswith("{"))

    @property
    def header_fields(self) -> tuple[str, ...]:
        """The parameters in a header: `if_match` in `If-Match`."""
        return ("if_match",) if "if_match" in self.takes.__struct_fields__ else ()

    @property
    def other_fields(self) -> tuple[str, ...]:
        """All other parameters: in the query for GET and DELETE, else in the body."""
        placed = (*self.path_fields, *self.header_fields)
        return tuple(each for each in self.takes.__struct_fields__ if each not in placed)

    @property
    def has_body(self) -> bool:
        """Whether the other parameters come as a JSON body."""
        return self.method not in ("GET", "DELETE")


def row(  # noqa: PLR0917  # a row of the table
    name: str,
    method: Method,
    path: str,
    scope: Scope,
    takes: type[P],
    gives: type[R],
    help: str,  # noqa: A002  # as the field is called
    *,
    who: Who = "owner",
    also: str = "",
    status: int = 200,
    answer: Answer = "json",
    etag: Callable[[Any], str] | None = None,
    uploads: bool = False,
) -> Operation[P, R]:
    """A row of the table; `path` is what follows `/v1/`."""
    return Operation(
        name=name,
        method=method,
        path=f"/v1/{path}",
        scope=scope,
        takes=takes,
        gives=gives,
        help=help,
        who=who,
        also=also,
        status=status,
        answer=answer,
        etag=etag,
        uploads=uploads,
    )


def read_params(operation: Operation[P, R], values: Mapping[str, Any], *, strict: bool = True) -> P:
    """Read the parameters as values; `InvalidInput` says which one is wrong.

    Not `strict` if all values are text, as in a query.
    """
    try:
        return msgspec.convert(dict(values), operation.takes, strict=strict)
    except msgspec.ValidationError as error:
        from clew.api.complaints import explain  # noqa: PLC0415  # only needed for errors

        told = explain(error, operation.takes, values)
        raise InvalidInput(f"{told}. Nothing was changed.") from error
