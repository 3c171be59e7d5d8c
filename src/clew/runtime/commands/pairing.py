"""`/pair`: who may talk on channels, decided by the owner wherever they are."""

from __future__ import annotations

from clew.core.channels.people import Pairing, describe_person, spell_code
from clew.core.session import OWNER
from clew.errors import Forbidden, InvalidInput
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.inbound.pairing import approve_pairing, refuse_pairing


async def pair(desk: Desk, rest: str) -> Reply:
    """`/pair [CODE|PERSON|refuse PERSON]`: who asks to be let in; let them in, or keep them out."""
    person = desk.person
    if person != OWNER:
        raise Forbidden("Only the owner of this clew lets people in. Nothing was changed.")
    if not rest:
        return Reply(text=_list_asking(desk, await desk.store.list_pairings()))
    word, _, who = rest.partition(" ")
    match word.lower(), who.strip():
        case "refuse", "":
            raise InvalidInput("Say whom: /pair refuse telegram:456, or their code.")
        case "refuse", who:
            pairing = await refuse_pairing(desk.store, who, by=person)
            return Reply(text=f"{describe_person(pairing)} may not talk to me.")
        case _:
            pairing = await approve_pairing(desk.store, rest, by=person)
            desk.runtime.replies.bell.set()
            return Reply(text=f"{describe_person(pairing)} is let in.")


def _list_asking(desk: Desk, pairings: tuple[Pairing, ...]) -> str:
    asking = [each for each in pairings if each.is_open(desk.now)]
    if not asking:
        return "Nobody asks to be let in. `clew pair list` shows the guests."
    lines = [f"{spell_code(each.code or '')}  {describe_person(each)}" for each in asking]
    return "\n".join([*lines, "/pair CODE lets one in, /pair refuse CODE keeps one out."])
