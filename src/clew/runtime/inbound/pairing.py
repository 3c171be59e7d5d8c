"""Pairing: a stranger asks to be admitted, and the owner decides.

A stranger gets a code and gives it to the owner in another way: so the owner knows who asks.
Messages of strangers are not stored. The rules are in `core.channels.people`; the caller checks
that only the owner decides.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec

from clew.core.channels.incoming import Incoming
from clew.core.channels.people import (
    CODE_LENGTH,
    LETTERS,
    LONGEST_NAME,
    MOST_TOLD,
    MOST_WAITING,
    NewPairing,
    Pairing,
    read_code,
    read_person,
    spell_code,
)
from clew.core.channels.replies import ReplyTo, read_reply_to
from clew.core.delivery import NewOutbound
from clew.core.keys import normalise_word
from clew.errors import InvalidInput, RecordNotFound
from clew.ports import Store

OFFER: Final = (
    "I don't know you yet, so I can't answer. To be let in, give my owner this code: {code}\n"
    "(They let you in with /pair {code}. It counts once, for an hour.)"
)
WELCOME: Final = "You are let in. Write to me whenever you like."
_NO_CODE: Final = (
    "The code {code} is not valid: it was used, it has expired, or it was never given out. "
    "Nothing was changed."
)
_NOBODY: Final = (
    '"{who}" is neither a code of eight letters nor a person like telegram:456. '
    "Nothing was changed."
)


async def offer_pairing(
    store: Store, incoming: Incoming, person: str, *, withheld: bool = False
) -> Pairing | None:
    """Make a code for a stranger and send it to them; None if too many are waiting.

    `withheld`: the send policy denies delivery there. Can be repeated for one message.
    """
    reply_to = incoming.reply_to
    pairing = await store.ask_pairing(
        NewPairing(
            person=person,
            channel=normalise_word(incoming.arrival.channel) or "unknown",
            code="".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH)),
            name=(incoming.sender.name or "")[:LONGEST_NAME] or None,
            reply_to=None if reply_to is None else msgspec.to_builtins(reply_to),
        ),
        most=MOST_WAITING,
    )
    if pairing is None or pairing.code is None or reply_to is None or pairing.told > MOST_TOLD:
        return pairing
    words = OFFER.format(code=spell_code(pairing.code))
    await _tell(store, reply_to, words, f"pairing-{_identity(incoming)}", withheld=withheld)
    return pairing


async def approve_pairing(store: Store, who: str, *, by: str) -> Pairing:
    """Admit the person with this code or name, and tell them; `InvalidInput` if unknown."""
    code = read_code(who)
    if code is not None:
        try:
            pairing = await store.redeem_pairing(code, by=by)
        except RecordNotFound as error:
            raise InvalidInput(_NO_CODE.format(code=spell_code(code))) from error
    else:
        person = _get_person(who)
        before = await store.find_pairing(person)
        if before is not None and before.status == "paired":
            return before
        pairing = await store.decide_pairing(person, _channel_of(person), "paired", by=by)
    reply_to = read_reply_to(pairing.reply_to)
    if reply_to is not None:
        name = f"pairing-{pairing.person}-{pairing.decided_at}"
        await _tell(store, reply_to, WELCOME, name, withheld=False)
    return pairing


async def refuse_pairing(store: Store, who: str, *, by: str) -> Pairing:
    """Refuse a person, guest or not, without telling them; `InvalidInput` if unknown."""
    code = read_code(who)
    if code is None:
        person = _get_person(who)
        return await store.decide_pairing(person, _channel_of(person), "refused", by=by)
    for each in await store.list_pairings():
        if each.code == code:
            return await store.decide_pairing(each.person, each.channel, "refused", by=by)
    raise InvalidInput(_NO_CODE.format(code=spell_code(code)))


def _get_person(who: str) -> str:
    person = read_person(who)
    if person is None:
        raise InvalidInput(_NOBODY.format(who=who[:100]))
    return person


def _channel_of(person: str) -> str:
    return person.partition(":")[0]


def _identity(incoming: Incoming) -> str:
    """The identity of a message, the same for each delivery."""
    if incoming.external_id is None:
        return secrets.token_hex(16)
    arrival = incoming.arrival
    told = f"{arrival.channel}\0{arrival.account}\0{incoming.external_id}"
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


async def _tell(store: Store, reply_to: ReplyTo, text: str, name: str, *, withheld: bool) -> None:
    await store.add_outbound(
        None,
        NewOutbound(
            id=name,
            key=reply_to.key,
            channel=reply_to.channel,
            account=reply_to.account,
            address=reply_to.address,
            content=text,
            withheld=withheld,
        ),
    )
