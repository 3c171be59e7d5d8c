"""Handlers of the operations about guests."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.pairings import DECIDE, LIST, DecidePairing, PairingList
from clew.core.channels.people import Pairing
from clew.runtime.inbound.pairing import approve_pairing, refuse_pairing


@handles(LIST)
async def list_pairings(parts: Parts, _params: NoParams, _caller: Caller) -> PairingList:
    """All guests, and strangers who ask to be paired."""
    return PairingList(await parts.store.list_pairings())


@handles(DECIDE)
async def decide_pairing(parts: Parts, params: DecidePairing, caller: Caller) -> Pairing:
    """Approve or refuse a guest; only the owner may. An approved guest is told."""
    by = f"{caller.person}:{caller.token_id}" if caller.token_id else caller.person
    if params.decision == "refuse":
        return await refuse_pairing(parts.store, params.who, by=by)
    pairing = await approve_pairing(parts.store, params.who, by=by)
    parts.runtime.replies.bell.set()
    return pairing
