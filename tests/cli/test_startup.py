"""`clew list` and the chat start fast because they import little."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Home
from tests.cli.screens import Terminal
from tests.patience import PATIENCE

HEAVY = {"rich", "httpx", "pydantic_ai", "starlette", "textual", "tomlkit", "pytest"}
OTHER_ROOMS = (
    "agent",
    "api.table",
    "channels",
    "client.http",
    "gateway",
    "memory",
    "runtime",
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
        timeout=PATIENCE,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    modules: list[str] = json.loads(listed.stderr.splitlines()[-1])
    assert "clew.cli.sessions" in modules
    return modules


def test_list_imports_no_heavy_library(imported: list[str]) -> None:
    assert not HEAVY & {module.partition(".")[0] for module in imported}


def test_list_imports_no_room_that_it_does_not_need(imported: list[str]) -> None:
    unwanted = tuple(f"clew.{room}" for room in OTHER_ROOMS)
    assert not [module for module in imported if module.startswith(unwanted)]


CHAT = """
import json, pathlib, sys
from clew.cli import main

class Watched:
    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        path = pathlib.Path(sys.argv[1])
        if "> " in text and not path.exists():
            path.write_text(json.dumps(list(sys.modules)))
        return self.stream.write(text)

sys.stdout = Watched(sys.stdout)
main(["chat", "--plain"])
"""


def test_a_chat_is_ready_for_typing_before_anything_heavy_is_imported(
    home: Home, tmp_path: Path
) -> None:
    home.script({"text": "You said: ", "echo": "user"})
    found = tmp_path / "modules"
    chat = Terminal(home, str(found), program=CHAT)
    chat.wait_for_prompt()
    modules: list[str] = json.loads(found.read_text())
    assert "clew.terminal.plain" in modules
    heavy = HEAVY | {"openai", "anthropic", "google", "pydantic", "xllamacpp", "genai_prices"}
    assert not heavy & {module.partition(".")[0] for module in modules}
    assert "You said: hello\n" in chat.say("hello")
    assert chat.leave() == 0
