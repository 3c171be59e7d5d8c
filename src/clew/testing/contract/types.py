"""Values of the wrong kind: refused with `InvalidInput`, and nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.changes import (
    AddCompaction,
    AddMessage,
    AddUsage,
    EndTurn,
    Send,
    StartTurn,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.message import Draft
from clew.core.notes import Todo
from clew.core.session import NewSession, SessionEdit, SessionFacts
from clew.core.usage import Usage
from clew.errors import ClewError, InvalidInput
from clew.ports import Store
from clew.testing.contract.case import UNKNOWN, Contract, listed, make, say

HUGE = 2**63
ANY: Any = object()


def wrong(kind: Any, /, **fields: Any) -> Any:
    """A value with fields that its type does not allow; msgspec checks none of them."""
    return kind(**fields)


CHANGES: dict[str, Any] = {
    "a role nobody has": AddMessage(wrong(Draft, role="system", content="x")),
    "no role": AddMessage(wrong(Draft, role=None)),
    "a number as content": AddMessage(wrong(Draft, role="user", content=5)),
    "bytes as content": AddMessage(wrong(Draft, role="user", content=b"x")),
    "no content": AddMessage(wrong(Draft, role="user", content=None)),
    "a time beyond the integers": AddMessage(Draft(role="user", at=HUGE)),
    "a time far beyond": AddMessage(Draft(role="user", at=-(2**200))),
    "a time as text": AddMessage(wrong(Draft, role="user", at="now")),
    "a time with a fraction": AddMessage(wrong(Draft, role="user", at=1.5)),
    "tokens beyond the integers": AddMessage(Draft(role="user", usage=Usage(HUGE))),
    "a model that is a number": AddMessage(wrong(Draft, role="user", model=5)),
    "a turn that is a number": wrong(AddMessage, draft=Draft(role="user"), turn_id=5),
    "parts that are no JSON": AddMessage(wrong(Draft, role="user", parts=({"x": ANY},))),
    "usage beyond the integers": AddUsage(usage=Usage(cost=HUGE)),
    "usage that overflows in the sum": AddUsage(usage=Usage(HUGE - 1)),
    "usage with a fraction": AddUsage(usage=wrong(Usage, input_tokens=1.5)),
    "a turn without a name": wrong(StartTurn, turn_id=None),
    "an end that is none": wrong(EndTurn, turn_id="t", status="running?"),
    "a time of undo as text": wrong(UndoTurn, turn_id="t", at="now"),
    "a scratch entry that is a number": wrong(WriteScratch, name="n", content=5),
    "a todo that is a number": WriteTodos((wrong(Todo, text=5),)),
    "a todo in no known state": WriteTodos((wrong(Todo, text="x", status="maybe"),)),
    "a summary that is a number": wrong(AddCompaction, compaction_id="c", keep_from=1, summary=5),
    "a reply that is a number": Send(wrong(NewOutbound, id="o", key="k", channel="c", content=5)),
    "something that is no change": "delete everything",
    "nothing": None,
}

SESSIONS: dict[str, dict[str, Any]] = {
    "no key": {"key": ""},
    "a key that is a number": {"key": 5},
    "a kind nobody knows": {"kind": "zebra"},
    "a policy nobody knows": {"send_policy": "maybe"},
    "a title by nobody": {"title": "x", "title_by": "them"},
    "a title that is a number": {"title": 5},
    "an id that is none": {"id": "nonsense"},
    "an id in another spelling": {"id": UNKNOWN.upper().replace("0", "A")},
    "a time beyond the integers": {"created_at": HUGE},
    "a directory that is a number": {"cwd": 5},
    "an origin that is no JSON": {"origin": {"x": ANY}},
}

EDITS: dict[str, dict[str, Any]] = {
    "a title that is a number": {"title": 5},
    "a pin that is neither": {"pinned": 5},
    "a policy nobody knows": {"send_policy": "maybe"},
    "a mode that is a number": {"mode": 5},
}

FACTS: dict[str, dict[str, Any]] = {
    "a title that is a number": {"title": 5},
    "tokens beyond the integers": {"context_tokens": HUGE},
    "tokens as text": {"context_tokens": "many"},
    "a room that is a number": {"room": 5},
    "metadata that are no JSON": {"metadata": {"x": ANY}},
}


class TypesContract(Contract):
    """Bad input."""

    @pytest.mark.parametrize("change", CHANGES)
    async def test_a_bad_change_is_refused_and_nothing_changes(
        self, store: Store, change: str
    ) -> None:
        session = await make(store)
        lease = await store.acquire_lease(session.id, "me")
        await store.record(
            session.id, lease.epoch, StartTurn(turn_id="t"), AddUsage(usage=Usage(5, cost=5))
        )
        await say_beside(store)
        before = await store.get_session(session.id)
        turn = await store.get_turn("t")

        with pytest.raises(InvalidInput):
            await store.record(
                session.id,
                lease.epoch,
                AddMessage(Draft(role="user", content="fine")),
                CHANGES[change],
            )

        assert await store.get_session(session.id) == before
        assert await store.get_turn("t") == turn
        assert await store.get_messages(session.id) == ()
        assert await store.get_todos(session.id) == ()
        await store.append(session.id, lease.epoch, Draft(role="user", content="goes on"))

    @pytest.mark.parametrize("fields", SESSIONS)
    async def test_a_bad_session_is_refused_and_none_is_made(
        self, store: Store, fields: str
    ) -> None:
        new = wrong(NewSession, **{"key": "cli:a", **SESSIONS[fields]})

        with pytest.raises(InvalidInput):
            await store.create_session(new)
        with pytest.raises(InvalidInput):
            await store.open_session(new)

        assert await listed(store) == []
        assert await store.find_route("cli:a") is None

    @pytest.mark.parametrize("fields", EDITS)
    async def test_a_bad_edit_is_refused_and_nothing_changes(
        self, store: Store, fields: str
    ) -> None:
        session = await make(store, title="T")

        with pytest.raises(InvalidInput):
            await store.edit_session(session.id, wrong(SessionEdit, **EDITS[fields]))

        assert await store.get_session(session.id) == session

    @pytest.mark.parametrize("fields", FACTS)
    async def test_a_bad_fact_is_refused_and_nothing_changes(
        self, store: Store, fields: str
    ) -> None:
        session = await make(store, title="T", title_by="auto")

        with pytest.raises(InvalidInput):
            await store.describe_session(session.id, wrong(SessionFacts, **FACTS[fields]))

        assert await store.get_session(session.id) == session

    async def test_a_bad_inbound_message_is_refused(self, store: Store) -> None:
        for fields in ({"channel": 5}, {"payload": {"x": ANY}}, {"id": None}):
            new = wrong(NewInbound, **{"id": "i", "channel": "c", "key": "k", **fields})
            with pytest.raises(InvalidInput):
                await store.accept(new)

        assert await store.list_inbound() == ()

    async def test_bad_bytes_are_refused(self, store: Store) -> None:
        bad: list[tuple[Any, Any]] = [("text", "text/plain"), (None, "text/plain"), (b"x", 5)]
        for data, media_type in bad:
            with pytest.raises(InvalidInput):
                await store.put_blob(data, media_type)

    async def test_a_bad_answer_is_refused(self, store: Store) -> None:
        maybe: Any = "maybe"

        with pytest.raises(ClewError):
            await store.decide_approval("a", maybe, by="owner")

    async def test_a_fork_under_an_id_that_exists_or_is_none_is_refused(self, store: Store) -> None:
        session = await make(store)

        for new_id in (session.id, "nonsense"):
            with pytest.raises(ClewError):
                await store.fork_session(session.id, new_id=new_id)

        assert await listed(store) == [session.id]


async def say_beside(store: Store) -> None:
    """A session that a bad change has no business with."""
    await say(store, (await make(store)).id, "beside")
