"""A seat: where a terminal is, how it gets to another session, and what it takes along."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.api.seats import Wanted
from clew.client.seats import locate
from clew.core.keys import new_key
from clew.core.message import ToolCall
from clew.core.session import NewSession, Session, SessionEdit
from clew.core.usage import Usage
from clew.errors import InvalidInput, SessionAttached, SwitchRefused
from clew.ports import Store
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.testing.clock import FakeClock
from tests.runtime.conftest import Actor, Held, Runtimes, inbound, read, soon, until
from tests.runtime.place.conftest import Seat, Seats, ended, run, sitting


async def count(store: Store) -> int:
    return (await store.stats()).sessions


# --- the first message ------------------------------------------------------------------------


async def test_a_seat_has_no_session_before_the_first_message(store: Store, seat: Seat) -> None:
    assert seat.session is None
    assert await count(store) == 0


async def test_the_first_message_makes_the_session_with_all_that_is_known(
    store: Store, make_seat: Seats, runtime: Runtime, directory: Path
) -> None:
    seat = await make_seat(runtime, wanted=Wanted(personality="coach"))
    ticket = await seat.say("hello")
    session = await store.get_session(sitting(seat).id)
    assert (session.key, session.platform, session.kind) == ("cli:project", "cli", "cli")
    assert (session.model, session.provider) == ("script/one", "script")
    assert (session.personality, session.person) == ("coach", "owner")
    assert session.cwd == session.project == str(directory)
    assert session.metadata["directory"] == locate(directory).facts
    assert session.usage == Usage()
    routed = await store.find_route("cli:project")
    assert routed is not None
    assert routed.id == session.id
    assert await store.find_attachment(session.id) is not None
    await ended(ticket)


async def test_two_messages_said_at_once_make_one_session(
    store: Store, seat: Seat, runtime: Runtime
) -> None:
    tickets = await asyncio.gather(seat.say("one"), seat.say("two"))
    for ticket in tickets:
        await ended(ticket)
    assert await count(store) == 1
    assert len(await read(store, seat.session)) == 4


async def test_settings_made_before_the_first_message_are_kept(store: Store, seat: Seat) -> None:
    for line in ("/model two", "/title   Mine ", "/thinking high", "/mode plan", "/pin"):
        await run(seat, line)
    assert await count(store) == 0
    assert seat.model.name == "script/two"
    assert seat.setting("thinking") == "high"
    await ended(await seat.say("hello"))
    session = await store.get_session(sitting(seat).id)
    assert (session.model, session.thinking, session.mode) == ("script/two", "high", "plan")
    assert (session.title, session.title_by, session.pinned) == ("Mine", "user", True)


async def test_a_title_that_is_too_long_is_refused_before_there_is_a_session(seat: Seat) -> None:
    assert "200 characters" in await run(seat, "/title " + "x" * 201)
    assert seat.setting("title") is None
    await ended(await seat.say("hello"))


async def test_a_message_that_is_sent_twice_is_one(store: Store, seat: Seat) -> None:
    session = (await seat.make_ready()).session
    sending = seat.prepare("hello")
    first, again = await sending, await sending
    assert (first.is_new, again.is_new, again.inbound) == (True, False, first.inbound)
    assert len(await store.list_inbound(session.id)) <= 1


async def test_a_transcript_that_a_seat_begins_at_is_the_sessions(store: Store, seat: Seat) -> None:
    seat.begin_at("/somewhere/t.jsonl", remembers=True)
    await ended(await seat.say("hello"))
    assert sitting(seat).transcript_path == "/somewhere/t.jsonl"


# --- /new -------------------------------------------------------------------------------------


async def test_new_leads_to_a_session_whose_key_has_the_time(
    store: Store, make_seat: Seats, make_runtime: Runtimes, actor: Actor
) -> None:
    clock = FakeClock()
    seat = await make_seat(make_runtime(store, actor, clock=clock))
    await ended(await seat.say("one"))
    old = sitting(seat)
    await seat.switch(None, "new")
    assert await store.find_route(seat.key) is None
    assert await count(store) == 1
    await ended(await seat.say("two"))
    new = sitting(seat)
    assert new.key == new_key("cli:project", clock.now)
    assert new.previous_id == old.id
    found = await store.find_route("cli:project")
    assert found is not None
    assert found.id == new.id
    assert await read(store, old) == ["user: one", "assistant: ok"]
    assert await store.find_attachment(old.id) is None


async def test_new_without_a_message_makes_no_row_and_leads_nowhere(
    store: Store, seat: Seat, make_seat: Seats, runtime: Runtime
) -> None:
    await ended(await seat.say("one"))
    await seat.switch(None, "new")
    await seat.leave()
    assert await count(store) == 1
    assert await store.find_route("cli:project") is None


async def test_new_keeps_the_settings_but_not_the_name_and_the_mode(
    store: Store, seat: Seat
) -> None:
    seat.wanted = Wanted(
        model="script/two",
        personality="coach",
        thinking="low",
        mode="plan",
        title="Mine",
        pinned=True,
    )
    await ended(await seat.say("one"))
    await seat.switch(None, "new")
    assert seat.setting("title") is None
    await ended(await seat.say("two"))
    session = await store.get_session(sitting(seat).id)
    assert (session.model, session.personality, session.thinking) == ("script/two", "coach", "low")
    assert (session.mode, session.pinned) == (None, False)
    assert session.title != "Mine"


async def test_resuming_the_old_session_sets_the_route_back(store: Store, seat: Seat) -> None:
    await ended(await seat.say("one"))
    old = sitting(seat)
    await seat.switch(None, "new")
    await ended(await seat.say("two"))
    await seat.switch(old, "resume")
    found = await store.find_route(seat.key)
    assert found is not None
    assert found.id == sitting(seat).id == old.id


async def test_a_session_of_another_directory_does_not_take_this_ones_key(
    store: Store, seat: Seat, tmp_path: Path
) -> None:
    await ended(await seat.say("one"))
    mine = sitting(seat)
    far = await store.create_session(NewSession(key="cli:far", cwd=str(tmp_path)))
    await seat.switch(far, "resume")
    found = await store.find_route(seat.key)
    assert found is not None
    assert found.id == mine.id


# --- the switch -------------------------------------------------------------------------------


@pytest.fixture
async def target(store: Store, directory: Path) -> Session:
    return await store.create_session(
        NewSession(
            key="cli:target",
            cwd=str(directory),
            project=str(directory),
            model="script/two",
            personality="reviewer",
            thinking="low",
            mode="plan",
        )
    )


async def test_a_switch_restores_what_the_session_was_set_to(
    store: Store, seat: Seat, target: Session
) -> None:
    switched = await seat.switch(target, "resume")
    assert switched.session is not None
    assert switched.session.id == sitting(seat).id
    assert (switched.previous_id, switched.reason, switched.notices) == (None, "resume", ())
    assert seat.model.name == "script/two"
    assert [seat.setting(name) for name in ("personality", "thinking", "mode")] == [
        "reviewer",
        "low",
        "plan",
    ]
    assert await store.find_attachment(target.id) is not None


async def test_a_switch_aborts_the_turn_that_began_here_and_leaves_what_waits_in_the_inbox(
    store: Store, seat: Seat, actor: Actor, target: Session
) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await seat.say("two")
    old = sitting(seat)
    await soon(held.began.wait())
    assert seat.live.is_busy
    await soon(seat.switch(target, "resume"))
    assert [turn.status for turn in await store.list_turns(old.id)] == ["aborted"]
    assert not seat.live.is_busy
    assert ticket.turn.done()
    (row,) = await store.list_inbound(old.id)
    assert (row.payload["text"], row.status) == ("two", "queued")
    assert await store.find_attachment(old.id) is None


async def test_reloading_the_own_session_keeps_its_turn_running(
    store: Store, seat: Seat, actor: Actor
) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await soon(held.began.wait())
    await seat.switch(sitting(seat), "resume")
    assert await store.find_attachment(sitting(seat).id) is not None
    held.go_on.set()
    assert (await ended(ticket)).status == "done"


HOOK = """#!{python}
import json, sys
got = json.load(sys.stdin)
with open({log!r}, "a") as log:
    log.write(json.dumps(got) + "\\n")
sys.exit({code!r})
"""


def hook(directory: Path, name: str, code: Any = 0) -> str:
    path = directory / name
    path.write_text(
        HOOK.format(python=sys.executable, log=str(directory / "log"), code=code), "utf-8"
    )
    path.chmod(0o700)
    return str(path)


async def test_hooks_are_asked_before_a_switch_and_told_after_it(
    store: Store,
    actor: Actor,
    make_runtime: Runtimes,
    make_seat: Seats,
    tmp_path: Path,
) -> None:
    programs = {
        "session_before_switch": [hook(tmp_path, "before")],
        "session_switch": [hook(tmp_path, "after")],
        "session_end": [hook(tmp_path, "end")],
    }
    seat = await make_seat(make_runtime(store, actor, hooks=programs))
    await ended(await seat.say("one"))
    old = sitting(seat)
    await soon(seat.switch(None, "new"))
    await soon(seat.switch(old, "resume"))
    await soon(seat.leave())
    told = [json.loads(line) for line in (tmp_path / "log").read_text("utf-8").splitlines()]
    assert [(each["event"], each["reason"]) for each in told] == [
        ("session_before_switch", "new"),
        ("session_switch", "new"),
        ("session_before_switch", "resume"),
        ("session_switch", "resume"),
        ("session_end", "exit"),
    ]
    assert [(each["session_id"], each["previous_id"]) for each in told[:4]] == [
        (None, old.id),
        (None, old.id),
        (old.id, None),
        (old.id, None),
    ]


async def test_a_switch_that_a_hook_refuses_changes_nothing(
    store: Store, actor: Actor, make_runtime: Runtimes, make_seat: Seats, tmp_path: Path
) -> None:
    target = await store.create_session(NewSession(key="cli:target"))
    await store.edit_session(target.id, SessionEdit(archived=True))
    programs = {"session_before_switch": [hook(tmp_path, "no", "not now")]}
    seat = await make_seat(make_runtime(store, actor, hooks=programs))
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await soon(held.began.wait())
    before = sitting(seat)
    for wanted in (target, None):
        with pytest.raises(SwitchRefused, match="not now"):
            await soon(seat.switch(wanted, "resume" if wanted else "new"))
        assert sitting(seat) == before
    assert seat.live.is_busy
    assert (await store.get_session(target.id)).archived_at is not None
    assert await store.find_attachment(target.id) is None
    assert await store.find_route(seat.key) is not None
    held.go_on.set()
    assert (await ended(ticket)).status == "done"


HOLDER = """
import asyncio, sys
from clew.store import open_store

async def hold():
    async with await open_store(sys.argv[1], durability="normal") as store:
        await store.attach(sys.argv[2])
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(hold())
"""


async def test_a_session_that_another_process_has_open_leaves_the_seat_where_it_was(
    store: Store, seat: Seat, actor: Actor, target: Session, url: str
) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await soon(held.began.wait())
    before = sitting(seat)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLDER,
        url,
        target.id,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await soon(process.stdout.readline()) == b"held\n"
        with pytest.raises(SessionAttached) as refused:
            await seat.switch(target, "resume")
        assert str(process.pid) in str(refused.value)
    finally:
        process.stdin.close()
        await soon(process.wait())
    assert sitting(seat) == before
    assert seat.live.is_busy
    assert await store.find_attachment(before.id) is not None
    held.go_on.set()
    assert (await ended(ticket)).status == "done"
    # It is free now.
    assert (await seat.switch(target, "resume")).session is not None


async def test_a_hold_of_a_dead_process_is_taken_over_and_what_it_left_is_told(
    seat: Seat, target: Session, url: str
) -> None:
    dead = await open_store(url, durability="normal")
    await dead.attach(target.id)
    new = inbound(target, "left")
    await dead.accept(new, claimant=f"{dead.identity}#{new.id}")
    await dead.close()
    seated = await seat.switch(target, "resume")
    assert seated.taken_over is not None
    (row,) = seated.unanswered
    assert row.payload["text"] == "left"
    await seat.live.follow(sitting(seat))
    assert (await ended(await seat.run_waiting(row))).status == "done"


async def test_a_message_adopted_by_a_seat_without_a_person_gets_no_answers(
    actor: Actor, make_seat: Seats, runtime: Runtime, target: Session, store: Store
) -> None:

    answers: list[str | None] = []

    async def asking(turn: Any) -> None:
        answers.append((await turn.ask(ToolCall(id="c", name="shell"), {})).decided_by)

    actor.scenes.append(asking)
    seat = await make_seat(runtime, attended=False)
    await seat.switch(target, "resume")
    await seat.live.follow(sitting(seat))
    row, _ = await store.accept(inbound(target, "left"))
    await ended(await seat.run_waiting(row))
    assert answers == ["nobody"]


async def test_a_model_that_is_no_longer_configured_leaves_the_current_one_and_says_so(
    store: Store, seat: Seat, actor: Actor
) -> None:
    old = await store.create_session(NewSession(key="cli:old", model="vanished/model"))
    await run(seat, "/model two")
    switched = await seat.switch(old, "resume")
    assert switched.notices == (
        "The model vanished/model is no longer configured; going on with script/two.",
    )
    assert seat.model.name == "script/two"
    await seat.live.follow(sitting(seat))
    turn = await ended(await seat.say("hello"))
    assert turn.model == "script/two"
    assert (await store.get_session(old.id)).model == "vanished/model"


async def test_choosing_a_model_there_is_remembered(store: Store, seat: Seat) -> None:
    old = await store.create_session(NewSession(key="cli:old", model="vanished/model"))
    await seat.switch(old, "resume")
    await seat.live.follow(sitting(seat))
    await run(seat, "/model two")
    assert (await ended(await seat.say("hello"))).model == "script/two"
    assert (await store.get_session(old.id)).model == "script/two"


async def test_an_archived_session_is_taken_out_of_the_archive(
    store: Store, seat: Seat, target: Session
) -> None:
    await store.edit_session(target.id, SessionEdit(archived=True))
    await seat.switch(target, "resume")
    assert sitting(seat).archived_at is None
    assert (await store.get_session(target.id)).archived_at is None


# --- read-only --------------------------------------------------------------------------------


async def test_a_read_only_seat_says_and_changes_nothing(
    store: Store, other: Store, seat: Seat, target: Session
) -> None:
    await store.edit_session(target.id, SessionEdit(archived=True))
    await other.attach(target.id)
    before = await store.get_session(target.id)
    await seat.switch(target, "resume", read_only=True)
    with pytest.raises(InvalidInput, match="read-only"):
        await seat.say("hello")
    for line in ("/title x", "/retry"):
        assert "read-only" in await run(seat, line)
    await seat.leave()
    assert await store.get_session(target.id) == before
    assert await store.find_attachment(target.id) is not None
    assert await store.list_inbound(target.id) == ()


async def test_a_read_only_seat_can_move_on(store: Store, seat: Seat, target: Session) -> None:
    await seat.switch(target, "resume", read_only=True)
    await seat.switch(target, "fork", forks=True)
    await seat.live.follow(branch := sitting(seat))
    await ended(await seat.say("hello"))
    assert branch.parent_id == target.id
    assert await store.find_attachment(branch.id) is not None


async def test_what_was_held_is_let_go_when_it_is_only_looked_at(
    store: Store, seat: Seat, target: Session
) -> None:
    await seat.switch(target, "resume")
    await seat.switch(target, "resume", read_only=True)
    assert await store.find_attachment(target.id) is None


# --- and --------------------------------------------------------------------------------------


async def test_another_personality_keeps_the_thread(store: Store, seat: Seat) -> None:
    await ended(await seat.say("one"))
    session = sitting(seat)
    await run(seat, "/personality coach")
    await ended(await seat.say("two"))
    assert sitting(seat).id == session.id
    assert len(await read(store, seat.session)) == 4


async def test_a_fork_belongs_to_this_directory(
    store: Store, seat: Seat, tmp_path: Path, directory: Path
) -> None:
    far = await store.create_session(NewSession(key="cli:far", cwd=str(tmp_path), title="Far"))
    await seat.switch(far, "fork", forks=True)
    branch = sitting(seat)
    assert (branch.parent_id, branch.cwd, branch.project) == (
        far.id,
        str(directory),
        str(directory),
    )
    assert branch.metadata["directory"] == locate(directory).facts
    assert (await store.get_session(far.id)).cwd == str(tmp_path)


async def test_leaving_lets_the_session_go_and_aborts_what_began_here(
    store: Store, seat: Seat, actor: Actor
) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("one")
    await soon(held.began.wait())
    await soon(seat.leave())
    assert (await ended(ticket)).status == "aborted"
    assert await store.find_attachment(sitting(seat).id) is None


async def test_a_seat_that_holds_nothing_sits_beside_a_terminal(
    store: Store, other: Store, runtime: Runtime, make_seat: Seats, target: Session
) -> None:
    await other.attach(target.id)
    seat = await make_seat(runtime, holds=False)
    await seat.switch(target, "resume")
    await seat.live.follow(sitting(seat))
    assert (await ended(await seat.say("hello"))).status == "done"
    await seat.leave()
    assert await other.find_attachment(target.id) is not None


async def test_a_seat_that_holds_a_session_tells_other_hosts_that_it_lives(
    store: Store, runtime: Runtime, make_seat: Seats, target: Session
) -> None:
    seat = await make_seat(runtime, beat_ms=5)
    await seat.switch(target, "resume")
    first = await store.find_attachment(target.id)
    assert first is not None

    async def beaten() -> bool:
        now = await store.find_attachment(target.id)
        return now is not None and now.beat_at > first.beat_at

    await until(beaten)


async def test_breadcrumbs_are_left_at_every_step(
    runtime: Runtime, make_seat: Seats, target: Session
) -> None:
    crumbs: list[tuple[str | None, bool]] = []
    seat = await make_seat(runtime, write_crumb=lambda *crumb: crumbs.append(crumb))
    await seat.switch(target, "startup")
    await seat.switch(None, "new")
    await ended(await seat.say("hello"))
    assert crumbs == [(target.id, False), (None, True), (sitting(seat).id, False)]


async def test_the_default_model_answers_where_nothing_was_chosen(
    seat: Seat, models: Catalogue
) -> None:
    await seat.switch(None, "startup")
    assert seat.model == models.get_model(None)
    assert seat.model.name == "script/one"
