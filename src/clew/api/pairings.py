"""Guests, and strangers who ask to be paired."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.operation import NoParams, Params, row
from clew.core.channels.people import Pairing


class DecidePairing(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The owner's decision about a guest. `who` is a code of eight letters, or a person.

    A person is a channel and an id there: `telegram:456`.
    """

    who: Annotated[str, Meta(min_length=1, max_length=300)]
    decision: Literal["approve", "refuse"] = "approve"


class PairingList(msgspec.Struct, frozen=True):
    """Guests, newest first; those who wait for a decision come before the others."""

    pairings: tuple[Pairing, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "pairings.list", "GET", "pairings", "admin", NoParams, PairingList,
    "List guests, and those who ask to be paired.",
)  # fmt: skip
DECIDE: Final = row(
    "pairings.decide", "POST", "pairings", "admin", DecidePairing, Pairing,
    "Pair a person by code or name, or refuse them.",
)  # fmt: skip
ROWS: Final = (
    LIST,
    DECIDE,
)
