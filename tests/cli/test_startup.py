"""`clew list` starts fast because it imports little."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"rich", "httpx", "pydantic_ai", "starlette", "textual", "tomlkit", "pytest"}
OTHER_ROOMS = (
    "agent",
    "channels",
    "client",
    "gateway",
    "memory",
    "terminal",
    "testing",
    "transfer",
)

LIST = """
import json, sys
from clew.cli import main
try:
    main(["list"])
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(list(sys.modules)), file=sys.stderr)
"""


@pytest.fixture
def imported(tmp_path: Path) -> list[str]:
    """The modules that a process has after `clew list`."""
    listed = subprocess.run(
        [sys.executable, "-c", LIST],
        env={**os.environ, "CLEW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    modules: list[str] = json.loads(listed.stderr.splitlines()[-1])
    assert "clew.cli.listing" in modules
    return modules


def test_list_imports_no_heavy_library(imported: list[str]) -> None:
    assert not HEAVY & {module.partition(".")[0] for module in imported}


def test_list_imports_no_room_that_it_does_not_need(imported: list[str]) -> None:
    unwanted = tuple(f"clew.{room}" for room in OTHER_ROOMS)
    assert not [module for module in imported if module.startswith(unwanted)]
