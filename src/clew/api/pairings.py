"""Guests, and people who ask to be let in."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.operation import NoParams, Params, row
from clew.core.guests import Pairing


class DecidePairing(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The owner's word about a guest. `who` is a code of eight letters, or a person.

    A person is a channel and an id there: `telegram:456`.
    """

    who: Annotated[str, Meta(min_length=1, max_length=300)]
    decision: Literal["approve", "refuse"] = "approve"


class PairingList(msgspec.Struct, frozen=True):
    """Guests: first those who wait to be let in; newest first."""

    pairings: tuple[Pairing, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "pairings.list", "GET", "pairings", "admin", NoParams, PairingList,
    "List guests, and those who ask to be let in.",
)  # fmt: skip
DECIDE: Final = row(
    "pairings.decide", "POST", "pairings", "admin", DecidePairing, Pairing,
    "Let a person in to talk, by their code or their name, or refuse them.",
)  # fmt: skip
ROWS: Final = (
    LIST,
    DECIDE,
)
