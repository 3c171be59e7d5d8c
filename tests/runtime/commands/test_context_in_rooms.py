"""Compaction, notes and plans as people have them: the whole house over a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew.agent.system_prompt import PAUSED, PLAN
from clew.core.context.compaction import BEFORE_SUMMARY
from clew.core.live_events import ApprovalAsked, Notice
from clew.core.session import SessionFilter
from tests.runtime.conftest import collect, soon, until
from tests.runtime.rooms import Room, room

ANSWER = "So it is, and not otherwise. " * 60
SUMMARY = "Summary: about it\n\n## Goal\nto see the sea\n\n## Open work\ngo there"
WRITES_SUMMARY = {"when": "Write the (updated )?summary now", "answers": [SUMMARY]}
# Far from the limit, as its provider counts: nothing is compacted by itself.
SAYS = {"text": ANSWER, "usage": {"input": 500, "output": 100}}
SCRIPT: dict[str, Any] = {"title": "", "rules": [WRITES_SUMMARY], "answers": [SAYS]}
QUIET = "[memory]\nflush = false\n"
SMALL = f"context_window = 4000\n{QUIET}"


async def say(here: Room, times: int, text: str = "tell me") -> None:
    for _ in range(times):
        turn = await here.say(text)
        assert turn.status == "done", turn.error


def summaries(here: Room) -> list[str]:
    """What was asked of whoever wrote the summaries."""
    asked = [str(each["messages"]) for each in here.requests()]
    return [each for each in asked if "summary now" in each]


def last_request(here: Room) -> str:
    asked = here.requests()
    return next(
        str(each["messages"]) for each in reversed(asked) if "Name this" not in each["instructions"]
    )


async def test_compact_heeds_the_wish_and_the_next_request_begins_with_the_summary(
    tmp_path: Path,
) -> None:
    async with room(tmp_path, SCRIPT, SMALL) as here:
        await say(here, 8)
        reply = await here.run("/compact keep the numbers")
        assert "Summarised" in reply.text
        assert "heed this in the summary: keep the numbers" in summaries(here)[0]
        await say(here, 1, "and now?")
        assert BEFORE_SUMMARY in last_request(here)
        assert "to see the sea" in last_request(here)
        assert len(await here.store.get_messages(here.session.id)) == 18, "nothing is deleted"
        assert "takes it back" in reply.text
        assert "the whole again" in (await here.run("/uncompact")).text
        await say(here, 1, "and now?")
        assert BEFORE_SUMMARY not in last_request(here)
        assert (await here.run("/uncompact")).is_error


async def test_a_second_compaction_updates_the_summary(tmp_path: Path) -> None:
    async with room(tmp_path, SCRIPT, SMALL) as here:
        await say(here, 8)
        assert not (await here.run("/compact")).is_error
        asked = len(summaries(here))
        await say(here, 8)
        assert not (await here.run("/compact")).is_error
        assert "summary-so-far" not in summaries(here)[0]
        assert "<summary-so-far>" in summaries(here)[asked]
        assert (await here.store.get_session(here.session.id)).compactions == 2


async def test_a_short_session_has_nothing_to_compact(tmp_path: Path) -> None:
    async with room(tmp_path, SCRIPT, SMALL) as here:
        assert "no session yet" in (await here.run("/compact")).text
        await say(here, 1)
        reply = await here.run("/compact")
        assert reply.is_error
        assert "There is nothing to compact" in reply.text
        assert summaries(here) == []


@pytest.mark.parametrize("auto", [True, False])
async def test_a_thread_over_eighty_percent_is_compacted_between_turns(
    tmp_path: Path, auto: bool
) -> None:
    full = {"text": ANSWER, "usage": {"input": 3_300, "output": 100}}
    script = SCRIPT | {"rules": [WRITES_SUMMARY, {"when": "^full", "answers": [full]}]}
    config = f"{SMALL}[session]\nauto_compact = {str(auto).lower()}\n"
    async with room(tmp_path, script, config) as here:
        await say(here, 7)
        before = (await here.store.get_session(here.session.id)).compactions
        await say(here, 1, "full of it")
        if auto:

            async def compacted() -> bool:
                return (await here.store.get_session(here.session.id)).compactions == before + 1

            await until(compacted)
        await say(here, 1)
        assert (BEFORE_SUMMARY in last_request(here)) == auto
        assert bool(summaries(here)) == auto


async def test_too_long_for_the_provider_is_compacted_and_tried_again(tmp_path: Path) -> None:
    # A model that can read less than the configuration says.
    diary = (
        '[providers.diary]\nkind = "python"\nfactory = "benchmarks.long_chat:open_model"\n'
        f"context_window = 200000\n{QUIET}"
    )
    async with room(tmp_path, {}, diary, model="diary/x") as here:
        await say(here, 3, "My goal is to see the sea. " + "day " * 4_000)
        assert (await here.store.get_session(here.session.id)).compactions == 0
        turn = await here.say("day " * 4_000)
        assert turn.status == "done", turn.error
        assert (await here.store.get_messages(here.session.id))[-1].content.startswith("I wrote")
        assert turn.usage.api_calls > 1, "the summary counts to the turn that needed it"
        compaction = await here.store.find_compaction(here.session.id)
        assert compaction is not None
        assert "to see the sea" in compaction.summary
        await here.check_sums()


# --- notes ----------------------------------------------------------------------------------------


async def test_todos_and_scratchpad_survive_a_compaction_and_are_there_after_a_restart(
    tmp_path: Path,
) -> None:
    todos = {"todos": [{"text": "trim the lamp", "status": "in_progress"}]}
    note = {"name": "plan", "content": "from a to z"}
    calls = [
        {"name": "todo_write", "arguments": todos},
        {"name": "scratchpad_write", "arguments": note},
    ]
    rule = {"when": "^note it", "answers": [{"tool_calls": calls}, "noted"]}
    script = SCRIPT | {"rules": [WRITES_SUMMARY, rule]}
    async with room(tmp_path, script, SMALL) as here:
        await say(here, 1, "note it")
        await say(here, 8)
        assert not (await here.run("/compact")).is_error
        assert (await here.run("/todos")).text == "[>] trim the lamp"
        assert "plan" in (await here.run("/scratchpad")).text
    async with room(tmp_path, script, SMALL) as again:
        page = await again.store.list_sessions(SessionFilter(viewer="owner"))
        await again.seat.switch(page.sessions[0], "resume")
        assert (await again.run("/todos")).text == "[>] trim the lamp"
        assert (await again.run("/scratchpad plan")).text == "from a to z"
        await say(again, 1)
        instructions = again.requests()[-1]["instructions"]
        assert "- [in_progress] trim the lamp" in instructions
        assert "- plan (" in instructions
        assert BEFORE_SUMMARY in last_request(again)


async def test_a_large_result_goes_to_the_scratchpad_and_the_model_gets_its_ends(
    tmp_path: Path,
) -> None:
    prints = {"name": "shell", "arguments": {"command": "seq -f 'line %.0f of it' 3000"}}
    rule = {"when": "^count", "answers": [{"tool_calls": [prints]}, "counted"]}
    script = SCRIPT | {"rules": [WRITES_SUMMARY, rule]}
    async with room(tmp_path, script, '[tools]\nallow = ["shell"]\n') as here:
        await say(here, 1, "count")
        thread = await here.store.get_messages(here.session.id)
        result = next(each.content for each in thread if each.role == "tool")
        assert len(result) < 30_000
        assert "line 1 of it" in result
        assert "line 3000 of it" in result
        assert "line 1500 of it" not in result
        (entry,) = await here.store.list_scratch(here.session.id)
        assert entry.name == "shell_1"
        assert entry.name in result
        assert "line 1500 of it" in (await here.run("/scratchpad shell_1")).text


# --- plans ----------------------------------------------------------------------------------------


async def test_an_approved_plan_ends_plan_mode_in_the_prompt_of_the_same_turn(
    tmp_path: Path,
) -> None:
    call = {"name": "propose_plan", "arguments": {"plan": "1. look\n2. do"}}
    script = SCRIPT | {"answers": [{"tool_calls": [call]}, "done"]}
    async with room(tmp_path, script) as here:
        await here.run("/mode plan")
        session = await here.seat.begin()
        runtime = here.house.runtime
        with runtime.watch(session.id, 0) as events:
            saying = asyncio.create_task(here.say("do it"))
            asked = (await collect(events, lambda each: isinstance(each, ApprovalAsked)))[-1]
            assert isinstance(asked, ApprovalAsked)
            await runtime.decide(asked.approval.id, "yes", by="owner")
            assert (await soon(saying)).status == "done"
        told = [each["instructions"] for each in here.requests() if each["tools"]]
        assert [(PLAN in each, PAUSED in each) for each in told] == [(True, False), (False, True)]


async def test_who_watches_is_told_what_a_compaction_does(tmp_path: Path) -> None:
    async with room(tmp_path, SCRIPT, SMALL) as here:
        await say(here, 8)
        with here.house.runtime.watch(here.session.id, here.session.head) as events:
            await here.run("/compact")
            seen = await collect(
                events, lambda each: isinstance(each, Notice) and each.text.startswith("Compacted:")
            )
    assert Notice("Compacting the conversation …") in seen
