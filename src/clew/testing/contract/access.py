"""`ports.Pairings` and `ports.Tokens`: guests who may talk or ask to, and tokens of the gateway."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.channels.people import CODE_MS, TOLD_MS, NewPairing, Pairing
from clew.core.delivery import NewOutbound
from clew.core.session import NewSession
from clew.core.tokens import Token
from clew.errors import ClewError, RecordNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract

FIRST = Token("1", "phone", "owner", ("write", "approve"), created_at=5, kind="cookie")
SECOND_ONE = Token("2", "bot", "telegram:7", ("chat",), created_at=6, expires_at=7)


def asking(person: str, code: str, **fields: object) -> NewPairing:
    """A stranger on a channel who asks to be paired."""
    given = {"person": person, "channel": person.partition(":")[0], "code": code} | fields
    return NewPairing(**given)  # type: ignore[arg-type]  # a test's shorthand


async def ask(store: Store, person: str, code: str, *, most: int = 9) -> Pairing:
    """Ask to be paired, which there is room for."""
    pairing = await store.ask_pairing(asking(person, code), most=most)
    assert pairing is not None
    return pairing


class PairingsContract(Contract):
    """Guests."""

    async def test_a_guest_who_asks_has_a_code_for_an_hour(
        self, store: Store, other: Store, clock: FakeClock
    ) -> None:
        now = clock()
        reply_to = {"channel": "chat", "key": "chat:7"}
        new = asking("chat:7", "ABCDEFGH", name="Ann", reply_to=reply_to)

        asked = await store.ask_pairing(new, most=1)

        assert asked == Pairing(
            "chat:7", "chat", "waiting", "Ann", "ABCDEFGH", 1, reply_to, now, now + CODE_MS, None,
            None,
        )  # fmt: skip
        assert await other.find_pairing("chat:7") == asked
        assert await other.find_pairing("chat:8") is None
        assert await other.list_pairings() == (asked,)

    async def test_a_guest_who_asks_again_keeps_a_valid_code(
        self, store: Store, clock: FakeClock
    ) -> None:
        first = await ask(store, "chat:7", "AAAAAAAA")
        clock.advance(CODE_MS - 1)
        again = await ask(store, "chat:7", "BBBBBBBB")
        clock.advance(1)
        later = await ask(store, "chat:7", "CCCCCCCC")

        assert (again.code, again.told, again.expires_at) == ("AAAAAAAA", 2, first.expires_at)
        assert (later.code, later.told, later.asked_at) == ("CCCCCCCC", 1, clock())

    async def test_a_code_is_valid_once(self, store: Store, other: Store, clock: FakeClock) -> None:
        await ask(store, "chat:7", "AAAAAAAA")

        found = await asyncio.gather(
            *(each.redeem_pairing("AAAAAAAA", by="owner") for each in (store, other, store)),
            return_exceptions=True,
        )

        (paired,) = [each for each in found if isinstance(each, Pairing)]
        assert [type(each) for each in found].count(RecordNotFound) == 2
        assert (paired.status, paired.code) == ("paired", None)
        assert (paired.decided_by, paired.decided_at) == ("owner", clock())
        assert await other.find_pairing("chat:7") == paired

    async def test_a_code_is_not_valid_after_an_hour(self, store: Store, clock: FakeClock) -> None:
        asked = await ask(store, "chat:7", "AAAAAAAA")
        clock.advance(CODE_MS)

        with pytest.raises(RecordNotFound):
            await store.redeem_pairing("AAAAAAAA", by="owner")

        assert await store.find_pairing("chat:7") == asked

    async def test_a_wrong_code_is_refused(self, store: Store) -> None:
        await ask(store, "chat:7", "AAAAAAAA")
        await store.decide_pairing("chat:8", "chat", "refused", by="owner")

        for wrong in ("", "BBBBBBBB", "aaaaaaaa", "chat:7", "chat:8"):
            with pytest.raises(RecordNotFound):
                await store.redeem_pairing(wrong, by="owner")

    async def test_a_decision_stays_when_the_guest_asks_again(self, store: Store) -> None:
        await ask(store, "chat:7", "AAAAAAAA")
        refused = await store.decide_pairing("chat:7", "chat", "refused", by="owner")
        paired = await store.decide_pairing("chat:8", "chat", "paired", by="owner")

        assert await ask(store, "chat:7", "BBBBBBBB") == refused
        assert await ask(store, "chat:8", "CCCCCCCC") == paired
        for code in ("AAAAAAAA", "BBBBBBBB", "CCCCCCCC"):
            with pytest.raises(RecordNotFound):
                await store.redeem_pairing(code, by="owner")

    async def test_a_paired_guest_can_be_refused_and_paired_again(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ask(store, "chat:7", "AAAAAAAA")
        await store.redeem_pairing("AAAAAAAA", by="owner")
        clock.advance(SECOND)

        refused = await store.decide_pairing("chat:7", "elsewhere", "refused", by="somebody")
        paired = await store.decide_pairing("chat:7", "chat", "paired", by="owner")

        assert (refused.status, refused.channel) == ("refused", "chat")
        assert (refused.decided_by, refused.decided_at) == ("somebody", clock())
        assert paired.status == "paired"

    async def test_a_channel_has_a_limit_of_waiting_guests(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ask(store, "chat:1", "AAAAAAAA", most=2)
        await ask(store, "chat:2", "BBBBBBBB", most=2)

        assert await store.ask_pairing(asking("chat:3", "CCCCCCCC"), most=2) is None
        assert (await ask(store, "chat:1", "DDDDDDDD", most=2)).told == 2
        assert (await ask(store, "mail:3", "EEEEEEEE", most=2)).told == 1
        clock.advance(CODE_MS)
        assert (await ask(store, "chat:3", "FFFFFFFF", most=2)).code == "FFFFFFFF"

    async def test_a_guest_with_an_expired_code_counts_for_the_limit_again(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ask(store, "chat:1", "AAAAAAAA", most=1)
        clock.advance(CODE_MS)
        await ask(store, "chat:2", "BBBBBBBB", most=1)

        assert await store.ask_pairing(asking("chat:1", "CCCCCCCC"), most=1) is None

    async def test_replies_to_strangers_are_removed_after_a_day(
        self, store: Store, clock: FakeClock
    ) -> None:
        session, _ = await store.open_session(NewSession(key="k"))
        for outbound_id, kept in (("told", None), ("waits", None), ("kept", session.id)):
            new = NewOutbound(id=outbound_id, key="k", channel="chat", content="a code")
            await store.add_outbound(kept, new)
        for outbound_id in ("told", "kept"):
            await store.settle_outbound(outbound_id, "sent")
        clock.advance(TOLD_MS)
        await ask(store, "chat:1", "AAAAAAAA")
        assert len(await store.list_outbound()) == 3
        clock.advance(1)
        await ask(store, "chat:1", "BBBBBBBB")

        assert {row.id for row in await store.list_outbound()} == {"waits", "kept"}

    async def test_codes_that_were_not_approved_are_removed(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ask(store, "chat:1", "AAAAAAAA")
        refused = await store.decide_pairing("chat:2", "chat", "refused", by="owner")
        clock.advance(3 * CODE_MS)

        asked = await ask(store, "chat:3", "BBBBBBBB")

        assert await store.list_pairings() == (asked, refused)


class TokensContract(Contract):
    """Tokens of the gateway."""

    async def test_a_credential_is_found_by_its_digest(self, store: Store, other: Store) -> None:
        await store.add_token(SECOND_ONE, b"\0two")
        await store.add_token(FIRST, b"\xffone")

        assert await other.find_token(b"\xffone") == FIRST
        assert await other.find_token(b"\0two") == SECOND_ONE
        assert await other.find_token(b"one") is None
        assert await other.list_tokens() == (FIRST, SECOND_ONE)

    async def test_a_revoked_credential_stays_so(self, store: Store, clock: FakeClock) -> None:
        await store.add_token(FIRST, b"one")
        now = clock()

        revoked = await store.revoke_token("1")
        clock.advance(SECOND)
        again = await store.revoke_token("1")

        assert revoked.revoked_at == now
        assert again == revoked == await store.find_token(b"one")

    async def test_an_unknown_credential_can_not_be_revoked(self, store: Store) -> None:
        with pytest.raises(RecordNotFound):
            await store.revoke_token("none")

    async def test_an_id_and_a_digest_are_used_once(self, store: Store) -> None:
        await store.add_token(FIRST, b"one")

        for token, digest in ((FIRST, b"two"), (SECOND_ONE, b"one")):
            with pytest.raises(ClewError):
                await store.add_token(token, digest)

        assert await store.list_tokens() == (FIRST,)
