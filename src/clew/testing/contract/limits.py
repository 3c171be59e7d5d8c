"""Every call that returns a page: a limit of nothing, a negative one, one that is too large."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized

import pytest

from clew.core.changes import Send, StartTurn
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.search import SearchFilter
from clew.core.session import SessionFilter
from clew.ports import Store
from clew.testing.contract.case import Contract, make, record, say

ID = "aaaaaaaa-0000-4000-8000-000000000000"


async def list_ids(store: Store, limit: int) -> Sized:
    return (await store.list_sessions(SessionFilter(viewer="owner"), limit=limit)).sessions


async def list_names(store: Store, limit: int) -> Sized:
    return (await store.list_names(SessionFilter(viewer="owner"), limit=limit)).names


async def search(store: Store, limit: int) -> Sized:
    return (await store.search("apple", SearchFilter(viewer="owner"), limit=limit)).hits


PAGES: dict[str, Callable[[Store, int], Awaitable[Sized]]] = {
    "list_sessions": list_ids,
    "list_names": list_names,
    "find_sessions": lambda store, limit: store.find_sessions("aaaa", limit=limit),
    "find_titles": lambda store, limit: store.find_titles("t", limit=limit),
    "get_messages": lambda store, limit: store.get_messages(ID, limit),
    "list_turns": lambda store, limit: store.list_turns(ID, limit=limit),
    "search": search,
    "list_inbound": lambda store, limit: store.list_inbound(limit=limit),
    "claim_inbound": lambda store, limit: store.claim_inbound("me", limit=limit),
    "list_outbound": lambda store, limit: store.list_outbound(limit=limit),
    "claim_outbound": lambda store, limit: store.claim_outbound("me", limit=limit),
}


class LimitsContract(Contract):
    """Limits."""

    @pytest.mark.parametrize("call", PAGES)
    async def test_a_limit_is_kept(self, store: Store, call: str) -> None:
        page = PAGES[call]
        await make(store, id=ID, title="t")
        await say(store, ID, "apple")
        await store.accept(NewInbound(id="i", channel="c", key="k"))
        await record(
            store, ID, StartTurn(turn_id="t"), Send(NewOutbound(id="o", key="k", channel="c"))
        )

        assert len(await page(store, 0)) == 0
        for negative in (-1, -(2**70)):
            with pytest.raises(ValueError, match=r"."):
                await page(store, negative)
        assert len(await page(store, 1_000)) == 1
