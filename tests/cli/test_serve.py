"""`clew serve` as people run it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import msgspec
import pytest

from clew.ports import Store
from tests.cli.conftest import Home
from tests.cli.gateways import ANSWER, GatewayProcess, hold, run_gateway, wait_for
from tests.cli.screens import Terminal
from tests.forks import start_clew
from tests.patience import PATIENCE


def test_it_starts_answers_and_ends_when_asked(home: Home) -> None:
    home.script("hello")
    with run_gateway(home) as gateway:
        assert httpx.get(f"{gateway.url}/health").json() == {"status": "ok"}
        assert httpx.get(f"{gateway.url}/v1/status").status_code == 401
        assert gateway.ask("GET", "/v1/status").status_code == 200
        assert stat.S_IMODE(Path(gateway.token_file).stat().st_mode) == 0o600

        second = home.clew("serve", "--port", "0")
        assert second.exit_code == 3
        assert gateway.url in second.stderr

        assert gateway.end(signal.SIGTERM) == 0
    assert not (home.path / "gateway.json").exists()
    assert gateway.complaints.splitlines()[-1] == "Stopped."
    assert "Traceback" not in gateway.complaints


def begin_a_turn(gateway: GatewayProcess) -> str:
    """The session of a turn that goes on until `hold` is there."""
    sent = gateway.ask("POST", "/v1/chat", json={"text": "Hello"}).json()
    wait_for(gateway.home.path / "touch")
    session: str = sent["session"]
    return session


def test_a_turn_that_runs_is_finished_before_it_ends(home: Home) -> None:
    hold(home)
    with run_gateway(home) as gateway:
        session = begin_a_turn(gateway)
        gateway.process.send_signal(signal.SIGTERM)
        (home.path / "hold").touch()
        assert gateway.process.wait(PATIENCE) == 0
    shown = home.json("show", session)
    assert [each["content"] for each in shown["messages"]] == ["Hello", ANSWER]


def end_in_a_hurry(gateway: GatewayProcess) -> None:
    gateway.process.send_signal(signal.SIGTERM)
    wait_until_it_stops(gateway)
    assert gateway.end(signal.SIGTERM) == 0


def kill(gateway: GatewayProcess) -> None:
    gateway.end(signal.SIGKILL)


@pytest.mark.parametrize("end", [end_in_a_hurry, kill])
@pytest.mark.parametrize("where", [{}, {"key": "agent:main:main"}])
def test_what_was_accepted_is_answered_once_by_the_next_gateway(
    home: Home, end: Callable[[GatewayProcess], None], where: dict[str, str]
) -> None:
    check_what_was_accepted_is_answered_once(home, end, where)


def check_what_was_accepted_is_answered_once(
    home: Home, end: Callable[[GatewayProcess], None], where: dict[str, str]
) -> None:
    """The same on whatever store the home has; for PostgreSQL it is in `tests/postgres`."""
    hold(home)
    first = {"text": "Hello", "idempotency_key": "first"} | where
    with run_gateway(home) as gateway:
        sent = gateway.ask("POST", "/v1/chat", json=first)
        assert sent.status_code == 202
        wait_for(home.path / "touch")
        second = {"text": "And then?"} | (where or {"session": sent.json()["session"]})
        assert gateway.ask("POST", "/v1/chat", json=second).status_code == 202
        end(gateway)
    session = sent.json()["session"]

    with run_gateway(home) as gateway:
        again = stream_chat(gateway, first)
        assert next(again)["accepted"] == sent.json() | {"is_new": False, "turn_id": ANY}
        (home.path / "hold").touch()
        events = [each["event"] for each in again if each["type"] == "event"]
        told = [each["message"]["content"] for each in events if each["type"] == "message"]
        assert told == ["Hello", ANSWER]
        assert events[-1]["turn"]["status"] == "done"
        wait_until_it_rests(gateway)

    shown = home.json("show", session)
    said = [each["content"] for each in shown["messages"]]
    assert said == ["Hello", ANSWER, "And then?", ANSWER]

    async def look(store: Store) -> list[str]:
        assert await store.list_outbound() == ()
        return [turn.status for turn in await store.list_turns(session)]

    assert home.store(look) == ["interrupted", "done", "done"]


def stream_chat(gateway: GatewayProcess, said: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The frames of a message's stream, up to its end."""
    headers = {"Authorization": f"Bearer {gateway.token}"}
    url = f"{gateway.url}/v1/chat"
    body = said | {"stream": True}
    with httpx.stream("POST", url, json=body, headers=headers, timeout=PATIENCE) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                yield msgspec.json.decode(line.removeprefix("data: "))


def wait_until_it_rests(gateway: GatewayProcess) -> None:
    """Until no message waits and no turn runs."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        status = gateway.ask("GET", "/v1/status").json()
        if not status["queued"] and not status["leases"]:
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to rest")


def wait_until_it_stops(gateway: GatewayProcess) -> None:
    """Until the first signal has come through: nobody new is let in."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            httpx.get(f"{gateway.url}/health")
        except httpx.ConnectError:
            return
    raise AssertionError("it did not stop listening")


def test_the_link_signs_a_browser_in_once(home: Home) -> None:
    home.script("hello")
    terminal = Terminal(home, "serve", "--port", "0", width=200)
    terminal.wait_for("within 15 minutes: ")
    link = terminal.wait_for("\n").strip()
    page, _, code = link.partition("#code=")
    with httpx.Client(base_url=page) as browser:
        assert "text/html" in browser.get(page).headers["content-type"]
        answer = browser.post("/v1/login", json={"code": code})
        assert answer.status_code == 200
        assert browser.get("/v1/status").status_code == 200
        assert httpx.post(f"{page}v1/login", json={"code": code}).status_code == 401
    terminal.process.terminate()
    assert terminal.finish() == 0


def test_no_sign_in_code_is_written_where_no_terminal_is(home: Home) -> None:
    home.script("hello")
    with (home.path / "log").open("wb") as log, Path(os.devnull).open("rb") as nothing:
        process = start_clew(
            ["serve", "--port", "0"],
            env={**os.environ, "CLEW_HOME": str(home.path)},
            cwd=None,
            streams=(nothing.fileno(), log.fileno(), log.fileno()),
        )
        wait_for(home.path / "gateway.json")
        process.terminate()
        assert process.wait() == 0
    logged = (home.path / "log").read_text("utf-8")
    assert "The gateway is at http://" in logged
    assert "code=" not in logged
    assert "clew gateway link" in logged


def test_no_sign_in_code_is_told_to_programs_either(home: Home) -> None:
    home.script("hello")
    with run_gateway(home) as gateway:
        assert gateway.told["link"] is None


def test_a_port_that_is_taken_is_told_in_words(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = home.clew("serve", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1
    assert "Another program listens on port" in result.stderr
    assert "--port" in result.stderr


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--host", "192.168.1.7"], "--behind-proxy"),
        (["--port", "70000"], "--port"),
        (["--tls-cert", "missing.pem"], "missing.pem"),
        (["--host", "no.such.host.invalid", "--behind-proxy"], "no.such.host.invalid"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_starts(
    home: Home, args: list[str], word: str
) -> None:
    result = home.clew("serve", *args)
    assert result.exit_code == 2, result.stderr
    assert word in result.stderr
    assert not (home.path / "sessions.db").exists()


def test_a_bug_beside_the_turns_is_told_in_words_and_shown_in_the_status(home: Home) -> None:
    job = {"name": "bad", "schedule": "every 1d", "text": "x", "due_at": 1, "timezone": "No/City"}
    home.script("hello")
    (home.path / "cron.json").write_bytes(msgspec.json.encode({"jobs": [job]}))
    with run_gateway(home) as gateway:
        end = time.monotonic() + PATIENCE
        while "job bad:" not in home.clew("status").stdout:
            assert time.monotonic() < end
        assert gateway.ask("GET", "/v1/status").json()["errands"][1]["name"] == "jobs"
        assert gateway.end(signal.SIGTERM) == 0
    told = [each for each in gateway.complaints.splitlines() if "Jobs are not run" in each]
    assert "No/City" in told[0]
    assert "Traceback" not in gateway.complaints
