"""A code for one conversation on several surfaces counts once, on a server too."""

from __future__ import annotations

import asyncio

from clew.core.session import NewSession, Session
from clew.errors import InvalidInput
from clew.runtime.inbound.links import offer_link, redeem_link
from clew.store import open_store

NOW = 1_000
ROUNDS = 10


async def test_of_two_processes_with_one_code_one_gets_in(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as other:
        for number in range(ROUNDS):
            session = await one.create_session(NewSession(key=f"k{number}"))
            code = await offer_link(one, session, NOW)

            results = await asyncio.gather(
                redeem_link(one, code, f"telegram:{number}", NOW),
                redeem_link(other, code, f"slack:{number}", NOW),
                return_exceptions=True,
            )

            kinds = sorted(type(each).__name__ for each in results)
            assert kinds == [InvalidInput.__name__, Session.__name__]
            assert len(await one.list_routes(session.id)) == 2
