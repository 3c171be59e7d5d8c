"""Slash commands: each does what it says, and one that refuses has changed nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.changes import AddUsage, WriteScratch, WriteTodos
from clew.core.commands import ALIASES, COMMANDS
from clew.core.message import Draft
from clew.core.models import EMBEDDED
from clew.core.notes import Todo
from clew.core.rules import HeldRule, hold
from clew.core.session import NewSession, SessionEdit, SessionFacts
from clew.core.usage import Usage
from clew.memory import MarkdownMemory
from clew.ports import LiveTurn, Store
from clew.runtime.commands import FUNCTIONS, check_functions, run_command
from clew.runtime.runtime import Runtime
from tests.runtime.conftest import (
    Actor,
    Held,
    Run,
    Runtimes,
    Seat,
    Seats,
    added,
    ended,
    read,
    sitting,
    soon,
    until,
)


@pytest.fixture
async def talked(seat: Seat) -> Seat:
    """A seat at a session with one turn in it."""
    await ended(await seat.say("hello there"))

    async def has_title() -> bool:
        return (await seat.refresh() or sitting(seat)).title is not None

    await until(has_title)
    return seat


# --- the table --------------------------------------------------------------------------------


async def test_help_lists_every_command_and_every_other_name(run: Run) -> None:
    reply = await run("/help")
    lines = reply.text.splitlines()
    for name, command in COMMANDS.items():
        usage = f"/{name} {command.usage}".strip()
        assert any(line.startswith(usage + " ") and command.help in line for line in lines)
    for alias in ALIASES:
        assert f"/{alias}" in reply.text


@pytest.mark.parametrize("name", ["undo", "/undo", "UNDO"])
async def test_help_of_one_command_is_its_line(run: Run, name: str) -> None:
    reply = await run(f"/help {name}")
    assert reply.text.split() == ["/undo", *COMMANDS["undo"].help.split()]


async def test_help_of_another_name_is_that_of_its_command(run: Run) -> None:
    assert (await run("/help quit")).text.startswith("/exit")


async def test_help_of_an_unknown_command_is_refused(run: Run) -> None:
    reply = await run("/help nothing")
    assert reply.is_error
    assert "/nothing" in reply.text


async def test_an_unknown_command_names_the_nearest(run: Run) -> None:
    reply = await run("/retri")
    assert (reply.is_error, reply.text) == (
        True,
        "There is no command /retri. Did you mean /retry?",
    )


async def test_an_unknown_command_that_is_near_to_none_points_to_help(run: Run) -> None:
    reply = await run("/xyzzyq")
    assert reply.is_error
    assert reply.text.endswith("/help shows what there is.")


def test_a_command_without_a_function_fails_at_import() -> None:
    check_functions(FUNCTIONS)
    with pytest.raises(TypeError, match="/undo"):
        check_functions({name: each for name, each in FUNCTIONS.items() if name != "undo"})
    with pytest.raises(TypeError, match="/dance"):
        check_functions(FUNCTIONS | {"dance": FUNCTIONS["help"]})


# --- sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["new", "reset"])
async def test_new_begins_with_the_next_message(
    store: Store, talked: Seat, run: Run, name: str
) -> None:
    old = sitting(talked)
    reply = await run(f"/{name}")
    assert not reply.is_error
    assert reply.switched is not None
    assert reply.switched.previous_id == old.id
    assert talked.current is None
    assert (await store.stats()).sessions == 1


async def test_new_with_a_message_says_it_there(store: Store, talked: Seat, run: Run) -> None:
    old = sitting(talked)
    reply = await run("/new and now this")
    assert reply.ticket is not None
    await ended(reply.ticket)
    assert sitting(talked).id != old.id
    assert (await read(store, talked.current))[0] == "user: and now this"


async def test_resume_alone_lets_the_person_choose_among_all(talked: Seat, run: Run) -> None:
    assert (await run("/resume")).pick == ()


async def test_resume_with_nothing_to_resume_says_so(run: Run) -> None:
    reply = await run("/resume")
    assert (reply.text, reply.pick) == ("No sessions found", None)


async def test_resume_finds_a_session_by_what_was_typed(
    store: Store, talked: Seat, run: Run
) -> None:
    wanted = await store.create_session(NewSession(key="cli:x", title="Holiday plans"))
    reply = await run("/resume holiday plans")
    assert reply.open is not None
    assert reply.open.id == wanted.id


async def test_resume_lets_the_person_choose_among_several(store: Store, run: Run) -> None:
    for key in ("cli:x", "cli:y"):
        await store.create_session(NewSession(key=key, title="Holiday plans"))
    reply = await run("/resume Holiday plans")
    assert reply.pick is not None
    assert len(reply.pick) == 2


async def test_resume_of_what_is_not_there_changes_nothing(talked: Seat, run: Run) -> None:
    before = sitting(talked)
    reply = await run("/resume nowhere-at-all")
    assert reply.is_error
    assert "not found" in reply.text
    assert sitting(talked) == before


async def test_fork_branches_off_here(store: Store, talked: Seat, run: Run) -> None:
    parent = sitting(talked)
    reply = await run("/fork Other way")
    assert not reply.is_error
    assert 'branch "Other way"' in reply.text
    branch = sitting(talked)
    assert (branch.parent_id, branch.title) == (parent.id, "Other way")
    await ended(await talked.say("there"))
    assert len(await read(store, branch)) == 4
    assert len(await read(store, parent)) == 2


async def test_messages_name_a_session_without_a_title_by_its_first_prompt(
    store: Store, talked: Seat, run: Run
) -> None:
    await store.edit_session(sitting(talked).id, SessionEdit(title=None))
    assert (await run("/title")).text == 'There is no title yet. It is listed as "hello there".'
    assert (await run("/fork")).text == 'Now in the branch "hello there".'


async def test_fork_without_a_session_is_refused(run: Run) -> None:
    reply = await run("/fork")
    assert (reply.is_error, reply.text) == (
        True,
        "There is no session yet; say something first.",
    )


async def test_a_fork_that_is_refused_leaves_no_branch(
    store: Store, talked: Seat, run: Run
) -> None:
    before = sitting(talked)
    reply = await run("/fork " + "x" * 201)
    assert reply.is_error
    assert sitting(talked) == before
    stats = await store.stats()
    assert (stats.sessions, await store.restore_last()) == (1, ())


async def test_a_fork_that_a_hook_refuses_leaves_no_branch(
    store: Store, make_runtime: Runtimes, make_seat: Seats, models: Catalogue, tmp_path: Path
) -> None:
    program = tmp_path / "no"
    program.write_text("#!/bin/sh\necho 'not now' >&2\nexit 1\n", "utf-8")
    program.chmod(0o700)
    hooks = {"session_before_switch": [str(program)]}
    seat = make_seat(make_runtime(store, Actor(), hooks=hooks))
    await ended(await seat.say("hello"))
    reply = await soon(run_command(seat, "fork", ""))
    assert reply.is_error
    assert "not now" in reply.text
    assert (await store.stats()).sessions == 1


async def test_title_is_shown_set_and_kept(store: Store, talked: Seat, run: Run) -> None:
    reply = await run("/title A better name")
    assert reply.text == "The title is now: A better name"
    assert (await run("/title")).text == "The title is: A better name"
    session = await store.get_session(sitting(talked).id)
    assert (session.title, session.title_by) == ("A better name", "user")


async def test_title_before_there_is_a_session_is_the_next_ones(seat: Seat, run: Run) -> None:
    assert (await run("/title")).text == "There is no title yet."
    assert (await run("/title Mine")).text == "The title is now: Mine"
    await ended(await seat.say("hello"))
    assert sitting(seat).title == "Mine"


@pytest.mark.parametrize("begun", [False, True])
async def test_a_title_that_is_too_long_is_refused(seat: Seat, run: Run, begun: bool) -> None:
    if begun:
        await ended(await seat.say("hello"))
    await run("/title Mine")
    reply = await run("/title " + "x" * 201)
    assert reply.is_error
    assert "200" in reply.text
    assert (await run("/title")).text == "The title is: Mine"


async def test_pin_and_unpin(store: Store, talked: Seat, run: Run) -> None:
    assert (await run("/pin")).text == "Pinned."
    assert (await store.get_session(sitting(talked).id)).pinned
    assert (await run("/pin off")).text == "No longer pinned."
    assert not (await store.get_session(sitting(talked).id)).pinned


async def test_pin_refuses_other_words(store: Store, talked: Seat, run: Run) -> None:
    assert (await run("/pin maybe")).is_error
    assert not (await store.get_session(sitting(talked).id)).pinned


async def test_search_shows_where_it_was_said(store: Store, talked: Seat, run: Run) -> None:
    reply = await run("/search hello")
    assert not reply.is_error
    assert "hello there" in reply.text
    assert sitting(talked).id[:8] in reply.text
    assert reply.text.endswith("/resume ID goes on with one of them.")


async def test_search_of_what_was_never_said_says_so(talked: Seat, run: Run) -> None:
    assert (await run("/search zebra")).text == 'Nothing was found for "zebra".'


async def test_search_shows_no_control_characters(store: Store, seat: Seat, run: Run) -> None:
    await ended(await seat.say("zebra \x1b[31mred\x07"))
    assert "\x1b" not in (await run("/search zebra")).text


async def test_search_without_words_is_refused(run: Run) -> None:
    assert (await run("/search")).is_error


# --- turns (what they take back is in test_attempts) ------------------------------------------


async def test_stop_aborts_the_turn_that_runs(seat: Seat, actor: Actor, run: Run) -> None:
    actor.scenes.append(held := Held())
    ticket = await seat.say("hello")
    await soon(held.began.wait())
    assert (await run("/stop")).text == "Stopped."
    assert (await ended(ticket)).status == "aborted"


async def test_stop_where_nothing_runs_says_so(talked: Seat, run: Run) -> None:
    assert (await run("/stop")).text == "Nothing is running."


async def test_retry_in_a_session_without_messages_is_refused(
    store: Store, seat: Seat, run: Run
) -> None:
    await seat.begin()
    for line in ("/retry", "/undo", "/redo"):
        assert (await run(line)).is_error


# --- settings ---------------------------------------------------------------------------------


async def test_model_shows_what_there_is_with_what_is_wrong_with_it(run: Run) -> None:
    lines = (await run("/model")).text.splitlines()
    assert lines[0] == "* script/one"
    assert "  script/two" in lines
    assert any(line.startswith("  closed/away  (") for line in lines)


async def test_model_is_remembered_with_the_session(store: Store, talked: Seat, run: Run) -> None:
    assert (await run("/model script/two")).text == "The model is now script/two."
    session = await store.get_session(sitting(talked).id)
    assert (session.model, session.provider) == ("script/two", "script")
    assert (await ended(await talked.say("again"))).model == "script/two"


@pytest.mark.parametrize("name", ["nowhere/model", "closed/away"])
async def test_a_model_that_can_not_be_used_is_refused(
    store: Store, talked: Seat, run: Run, name: str
) -> None:
    assert (await run(f"/model {name}")).is_error
    assert (await store.get_session(sitting(talked).id)).model == "script/one"


async def test_thinking_is_kept_and_says_what_the_model_can_do(
    store: Store, talked: Seat, run: Run
) -> None:
    assert (await run("/thinking")).text.startswith("Thinking is off. script/one knows off, low")
    assert (await run("/thinking HIGH")).text == "Thinking is now high."
    await run(f"/model {EMBEDDED}")
    assert (await run("/thinking high")).text == f"Thinking is high; {EMBEDDED} can only do off."
    assert (await store.get_session(sitting(talked).id)).thinking == "high"
    assert (await run("/thinking off")).text == "Thinking is now off."


async def test_a_thinking_level_that_does_not_exist_is_refused(
    store: Store, talked: Seat, run: Run
) -> None:
    reply = await run("/thinking deeply")
    assert reply.is_error
    assert "off, low, medium, high" in reply.text
    assert (await store.get_session(sitting(talked).id)).thinking is None


async def test_tier_is_refused_where_the_model_has_none(
    store: Store, talked: Seat, run: Run
) -> None:
    assert "script/one has no tiers" in (await run("/tier")).text
    assert (await run("/tier flex")).is_error
    assert (await store.get_session(sitting(talked).id)).service_tier is None


async def test_tier_is_set_and_unset_where_the_model_has_some(
    store: Store, talked: Seat, run: Run, models: Catalogue
) -> None:
    name = next(each.name for each in models.list_models() if each.tiers)
    tier = models.get_model(name).tiers[0]
    await store.edit_session(sitting(talked).id, SessionEdit(model=name))
    await talked.refresh()
    assert (await run(f"/tier {tier}")).text == f"The service tier is now {tier}."
    assert (await store.get_session(sitting(talked).id)).service_tier == tier
    assert (await run("/tier nonsense")).is_error
    assert (await run("/tier none")).text == "The service tier is unset."
    assert (await store.get_session(sitting(talked).id)).service_tier is None


async def test_mode_is_shown_and_set_and_a_plan_is_remembered_as_paused(
    store: Store, talked: Seat, run: Run
) -> None:
    assert (await run("/mode")).text.startswith("The mode is default:")
    assert (await run("/mode plan")).text.startswith("The mode is now plan:")
    assert (await store.get_session(sitting(talked).id)).mode == "plan"
    await run("/mode default")
    assert (await store.get_session(sitting(talked).id)).mode == "plan_paused"
    assert "A plan is paused" in (await run("/mode")).text


async def test_a_mode_that_does_not_exist_is_refused(store: Store, talked: Seat, run: Run) -> None:
    assert (await run("/mode plan_paused")).is_error
    assert (await store.get_session(sitting(talked).id)).mode is None


async def test_a_mode_that_nobody_knows_any_more_is_still_shown(
    store: Store, talked: Seat, run: Run
) -> None:
    await store.edit_session(sitting(talked).id, SessionEdit(mode="dancing"))
    await talked.refresh()
    assert "dancing" in (await run("/mode")).text


async def test_personality_is_shown_and_changed_and_the_thread_stays(
    store: Store, talked: Seat, run: Run
) -> None:
    assert "* default" in (await run("/personality")).text
    reply = await run("/personality coach")
    assert reply.text.endswith("The thread stays.")
    assert "* coach" in (await run("/personality")).text
    assert (await store.get_session(sitting(talked).id)).personality == "coach"
    assert len(await read(store, talked.current)) == 2


async def test_an_unknown_personality_is_refused_with_the_list(
    store: Store, talked: Seat, run: Run
) -> None:
    reply = await run("/personality nobody")
    assert reply.is_error
    assert "coach" in reply.text
    assert (await store.get_session(sitting(talked).id)).personality is None


async def test_a_personality_that_is_gone_can_be_left(store: Store, talked: Seat, run: Run) -> None:
    await store.edit_session(sitting(talked).id, SessionEdit(personality="vanished"))
    await talked.refresh()
    for line in ("/personality", "/status", "/memory"):
        reply = await run(line)
        assert not reply.is_error, (line, reply.text)
    assert not (await run("/personality coach")).is_error


async def test_verbose_is_kept_with_the_session_beside_what_else_is_noted(
    store: Store, talked: Seat, run: Run
) -> None:
    assert "one line each" in (await run("/verbose")).text
    # The turn that ran last has noted something that this seat has not seen yet.
    before = await store.get_session(sitting(talked).id)
    noted = before.metadata | {"allow": ["shell:make"]}
    await store.describe_session(before.id, SessionFacts(metadata=noted))
    assert "in full" in (await run("/verbose on")).text
    assert (await store.get_session(before.id)).metadata == noted | {"verbose": True}
    assert "one line each" in (await run("/verbose off")).text


async def test_verbose_refuses_other_words_and_needs_a_session(seat: Seat, run: Run) -> None:
    assert (await run("/verbose on")).is_error
    await ended(await seat.say("hello"))
    assert (await run("/verbose very")).is_error
    assert "verbose" not in sitting(seat).metadata


# --- reports ----------------------------------------------------------------------------------


async def test_memory_shows_both_files_and_where_they_are(run: Run, tmp_path: Path) -> None:
    await MarkdownMemory(tmp_path / "home").write("memory", "likes tea", by="test")
    reply = await run("/memory")
    assert "likes tea" in reply.text
    assert reply.text.count(str(tmp_path / "home")) == 2
    assert "(empty)" in reply.text


async def test_memory_search_shows_what_fits_and_where_it_is(run: Run, tmp_path: Path) -> None:
    await MarkdownMemory(tmp_path / "home").write("memory", "# Taste\n- likes tea", by="test")
    assert (await run("/memory search who likes what?")).text == "MEMORY.md › Taste\n  likes tea"
    assert (await run("/memory search elephants")).text == "Nothing in the memory fits."
    for wrong in ("/memory search", "/memory find tea"):
        assert (await run(wrong)).is_error


Recording = Callable[..., Awaitable[None]]


@pytest.fixture
def record(talked: Seat, actor: Actor) -> Recording:
    """Let a turn write something."""

    async def run_turn(*changes: Any) -> None:
        async def scene(turn: LiveTurn) -> None:
            await turn.record(*changes)
            await turn.finish(added(turn, "ok"))

        actor.scenes.append(scene)
        assert (await ended(await talked.say("go"))).status == "done"

    return run_turn


async def test_todos_are_shown_with_their_marks(run: Run, record: Recording) -> None:
    todos = (Todo("write", "done"), Todo("test", "in_progress"), Todo("ship", "pending"))
    await record(WriteTodos(todos))
    assert (await run("/todos")).text.splitlines() == ["[x] write", "[>] test", "[ ] ship"]


async def test_todos_without_any_say_so(run: Run, seat: Seat) -> None:
    assert (await run("/todos")).text == "There are no todos yet."
    await ended(await seat.say("hello"))
    assert (await run("/todos")).text == "There are no todos."


async def test_the_scratchpad_is_listed_and_read(run: Run, record: Recording) -> None:
    await record(WriteScratch("plan", "step one"))
    assert (await run("/scratchpad")).text.startswith("plan")
    assert (await run("/scratchpad plan")).text == "step one"


async def test_an_empty_scratchpad_says_so_and_an_unknown_entry_is_refused(
    run: Run, seat: Seat
) -> None:
    assert (await run("/scratchpad")).text == "The scratchpad is empty."
    await ended(await seat.say("hello"))
    assert (await run("/scratchpad")).text == "The scratchpad is empty."
    assert (await run("/scratchpad plan")).is_error


def facts(text: str) -> dict[str, str]:
    return {line.split("  ", 1)[0]: line.split("  ", 1)[1].strip() for line in text.splitlines()}


async def test_status_before_there_is_a_session(run: Run) -> None:
    told = facts((await run("/status")).text)
    assert (told["session"], told["key"], told["model"]) == (
        "none yet",
        "cli:project",
        "script/one",
    )
    assert (told["mode"], told["personality"]) == ("default", "default")


async def test_status_of_a_session(run: Run, talked: Seat) -> None:
    told = facts((await run("/status")).text)
    assert told["session"] == sitting(talked).id
    assert (told["messages"], told["queue"], told["verbose"]) == ("2", "0", "off")
    assert told["context"] == "not measured yet"
    assert told["usage"] == "nothing yet"


async def test_status_lists_the_rules_that_hold_with_where_they_come_from(
    run: Run, talked: Seat
) -> None:
    assert facts((await run("/status")).text)["rules"] == "none: what changes things is asked about"
    talked.rules = (
        HeldRule("allow", "shell:git log", "/home/ada/config.toml"),
        HeldRule("deny", "shell:rm", "CLEW_TOOLS_DENY"),
    )
    await talked.note("allow", ["write_file", 7])
    lines = (await run("/status")).text.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines[-3:]] == [
        "deny shell:rm, from CLEW_TOOLS_DENY",
        "allow shell:git log, from /home/ada/config.toml",
        "allow write_file, from this session",
    ]
    assert lines[-3].startswith("rules ")


async def test_status_of_many_rules_says_where_the_others_are(run: Run, talked: Seat) -> None:
    talked.rules = hold("allow", map(str, range(100)), "CLEW_TOOLS_ALLOW")
    assert "… 80 more rules: `clew show ID --json`" in (await run("/status")).text


async def test_usage_of_the_session_and_of_today(run: Run, record: Recording) -> None:
    spent = Usage(1_200_000, 34_000, 900_000, cost=1_230_000_000, api_calls=123)
    await record(AddUsage(usage=spent))
    lines = (await run("/usage")).text.splitlines()
    assert lines == [
        "                     tokens in     out   cached  calls",
        "this session         1,200,000  34,000  900,000    123  $1.23",
        "today, all sessions          0       0        0      0  $0.00",
    ]
    assert "1,200,000 tokens in, 34,000 out, 900,000 cached" in (await run("/status")).text
    assert "$1.23, 123 calls" in (await run("/status")).text


async def test_usage_without_a_session_is_todays(run: Run) -> None:
    told = (await run("/usage")).text.splitlines()
    assert [line.split("  ")[0] for line in told] == ["", "today, all sessions"]


# --- read-only --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "/title x",
        "/pin",
        "/model script/two",
        "/thinking low",
        "/mode plan",
        "/personality coach",
        "/verbose on",
        "/undo",
        "/redo",
        "/retry",
    ],
)
async def test_a_session_that_is_only_looked_at_is_not_changed(
    store: Store, talked: Seat, run: Run, line: str
) -> None:
    await talked.switch(sitting(talked), "resume", read_only=True)
    before = await store.get_session(sitting(talked).id)
    reply = await run(line)
    assert reply.is_error
    assert "read-only" in reply.text
    assert await store.get_session(before.id) == before


async def test_a_session_that_is_only_looked_at_can_be_forked(
    store: Store, talked: Seat, run: Run
) -> None:
    await talked.switch(sitting(talked), "resume", read_only=True)
    assert not (await run("/fork")).is_error
    await ended(await talked.say("go on"))
    assert len(await read(store, talked.current)) == 4


async def test_what_another_process_has_leased_is_not_undone(
    store: Store, other: Store, talked: Seat, run: Run, runtime: Runtime
) -> None:
    lease = await other.acquire_lease(sitting(talked).id, other.identity)
    reply = await run("/undo")
    assert reply.is_error
    assert len(await read(store, talked.current)) == 2
    await other.append(sitting(talked).id, lease.epoch, Draft(role="user", content="there"))
    await other.release_lease(lease)
