"""What turns have spent: whatever was recorded and removed, a store says the sum of its turns."""

from __future__ import annotations

import random
from typing import Final

import pytest

from clew.core.changes import AddMessage, AddUsage, Change, EndTurn, StartTurn, UndoTurn
from clew.core.keys import new_id
from clew.core.message import Draft
from clew.core.session import SessionFacts
from clew.core.usage import Usage, UsageBy, UsageRow, dearest_first, sum_up
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import Contract, make, record

QUARTER: Final = 15 * 60 * SECOND
DAY: Final = 96 * QUARTER
STEPS: Final = 45
MODELS: Final = ("a/x", "b/y", None)
PLATFORMS: Final = ("cli", "web", "telegram")
PEOPLE: Final = ("owner", "telegram:7")
BY: Final[tuple[UsageBy, ...]] = ("day", "model", "session", "platform", "person")


class _Turn:
    """A turn as it should be counted."""

    def __init__(self, session_id: str, platform: str, model: str | None, at: int) -> None:
        self.at = at
        self.usage = Usage()
        self.session_id = session_id
        self.names: dict[UsageBy, str] = {
            "day": str(at // QUARTER * QUARTER),
            "model": model or "",
            "session": session_id,
            "platform": platform,
            "person": PEOPLE[platform == "telegram"],
        }


class History:
    """Random changes of a store, and the turns that are in it."""

    def __init__(self, store: Store, clock: FakeClock, seed: int) -> None:
        self._store = store
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311  # repeatable, no secret
        self._platforms: dict[str, str] = {}
        self._estimated: set[str] = set()
        self._trash: set[str] = set()
        self.turns: dict[str, _Turn] = {}

    async def step(self) -> None:
        """One change."""
        self._clock.advance(self._random.choice((SECOND, QUARTER // 2, DAY // 3)))
        if not self._platforms or self._random.random() < 0.1:
            platform = self._random.choice(PLATFORMS)
            session = await make(
                self._store, platform=platform, person=PEOPLE[platform == "telegram"]
            )
            self._platforms[session.id] = platform
        session_id = self._random.choice(list(self._platforms))
        actions = (
            self._take_turns, self._take_turns, self._bring, self._spend, self._undo, self._fork,
            self._estimate, self._remove, self._purge,
        )  # fmt: skip
        await self._random.choice(actions)(session_id)

    def _spent(self) -> Usage:
        cost = self._random.choice((0, 5, 1000, None)) if self._random.random() < 0.2 else 3
        return Usage(self._random.randrange(100), 1, 2, 3, cost, 1)

    def _begin(self, session_id: str, at: int | None) -> list[Change]:
        turn_id, model = new_id(), self._random.choice(MODELS)
        turn = _Turn(session_id, self._platforms[session_id], model, at or self._clock())
        self.turns[turn_id] = turn
        turn.usage = self._spent()
        return [
            StartTurn(turn_id=turn_id, model=model, at=at),
            AddMessage(Draft(role="user", content="hello"), turn_id),
            AddUsage(usage=turn.usage, turn_id=turn_id),
            EndTurn(turn_id=turn_id, status="done"),
        ]

    async def _take_turns(self, session_id: str) -> None:
        for _ in range(self._random.randrange(3)):
            await record(self._store, session_id, *self._begin(session_id, None))

    async def _bring(self, session_id: str) -> None:
        """Many turns at once, of long ago, as an import brings them."""
        first = self._clock() - self._random.randrange(3 * DAY)
        changes = [self._begin(session_id, first + number * SECOND) for number in range(120)]
        await record(self._store, session_id, *(each for turn in changes for each in turn))

    async def _spend(self, session_id: str) -> None:
        """More for an old turn: a title, a summary."""
        for turn_id, turn in self.turns.items():
            if turn.session_id == session_id and self._random.random() < 0.2:
                spent = self._spent()
                turn.usage += spent
                await record(self._store, session_id, AddUsage(usage=spent, turn_id=turn_id))

    async def _undo(self, session_id: str) -> None:
        """What was undone was spent nevertheless."""
        for turn_id, turn in self.turns.items():
            if turn.session_id == session_id and self._random.random() < 0.1:
                await record(self._store, session_id, UndoTurn(turn_id=turn_id))

    async def _fork(self, session_id: str) -> None:
        if session_id not in self._trash:
            fork = await self._store.fork_session(session_id)
            self._platforms[fork.id] = fork.platform
            if fork.metadata.get("estimated"):
                self._estimated.add(fork.id)

    async def _estimate(self, session_id: str) -> None:
        if session_id not in self._trash:
            self._estimated ^= {session_id}
            metadata = {"estimated": True} if session_id in self._estimated else {"other": 1}
            await self._store.describe_session(session_id, SessionFacts(metadata=metadata))

    async def _remove(self, session_id: str) -> None:
        self._trash |= set(await self._store.delete_sessions([session_id]))

    async def _purge(self, session_id: str) -> None:
        """Without a fork, a session goes with its turns; else they stay until the fork goes."""
        await self._remove(session_id)
        await self._store.purge_sessions([session_id])
        self._estimated.discard(session_id)
        self._platforms.pop(session_id)
        purged = {turn.session_id for turn in self.turns.values()} - set(self._platforms)
        left = {
            turn.id for each in purged for turn in await self._store.list_turns(each, limit=10_000)
        }
        self.turns = {
            turn_id: turn
            for turn_id, turn in self.turns.items()
            if turn.session_id not in purged or turn_id in left
        }

    def expect(self, by: UsageBy, since: int) -> tuple[UsageRow, ...]:
        """The sums of the turns that are there, one by one."""
        rows: dict[str, list[UsageRow]] = {}
        for turn in self.turns.values():
            if turn.at >= since:
                name = turn.names[by]
                row = UsageRow(name, turn.usage, 1, turn.session_id in self._estimated)
                rows.setdefault(name, []).append(row)
        return tuple(sum_up(rows[name], name) for name in sorted(rows))

    async def check(self) -> None:
        """Compare every report with the turns, from several times on."""
        times = [0, 1, self._clock() - DAY // 2, self._clock() // DAY * DAY, self._clock() + DAY]
        times += [turn.at for turn in list(self.turns.values())[::200]]
        for since in times:
            for by in BY:
                assert await self._store.list_usage(by, since=since) == self.expect(by, since)
            sessions = self.expect("session", since)
            total = sum_up(sessions, "total")
            assert await self._store.get_usage(since=since) == total.usage
            for limit in (1, 3, 10_000):
                ranking = await self._store.rank_usage(since=since, limit=limit)
                assert ranking.rows == dearest_first(sessions)[:limit]
                assert (ranking.count, ranking.total) == (len(sessions), total)


class UsageContract(Contract):
    """The sums of `ports.Log`."""

    @pytest.mark.parametrize("seed", range(3))
    async def test_what_was_spent_is_the_sum_of_the_turns_whatever_was_done(
        self, store: Store, clock: FakeClock, seed: int
    ) -> None:
        history = History(store, clock, seed)
        for number in range(1, STEPS + 1):
            await history.step()
            if number % 15 == 0:
                await history.check()

    async def test_a_turn_that_spends_more_than_a_sum_can_hold_stops_no_other(
        self, store: Store
    ) -> None:
        huge = (1 << 63) - 1
        for name in ("one", "two"):
            session = await make(store)
            changes = (StartTurn(turn_id=name), AddUsage(usage=Usage(huge), turn_id=name))
            await record(store, session.id, *changes)
        session = await make(store)
        for number in range(600):
            start = StartTurn(turn_id=f"t{number}", model="m")
            await record(store, session.id, start, AddUsage(usage=Usage(1), turn_id=f"t{number}"))

        spent = {row.name: row.usage for row in await store.list_usage("session", since=0)}
        assert spent[session.id] == Usage(600)
