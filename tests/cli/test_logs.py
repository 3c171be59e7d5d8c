"""`clew logs` and `clew gateway drain`, as an operator uses them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import httpx

from tests.cli.conftest import Home
from tests.cli.gateways import ANSWER, hold, run_gateway, wait_for
from tests.patience import PATIENCE


def test_a_gateway_logs_what_it_did_without_what_was_said(home: Home) -> None:
    home.script("the canary sings")
    assert "Nothing is logged" in home.clew("logs").stderr
    with run_gateway(home) as gateway:
        sent = gateway.ask("POST", "/v1/chat", json={"text": "canary?"}).json()
        gateway.ask("GET", f"/v1/queue/{sent['inbound']}/answer?seconds=25")
        shown = home.clew("logs").stdout
        assert "The gateway started" in shown
        assert "A turn is done." in shown
        assert sent["session"][:8] in shown
        assert "canary" not in shown
        assert gateway.token not in (home.path / "gateway.log").read_text()
        only = home.clew("logs", "--session", sent["session"][:8], "--json").stdout
        assert '"kind":"turn_done"' in only
        assert "started" not in only
        assert "clew_turns_total" in gateway.ask("GET", "/metrics").text


def test_logs_are_followed_while_they_come(home: Home) -> None:
    home.script("hello")
    program = [sys.executable, "-m", "clew", "logs", "--follow"]
    env = {**os.environ, "CLEW_HOME": str(home.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(program, env=env, stdout=subprocess.PIPE, text=True) as following:
        try:
            with run_gateway(home):
                assert following.stdout is not None
                watchdog = threading.Timer(PATIENCE, following.kill)
                watchdog.start()
                assert "The gateway started" in following.stdout.readline()
                watchdog.cancel()
        finally:
            following.kill()


def test_a_gateway_that_is_drained_finishes_its_turn_and_takes_nothing_new(home: Home) -> None:
    hold(home)
    with run_gateway(home) as gateway:
        session = gateway.ask("POST", "/v1/chat", json={"text": "Hello"}).json()["session"]
        wait_for(home.path / "touch")
        drained = gateway.ask("POST", "/v1/drain", json={})
        assert (drained.status_code, drained.json()) == (202, {"running": [session]})
        refused = gateway.ask("POST", "/v1/chat", json={"text": "One more"})
        assert refused.status_code == 503
        assert refused.json()["code"] == "draining"
        # It is still there for those who read.
        assert gateway.ask("GET", f"/v1/sessions/{session}").status_code == 200
        (home.path / "hold").touch()
        assert gateway.process.wait(PATIENCE) == 0
    shown = home.json("show", session)
    assert [each["content"] for each in shown["messages"]] == ["Hello", ANSWER]


def test_draining_from_the_command_line_waits_for_the_end(home: Home) -> None:
    home.script("hello")
    with run_gateway(home) as gateway:
        done = home.clew("gateway", "drain")
        assert done.exit_code == 0, done.stderr
        assert "The gateway has ended." in done.stdout
        end = time.monotonic() + PATIENCE
        while gateway.process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        try:
            httpx.get(f"{gateway.url}/health")
        except httpx.TransportError:
            pass
        else:
            raise AssertionError("it still answers")
