"""Commands about sessions: new, resume, fork, title, pin, search, link; and `/pair`."""

from __future__ import annotations

from clew.core.channels.people import Pairing, describe_person, spell_code
from clew.core.names import recent_name, time_ago
from clew.core.search.hits import SearchFilter
from clew.core.session import OWNER, SessionEdit, SessionFilter
from clew.core.text import strip_controls
from clew.errors import Forbidden, InvalidInput
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.inbound.links import offer_link, redeem_link
from clew.runtime.inbound.pairing import approve_pairing, refuse_pairing
from clew.runtime.place.resume import get_resumed, look_up

HITS = 10


async def new(desk: Desk, rest: str) -> Reply:
    """`/new [MESSAGE]`."""
    switched = await desk.begin_anew()
    ticket = await desk.say(rest) if rest else None
    text = "" if rest else "A new session begins with your next message. /resume goes back."
    return Reply(text=text, switched=switched, ticket=ticket)


async def resume(desk: Desk, rest: str) -> Reply:
    """`/resume [SESSION]`: the same steps as `clew --resume`."""
    if not rest:
        where = SessionFilter(viewer=desk.person)
        if not (await desk.store.list_sessions(where, limit=1)).sessions:
            return Reply(text="No sessions found")
        return Reply(pick=())
    place, person = desk.at.place, desk.person
    resolution = await look_up(desk.store, rest, place, viewer=person)
    if len(resolution.matches) > 1:
        return Reply(pick=resolution.matches)
    found = await get_resumed(desk.store, resolution, viewer=desk.person)
    return Reply(open=found)


async def fork(desk: Desk, rest: str) -> Reply:
    """`/fork [TITLE]`."""
    switched = await desk.branch_off(rest or None)
    branch = desk.session
    return Reply(text=f'Now in the branch "{branch.name}".', switched=switched)


async def title(desk: Desk, rest: str) -> Reply:
    """`/title [TITLE]`."""
    if not rest:
        session = await desk.refresh()
        now = desk.setting("title")
        if now:
            return Reply(text=f"The title is: {now}")
        if session is None or not session.message_count:
            return Reply(text="There is no title yet.")
        return Reply(text=f'There is no title yet. It is listed as "{session.name}".')
    await desk.edit(SessionEdit(title=rest))
    return Reply(text=f"The title is now: {desk.setting('title')}")


async def pin(desk: Desk, rest: str) -> Reply:
    """`/pin [off]`."""
    if rest.lower() not in ("", "on", "off"):
        raise InvalidInput("/pin keeps this session on top; /pin off lets it go.")
    pinned = rest.lower() != "off"
    await desk.edit(SessionEdit(pinned=pinned))
    return Reply(text="Pinned." if pinned else "No longer pinned.")


async def search(desk: Desk, rest: str) -> Reply:
    """`/search WORDS`."""
    if not rest:
        raise InvalidInput("/search WORDS finds where something was said.")
    page = await desk.store.search(rest, SearchFilter(viewer=desk.person), limit=HITS)
    if not page.hits:
        return Reply(text=f'Nothing was found for "{strip_controls(rest)}".')
    names = await desk.store.shorten_ids([hit.session_id for hit in page.hits])
    lines = []
    for hit in page.hits:
        name = recent_name(hit.title, None, hit.preview, hit.session_id)
        ago = time_ago(hit.at, desk.now, desk.zone)
        lines.append(f"{names[hit.session_id]}  {name}  ({ago})")
        lines.append(f"    {' '.join(strip_controls(hit.snippet.text).split())}")
    return Reply(text="\n".join([*lines, "/resume ID goes on with one of them."]))


async def link(desk: Desk, rest: str) -> Reply:
    """`/link [CODE]`: make a code for another surface, or use the code that one made."""
    if not rest:
        code = await offer_link(desk.store, desk.session, desk.now)
        await desk.refresh()
        return Reply(
            text=f"Say this on the other side, within ten minutes:\n/link {code}\n"
            "Then both go on in this conversation."
        )
    found = await redeem_link(desk.store, rest, desk.at.key, desk.now, viewer=desk.person)
    return Reply(open=found)


async def pair(desk: Desk, rest: str) -> Reply:
    """`/pair [CODE|PERSON|refuse PERSON]`: list who asks to be paired; approve or refuse one."""
    person = desk.person
    if person != OWNER:
        raise Forbidden("Only the owner of this clew can pair people. Nothing was changed.")
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
        return "No one asks to be paired. `clew pair list` shows the guests."
    lines = [f"{spell_code(each.code or '')}  {describe_person(each)}" for each in asking]
    return "\n".join([*lines, "/pair CODE lets one in, /pair refuse CODE keeps one out."])
