"""`ports.Store` itself: its counts, and what every call does once it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from clew.core.changes import AddMessage
from clew.core.channels.people import NewPairing
from clew.core.delivery import ContextLine, NewInbound, NewOutbound
from clew.core.message import Draft
from clew.core.notes import ImportNote
from clew.core.search.hits import SearchFilter
from clew.core.session import (
    NewSession,
    Retention,
    Session,
    SessionEdit,
    SessionFacts,
    SessionFilter,
)
from clew.core.tokens import Token
from clew.core.turn import Lease
from clew.errors import StoreClosed
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract, OpenStore, make, read, say

ID = "aaaaaaaa-0000-4000-8000-000000000000"
LEASE = Lease(ID, "me", 1, 0)
NOTE = ImportNote(session_id=ID, agent="a", native_id="n", stamp="s", head=0)

CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "open_session": lambda store: store.open_session(NewSession(key="k")),
    "create_session": lambda store: store.create_session(NewSession(key="k")),
    "get_session": lambda store: store.get_session(ID),
    "find_sessions": lambda store: store.find_sessions("a"),
    "find_titles": lambda store: store.find_titles("t"),
    "find_endings": lambda store: store.find_endings("aaaa"),
    "find_keys": lambda store: store.find_keys("k"),
    "shorten_ids": lambda store: store.shorten_ids([ID]),
    "get_names": lambda store: store.get_names([ID]),
    "list_sessions": lambda store: store.list_sessions(SessionFilter(viewer="owner")),
    "count_sessions": lambda store: store.count_sessions(SessionFilter(viewer="owner")),
    "list_facets": lambda store: store.list_facets("owner"),
    "list_names": lambda store: store.list_names(SessionFilter(viewer="owner")),
    "list_states": lambda store: store.list_states([ID]),
    "edit_session": lambda store: store.edit_session(ID, SessionEdit(title="t")),
    "mark_sessions": lambda store: store.mark_sessions([ID], pinned=True),
    "undo_marks": lambda store: store.undo_marks([]),
    "describe_session": lambda store: store.describe_session(ID, SessionFacts(title="t")),
    "find_route": lambda store: store.find_route("k"),
    "set_route": lambda store: store.set_route("k", ID),
    "clear_route": lambda store: store.clear_route("k"),
    "list_routes": lambda store: store.list_routes(ID),
    "fork_session": lambda store: store.fork_session(ID),
    "record": lambda store: store.record(ID, 1, AddMessage(Draft(role="user"))),
    "append": lambda store: store.append(ID, 1, Draft(role="user")),
    "get_messages": lambda store: store.get_messages(ID),
    "find_message": lambda store: store.find_message(ID, "e"),
    "list_external": lambda store: store.list_external(ID, "e"),
    "get_turn": lambda store: store.get_turn("t"),
    "list_turns": lambda store: store.list_turns(ID),
    "get_usage": lambda store: store.get_usage(since=0),
    "list_usage": lambda store: store.list_usage("day", since=0),
    "rank_usage": lambda store: store.rank_usage(since=0, limit=5),
    "interrupt_turns": lambda store: store.interrupt_turns(ID),
    "decide_approval": lambda store: store.decide_approval("a", "yes", by="owner"),
    "list_damaged": lambda store: store.list_damaged(ID),
    "list_approvals": lambda store: store.list_approvals(),
    "is_living": lambda store: store.is_living("p"),
    "pulse": lambda store: store.pulse(),
    "acquire_lease": lambda store: store.acquire_lease(ID, "me"),
    "renew_lease": lambda store: store.renew_lease(LEASE),
    "release_lease": lambda store: store.release_lease(LEASE),
    "find_lease": lambda store: store.find_lease(ID),
    "attach": lambda store: store.attach(ID),
    "detach": lambda store: store.detach(ID),
    "beat": lambda store: store.beat(),
    "find_attachment": lambda store: store.find_attachment(ID),
    "search": lambda store: store.search("apple", SearchFilter(viewer="owner")),
    "delete_sessions": lambda store: store.delete_sessions([ID]),
    "restore_sessions": lambda store: store.restore_sessions([ID]),
    "restore_last": lambda store: store.restore_last(),
    "purge_sessions": lambda store: store.purge_sessions([ID]),
    "purge_trash": lambda store: store.purge_trash(0),
    "sweep": lambda store: store.sweep(),
    "note_import": lambda store: store.note_import(NOTE),
    "list_imports": lambda store: store.list_imports("a"),
    "find_imports": lambda store: store.find_imports("n"),
    "prune_old_sessions": lambda store: store.prune_old_sessions(0),
    "retain": lambda store: store.retain(Retention()),
    "list_scratch": lambda store: store.list_scratch(ID),
    "find_scratch": lambda store: store.find_scratch(ID, "n"),
    "get_todos": lambda store: store.get_todos(ID),
    "find_compaction": lambda store: store.find_compaction(ID),
    "list_compactions": lambda store: store.list_compactions(ID),
    "put_blob": lambda store: store.put_blob(b"", "text/plain"),
    "count_outbound": lambda store: store.count_outbound(),
    "count_inbound": lambda store: store.count_inbound(),
    "get_blob": lambda store: store.get_blob("h"),
    "has_blob": lambda store: store.has_blob(ID, "h"),
    "accept": lambda store: store.accept(NewInbound(id="i", channel="c", key="k")),
    "claim_inbound": lambda store: store.claim_inbound("me"),
    "release_inbound": lambda store: store.release_inbound("me"),
    "find_inbound": lambda store: store.find_inbound("c", "a", "e"),
    "revise_inbound": lambda store: store.revise_inbound("i", {}),
    "add_line": lambda store: store.add_line(ContextLine(id="l", key="k", channel="c", content="")),
    "list_lines": lambda store: store.list_lines("k"),
    "drop_inbound": lambda store: store.drop_inbound(["i"]),
    "list_inbound": lambda store: store.list_inbound(),
    "list_taken_inbound": lambda store: store.list_taken_inbound("t"),
    "get_inbound": lambda store: store.get_inbound("i"),
    "add_outbound": lambda store: store.add_outbound(ID, NewOutbound(id="o", key="k", channel="c")),
    "claim_outbound": lambda store: store.claim_outbound("me"),
    "settle_outbound": lambda store: store.settle_outbound("o", "sent"),
    "doubt_outbound": lambda store: store.doubt_outbound("me"),
    "list_outbound": lambda store: store.list_outbound(),
    "list_stranded": lambda store: store.list_stranded([]),
    "get_outbound": lambda store: store.get_outbound("o"),
    "add_token": lambda store: store.add_token(Token("1", "n", "owner", ("read",), 0), b"d"),
    "find_token": lambda store: store.find_token(b"d"),
    "list_tokens": lambda store: store.list_tokens(),
    "revoke_token": lambda store: store.revoke_token("1"),
    "ask_pairing": lambda store: store.ask_pairing(
        NewPairing(person="c:1", channel="c", code="AAAAAAAA"), most=1
    ),
    "find_pairing": lambda store: store.find_pairing("c:1"),
    "list_pairings": lambda store: store.list_pairings(),
    "redeem_pairing": lambda store: store.redeem_pairing("AAAAAAAA", by="owner"),
    "decide_pairing": lambda store: store.decide_pairing("c:1", "c", "paired", by="owner"),
    "stats": lambda store: store.stats(),
    "list_forks": lambda store: store.list_forks(ID),
    "find_vectors": lambda store: store.find_vectors("s", "m", ["h"]),
    "put_vectors": lambda store: store.put_vectors("s", "m", {"h": b"v"}),
    "keep_vectors": lambda store: store.keep_vectors("s", "m", ["h"]),
}


class HandlesContract(Contract):
    """A store as a whole."""

    async def test_every_call_after_close_is_refused(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        store = await open_store(clock)
        await store.close()

        worked = []
        for name, call in CALLS.items():
            try:
                await call(store)
            except StoreClosed:
                continue
            worked.append(name)
        assert worked == []

    async def test_every_call_of_the_ports_is_known_to_the_test_of_close(self) -> None:
        methods = {name for name in dir(Store) if not name.startswith("_")}

        assert methods - {"close", "identity"} == set(CALLS)

    async def test_closing_twice_is_closing_once(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        store = await open_store(clock)

        await store.close()
        await store.close()

    async def test_what_is_being_written_is_finished_first(
        self, store: Store, session: Session, lease: Lease, open_store: OpenStore, clock: FakeClock
    ) -> None:
        other = await open_store(clock)
        writes = [
            asyncio.ensure_future(other.append(session.id, lease.epoch, Draft(role="user")))
            for _ in range(20)
        ]
        await asyncio.sleep(0)

        await other.close()

        done = await asyncio.gather(*writes)
        assert len(await store.get_messages(session.id)) == len(done) == 20

    async def test_a_store_keeps_what_it_was_given(
        self, store: Store, open_store: OpenStore, clock: FakeClock
    ) -> None:
        session = await make(store, "cli:a")
        await say(store, session.id, "one")
        before = await store.get_session(session.id)
        await store.close()

        again = await open_store(clock)

        assert await again.get_session(session.id) == before
        assert await read(again, session.id) == ["one"]
        await again.close()

    async def test_numbers_tell_what_is_there(self, store: Store, clock: FakeClock) -> None:
        first = await make(store)
        now = clock.advance(SECOND)
        second, third, gone, purged = [
            (await make(store, platform="telegram")).id for _ in range(4)
        ]
        for each in (first.id, second, third):
            await say(store, each, "12345")
        await store.edit_session(second, SessionEdit(archived=True))
        await store.delete_sessions([gone, purged])
        await store.purge_sessions([purged])

        stats = await store.stats()

        assert (stats.sessions, stats.archived, stats.trashed) == (2, 1, 1)
        assert (stats.messages, stats.content_bytes) == (3, 15)
        assert stats.platforms == {"telegram": 2, "cli": 1}
        assert (stats.oldest_at, stats.newest_at) == (first.created_at, now)
        assert stats.file_bytes > 0

    async def test_an_empty_store_has_empty_numbers(self, store: Store) -> None:
        stats = await store.stats()

        assert (stats.sessions, stats.messages, stats.platforms) == (0, 0, {})
        assert (stats.oldest_at, stats.newest_at) == (None, None)
