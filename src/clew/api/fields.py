"""The types of single parameters: every length and number bounded, every pattern explained."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from clew.core.keys import MAX_KEY
from clew.core.session import MAX_TITLE

WORDS: Final = "words"
"""Key in the `extra` of a type: what a value must be, to follow "must be …"."""


# --- what parameters are made of --------------------------------------------------------------
_LAST: Final = 2**53 - 1
"""The largest whole number that every JSON parser reads exactly."""


_END: Final = r"$(?!\n)"
"""Matches the very end in Python and JSON Schema: Python's `$` would allow a final newline."""


SessionId = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        max_length=36,
        description="A whole session id.",
        extra={WORDS: "a whole session id, like 3f0c6f1e-9a4b-4c7d-8e21-5b6a7c8d9e0f"},
    ),
]


RowId = Annotated[
    str,
    Meta(
        pattern=f"^[0-9A-Za-z_.:-]+{_END}",
        min_length=1,
        max_length=100,
        extra={WORDS: "an id: letters, digits and . _ : - only"},
    ),
]


Word = Annotated[str, Meta(min_length=1, max_length=200)]


Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY)]


Cursor = Annotated[str, Meta(max_length=2_000)]


Line = Annotated[str, Meta(max_length=1_000)]


Seq = Annotated[int, Meta(ge=0, le=_LAST)]


Moment = Annotated[int, Meta(ge=0, le=_LAST, description="Milliseconds UTC.")]


LARGEST_INTEGER: Final = 2**63 - 1


Directory = Annotated[str, Meta(min_length=1, max_length=4_096)]


Number = Annotated[int, Meta(ge=-1, le=LARGEST_INTEGER)]


Value = Annotated[str, Meta(min_length=1, max_length=1_000)]


Query = Annotated[str, Meta(max_length=4_000, description="Words to look for; any text is valid.")]


Zone = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="A time zone: Europe/Berlin, or an offset like +02:00.",
    ),
]


Title = Annotated[str, Meta(max_length=MAX_TITLE)]
