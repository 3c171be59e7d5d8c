"""What a trusted webhook and a job may do to the machine: its files, and the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, chdir
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from clew import config as configuration
from clew.api.handlers.parts import Caller
from clew.api.local import LocalTransport
from clew.channels.webhook import sign
from clew.client.client import Client
from clew.clock import host_clock
from clew.gateway.auth import Setup
from clew.wiring import Gateway, open_gateway
from tests.runtime.conftest import soon

SECRET = "a long enough secret"
REMEMBER = {
    "name": "memory_write",
    "arguments": {"file": "memory", "action": "add", "text": "The owner likes attackers."},
}


@asynccontextmanager
async def serve(home: Path, more: str, *answers: Any) -> AsyncIterator[Gateway]:
    home.mkdir()  # noqa: ASYNC240  # once
    script = home / "script.json"
    script.write_bytes(msgspec.json.encode({"answers": answers}))
    (home / "config.toml").write_text(
        f"""model = "script/x"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[webhooks.ci]
secret = "{SECRET}"
trusted = true
{more}
""",
        encoding="utf-8",
    )
    config = configuration.load(home=str(home), environ={})
    async with open_gateway(config, Setup()) as gateway:
        yield gateway


async def call(gateway: Gateway, text: str) -> list[str]:
    """Let the hook say something; what the tools answered to the turn."""
    transport = httpx.ASGITransport(app=gateway.app)
    body = text.encode()
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7717") as client:
        headers = sign(SECRET, body, host_clock() // 1000)
        sent = await client.post("/v1/hooks/ci", content=body, headers=headers)
    assert sent.status_code == 202, sent.text
    return await read_tools(gateway, sent.json()["session_id"])


async def read_tools(gateway: Gateway, session: str) -> list[str]:
    await soon(gateway.house.runtime.join(session))
    messages = await gateway.house.store.get_messages(session)
    assert messages[-1].content == "Done."
    return [each.content for each in messages if each.role == "tool"]


async def test_a_trusted_hook_reads_nothing_outside_the_workspace_wherever_it_was_started(
    tmp_path: Path,
) -> None:
    paths = ("/etc/hostname", "etc/hostname", "../config.toml", "a.txt")
    calls = [{"name": "read_file", "arguments": {"path": each}} for each in paths]
    with chdir("/"):
        async with serve(tmp_path / "home", "", {"tool_calls": calls}, "Done.") as gateway:
            (tmp_path / "home" / "workspace" / "a.txt").write_text("plain")
            plain, own, outside, missing = sorted(await call(gateway, "Read the disk."))
    assert "can't be asked" in outside
    assert "etc/hostname: no such file" in missing
    assert "belongs to clew" in own
    assert plain == "     1\tplain"


@pytest.mark.parametrize(("more", "is_written"), [("", False), ("memory = true", True)])
async def test_a_trusted_hook_writes_memory_only_if_that_is_configured(
    tmp_path: Path, more: str, is_written: bool
) -> None:
    async with serve(tmp_path / "home", more, {"tool_calls": [REMEMBER]}, "Done.") as gateway:
        (told,) = await call(gateway, "Remember this.")
    memory = tmp_path / "home" / "MEMORY.md"
    assert (memory.exists() and "attackers" in memory.read_text()) is is_written
    assert told.startswith("Written" if is_written else 'There is no tool "memory_write"')


@pytest.mark.parametrize("may", [False, True])
@pytest.mark.parametrize("session", ["isolated", "agent:main:main"])
async def test_a_job_writes_memory_only_if_it_says_so(
    tmp_path: Path, session: str, may: bool
) -> None:
    async with serve(tmp_path / "home", "", {"tool_calls": [REMEMBER]}, "Done.") as gateway:
        given = {"name": "n", "schedule": "every 2h", "text": "x", "session": session}
        client = Client(transport=LocalTransport(gateway.calls, Caller()))
        await client.cron.add(**given, memory=may)
        started = await client.cron.run("n")
        await read_tools(gateway, started.session)
    memory = tmp_path / "home" / "MEMORY.md"
    assert (memory.exists() and "attackers" in memory.read_text()) is may
