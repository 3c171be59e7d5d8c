"""One random history on both stores: every answer and every refusal must be the same.

Left out are the row numbers of messages, scores, the places of cursors and the sizes of files:
those mean nothing outside of their store. Of a search, the sets of hits are compared.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core import changes
from clew.core.channels.people import Decided, NewPairing, Pairing
from clew.core.delivery import NewInbound, NewOutbound
from clew.core.message import Draft, ToolCall
from clew.core.notes import Todo
from clew.core.search.hits import SearchFilter, SearchPage
from clew.core.session import (
    NewSession,
    Retention,
    SessionEdit,
    SessionFacts,
    SessionFilter,
    SessionPage,
)
from clew.core.tokens import Token
from clew.core.turn import Lease
from clew.core.usage import Usage
from clew.errors import ClewError, InvalidInput
from clew.ports import Store
from clew.store.postgres.store import PostgresStore
from clew.store.sqlite.store import SqliteStore
from clew.testing.clock import DAY, FakeClock
from tests.sizes import pick

OPERATIONS = pick(600, 2_500)

Call = Callable[[Store], Awaitable[Any]]

KEYS = ("cli:a", "cli:b", "tg:c", "é\0\ud800")
WORDS = (
    "apple",
    "apples",
    "banana",
    "running",
    "ran",
    "generation",
    "general",
    "bas",
    "base",
    "ключ",
    "ключи",
    "café",
    "CAFÉ",
    "naïve",
    "狐狸",
    "使う",
    "Pythonを使う",
    "日本語",
    "สวัสดี",
    "여우",
    "x-ray",
    "3.14",
    "don't",
    "user@example.com",
    "C++",
    "_under_",
    "ß",
    "\x00",
    "�",
    "\ufff9",
    "'quoted'",
    "\\back",
    "*star*",
    '"double"',
)
QUERIES = (
    "apple", "running", "run", "gener*", "ba*", "ключ", "cafe", "狐", "狐狸", "使う", "python",
    "日本語", "本語", '"apple banana"', "apple -banana", '"x ray"', "don't", "user@example.com",
    "여우", "สวัส", "apple run*", "-apple", "", "naive café", "3.14", "quoted", "under",
)  # fmt: skip


DECIDED: tuple[Decided, ...] = ("paired", "refused")


async def redeem_newest(store: Store) -> Pairing:
    codes = [each.code for each in await store.list_pairings() if each.code is not None]
    return await store.redeem_pairing(codes[0] if codes else "none", by="owner")


class History:
    """Random calls, all of them plain values, so that both stores are asked the very same."""

    def __init__(self, seed: int, clock: FakeClock) -> None:
        self.random = random.Random(seed)
        self.clock = clock
        self.sessions: list[str] = []
        self.turns: list[tuple[str, str]] = []
        self.approvals: list[str] = []
        self.inbound: list[str] = []
        self.outbound: list[str] = []
        self.compactions: list[tuple[str, str]] = []
        self.blobs: list[bytes] = []
        self.epochs: dict[str, int] = {}
        self.numbers = 0

    def id(self) -> str:
        self.numbers += 1
        return f"{self.random.getrandbits(32):08x}-0000-4000-8000-{self.numbers:012x}"

    def name(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}{self.numbers}"

    def session(self) -> str:
        return self.random.choice(
            self.sessions[-12:] if self.random.random() < 0.9 else self.sessions
        )

    def words(self, most: int = 8) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(0, most)))

    def maybe(self, value: Any, chance: float = 0.5) -> Any:
        return value if self.random.random() < chance else None

    def epoch(self, session: str) -> int:
        return self.epochs.get(session, 0) - (self.random.random() < 0.05)

    def turn(self, session: str) -> str:
        own = [turn for where, turn in self.turns if where == session]
        if own and self.random.random() < 0.9:
            return self.random.choice(own)
        return self.random.choice(self.turns)[1] if self.turns else "none"

    def change(self, session: str) -> Any:  # noqa: PLR0911  # one for each kind
        pick = self.random.randrange(16)
        if pick <= 3:
            return self.message(session)
        if pick == 4:
            self.turns.append((session, turn := self.name("t")))
            return changes.StartTurn(
                turn_id=turn, model=self.maybe("m"), reply_to=self.maybe({"a": 1})
            )
        if pick == 5:
            status: Any = self.random.choice(("done", "failed", "aborted"))
            return changes.EndTurn(
                turn_id=self.turn(session),
                status=status,
                error=self.maybe("e"),
                partial=self.maybe("p"),
            )
        if pick == 6:
            usage = Usage(
                self.random.randrange(99), cost=self.maybe(self.random.randrange(10**9), 0.9)
            )
            return changes.AddUsage(
                usage=usage, turn_id=self.maybe(self.turn(session)), context_tokens=7
            )
        if pick == 7:
            return changes.UndoTurn(self.turn(session))
        if pick == 8:
            return changes.RedoTurn(self.turn(session))
        if pick == 9:
            self.compactions.append((session, made := self.name("c")))
            return changes.AddCompaction(
                compaction_id=made, keep_from=self.random.randint(0, 4), summary=self.words(),
                short_summary=self.maybe(self.words()), tokens_after=3,
            )  # fmt: skip
        if pick == 10 and self.compactions:
            return changes.UndoCompaction(self.random.choice(self.compactions)[1])
        if pick == 11:
            return changes.WriteScratch(self.random.choice("xyÀz"), self.words(20))
        if pick == 12:
            return changes.WriteTodos(
                tuple(Todo(self.words(3)) for _ in range(self.random.randrange(4)))
            )
        if pick == 13:
            self.approvals.append(asked := self.name("a"))
            return changes.WaitForApproval(
                approval_id=asked, turn_id=self.turn(session), tool_call_id="1", tool_name="sh",
                request={}, expires_at=self.clock() + self.random.randrange(DAY),
            )  # fmt: skip
        if pick == 14:
            return changes.ResumeTurn(self.turn(session))
        self.outbound.append(sent := self.name("o"))
        key, channel = self.random.choice(KEYS), self.random.choice("cd")
        return changes.Send(NewOutbound(id=sent, key=key, channel=channel, content=self.words()))

    def message(self, session: str) -> changes.AddMessage:
        role: Any = self.random.choice(("user", "assistant", "tool"))
        calls = (ToolCall("1", "sh", self.words(2)),) if self.random.random() < 0.2 else ()
        parts: tuple[dict[str, Any], ...] = ()
        if self.random.random() < 0.1:
            parts = ({"text": self.words(2), "z": 1, "a": None},)
        return changes.AddMessage(
            Draft(
                role=role, content=self.words(30 if self.random.random() < 0.2 else 8), parts=parts,
                tool_calls=calls, is_error=self.random.random() < 0.1, model=self.maybe("m"),
                usage=self.maybe(Usage(1, 2, cost=self.maybe(5)), 0.2),
                at=self.maybe(self.clock() - self.random.randrange(DAY), 0.1),
            ),
            self.maybe(self.turn(session)),
            from_person=self.random.random() < 0.8,
        )  # fmt: skip

    # --- calls ------------------------------------------------------------------------------------

    def next(self) -> tuple[str, Call]:
        """The next call and its name."""
        self.clock.advance(self.random.choice((0, 0, 0, 1, 1_000, 29_999, 30_000, DAY // 10)))
        if not self.sessions or self.random.random() < 0.03:
            return self.create()
        groups = (
            (self.write, 40), (self.lease, 12), (self.read, 16), (self.look, 12), (self.search, 8),
            (self.edit, 6), (self.keep, 3), (self.deliver, 12), (self.fork, 3),
        )  # fmt: skip
        chosen = self.random.choices([g for g, _ in groups], [w for _, w in groups])[0]
        return chosen()

    def create(self) -> tuple[str, Call]:
        self.sessions.append(made := self.id())
        new = NewSession(
            key=self.random.choice(KEYS), id=made, title=self.maybe(self.words(4) or "T"),
            platform=self.random.choice(("cli", "tg")),
            person=self.random.choice(("owner", "tg:7")),
            cwd=self.maybe("/here"), metadata={"n": self.numbers}, project=self.maybe("/p"),
        )  # fmt: skip
        if self.random.random() < 0.5:
            return "open_session", lambda store: store.open_session(new)
        route = self.maybe(self.random.choice(KEYS))
        return "create_session", lambda store: store.create_session(new, route=route)

    def write(self) -> tuple[str, Call]:
        session = self.session()
        if session not in self.epochs:
            return "acquire_lease", lambda store: store.acquire_lease(session, "a")
        epoch, key = self.epoch(session), self.maybe(self.random.choice("kl"), 0.1)
        if self.random.random() < 0.5:
            change = self.message(session)
            return "append", lambda store: store.append(
                session, epoch, change.draft, turn_id=change.turn_id, idempotency_key=key
            )
        what = [self.change(session) for _ in range(self.random.randint(0, 4))]
        renewed = self.maybe(Lease(session, "a", self.epochs[session], 0))

        async def write_and_look(store: Store) -> Any:
            if renewed is not None:
                await store.renew_lease(renewed)
            recorded = await store.record(session, epoch, *what, idempotency_key=key)
            return recorded, await store.list_states([session])

        return "record", write_and_look

    def lease(self) -> tuple[str, Call]:
        session, holder = self.session(), self.random.choice("ab")
        lease = Lease(session, holder, self.epochs.get(session, 0), 0)
        pick = self.random.randrange(8)
        if pick == 0:
            return "release_lease", lambda store: store.release_lease(lease)
        if pick == 1:
            return "renew_lease", lambda store: store.renew_lease(lease)
        if pick == 2:
            return "find_lease", lambda store: store.find_lease(session)
        if pick == 3:
            return "interrupt_turns", lambda store: store.interrupt_turns(session)
        return "acquire_lease", lambda store: store.acquire_lease(session, holder)

    def read(self) -> tuple[str, Call]:
        session = self.session()
        limit, offset = self.maybe(self.random.randrange(9)), self.random.randrange(5)
        options: dict[str, Any] = {"offset": offset, "undone": self.random.random() < 0.3}
        options |= {"before": self.maybe(self.random.randrange(20), 0.2)}
        options |= {"after": self.maybe(self.random.randrange(20), 0.2)}
        return "get_messages", lambda store: store.get_messages(session, limit, **options)

    def look(self) -> tuple[str, Call]:
        session, turn = self.session(), self.turn(self.session())
        key, since = self.random.choice(KEYS), self.clock() - self.random.randrange(3 * DAY)
        calls: dict[str, Call] = {
            "get_session": lambda store: store.get_session(session),
            "get_turn": lambda store: store.get_turn(turn),
            "list_turns": lambda store: store.list_turns(session, limit=5),
            "list_states": lambda store: store.list_states(self.sessions[-20:]),
            "get_usage": lambda store: store.get_usage(since=since),
            "list_scratch": lambda store: store.list_scratch(session),
            "find_scratch": lambda store: store.find_scratch(session, "x"),
            "get_todos": lambda store: store.get_todos(session),
            "find_compaction": lambda store: store.find_compaction(session),
            "list_compactions": lambda store: store.list_compactions(session),
            "list_routes": lambda store: store.list_routes(session),
            "find_route": lambda store: store.find_route(key),
            "find_keys": lambda store: store.find_keys(key),
            "find_sessions": lambda store: store.find_sessions(session[:2]),
            "find_endings": lambda store: store.find_endings(session[-4:]),
            "shorten_ids": lambda store: store.shorten_ids([session, self.sessions[0]]),
            "get_names": lambda store: store.get_names([session, self.sessions[0]]),
            "stats": lambda store: store.stats(),
        }
        name = self.random.choice(list(calls))
        if self.random.random() < 0.4:
            return self.list()
        return name, calls[name]

    def list(self) -> tuple[str, Call]:
        where = SessionFilter(
            viewer=self.random.choice(("owner", "owner", "tg:7")), platform=self.maybe("tg", 0.2),
            cwd=self.maybe("/here", 0.2), archived=self.random.choice((None, False, True)),
            trashed=self.random.random() < 0.2, text=self.maybe(self.random.choice(WORDS), 0.2),
            active_since=self.maybe(self.clock() - DAY, 0.2),
        )  # fmt: skip
        size = self.random.randint(1, 7)

        async def all_pages(store: Store) -> Any:
            names = await store.list_names(where, limit=size)
            page = await store.list_sessions(where, limit=size)
            pages = [page]
            while page.cursor is not None and len(pages) < 5:
                page = await store.list_sessions(where, limit=size, cursor=page.cursor)
                pages.append(page)
            return pages, names.names, await store.count_sessions(where)

        return "list_sessions", all_pages

    def search(self) -> tuple[str, Call]:
        query = self.random.choice(QUERIES)
        where = SearchFilter(
            viewer=self.random.choice(("owner", "tg:7")), role=self.maybe("user", 0.1),
            session=self.maybe(self.session(), 0.2), platform=self.maybe("cli", 0.2),
            since=self.maybe(self.clock() - DAY, 0.1), until=self.maybe(self.clock() - DAY, 0.1),
        )  # fmt: skip
        typing = self.random.random() < 0.3
        return f"search {query!r}", lambda store: store.search(
            query, where, limit=1_000, typing=typing
        )

    def edit(self) -> tuple[str, Call]:
        session = self.session()
        pick = self.random.randrange(5)
        if pick == 0:
            facts = SessionFacts(title=self.words(3), origin={"from": self.words(1)}, room="r")
            return "describe_session", lambda store: store.describe_session(session, facts)
        if pick == 1:
            key = self.random.choice(KEYS)
            if self.random.random() < 0.5:
                return "set_route", lambda store: store.set_route(key, session)
            return "clear_route", lambda store: store.clear_route(key)
        edit = SessionEdit(
            title=self.words(3),
            pinned=self.random.random() < 0.3,
            archived=self.random.random() < 0.3,
        )
        revision = self.maybe(self.random.randint(1, 4), 0.2)
        return "edit_session", lambda store: store.edit_session(session, edit, revision=revision)

    def keep(self) -> tuple[str, Call]:
        ids = [self.session() for _ in range(self.random.randint(1, 3))]
        before = self.clock() - self.random.randrange(3 * DAY)
        dry = self.random.random() < 0.7
        calls: dict[str, Call] = {
            "delete_sessions": lambda store: store.delete_sessions(ids),
            "restore_sessions": lambda store: store.restore_sessions(ids),
            "restore_last": lambda store: store.restore_last(),
            "purge_sessions": lambda store: store.purge_sessions(ids),
            "purge_trash": lambda store: store.purge_trash(before - DAY),
            "prune": lambda store: store.prune_old_sessions(before, dry_run=dry),
            "retain": lambda store: store.retain(
                Retention(retention_days=2, max_storage_bytes=9_000), dry_run=dry
            ),
        }
        name = self.random.choice(list(calls))
        return name, calls[name]

    def deliver(self) -> tuple[str, Call]:
        who, channel = self.random.choice(("me", "you")), self.random.choice("cd")
        self.inbound.append(came := self.name("i"))
        new = NewInbound(
            id=came, channel=channel, key=self.random.choice(KEYS), payload={"t": self.words(3)},
            external_id=self.maybe(str(self.random.randrange(30))), session_id=self.maybe("s"),
        )  # fmt: skip
        claimant = self.maybe(who, 0.2)
        dropped = self.random.choices(self.inbound, k=3)
        sent = self.random.choice(self.outbound or ["none"])
        answered = self.random.choice(self.approvals or ["none"])
        status: Any = self.random.choice(("sent", "pending", "failed", "nonsense"))
        token = Token(self.name("t"), self.words(2), "owner", ("read",), self.clock())
        guest, decided = f"{channel}:{self.random.randrange(5)}", self.random.choice(DECIDED)
        asking = NewPairing(person=guest, channel=channel, code=self.name("CODE"), name=who)
        data = self.words(3).encode("utf-8", "surrogatepass")
        calls: dict[str, Call] = {
            "accept": lambda store: store.accept(new, claimant=claimant),
            "claim_inbound": lambda store: store.claim_inbound(who, limit=3),
            "release_inbound": lambda store: store.release_inbound(who),
            "drop_inbound": lambda store: store.drop_inbound(dropped),
            "list_inbound": lambda store: store.list_inbound(limit=10),
            "claim_outbound": lambda store: store.claim_outbound(
                who, places=[(channel, "default")], limit=3
            ),
            "settle_outbound": lambda store: store.settle_outbound(
                sent, status, receipt={"id": 1}, error="e"
            ),
            "doubt_outbound": lambda store: store.doubt_outbound(who),
            "list_outbound": lambda store: store.list_outbound(limit=10),
            "add_token": lambda store: store.add_token(token, data[:3]),
            "find_token": lambda store: store.find_token(data[:3]),
            "list_tokens": lambda store: store.list_tokens(),
            "ask_pairing": lambda store: store.ask_pairing(asking, most=3),
            "redeem_pairing": redeem_newest,
            "decide_pairing": lambda store: store.decide_pairing(guest, channel, decided, by=who),
            "list_pairings": lambda store: store.list_pairings(),
            "put_blob": lambda store: store.put_blob(data, "text/plain"),
            "list_approvals": lambda store: store.list_approvals(),
            "decide_approval": lambda store: store.decide_approval(answered, "yes", by="owner"),
        }
        name = self.random.choice(list(calls))
        return name, calls[name]

    def fork(self) -> tuple[str, Call]:
        session, at = self.session(), self.maybe(self.random.randrange(12))
        self.sessions.append(made := self.id())
        return "fork_session", lambda store: store.fork_session(session, at=at, new_id=made)


def plain(value: Any) -> Any:
    """An answer without what means nothing outside of its store."""
    if isinstance(value, SearchPage):
        return {(hit.session_id, hit.seq, hit.snippet.text, hit.archived) for hit in value.hits}
    if isinstance(value, SessionPage):
        return [plain(session) for session in value.sessions], value.cursor is None
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, msgspec.Struct):
        name = type(value).__name__
        hidden = {"Message": ("id",), "Recorded": ("ids",), "StoreStats": ("file_bytes",)}
        hidden["Compaction"] = ("id",)  # a fork's has a new one
        fields = {f: getattr(value, f) for f in value.__struct_fields__}
        return name, {f: plain(v) for f, v in fields.items() if f not in hidden.get(name, ())}
    return value


async def answer(store: Store, call: Call) -> Any:
    try:
        value = await call(store)
    except ClewError as error:
        # What a database says of a value it refuses is its own wording.
        return type(error).__name__, "" if type(error) is InvalidInput else str(error)
    return value


@pytest.mark.parametrize("seed", [1])
async def test_both_stores_answer_the_same(seed: int, url: str, tmp_path: Path) -> None:
    clock = FakeClock()
    history = History(seed, clock)
    path = tmp_path / "sessions.db"
    sqlite = SqliteStore(path, durability="normal", clock=clock, search_seconds=30)
    postgres = await PostgresStore.open(url, clock=clock, search_seconds=30)
    asked: dict[str, int] = {}
    async with sqlite, postgres:
        for number in range(OPERATIONS):
            name, call = history.next()
            one, two = await asyncio.gather(answer(sqlite, call), answer(postgres, call))
            assert plain(two) == plain(one), f"{number}: {name}"
            if isinstance(one, Lease):
                history.epochs[one.session_id] = one.epoch
            worked = not (isinstance(one, tuple) and one and isinstance(one[0], str))
            asked[name.split()[0]] = asked.get(name.split()[0], 0) + worked
        for session in history.sessions:
            for undone in (False, True):
                call = lambda store: store.get_messages(session, undone=undone)  # noqa: E731, B023
                one, two = await asyncio.gather(answer(sqlite, call), answer(postgres, call))
                assert plain(two) == plain(one)
    # A history in which nothing ever worked would compare nothing.
    assert all(
        asked[name] for name in ("append", "record", "fork_session", "search", "acquire_lease")
    )
