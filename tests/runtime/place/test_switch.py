"""The way from one session to another: its order, what it restores, and the way back from it.

Failures come from where they come from in life: the store, a hook, and a person who does not want
to wait. A terminal's seat goes over the handlers of this process, as in a chat.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from clew.api.seats import Reason, Seated
from clew.core.changes import WriteTodos
from clew.core.notes import Todo
from clew.core.session import NewSession, Session, SessionEdit
from clew.errors import ClewError, StoreUnusable
from clew.ports import Store
from clew.terminal.live import Sent
from tests.runtime.conftest import Actor, Held, Runtimes, read, soon, until
from tests.runtime.place.conftest import Seat, Seats, ended, run, sitting

When = Literal["before", "after"]
Way = Literal["startup", "resume", "new", "reload", "look", "lock"]
"""`look` is read-only at another session, `lock` at the own one."""


class Fuse(msgspec.Struct):
    """Lets one call of a task fail: nothing of it happens, or all of it and nobody hears."""

    number: int
    when: When
    calls: list[str] = msgspec.field(default_factory=list)


FUSE: ContextVar[Fuse | None] = ContextVar("fuse", default=None)


class Brittle:
    """A store of which a call fails, if the task that calls has a fuse."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*given: Any, **named: Any) -> Any:
            fuse = FUSE.get()
            if fuse is None:
                return await method(*given, **named)
            fuse.calls.append(name)
            blown = len(fuse.calls) == fuse.number
            if blown and fuse.when == "before":
                raise StoreUnusable("not now")
            answer = await method(*given, **named)
            if blown:
                raise StoreUnusable("not now")
            return answer

        return call


class Place(msgspec.Struct):
    """A seat over such a store, and what surrounds it."""

    store: Store
    seat: Seat
    actor: Actor
    target: Session
    crumbs: list[tuple[str | None, bool]]

    async def go(self, way: Way) -> Seated:
        return await self.seat.switch(*_arguments(way, self), read_only=way in ("look", "lock"))

    async def state(self) -> dict[str, Any]:
        """Everything that a switch may change."""
        seat, store = self.seat, self.store
        ids = [self.target.id, *([seat.session.id] if seat.session else [])]
        route = await store.find_route(seat.key)
        return {
            "session": seat.session and seat.session.id,
            "model": seat.model.name,
            "settings": [seat.setting(each) for each in ("personality", "mode", "title")],
            "read_only": seat.read_only,
            "held": [await store.find_attachment(each) is not None for each in ids],
            "route": route and route.id,
            "archived": (await store.get_session(self.target.id)).archived_at is not None,
            "crumb": self.crumbs[-1] if self.crumbs else None,
        }

    async def say(self, text: str) -> Sent:
        """Say something where the seat is, as a chat does."""
        if self.seat.session is not None:
            await self.seat.live.follow(self.seat.session)
        return await self.seat.say(text)


def _arguments(way: Way, place: Place) -> tuple[Session | None, Reason]:
    if way in ("reload", "lock"):
        return place.seat.session, "resume"
    if way == "new":
        return None, "new"
    return place.target, "startup" if way == "startup" else "resume"


Places = Callable[[Way], Awaitable[Place]]


@pytest.fixture
def make_place(
    store: Store, actor: Actor, make_runtime: Runtimes, make_seat: Seats, directory: Path
) -> Places:
    async def make(way: Way, *, hooks: dict[str, list[str]] | None = None) -> Place:
        """A seat before it goes somewhere: at nothing for `startup`, else at a session."""
        target = await store.create_session(
            NewSession(
                key="cli:target",
                cwd=str(directory),
                project=str(directory),
                model="vanished/model",
                personality="reviewer",
                mode="plan",
                title="Target",
            )
        )
        await store.edit_session(target.id, SessionEdit(archived=True))
        crumbs: list[tuple[str | None, bool]] = []
        runtime = make_runtime(Brittle(store), actor, hooks=hooks)
        seat = await make_seat(runtime, write_crumb=lambda *crumb: crumbs.append(crumb))
        await run(seat, "/model two")
        await run(seat, "/personality coach")
        if way != "startup":
            await run(seat, "/title Old")
            await ended(await seat.say("one"))
        return Place(store, seat, actor, target, crumbs)

    return make


async def try_to(place: Place, way: Way, fuse: Fuse) -> bool:
    """Go, in a task of its own with this fuse; False if it was refused."""

    async def go() -> None:
        FUSE.set(fuse)
        await place.go(way)

    try:
        await soon(asyncio.create_task(go()))
    except StoreUnusable:
        return False
    return True


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["startup", "resume", "new", "reload", "look", "lock"])
async def test_a_failure_at_any_step_leads_back_to_where_the_seat_was(
    make_place: Places, way: Way, when: When
) -> None:
    place = await make_place(way)
    before = await place.state()
    number = 1
    while not await try_to(place, way, fuse := Fuse(number, when)):
        assert await place.state() == before, f"{fuse.calls[-1]} failed"
        number += 1
    assert len(fuse.calls) == number - 1 > 0
    after = await place.state()
    assert after != before or way == "reload"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["startup", "resume", "new", "reload"])
async def test_after_a_failure_at_any_step_the_next_message_works(
    make_place: Places, store: Store, way: Way, when: When
) -> None:
    place = await make_place(way)
    seat, number = place.seat, 1
    while True:
        was = seat.session
        if await try_to(place, way, Fuse(number, when)):
            break
        if way != "startup":
            assert (await ended(await place.say(f"after {number}"))).status == "done"
            assert seat.session is not None
            assert was is not None
            assert seat.session.id == was.id
            assert (await read(store, was))[-2:] == [f"user: after {number}", "assistant: ok"]
        number += 1
    assert (await ended(await place.say("there"))).status == "done"
    assert (await read(store, seat.session))[-2:] == ["user: there", "assistant: ok"]


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_ran_and_what_waits_survive_a_failure(
    make_place: Places, store: Store, actor: Actor, when: When, number: int
) -> None:
    """The turn goes on, or stays aborted; what waits behind it has its turn in any case."""
    place = await make_place("resume")
    seat, old = place.seat, place.seat.session
    actor.scenes.append(held := Held())
    first, second = await seat.say("held"), await seat.say("waits")
    await soon(held.began.wait())
    if await try_to(place, "resume", Fuse(number, when)):
        return  # that many calls are not made
    assert seat.session is not None
    assert old is not None
    assert seat.session.id == old.id
    held.go_on.set()
    assert (await ended(first)).status in ("done", "aborted")
    assert (await ended(second)).status == "done"
    assert (await read(store, old)).count("user: waits") == 1
    assert await store.list_inbound(old.id) == ()
    assert not seat.live.is_busy


async def test_a_switch_leaves_what_waits_in_the_inbox_and_comes_back_to_it(
    make_place: Places, store: Store, actor: Actor
) -> None:
    place = await make_place("resume")
    seat, old = place.seat, place.seat.session
    assert old is not None
    actor.scenes.append(held := Held())
    first, second = await seat.say("held"), await seat.say("waits")
    await soon(held.began.wait())
    await soon(place.go("resume"))
    assert (await store.list_turns(old.id))[-1].status == "aborted"
    assert first.turn.done()
    assert second.turn.cancelled()
    (row,) = await store.list_inbound(old.id)
    assert (row.status, row.payload["text"]) == ("queued", "waits")
    back = await seat.switch(old, "resume")
    assert back.unanswered == (row,)
    await seat.live.follow(sitting(seat))
    assert (await ended(await seat.run_waiting(row))).status == "done"
    assert (await read(store, old))[-2:] == ["user: waits", "assistant: ok"]


# --- other reasons to fail --------------------------------------------------------------------


SLOW = """#!{python}
import json, sys, time
json.load(sys.stdin)
open({began!r}, "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["resume", "new", "startup"])
async def test_a_switch_that_is_broken_off_while_the_last_hook_runs_leads_back(
    make_place: Any, tmp_path: Path, way: Way
) -> None:
    program, began = tmp_path / "slow", tmp_path / "began"
    program.write_text(SLOW.format(python=sys.executable, began=str(began)), "utf-8")
    program.chmod(0o700)
    place = await make_place(way, hooks={"session_switch": [str(program)]})
    before = await place.state()
    switching = asyncio.create_task(place.go(way))

    async def has_begun() -> bool:
        return began.exists()

    await until(has_begun)
    assert await place.state() != before
    switching.cancel()
    await soon(asyncio.wait({switching}))
    assert switching.cancelled()
    assert await place.state() == before
    assert (await ended(await place.say("next"))).status == "done"


@pytest.mark.parametrize("way", ["resume", "new"])
async def test_a_switch_that_is_broken_off_at_any_moment_has_happened_or_has_not(
    make_place: Places, way: Way
) -> None:
    place = await make_place(way)
    before, old = await place.state(), place.seat.session
    for steps in range(60):
        switching = asyncio.create_task(place.go(way))
        for _ in range(steps):
            await asyncio.sleep(0)
        switching.cancel()
        await soon(asyncio.wait({switching}))
        if not switching.cancelled():
            switching.result()
            break
        assert await place.state() == before
    else:
        await place.go(way)
    assert await place.state() != before
    await place.seat.switch(old, "resume")
    assert place.seat.session is not None
    assert old is not None
    assert place.seat.session.id == old.id


async def test_a_hook_that_is_told_and_fails_is_only_told_about(
    make_place: Any, tmp_path: Path
) -> None:
    place = await make_place("resume", hooks={"session_switch": [str(tmp_path / "missing")]})
    switched = await place.go("resume")
    assert switched.session is not None
    assert switched.session.id == place.target.id
    assert "missing" in switched.notices[-1]


# --- the order --------------------------------------------------------------------------------

LATE = """#!{python}
import asyncio, json, sys
from clew.store import open_store

async def look():
    told = json.load(sys.stdin)
    async with await open_store({url!r}, durability="normal") as store:
        route = await store.find_route("cli:project")
        print(json.dumps({{
            "event": told["event"],
            "reason": told["reason"],
            "ids": [told["session_id"], told["previous_id"]],
            "held": [
                await store.find_attachment(each) is not None
                for each in (told["session_id"], told["previous_id"])
            ],
            "route": route and route.id,
            "archived": (await store.get_session(told["session_id"])).archived_at is not None,
        }}), file=open({log!r}, "a"))

asyncio.run(look())
"""


async def test_the_first_hook_sees_everything_as_it_was_and_the_last_one_as_it_is(
    make_place: Any, tmp_path: Path, url: str
) -> None:
    log, program = tmp_path / "log", tmp_path / "look"
    text = LATE.format(python=sys.executable, url=url, log=str(log))
    program.write_text(text, "utf-8")
    program.chmod(0o700)
    hooks = {"session_before_switch": [str(program)], "session_switch": [str(program)]}
    place = await make_place("resume", hooks=hooks)
    old, target = place.seat.session.id, place.target.id
    await soon(place.go("resume"))
    first, last = map(json.loads, log.read_text("utf-8").splitlines())
    same = {"reason": "resume", "ids": [target, old]}
    assert first == same | {
        "event": "session_before_switch",
        "held": [False, True],
        "route": old,
        "archived": True,
    }
    assert last == same | {
        "event": "session_switch",
        "held": [True, False],
        "route": target,
        "archived": False,
    }


# --- what is restored -------------------------------------------------------------------------


CHOSEN = {
    "model": "script/two",
    "provider": "script",
    "personality": "reviewer",
    "thinking": "high",
    "service_tier": "flex",
    "mode": "plan",
}


async def chosen_session(store: Store) -> Session:
    """A session that a person has made their own."""
    session = await store.create_session(NewSession(key="cli:chosen", **CHOSEN))  # type: ignore[arg-type]
    todos = (Todo("Water the roses", "in_progress"), Todo("Rest", "pending"))
    lease = await store.acquire_lease(session.id, "test")
    await store.record(session.id, lease.epoch, WriteTodos(todos))
    await store.release_lease(lease)
    return session


@pytest.mark.parametrize("way", ["startup", "resume"])
async def test_everything_that_a_session_is_set_to_is_restored(
    store: Store, seat: Seat, actor: Actor, way: Way
) -> None:
    target = await chosen_session(store)
    if way == "resume":
        await ended(await seat.say("elsewhere"))
    await seat.switch(target, "startup" if way == "startup" else "resume")
    assert seat.model.name == "script/two"
    assert {name: seat.setting(name) for name in CHOSEN} == CHOSEN
    assert await run(seat, "/todos") == "[>] Water the roses\n[ ] Rest"
    status = await run(seat, "/status")
    for name, value in (("personality", "reviewer"), ("thinking", "high"), ("mode", "plan")):
        assert any(line.split() == [name, value] for line in status.splitlines()), status
    await seat.live.follow(sitting(seat))
    assert (await ended(await seat.say("go on"))).model == "script/two"
    asked = actor.turns[-1].session
    assert {name: getattr(asked, name) for name in CHOSEN} == CHOSEN


@pytest.mark.parametrize("way", ["startup", "resume"])
async def test_thinking_is_restored_as_far_as_the_model_can(
    store: Store, seat: Seat, way: Way
) -> None:
    if way == "resume":
        await ended(await seat.say("elsewhere"))
    target = await store.create_session(
        NewSession(key="cli:t", model="local/smollm2-135m", thinking="high")
    )
    await seat.switch(target, "startup" if way == "startup" else "resume")
    status = await run(seat, "/status")
    assert any(line.split() == ["thinking", "off"] for line in status.splitlines()), status
    assert (await store.get_session(target.id)).thinking == "high"


async def test_a_refusal_of_the_target_itself_leaves_everything(
    make_place: Places, store: Store
) -> None:
    place = await make_place("resume")
    before = await place.state()
    gone = msgspec.structs.replace(place.target, id="00000000-0000-0000-0000-000000000000")
    with pytest.raises(ClewError):
        await place.seat.switch(gone, "resume")
    assert await place.state() == before
    assert (await ended(await place.say("next"))).status == "done"
