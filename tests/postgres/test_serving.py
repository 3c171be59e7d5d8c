"""`clew serve` with its store in PostgreSQL: restarted, killed, and two of them at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from clew.ports import Clock, Store
from clew.store import open_store
from tests.cli.gateways import ANSWER, GatewayProcess, hold, run_gateway, wait_for
from tests.cli.screens import Terminal
from tests.cli.test_serve import (
    check_what_was_accepted_is_answered_once,
    end_in_a_hurry,
    kill,
    wait_until_it_rests,
)
from tests.postgres.test_commands import PostgresHome

T = TypeVar("T")


class ServedHome(PostgresHome):
    """A home whose configuration names the store, for processes of their own."""

    def script(self, *answers: Any, more: str = "", **told: Any) -> None:
        super().script(*answers, more=f'{more}\n[store]\nurl = "{self.url}"\n', **told)

    def store(self, work: Callable[[Store], Awaitable[T]], clock: Clock | None = None) -> T:
        async def run() -> T:
            async with await open_store(self.url, clock=clock) as store:
                return await work(store)

        return asyncio.run(run())


@pytest.fixture
def home(tmp_path: Path, url: str) -> ServedHome:
    return ServedHome(tmp_path / "home", url)


@pytest.mark.parametrize(
    ("end", "where"), [(kill, {}), (end_in_a_hurry, {"key": "agent:main:main"})]
)
def test_what_was_accepted_is_answered_once_by_the_next_gateway(
    home: ServedHome, end: Callable[[GatewayProcess], None], where: dict[str, str]
) -> None:
    check_what_was_accepted_is_answered_once(home, end, where)


def test_what_a_killed_gateway_was_at_is_gone_on_with_by_one_that_lives(
    home: ServedHome, tmp_path: Path, url: str
) -> None:
    hold(home)
    other = ServedHome(tmp_path / "other", url)
    other.script({"text": ANSWER, "chunk": 100})
    with run_gateway(home) as gateway, run_gateway(other) as living:
        sent = gateway.ask("POST", "/v1/chat", json={"text": "Hello"})
        session = sent.json()["session"]
        wait_for(home.path / "touch")
        gateway.end(signal.SIGKILL)

        asked = living.ask("POST", "/v1/chat", json={"text": "And then?", "session": session})
        assert asked.status_code == 202
        wait_until_it_rests(living)

    shown = other.json("show", session)
    said = [each["content"] for each in shown["messages"]]
    assert said == ["Hello", ANSWER, "And then?", ANSWER]


def test_a_turn_through_a_gateway_appears_in_a_terminal_of_another_process(
    home: ServedHome, tmp_path: Path, url: str
) -> None:
    home.script({"text": "About ", "echo": "user", "chunk": 100})
    terminals = ServedHome(tmp_path / "other", url)
    terminals.script("nothing")
    with run_gateway(home) as gateway:
        session = gateway.ask("POST", "/v1/chat", json={"text": "before"}).json()["session"]
        wait_until_it_rests(gateway)
        terminal = Terminal(terminals, "chat", "--plain", "-r", session)
        terminal.wait_for_prompt()

        gateway.ask("POST", "/v1/chat", json={"text": "from far away", "session": session})

        terminal.wait_for("About from far away")
        terminal.type("mine\n")
        terminal.wait_for("nothing")
        terminal.wait_for_prompt()
        assert terminal.leave() == 0
        page = gateway.ask("GET", f"/v1/sessions/{session}").json()
    said = [each["content"] for each in page["messages"]]
    assert said == ["before", "About before", "from far away", "About from far away", "mine",
                    "nothing"]  # fmt: skip
