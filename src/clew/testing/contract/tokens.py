"""`ports.Tokens`: credentials of the gateway."""

from __future__ import annotations

import pytest

from clew.core.tokens import Token
from clew.errors import ClewError, RecordNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract

FIRST = Token("1", "phone", "owner", "admin", created_at=5)
SECOND_ONE = Token("2", "bot", "telegram:7", "chat", created_at=6, expires_at=7)


class TokensContract(Contract):
    """Credentials."""

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
