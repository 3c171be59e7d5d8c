"""Secrets of a configuration, looked for in all that a gateway in trouble says of itself."""

from __future__ import annotations

import signal
import socket
import time

import httpx

from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway
from tests.patience import PATIENCE

CANARIES = {
    "telegram": "12345:canary-of-telegram",
    "mail": "canary-of-the-mailbox",
    "hook": "canary-of-the-webhook",
    "callback": "canary-of-the-callback",
    "provider": "canary-of-a-provider",
}


def settings() -> str:
    """Channels whose platforms can't be reached, and a webhook; every secret is a canary."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nowhere = f"127.0.0.1:{port}"
    return f"""
[providers.other]
kind = "openai"
base_url = "http://{nowhere}/v1"
api_key = "{CANARIES["provider"]}"
[webhooks.door]
secret = "{CANARIES["hook"]}"
callback = "http://{nowhere}/answers"
callback_secret = "{CANARIES["callback"]}"
[channels.telegram]
token = "{CANARIES["telegram"]}"
api_url = "http://{nowhere}"
[channels.email]
address = "clew@example.org"
password = "{CANARIES["mail"]}"
imap = "imap://{nowhere}"
smtp = "smtp://{nowhere}"
authserv_id = "mx.example.org"
"""


def ask(gateway: GatewayProcess, path: str) -> str:
    answer = gateway.ask("GET", path)
    assert answer.status_code == 200, answer.text
    return answer.text


def wait_for_trouble(gateway: GatewayProcess) -> str:
    """The status, when a channel has failed."""
    end = time.monotonic() + PATIENCE
    while True:
        status = ask(gateway, "/v1/status")
        if '"waiting"' in status:
            return status
        assert time.monotonic() < end, status
        time.sleep(0.1)


def test_no_secret_is_in_logs_metrics_status_or_errors(home: Home) -> None:
    home.script("hello", more=settings())
    said: dict[str, str] = {}
    with run_gateway(home) as gateway:
        said["status"] = wait_for_trouble(gateway)
        for path in ("/metrics", "/v1/config", "/v1/outbox", "/v1/openapi.json"):
            said[path] = ask(gateway, path)
        forged = httpx.post(f"{gateway.url}/v1/hooks/door", content=b"hi", timeout=PATIENCE)
        assert forged.status_code == 401
        said["a refused webhook"] = forged.text
        gateway.ask("POST", "/v1/chat", json={"text": "hello", "model": "other/x"})
        for command in (
            ("status",), ("channels", "list"), ("channels", "test"), ("config", "show"),
            ("config", "show", "--json"), ("model", "list"), ("doctor",), ("logs", "--json"),
        ):  # fmt: skip
            done = home.clew(*command)
            said[" ".join(command)] = done.stdout + done.stderr
        assert gateway.end(signal.SIGTERM) == 0
    said["the terminal"] = gateway.complaints

    assert "does not listen" in said["the terminal"]
    assert "channel_down" in said["logs --json"]
    found = [
        (where, canary)
        for where, text in said.items()
        for canary in CANARIES.values()
        if canary in text or (canary.partition(":")[2] and canary.partition(":")[2] in text)
    ]
    assert found == []
