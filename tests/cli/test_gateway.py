"""`clew gateway`: asking one that runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from clew.version import __version__
from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway
from tests.cli.screens import Terminal
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    home = Home(tmp_path_factory.mktemp("gateway") / "home")
    home.script("hello")
    with run_gateway(home) as made:
        yield made


def test_a_call_finds_the_gateway_that_runs_here(gateway: GatewayProcess) -> None:
    status = gateway.home.json("gateway", "call", "status")
    assert status["version"] == __version__


def test_a_call_has_parameters_and_an_answer(gateway: GatewayProcess) -> None:
    home = gateway.home
    sent = home.json("gateway", "call", "chat.send", "--params", '{"text": "Hi"}')
    asked = msgspec.json.encode({"id": sent["session"]}).decode()
    preview = home.json("gateway", "call", "sessions.preview", "--params", asked)
    assert preview["session"]["id"] == sent["session"]


def test_an_error_has_the_gateway_s_own_words(gateway: GatewayProcess) -> None:
    missing = '{"id": "0192f0c1-2a3b-4c5d-8e9f-001122334455"}'
    result = gateway.home.clew("gateway", "call", "sessions.get", "--params", missing, "--json")
    assert result.exit_code == 1
    assert msgspec.json.decode(result.stderr)["error"] == "session_not_found"


def test_another_address_never_gets_the_own_token(gateway: GatewayProcess) -> None:
    result = gateway.home.clew("gateway", "call", "status", "--url", gateway.url)
    assert result.exit_code == 1
    assert "needs a token" in result.stderr


def test_a_made_token_works_at_once_and_reaches_as_far_as_it_says(gateway: GatewayProcess) -> None:
    home = gateway.home
    made = home.json("token", "create", "--name", "t", "--scope", "read")
    remote = ["--url", gateway.url, "--token", made["secret"]]
    assert home.clew("gateway", "call", "status", *remote).exit_code == 0
    refused = home.clew("gateway", "call", "tokens.list", *remote)
    assert refused.exit_code == 1
    assert "admin" in refused.stderr
    home.clew("token", "revoke", made["token"]["id"])
    assert home.clew("gateway", "call", "status", *remote).exit_code == 1


def test_a_new_link_signs_another_browser_in(gateway: GatewayProcess) -> None:
    terminal = Terminal(gateway.home, "gateway", "link", width=200)
    assert terminal.finish() == 0
    address, _, code = terminal.text.strip().partition("/#code=")
    assert address == gateway.url
    assert httpx.post(f"{address}/v1/login", json={"code": code}).status_code == 200


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_sign_in_code_is_printed_to_a_terminal_only(
    gateway: GatewayProcess, options: tuple[str, ...]
) -> None:
    result = gateway.home.clew("gateway", "link", *options)
    assert result.exit_code == 2
    assert "terminal" in result.stderr
    assert "code=" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["nothing"], 2),
        (["status", "--params", "{"], 2),
        (["status", "--params", "[]"], 2),
        (["status", "--params", '{"x": 1}'], 2),
        (["chat.send", "--params", '{"text": "a", "stream": true}'], 2),
        (["status", "--url", "ftp://x"], 2),
        (["status", "--url", "http://127.0.0.1:9", "--token", "x"], 1),
        (["status"], 1),
    ],
)
def test_what_can_t_be_asked_is_told(home: Home, args: list[str], code: int) -> None:
    result = home.clew("gateway", "call", *args)
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.stderr


def test_without_a_gateway_there_is_no_link(home: Home) -> None:
    result = home.clew("gateway", "link")
    assert result.exit_code == 1
    assert "clew serve" in result.stderr


def test_status_and_the_active_sessions_tell_of_it(gateway: GatewayProcess) -> None:
    home = gateway.home
    for command in (["status"], ["sessions", "--active", "60"]):
        assert re.search(rf"{re.escape(gateway.url)} since \d{{4}}-", home.clew(*command).stdout)
        told = home.json(*command)["gateway"]
        assert (told["url"], told["pid"]) == (gateway.url, gateway.process.pid)


def test_they_tell_where_none_runs(home: Home) -> None:
    assert "none runs" in home.clew("status").stdout
    assert home.json("status")["gateway"] is None
    assert "gateway" not in home.clew("sessions", "--active", "60").stdout
    assert home.json("sessions", "--active", "60")["gateway"] is None


def test_its_status_has_channels_and_jobs(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.script("hello", more='[webhooks.ci]\nsecret = "a secret that is long enough"')
    home.clew("cron", "add", "news", "0 8 * * *", "What is new?")
    with run_gateway(home):
        status = home.json("gateway", "call", "status")
        shown, told = home.clew("status").stdout, home.json("status")
    assert "webhook ci is up" in shown
    assert told["channels"] == status["channels"]
    (channel,) = status["channels"]
    assert channel["state"] == "up"
    assert (status["cron"]["jobs"], status["cron"]["problems"]) == (1, {})
    assert status["cron"]["due_at"] > status["at"]


def wait_for_turn(gateway: GatewayProcess, inbound: str) -> dict[str, Any]:
    """The turn that answers a message, when it is over."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = gateway.ask("GET", f"/v1/queue/{inbound}/answer").json()
        if answer["turn"] is not None:
            return dict(answer["turn"])
    raise AssertionError("no turn has answered it")


def test_a_chat_token_has_no_hands_on_the_machine(tmp_path: Path) -> None:
    """The model calls the tool all the same: with `write` it runs, with `chat` there is none."""
    home, made = Home(tmp_path / "home"), tmp_path / "made"
    touch = {"tool_calls": [{"name": "shell", "arguments": {"command": f"touch {made}"}}]}
    rule = {"when": "touch", "answers": [touch, {"text": "Done."}]}
    home.script("hello", rules=[rule], more='[tools]\nallow = ["shell:touch"]')
    said = {"text": "touch", "key": "agent:main:main"}
    with run_gateway(home) as gateway:
        for scopes, expected in (("chat", False), ("chat,approve", False), ("write", True)):
            secret = home.clew("token", "create", "--name", "t", "--scope", scopes).stdout.strip()
            sent = gateway.ask("POST", "/v1/chat", secret, json=said).json()
            assert wait_for_turn(gateway, sent["inbound"])["status"] == "done"
            assert made.exists() is expected, scopes
