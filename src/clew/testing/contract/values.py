"""Values at the border of the store: text, wrong types, limits.

Text comes back exactly as it went in, lone surrogates and NUL included, in every field. A value of
the wrong type is refused with `InvalidInput`, and nothing is changed. Every call that returns a
page takes a limit of 0, and refuses a negative one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized
from typing import Any

import pytest

from clew.core.changes import (
    AddCompaction,
    AddMessage,
    AddUsage,
    EndTurn,
    Send,
    StartTurn,
    UndoCompaction,
    UndoTurn,
    WaitForApproval,
    WriteScratch,
    WriteTodos,
)
from clew.core.channels.people import NewPairing
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.message import Draft, ToolCall
from clew.core.notes import Blob, Todo
from clew.core.search.hits import SearchFilter
from clew.core.session import NewSession, Session, SessionEdit, SessionFacts, SessionFilter
from clew.core.tokens import Token
from clew.core.turn import Lease
from clew.core.usage import Usage
from clew.errors import BlobNotFound, ClewError, InvalidInput, RecordNotFound, SessionNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import UNKNOWN, Contract, found, listed, make, read, record, say

STRANGE = [
    "a\0b",
    "\0",
    "a\ud800b",
    "\udfff",
    "\udc80\ud83d",
    "\ufff9",
    "x\ufff9 \ufff9\ufff9y\ufff9(  ",
    "\ufffe\uffff\ufeff",
    "e\u0301 \u00e9",
    "line\r\nline\u2028line\x85",
    "\x1b[31mred\x07",
    "🚀👩‍👩‍👧 Pythonを使う ไทย",
    "' \" ; -- \\",
]

HUGE = 2**63
ANY: Any = object()

ID = "aaaaaaaa-0000-4000-8000-000000000000"


class TextContract(Contract):
    """Text that databases find hard to hold."""

    @pytest.mark.parametrize("text", [*STRANGE, ""])
    async def test_strange_text_of_a_message_comes_back_identical(
        self, store: Store, session: Session, lease: Lease, other: Store, text: str
    ) -> None:
        draft = Draft(
            role="tool",
            content=text,
            parts=({text: text, "list": [text, {"deep": text}]},),
            tool_call_id=text,
            tool_name=text,
            tool_calls=(ToolCall(text, text, text),),
            model=text,
            at=1,
        )

        message = await store.append(session.id, lease.epoch, draft, idempotency_key=text)
        again = await other.append(session.id, lease.epoch, draft, idempotency_key=text)

        assert message.draft == draft
        assert again == message
        assert await other.get_messages(session.id) == (message,)

    @pytest.mark.parametrize("text", STRANGE)
    async def test_strange_text_of_a_session_comes_back_identical(
        self, store: Store, other: Store, text: str
    ) -> None:
        new = NewSession(
            key=text,
            platform=text,
            agent=text,
            person=text,
            title="x" + text + "x",
            title_by="user",
            cwd=text,
            project=text,
            model=text,
            provider=text,
            personality=text,
            thinking=text,
            service_tier=text,
            mode=text,
            display_name=text,
            channel=text,
            subject=text,
            room=text,
            space=text,
            origin={text: [text]},
            reset_reason=text,
            previous_id=text,
            transcript_path=text,
            metadata={text: {text: text}},
        )

        made = await store.create_session(new)

        for name in set(new.__struct_fields__) - {"id", "created_at"}:
            assert getattr(made, name) == getattr(new, name), name
        assert await other.get_session(made.id) == made
        assert await other.find_route(text) == made
        assert (await other.open_session(NewSession(key=text)))[0] == made
        assert await other.list_routes(made.id) == (text,)
        assert await other.find_titles("X" + text + "x") == (made,)
        assert await listed(other, viewer=text) == [made.id]
        for field in ("platform", "agent", "cwd", "project"):
            assert await listed(other, **{field: text}) == [made.id], field
        assert (await other.stats()).platforms == {text: 1}
        fork = await other.fork_session(made.id)
        assert fork.metadata == made.metadata
        assert (fork.cwd, fork.person) == (text, text)

    @pytest.mark.parametrize("text", STRANGE)
    async def test_strange_text_of_an_edit_comes_back_identical(
        self, store: Store, session: Session, text: str
    ) -> None:
        edited = await store.edit_session(
            session.id, SessionEdit(title="x" + text + "x", mode=text, model=text)
        )
        described = await store.describe_session(
            session.id, SessionFacts(short_summary=text, last_route={text: text}, cwd=text)
        )

        assert (edited.title, edited.mode, edited.model) == ("x" + text + "x", text, text)
        assert (described.short_summary, described.cwd) == (text, text)
        assert described.last_route == {text: text}
        assert await listed(store, text="x" + text + "x") == [session.id]

    @pytest.mark.parametrize("text", STRANGE)
    async def test_strange_text_of_a_turn_comes_back_identical(
        self, store: Store, session: Session, clock: FakeClock, text: str
    ) -> None:
        lease = await store.acquire_lease(session.id, text)
        await store.accept(
            NewInbound(
                id=text,
                channel=text,
                key=text,
                account=text,
                external_id=text,
                session_id=text,
                person=text,
                payload={text: text},
            )
        )
        (row,) = await store.claim_inbound(text, session_id=text)
        assert (row.id, row.claimant, row.payload) == (text, text, {text: text})
        assert (row.channel, row.account, row.session_id) == (text, text, text)

        await store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id=text, model=text, reply_to={text: text}, inbound=(text,)),
            AddMessage(Draft(role="user", content="x"), text),
            WaitForApproval(
                approval_id=text,
                turn_id=text,
                tool_call_id=text,
                tool_name=text,
                request={text: text},
                expires_at=clock() + SECOND,
            ),
            Send(
                NewOutbound(
                    id=text,
                    key=text,
                    channel=text,
                    account=text,
                    address={text: text},
                    content=text,
                    turn_id=text,
                )
            ),
        )
        (approval,) = await store.list_approvals()
        assert (approval.id, approval.turn_id, approval.tool_call_id) == (text, text, text)
        assert approval.request == {text: text}
        assert (await store.decide_approval(text, "yes", by=text)).decided_by == text
        await store.record(
            session.id,
            lease.epoch,
            EndTurn(turn_id=text, status="failed", error=text, partial=text),
            UndoTurn(text),
        )

        turn = await store.get_turn(text)
        assert (turn.id, turn.model, turn.reply_to) == (text, text, {text: text})
        assert (turn.error, turn.partial) == (text, text)
        (message,) = await store.get_messages(session.id, undone=True)
        assert message.turn_id == text
        assert await store.get_messages(session.id) == ()
        found_lease = await store.find_lease(session.id)
        assert found_lease is not None
        assert found_lease.holder == text
        (sending,) = await store.claim_outbound(text, places=[(text, text)])
        assert (sending.id, sending.key, sending.content) == (text, text, text)
        assert (sending.address, sending.turn_id) == ({text: text}, text)
        settled = await store.settle_outbound(text, "failed", receipt={text: text}, error=text)
        assert (settled.receipt, settled.error) == ({text: text}, text)

    @pytest.mark.parametrize("text", STRANGE)
    async def test_strange_text_of_notes_comes_back_identical(
        self, store: Store, session: Session, text: str
    ) -> None:
        await say(store, session.id, "x")

        await record(
            store,
            session.id,
            WriteScratch(text, text),
            WriteTodos((Todo(text),)),
            AddCompaction(compaction_id=text, keep_from=1, summary=text, short_summary=text),
        )

        entry = await store.find_scratch(session.id, text)
        assert entry is not None
        assert (entry.name, entry.content) == (text, text)
        assert [each.name for each in await store.list_scratch(session.id)] == [text]
        assert await store.get_todos(session.id) == (Todo(text),)
        compaction = await store.find_compaction(session.id)
        assert compaction is not None
        assert (compaction.id, compaction.summary, compaction.short_summary) == (text, text, text)
        assert (await store.get_session(session.id)).short_summary == text
        await record(store, session.id, UndoCompaction(text))
        assert await store.find_compaction(session.id) is None

    @pytest.mark.parametrize("text", STRANGE)
    async def test_strange_text_of_other_rows_comes_back_identical(
        self, store: Store, session: Session, text: str
    ) -> None:
        token = Token(text, text, text, ("read",), 1)

        blob = await store.put_blob(b"x", text)
        await store.add_token(token, b"d")
        held, _ = await store.attach(session.id, terminal=text)
        new = NewPairing(person=text, channel=text, code=text, name=text, reply_to={"k": text})
        asked = await store.ask_pairing(new, most=1)

        assert await store.get_blob(blob) == Blob(blob, text, b"x")
        assert await store.find_token(b"d") == token
        assert (await store.revoke_token(text)).id == text
        assert held.terminal == text
        assert asked is not None
        assert (asked.person, asked.channel, asked.name) == (text, text, text)
        assert (asked.code, asked.reply_to) == (text, {"k": text})
        assert await store.find_pairing(text) == asked
        assert (await store.redeem_pairing(text, by=text)).decided_by == text
        assert await store.find_attachment(session.id) == held

    @pytest.mark.parametrize("text", STRANGE)
    async def test_a_strange_id_is_not_found(self, store: Store, text: str) -> None:
        for call in (store.get_session, store.get_messages, store.fork_session):
            with pytest.raises(SessionNotFound):
                await call(text)
        with pytest.raises(SessionNotFound):
            await store.acquire_lease(text, "me")
        with pytest.raises(SessionNotFound):
            await store.set_route("k", text)
        with pytest.raises(SessionNotFound):
            await found(store, "x", session=text)
        with pytest.raises(RecordNotFound):
            await store.get_turn(text)
        with pytest.raises(BlobNotFound):
            await store.get_blob(text)
        assert await store.delete_sessions([text]) == ()
        assert await store.restore_sessions([text]) == ()
        assert await store.purge_sessions([text]) == ()
        assert await store.list_turns(text) == ()
        assert await store.interrupt_turns(text) == ()
        assert await store.list_approvals(text) == ()
        assert await store.list_scratch(text) == ()
        assert await store.list_routes(text) == ()
        assert await store.find_lease(text) is None
        assert await store.find_attachment(text) is None
        assert await store.list_outbound(session_id=text) == ()
        with pytest.raises(RecordNotFound):
            await store.get_inbound(text)
        with pytest.raises(RecordNotFound):
            await store.get_outbound(text)
        assert await store.list_inbound(text) == ()
        assert await store.list_taken_inbound(text) == ()
        assert await store.drop_inbound([text]) == ()
        assert await store.count_sessions(SessionFilter(viewer=text)) == 0
        assert (await store.list_names(SessionFilter(viewer=text))).names == ()
        assert await store.list_states([text]) == {}
        await store.shorten_ids([text])
        await store.get_names([text])

    async def test_words_beside_strange_text_are_found(
        self, store: Store, session: Session
    ) -> None:
        await say(store, session.id, "apple\0banana", "cherry\ud800damson", "狐\0狸 \udfff")

        assert await found(store, "apple") == {(session.id, 1)}
        assert await found(store, "banana") == {(session.id, 1)}
        assert await found(store, "damson") == {(session.id, 2)}
        assert await found(store, "狸") == {(session.id, 3)}
        assert await read(store, session.id, 1) == ["狐\0狸 \udfff"]


def wrong(kind: Any, /, **fields: Any) -> Any:
    """A value with fields that its type does not allow; msgspec checks none of them."""
    return kind(**fields)


CHANGES: dict[str, Any] = {
    "text instead of a draft": wrong(AddMessage, draft="hi"),
    "nothing instead of a draft": wrong(AddMessage, draft=None),
    "an unknown role": AddMessage(wrong(Draft, role="system", content="x")),
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
    "parts that are not JSON": AddMessage(wrong(Draft, role="user", parts=({"x": ANY},))),
    "usage beyond the integers": AddUsage(usage=Usage(cost=HUGE)),
    "usage that overflows in the sum": AddUsage(usage=Usage(HUGE - 1)),
    "usage with a fraction": AddUsage(usage=wrong(Usage, input_tokens=1.5)),
    "a turn without a name": wrong(StartTurn, turn_id=None),
    "an unknown end": wrong(EndTurn, turn_id="t", status="running?"),
    "a time of undo as text": wrong(UndoTurn, turn_id="t", at="now"),
    "a scratch entry that is a number": wrong(WriteScratch, name="n", content=5),
    "a todo that is a number": WriteTodos((wrong(Todo, text=5),)),
    "a todo in no known state": WriteTodos((wrong(Todo, text="x", status="maybe"),)),
    "a summary that is a number": wrong(AddCompaction, compaction_id="c", keep_from=1, summary=5),
    "a reply that is a number": Send(wrong(NewOutbound, id="o", key="k", channel="c", content=5)),
    "something that is not a change": "delete everything",
    "nothing": None,
}

SESSIONS: dict[str, dict[str, Any]] = {
    "no key": {"key": ""},
    "a key that is a number": {"key": 5},
    "an unknown kind": {"kind": "zebra"},
    "an unknown policy": {"send_policy": "maybe"},
    "an unknown author of the title": {"title": "x", "title_by": "them"},
    "a title that is a number": {"title": 5},
    "an id that is not a UUID": {"id": "nonsense"},
    "an id in another spelling": {"id": UNKNOWN.upper().replace("0", "A")},
    "a time beyond the integers": {"created_at": HUGE},
    "a directory that is a number": {"cwd": 5},
    "an origin that is not JSON": {"origin": {"x": ANY}},
}

EDITS: dict[str, dict[str, Any]] = {
    "a title that is a number": {"title": 5},
    "a pin that is a number": {"pinned": 5},
    "an unknown policy": {"send_policy": "maybe"},
    "a mode that is a number": {"mode": 5},
}

FACTS: dict[str, dict[str, Any]] = {
    "a title that is a number": {"title": 5},
    "tokens beyond the integers": {"context_tokens": HUGE},
    "tokens as text": {"context_tokens": "many"},
    "a room that is a number": {"room": 5},
    "metadata that are not JSON": {"metadata": {"x": ANY}},
}


class TypesContract(Contract):
    """Values of the wrong type."""

    @pytest.mark.parametrize("change", CHANGES)
    async def test_a_bad_change_is_refused_and_nothing_changes(
        self, store: Store, session: Session, lease: Lease, change: str
    ) -> None:
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

    async def test_a_fork_under_an_id_that_exists_or_is_none_is_refused(
        self, store: Store, session: Session
    ) -> None:
        for new_id in (session.id, "nonsense"):
            with pytest.raises(ClewError):
                await store.fork_session(session.id, new_id=new_id)

        assert await listed(store) == [session.id]


async def say_beside(store: Store) -> None:
    """Write to a session that the bad change is not about."""
    await say(store, (await make(store)).id, "beside")


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
