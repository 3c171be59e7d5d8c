from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Home
from tests.patience import PATIENCE


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(home: Home, shell: str) -> None:
    result = home.clew("completion", shell)
    assert result.exit_code == 0
    assert f"_CLEW_COMPLETE={shell}_complete" in result.stdout
    if shell == "fish":  # a description may have commas
        assert 'string split -m 1 "," $completion' in result.stdout


def complete(home: Home, *words: str) -> list[str]:
    """What a bash would be offered for the last word."""
    done = subprocess.run(
        [sys.executable, "-c", "from clew.cli import main; main(prog_name='clew')"],
        env={
            **os.environ,
            "CLEW_HOME": str(home.path),
            "_CLEW_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("clew", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_and_options_are_completed(home: Home) -> None:
    assert complete(home, "se") == ["sessions", "search", "serve", "service", "setup"]
    assert complete(home, "list", "--arch") == ["--archived"]


def test_session_ids_are_completed(home: Home) -> None:
    one, two = home.add("One"), home.add("Two")
    assert set(complete(home, "show", "")) == {one.id[:8], two.id[:8]}
    assert complete(home, "delete", one.id[:6]) == [one.id[:8]]


def test_a_store_that_can_not_be_opened_completes_nothing(home: Home) -> None:
    home.path.mkdir()
    (home.path / "sessions.db").write_bytes(b"no database at all" * 100)
    assert complete(home, "show", "") == []
