from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.agent.tools import MCPServer
from clew.core.live_events import Notice
from clew.core.models import Personality
from tests.agent.tools.conftest import SECRETS, Bench
from tests.agent.tools.test_shell import (
    list_in,
    wait_for_file,
    wait_until,
    wait_until_gone,
)
from tests.patience import PATIENCE

pytest.importorskip("mcp", reason="pip install 'clew[mcp]'")

SERVER = Path(__file__).with_name("mcp_server.py")


@pytest.fixture
async def served(bench: Bench) -> AsyncIterator[Bench]:
    """A bench with a real server, and one that can't be started."""
    bench.make_tools(servers=(make_server(bench), MCPServer(name="broken", command=("/no/such",))))
    yield bench
    await bench.tools.aclose()


def make_server(bench: Bench) -> MCPServer:
    return MCPServer(
        name="demo",
        command=(sys.executable, str(SERVER)),
        env={"PID_FILE": str(bench.outside / "pid")},
    )


async def test_tools_of_a_server_are_offered_with_its_name(served: Bench) -> None:
    names = await served.list_names()
    assert {"demo_add", "demo_fail", "demo_hang", "read_file"} <= names


async def test_a_server_that_fails_is_told_once_and_the_rest_works(served: Bench) -> None:
    await served.list_names()
    await served.list_names()
    notices = [each.text for each in served.turn.signals if isinstance(each, Notice)]
    assert len(notices) == 1
    assert notices[0].startswith("The MCP server broken could not be started: ")
    assert (await served.call("broken_tool")).is_error


async def test_a_call_asks_and_answers(served: Bench) -> None:
    await served.list_names()
    served.turn.answers = [("no", "once"), ("yes", "session")]
    assert (await served.call("demo_add", a=1, b=2)).is_error
    assert (await served.call("demo_add", a=1, b=2)).content == "3"
    assert (await served.call("demo_add", a=2, b=2)).content == "4"
    assert served.turn.asked[1] == {
        "summary": "Use add of the MCP server demo",
        "detail": '{\n  "a": 1,\n  "b": 2\n}',
        "rule": "demo_add",
        "cwd": str(served.root),
    }


async def test_a_rule_may_allow_all_tools_of_a_server(bench: Bench) -> None:
    bench.make_tools(servers=(make_server(bench),), allow=("demo_*",))
    try:
        # In a new process nobody has listed the tools yet.
        assert (await bench.call("demo_add", a=1, b=2)).content == "3"
        failed = await bench.call("demo_fail")
        assert failed.is_error
        assert "the cat is on the roof" in failed.content
        seen = await bench.call("demo_environment")
        assert "PID_FILE" in seen.content
        assert not any(name in seen.content for name in SECRETS)
        picture = await bench.call("demo_picture")
        (part,) = picture.parts
        assert (await bench.store.get_blob(part["blob"])).media_type == "image/png"
    finally:
        await bench.tools.aclose()


async def test_a_call_that_hangs_is_stopped(bench: Bench) -> None:
    bench.make_tools(servers=(make_server(bench),), allow=("demo_*",), timeout=1.0)
    try:
        await bench.list_names()
        outcome = await bench.call("demo_hang")
        assert outcome.content == "Stopped after its time limit of 1 s."
    finally:
        await bench.tools.aclose()


async def test_cancelling_a_call_leaves_the_server_usable(served: Bench) -> None:
    served.make_tools(servers=(make_server(served),), allow=("demo_*",))
    try:
        await served.list_names()
        task = asyncio.create_task(served.call("demo_hang"))
        await wait_for_file(served.outside / "pid.hanging")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        assert (await served.call("demo_add", a=1, b=1)).content == "2"
    finally:
        await served.tools.aclose()


async def test_closing_ends_the_server(served: Bench) -> None:
    await served.list_names()
    pid = int((served.outside / "pid").read_text())
    await served.tools.aclose()
    await wait_until_gone(pid)


async def test_guests_plans_and_exact_lists_have_no_servers(served: Bench) -> None:
    await served.begin(mode="plan")
    assert "demo_add" not in await served.list_names()
    assert (await served.call("demo_add", a=1, b=2)).is_error
    await served.begin(person="telegram:7")
    assert "demo_add" not in await served.list_names()
    assert (await served.call("demo_add", a=1, b=2)).is_error
    await served.begin(scopes=("chat",))
    assert "demo_add" not in await served.list_names()
    assert (await served.call("demo_add", a=1, b=2)).is_error
    await served.begin()
    served.personality = Personality(id="x", name="X", tools=("read_file",))
    assert await served.list_names() == {"read_file"}
    served.personality = Personality(id="x", name="X", tools=("read_file", "demo_a*"))
    assert await served.list_names() == {"read_file", "demo_add"}


async def test_a_server_may_offer_some_of_its_tools_only(bench: Bench) -> None:
    server = make_server(bench)
    chosen = MCPServer(name="demo", command=server.command, env=server.env, tools=("add",))
    bench.make_tools(servers=(chosen,))
    try:
        names = {name for name in await bench.list_names() if name.startswith("demo_")}
        assert names == {"demo_add"}
    finally:
        await bench.tools.aclose()


async def test_a_server_that_died_is_started_again(bench: Bench) -> None:
    bench.make_tools(servers=(make_server(bench),), allow=("demo_*",))
    try:
        await bench.list_names()
        pid = int((bench.outside / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        await wait_until_gone(pid)
        first = await asyncio.wait_for(bench.call("demo_add", a=1, b=2), PATIENCE)
        assert first.content == "Connection closed"
        second = await asyncio.wait_for(bench.call("demo_add", a=1, b=2), PATIENCE)
        assert second.content == "3"
    finally:
        await bench.tools.aclose()


STUBBORN = """
import runpy, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["setsid", "sleep", "600"], stdin=subprocess.DEVNULL)
try:
    runpy.run_path(sys.argv.pop(1), run_name="__main__")
finally:
    signal.pause()  # whatever ends its input
"""

KILLED = """
import asyncio, sys
from clew.agent.tools.mcp import MCPConnection, MCPServer

async def main():
    server = MCPServer(name="demo", command=tuple(sys.argv[1:]), env={"PID_FILE": "pid"})
    connection = MCPConnection(server, {})
    assert await connection.list_specs(), connection.problem
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_server_ends_with_what_it_started_when_clew_is_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", STUBBORN, str(SERVER))
    clew = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    assert clew.stdout is not None
    assert await asyncio.wait_for(clew.stdout.readline(), PATIENCE) == b"ready\n"
    assert len(list_in(tmp_path)) >= 3
    clew.kill()
    await clew.wait()
    await wait_until(lambda: not list_in(tmp_path))


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def test_a_server_may_be_reached_at_an_address(bench: Bench) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), str(port), env={"PID_FILE": str(bench.outside / "pid")},
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await wait_until(lambda: is_open(port))
        bench.make_tools(
            servers=(MCPServer(name="web", url=f"http://127.0.0.1:{port}/mcp"),), allow=("web_*",)
        )
        assert "web_add" in await bench.list_names()
        assert (await bench.call("web_add", a=1, b=2)).content == "3"
    finally:
        await bench.tools.aclose()
        process.kill()
        await process.wait()
