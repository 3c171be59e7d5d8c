"""Another configuration for a gateway that runs, and what is said of a wrong or doubtful one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway
from tests.patience import PATIENCE

GUEST_ROUTE = ("explain", "route", "--channel", "telegram", "--peer", "dm:7")


def write(home: Home, *more: str) -> None:
    """The scripted model's configuration, and more at its end."""
    home.script("hello")
    file = home.path / "config.toml"
    file.write_text("\n".join((file.read_text("utf-8"), *more)), encoding="utf-8")


def add(home: Home, text: str) -> None:
    file = home.path / "config.toml"
    file.write_text(f"{file.read_text('utf-8')}\n{text}\n", encoding="utf-8")


def config_of(gateway: GatewayProcess) -> dict[str, Any]:
    told: dict[str, Any] = gateway.ask("GET", "/v1/status").json()["config"]
    return told


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_reload_uses_what_changed_and_names_what_needs_a_restart(home: Home) -> None:
    write(home)
    with run_gateway(home) as gateway:
        assert config_of(gateway).get("changed", []) == []
        add(home, '[session]\ndm_scope = "per-peer"\ntrash_days = 7')
        assert config_of(gateway)["changed"] == ["session.dm_scope", "session.trash_days"]
        assert "has changed since this gateway started" in home.clew("status").stdout
        # The rules of the gateway decide, not those of the file.
        assert home.json(*GUEST_ROUTE)["key"] == "agent:main:main"
        done = home.clew("gateway", "reload")
        assert done.exit_code == 0, done.stderr
        assert "Reloaded: session.dm_scope." in done.stdout
        assert "need a restart of the gateway: session.trash_days." in done.stdout
        assert home.json(*GUEST_ROUTE)["key"] == "agent:main:dm:7"
        assert config_of(gateway)["changed"] == ["session.trash_days"]


def test_a_wrong_configuration_is_refused_with_the_reason_and_the_old_one_stays(home: Home) -> None:
    write(home)
    with run_gateway(home) as gateway:
        good = (home.path / "config.toml").read_text("utf-8")
        for wrong, reason in (
            ('[session]\ndm_scope = "per-planet"', "dm_scope"),
            ('[tools]\ndeny = ["shell("]', "shell("),
            ('[[agents]]\nid = "home"\n[[bindings]]\nagent = "wrok"\nmatch = { channel = "x" }',
             "wrok"),
            ("[webhooks.deploys]\ntrusted = true", "webhooks.deploys.secret"),
            ("[[[", "config.toml"),
        ):  # fmt: skip
            (home.path / "config.toml").write_text(f"{good}\n{wrong}\n", encoding="utf-8")
            refused = gateway.ask("POST", "/v1/reload", json={})
            assert refused.status_code == 400, wrong
            assert reason in refused.json()["detail"], refused.json()
            assert "the old one stays" in refused.json()["detail"]
        (home.path / "config.toml").write_text(good, encoding="utf-8")
        assert home.json(*GUEST_ROUTE)["key"] == "agent:main:main"
        assert gateway.ask("POST", "/v1/reload", json={}).json() == {"used": [], "waiting": []}


def test_sighup_reloads_and_says_so(home: Home) -> None:
    write(home)
    with run_gateway(home) as gateway:
        add(home, '[session]\nsend_policy = { default = "deny" }')
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: config_of(gateway).get("changed", []) == [])
        add(home, "[[[")
        gateway.process.send_signal(signal.SIGHUP)
        assert gateway.ask("GET", "/v1/status").status_code == 200
        sent = home.json("explain", "send", "--key", "agent:main:discord:group:5", "--url",
                         gateway.url, "--token", gateway.token)  # fmt: skip
        assert sent["decision"] == "deny"
    assert "Reloaded: session.send_policy." in gateway.complaints


def test_with_watch_a_written_file_is_reloaded(home: Home) -> None:
    write(home, "[gateway]", "watch = true")
    with run_gateway(home) as gateway:
        add(home, '[session]\ndm_scope = "per-peer"')
        until(lambda: config_of(gateway).get("changed", []) == [])
        assert home.json(*GUEST_ROUTE)["key"] == "agent:main:dm:7"


def test_what_is_surely_not_meant_is_said_at_the_start_and_by_doctor(home: Home) -> None:
    write(
        home,
        '[models]\naliases = { fast = "opneai/gpt" }',
        '[webhooks.silent]\nsecret = "s3cret-s3cret-s3cret-s3cret"',
        '[webhooks.lost]\nsecret = "s3cret-s3cret-s3cret-s3cret"\ndeliver_to = "discord:5"',
    )
    file = home.path / "config.toml"
    file.write_text(f'owners = ["telegram:1"]\n{file.read_text("utf-8")}', encoding="utf-8")
    with run_gateway(home) as gateway:
        pass
    doctor = " ".join(home.clew("doctor").stdout.split())
    for said in (
        "The owner telegram:1 can't write",
        "models.aliases.fast is opneai/gpt, but there is no provider opneai",
        "Nobody gets the answers of webhooks.silent",
        "webhooks.lost.deliver_to is discord:5, but no channel discord",
    ):
        assert said in gateway.complaints
        assert said in doctor
    assert "s3cret" not in gateway.complaints + doctor


def test_a_gateway_does_not_start_with_a_binding_to_an_agent_that_is_not_there(home: Home) -> None:
    write(
        home, '[[agents]]\nid = "home"', '[[bindings]]\nagent = "work"\nmatch = { channel = "x" }'
    )
    refused = home.clew("serve", "--port", "0")
    assert refused.exit_code != 0
    assert 'bindings[0] names the agent "work", which is not there. There are: home.' in (
        refused.stderr
    )
