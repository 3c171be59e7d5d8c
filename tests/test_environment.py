"""Keys in clew's environment, and the processes that its tools start.

Under another user than root: root may read everything.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.patience import PATIENCE

PROGRAM = """
import asyncio, ctypes, importlib, os, subprocess, sys
from pathlib import Path
importlib.import_module("benchmarks.processes.preload")
from clew import config
from clew.wiring.house import open_house

if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
set_dumpable = lambda yes: ctypes.CDLL(None).prctl(4, yes, 0, 0, 0)
set_dumpable(1)  # as after a start under this user

LOOK = "cat /proc/[0-9]*/environ 2>/dev/null | grep -ao 'hidden-[a-z]*' | sort -u"

def look():
    done = subprocess.run(["/bin/sh", "-c", LOOK], capture_output=True, text=True, env={})
    print(" ".join(done.stdout.split()) or "nothing", flush=True)

async def main():
    if sys.argv[2] == "own":
        config.own_environment()
    loaded = config.load(home=sys.argv[1])
    async with open_house(loaded) as house:
        look()
        house.tools
        look()
        set_dumpable(1)
        look()
        print(config.reveal(loaded.credentials["ANTHROPIC_API_KEY"]),
              config.reveal(loaded.mcp["x"].env["KEY"]),
              config.load(home=sys.argv[1]).gateway_token.text,
              "ANTHROPIC_API_KEY" in os.environ, flush=True)

asyncio.run(main())
"""

NAMES = {
    "ANTHROPIC_API_KEY": "hidden-known",
    "MY_OWN_KEY": "hidden-named",
    "CLEW_TOKEN": "hidden-token",
    "CLEW_STORE_DURABILITY": "normal",
}


def run(own: str) -> list[str]:
    """What the program printed."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        file = Path(directory) / "config.toml"
        file.write_text('[mcp.x]\ncommand = ["x"]\nenv = { KEY = "env:MY_OWN_KEY" }\n', "utf-8")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, directory, own],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env=NAMES | {"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment like this")
def test_processes_of_tools_find_no_key_in_the_environment_of_clew() -> None:
    before, closed, wiped, revealed = run("own")
    assert before == "hidden-known hidden-named hidden-token"
    assert closed == "nothing"
    assert wiped == "nothing"  # not even where the process may be looked at
    assert revealed == "hidden-known hidden-named hidden-token False"


def test_the_environment_of_another_program_is_left_alone() -> None:
    *_, revealed = run("foreign")
    assert revealed == "hidden-known hidden-named hidden-token True"
