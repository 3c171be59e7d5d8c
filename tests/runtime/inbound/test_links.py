"""One conversation on several surfaces: codes, keys, and what they lead to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.channels.session_choice import RETURNED
from clew.core.session import NewSession, Session
from clew.errors import InvalidInput
from clew.ports import Store
from clew.runtime.inbound.links import CODE_MS, LINK, TRIES, link, offer_link, redeem_link
from clew.store import open_store
from clew.testing.clock import DAY
from tests.runtime.conftest import Actor, Run, Seat, soon
from tests.runtime.receiving import NOON, Front, Opener, opener

MAIN = "agent:main:main"


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


async def code_of(front: Front) -> str:
    """The code that the last reply gives."""
    match = re.search(r"/link (\S+)", await front.last())
    assert match is not None
    return match[1]


async def led(store: Store, key: str) -> str | None:
    session = await store.find_route(key)
    return None if session is None else session.id


async def test_a_code_of_one_side_links_the_other_to_it(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor) as front:
        one = await front.say("hello", channel="slack", by="U1")
        await front.say("/link", channel="slack", by="U1")
        code = await code_of(front)
        await front.say("/new", channel="slack", by="U1")

        await front.say(f"/link {code.upper()}")

        assert "This goes on with" in await front.last()
        assert (await front.say("and here")).id == one.id
        assert await led(front.store, "telegram:1") == one.id
        assert await led(front.store, MAIN) != one.id


async def test_a_terminals_session_goes_on_in_a_chat_and_never_resets_there(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        mine = await front.store.create_session(NewSession(key="cli:api", platform="cli"))
        code = await offer_link(front.store, mine, NOON)
        await front.say(f"/link {code}")
        front.clock.advance(3 * DAY)

        session = await front.say("from the train")

        assert (session.id, session.platform, session.key) == (mine.id, "cli", "cli:api")
        assert await front.thread(session) == ["user: from the train", "assistant: ok"]


async def test_a_code_is_valid_once(store: Store) -> None:
    session = await store.create_session(NewSession(key="k"))
    code = await offer_link(store, session, NOON)

    await redeem_link(store, code, "telegram:1", NOON)

    with pytest.raises(InvalidInput, match="no longer"):
        await redeem_link(store, code, "telegram:2", NOON)
    assert await led(store, "telegram:2") is None


@pytest.mark.parametrize(("late", "counts"), [(CODE_MS - 1, True), (CODE_MS, False)])
async def test_a_code_counts_for_ten_minutes(store: Store, late: int, counts: bool) -> None:
    session = await store.create_session(NewSession(key="k"))
    code = await offer_link(store, session, NOON)

    if counts:
        await redeem_link(store, code, "telegram:1", NOON + late)
    else:
        with pytest.raises(InvalidInput):
            await redeem_link(store, code, "telegram:1", NOON + late)

    assert (await led(store, "telegram:1") == session.id) is counts


async def test_a_new_code_makes_the_old_one_worthless(store: Store) -> None:
    session = await store.create_session(NewSession(key="k"))
    old = await offer_link(store, session, NOON)
    new = await offer_link(store, session, NOON)

    with pytest.raises(InvalidInput):
        await redeem_link(store, old, "telegram:1", NOON)
    await redeem_link(store, new, "telegram:1", NOON)


async def test_after_a_few_guesses_the_right_code_does_not_count_either(store: Store) -> None:
    session = await store.create_session(NewSession(key="k"))
    code = await offer_link(store, session, NOON)
    for _ in range(TRIES):
        with pytest.raises(InvalidInput):
            await redeem_link(store, f"{session.id[:4]}-22222222", "telegram:1", NOON)

    with pytest.raises(InvalidInput):
        await redeem_link(store, code, "telegram:1", NOON)


@pytest.mark.parametrize("typed", ["", "x", "12345678", "../../etc", "3fa2-k7qmxd9p", "\x00" * 9])
async def test_what_is_no_code_leads_nowhere(store: Store, typed: str) -> None:
    with pytest.raises(InvalidInput):
        await redeem_link(store, typed, "telegram:1", NOON)


async def test_only_the_hash_of_a_code_is_kept(store: Store) -> None:
    session = await store.create_session(NewSession(key="k", metadata={"verbose": True}))
    code = await offer_link(store, session, NOON)

    kept = (await store.get_session(session.id)).metadata
    assert code.partition("-")[2] not in str(kept)
    assert kept["verbose"] is True
    await redeem_link(store, code, "telegram:1", NOON)
    assert (await store.get_session(session.id)).metadata == {"verbose": True, RETURNED: NOON}


async def test_a_guest_has_no_codes_and_can_not_use_any(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor, paired=("telegram:7",)) as front:
        owners = await front.say("hello")
        code = await offer_link(front.store, owners, NOON)
        mine = await front.say(f"/link {code}", by="7")

        assert mine.id != owners.id
        assert await led(front.store, "telegram:7") is None


async def test_a_key_that_was_linked_by_hand_leads_there_and_new_begins_under_it(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        mine = await front.store.create_session(NewSession(key="cli:api", platform="cli"))
        await link(front.store, "telegram:1", mine, NOON)
        assert (await front.say("hello")).id == mine.id

        new = await front.say("/new what now")

        assert (new.key, new.previous_id, new.platform) == ("telegram:1", mine.id, "telegram")
        assert (await front.say("again")).id == new.id
        assert await led(front.store, "cli:api") == mine.id


async def test_the_terminal_gives_a_code_and_takes_one(run: Run, store: Store) -> None:
    other = await store.create_session(NewSession(key=MAIN, platform="telegram"))
    code = await offer_link(store, other, (await store.get_session(other.id)).created_at)

    reply = await soon(run(f"/link {code}"))

    assert reply.open is not None
    assert reply.open.id == other.id
    assert await led(store, "cli:project") == other.id


async def test_a_terminal_without_a_session_has_nothing_to_link(run: Run) -> None:
    assert (await run("/link")).is_error


# --- several at once ----------------------------------------------------------------------------


async def redeem_at_once(stores: Sequence[Store], typed: str) -> list[str]:
    """The keys that got in, of one redeemer per store."""
    keys = [f"telegram:{number}" for number in range(len(stores))]
    results = await asyncio.gather(
        *(redeem_link(store, typed, key, NOON) for store, key in zip(stores, keys, strict=True)),
        return_exceptions=True,
    )
    assert {type(each) for each in results} <= {Session, InvalidInput}
    return [key for key, each in zip(keys, results, strict=True) if isinstance(each, Session)]


@pytest.mark.parametrize("attempt", range(10))
async def test_of_many_who_come_with_one_code_at_once_one_gets_in(
    store: Store, url: str, attempt: int
) -> None:
    async with await open_store(url) as other:
        session = await store.create_session(NewSession(key=f"k{attempt}"))
        code = await offer_link(store, session, NOON)

        got_in = await redeem_at_once((store, other) * 4, code)

        assert len(got_in) == 1
        assert await store.list_routes(session.id) == tuple(sorted([*got_in, session.key]))


async def test_guesses_that_come_at_once_are_all_counted(store: Store, url: str) -> None:
    async with await open_store(url) as other:
        session = await store.create_session(NewSession(key="k"))
        code = await offer_link(store, session, NOON)

        assert await redeem_at_once((store, other) * 4, f"{session.id[:4]}-22222222") == []

        assert (await store.get_session(session.id)).metadata[LINK]["tries"] == TRIES
        with pytest.raises(InvalidInput):
            await redeem_link(store, code, "telegram:1", NOON)


async def test_what_others_note_meanwhile_neither_is_lost_nor_brings_a_code_back(
    store: Store, url: str, seat: Seat
) -> None:
    async with await open_store(url) as other:
        session = await seat.begin()
        code = await offer_link(other, session, NOON)

        await asyncio.gather(
            redeem_link(other, code, "telegram:1", NOON),
            *(seat.note(name, True) for name in ("verbose", "queue")),
        )

        noted = (await store.get_session(session.id)).metadata
        assert noted.keys() >= {"verbose", "queue", RETURNED}
        assert LINK not in noted
