"""A terminal's session that begins afresh when its time is over, as the rules for `cli` say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC
from typing import Any

import pytest

from clew.core.channels.resets import ResetRule, ResetRules
from clew.core.channels.session_choice import RETURNED, judge_terminal
from clew.core.session import NewSession, Session
from clew.ports import Store
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.terminal import seat as terminal_seat
from clew.testing.clock import DAY, FakeClock
from tests.runtime.conftest import Actor, Held, Runtimes, read, soon
from tests.runtime.place.conftest import Seat, Seats, ended, run
from tests.runtime.receiving import NOON

DAILY = ResetRules(by_channel={"cli": ResetRule(mode="daily")})
TOLD = "A new day: a new conversation begins. /resume goes back to the one before."


class Terminal:
    """A seat whose clock can be moved."""

    def __init__(self, seat: Seat, clock: FakeClock, store: Store, runtime: Runtime) -> None:
        self.seat = seat
        self.clock = clock
        self.store = store
        self.runtime = runtime

    async def say(self, text: str) -> tuple[Session, str | None]:
        ready = await soon(self.seat.make_ready())
        await self.seat.live.follow(ready.session)
        await ended(await terminal_seat.Seat.say(self.seat, text))
        await soon(self.runtime.join(ready.session.id))
        return await self.store.get_session(ready.session.id), ready.notice


@pytest.fixture
def rules() -> ResetRules:
    return DAILY


@pytest.fixture
def commands() -> dict[str, Any]:
    return {}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
async def store(url: str, clock: FakeClock) -> AsyncIterator[Store]:
    async with await open_store(url, durability="normal", clock=clock) as opened:
        yield opened


@pytest.fixture
def runtime(
    store: Store,
    actor: Actor,
    make_runtime: Runtimes,
    clock: FakeClock,
    commands: dict[str, Any],
) -> Runtime:
    return make_runtime(store, actor, clock=clock, hooks=commands, remember_rule=forget)


async def forget(_rule: str) -> None:
    return None


Terminals = Callable[..., Awaitable[Terminal]]


@pytest.fixture
def make_terminal(
    make_seat: Seats, runtime: Runtime, rules: ResetRules, clock: FakeClock
) -> Terminals:
    async def make(**more: Any) -> Terminal:
        seat = await make_seat(
            runtime,
            judge=lambda session, now: judge_terminal(rules, session, now, UTC),
            **more,
        )
        return Terminal(seat, clock, runtime.store, runtime)

    return make


@pytest.fixture
async def terminal(make_terminal: Terminals) -> Terminal:
    return await make_terminal()


async def test_the_next_message_after_the_boundary_begins_a_new_session(
    terminal: Terminal,
) -> None:
    old, _ = await terminal.say("hello")
    same, silence = await terminal.say("still here")
    assert (same.id, silence) == (old.id, None)
    terminal.clock.advance(DAY)

    new, notice = await terminal.say("good morning")

    assert notice == TOLD
    assert (new.previous_id, new.reset_reason) == (old.id, "daily")
    assert (new.platform, new.cwd, new.project) == ("cli", old.cwd, old.project)
    assert await read(terminal.store, new) == ["user: good morning", "assistant: ok"]
    assert len(await read(terminal.store, old)) == 4
    led = await terminal.store.find_route(terminal.seat.key)
    assert led is not None
    assert led.id == new.id
    assert await terminal.store.find_attachment(old.id) is None
    assert await terminal.store.find_attachment(new.id) is not None


async def test_it_keeps_what_the_person_chose_and_no_more(terminal: Terminal) -> None:
    old, _ = await terminal.say("hello")
    for line in (
        "/title Mine", "/pin", "/thinking high", "/send off", "/mode plan", "/model two",
        "/verbose on",
    ):  # fmt: skip
        await run(terminal.seat, line)
    terminal.clock.advance(DAY)

    new, _ = await terminal.say("good morning")

    assert (new.title, new.title_by, new.pinned) == ("Mine", "user", True)
    assert (new.thinking, new.send_policy, new.model) == ("high", "deny", "script/two")
    assert (new.mode, new.metadata["verbose"]) == (None, True)
    assert not (await terminal.store.get_session(old.id)).pinned
    await terminal.seat.switch(None, "new")
    third, _ = await terminal.say("something else")
    assert (third.title == "Mine", third.pinned, third.reset_reason) == (False, False, None)


async def test_who_goes_back_goes_on_there_until_the_next_boundary(terminal: Terminal) -> None:
    old, _ = await terminal.say("hello")
    terminal.clock.advance(DAY)
    await terminal.say("good morning")

    await terminal.seat.switch(old, "resume")
    back, notice = await terminal.say("where were we?")
    assert (back.id, notice) == (old.id, None)
    terminal.clock.advance(DAY)
    again, notice = await terminal.say("next day")
    assert (again.previous_id, notice) == (old.id, TOLD)


@pytest.mark.parametrize("named", [True, False])
async def test_a_session_that_was_named_at_the_start_goes_on_and_the_directorys_own_does_not(
    terminal: Terminal, named: bool
) -> None:
    old, _ = await terminal.say("hello")
    await terminal.seat.switch(None, "new")
    terminal.clock.advance(DAY)

    await terminal.seat.switch(old, "startup", returns=named)
    session, _ = await terminal.say("hm")

    assert (session.id == old.id) is named
    noted = (await terminal.store.get_session(old.id)).metadata
    assert (RETURNED in noted) is named


async def test_to_look_at_a_session_is_not_to_come_back(terminal: Terminal) -> None:
    old, _ = await terminal.say("hello")
    terminal.clock.advance(DAY)
    await terminal.seat.switch(old, "startup", read_only=True, returns=True)
    assert RETURNED not in (await terminal.store.get_session(old.id)).metadata


async def test_a_turn_that_runs_is_not_left(terminal: Terminal, actor: Actor) -> None:
    held = Held()
    actor.scenes.append(held)
    ready = await terminal.seat.make_ready()
    ticket = await terminal.seat.say("a long one")
    await soon(held.began.wait())
    terminal.clock.advance(DAY)

    assert (await terminal.seat.make_ready()).session.id == ready.session.id
    held.go_on.set()
    await ended(ticket)


@pytest.mark.parametrize("commands", [{"session_before_switch": ["/bin/false"]}])
async def test_where_a_hook_refuses_the_session_goes_on(terminal: Terminal) -> None:
    old, _ = await terminal.say("hello")
    terminal.clock.advance(DAY)
    session, notice = await terminal.say("good morning")
    assert (session.id, notice) == (old.id, None)


async def test_what_is_no_terminals_session_does_not_begin_afresh_here(terminal: Terminal) -> None:
    chat = await terminal.store.create_session(NewSession(key="k", platform="telegram"))
    await terminal.seat.switch(chat, "startup")
    terminal.clock.advance(DAY)
    session, notice = await terminal.say("from the terminal")
    assert (session.id, notice) == (chat.id, None)


@pytest.mark.parametrize("rules", [ResetRules(), ResetRules(reset=ResetRule(mode="daily"))])
async def test_without_a_rule_for_terminals_their_sessions_wait(terminal: Terminal) -> None:
    old, _ = await terminal.say("hello")
    terminal.clock.advance(30 * DAY)
    same, notice = await terminal.say("a month later")
    assert (same.id, notice) == (old.id, None)


async def test_of_two_terminals_that_find_it_at_once_both_get_one_session(
    terminal: Terminal, make_terminal: Terminals
) -> None:
    """As at a gateway, where any number may sit at one session."""
    old, _ = await terminal.say("hello")
    others = [await make_terminal(holds=False) for _ in range(2)]
    for each in others:
        await each.seat.switch(old, "startup")
    terminal.clock.advance(DAY)

    one, other = [await each.seat.make_ready() for each in others]

    assert one.session.id == other.session.id != old.id
    assert (await terminal.store.stats()).sessions == 2
