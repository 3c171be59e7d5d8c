"""Terminals that begin afresh by themselves: `reset_by_channel.cli`, here and at a gateway."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from clew.ports import Store
from tests.cli.conftest import DAY, Home
from tests.cli.gateways import run_gateway

IDLE = '[session.reset_by_channel]\ncli = { mode = "idle", idle_minutes = 60 }\n'
TOLD = "After this pause a new conversation begins. /resume goes back to the one before."


@pytest.fixture(params=["here", "at a gateway"])
def chatting(request: pytest.FixtureRequest, home: Home) -> Iterator[Home]:
    home.script({"text": "ok"}, {"text": "ok"}, {"text": "ok"}, more=IDLE)
    with run_gateway(home) if request.param == "at a gateway" else nullcontext():
        yield home


def add_stale(home: Home, work: Path) -> Session:
    """A session of the directory, in which nobody was for two days."""
    where: dict[str, Any] = {"cwd": str(work), "project": str(work)}
    long_ago = int(time.time() * 1000) - 2 * DAY
    new = NewSession(key=f"cli:{work.name}", title="Old", **where)

    async def make(store: Store) -> Session:
        session = await store.create_session(new)
        lease = await store.acquire_lease(session.id, "test")
        said = AddMessage(Draft(role="user", content="long ago"))
        await store.record(session.id, lease.epoch, said)
        await store.release_lease(lease)
        return session

    return home.store(make, clock=lambda: long_ago)


def sessions(home: Home) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = home.json("list")["sessions"]
    return found


def test_a_chat_begins_afresh_and_says_so(chatting: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    old = add_stale(chatting, work)

    result = chatting.chat("hello", "and more", cwd=work)

    assert result.exit_code == 0, result.output
    assert result.output.count(TOLD) == 1
    new, before = sessions(chatting)
    assert before["id"] == old.id
    assert before["message_count"] == 1
    assert (new["title"], new["message_count"]) == ("Old", 4)
    shown = chatting.json("show", new["id"])["session"]
    assert (shown["previous_id"], shown["reset_reason"]) == (old.id, "idle")


@pytest.mark.parametrize("flags", [("-r", "Old"), ("-c",)])
def test_a_session_that_is_named_goes_on(
    chatting: Home, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    old = add_stale(chatting, work)

    result = chatting.chat("hello", args=flags, cwd=work)

    assert result.exit_code == 0, result.output
    assert TOLD not in result.output
    (session,) = sessions(chatting)
    assert (session["id"], session["message_count"]) == (old.id, 3)


def test_a_question_under_a_key_begins_afresh_too(chatting: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    old = add_stale(chatting, work)

    result = chatting.ask("--key", old.key, "hello", cwd=work)

    assert result.exit_code == 0, result.output
    assert TOLD in result.stderr
    assert {each["id"] for each in sessions(chatting)} > {old.id}
