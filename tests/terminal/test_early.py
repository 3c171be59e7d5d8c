"""Ctrl+C while the program is still being loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE


def start(tmp_path: Path, module: str, handler: str) -> subprocess.CompletedProcess[str]:
    """Start with a signal at a moment that is always the same: when a module is looked for."""
    program = f"""
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.{handler})
sys.meta_path.insert(0, Finder())
from clew.__main__ import main
main()
"""
    return subprocess.run(
        [sys.executable, "-c", program, "--home", str(tmp_path), "config", "path"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("module", ["click", "clew.cli", "clew.cli.report", "clew.cli.config"])
def test_ctrl_c_while_the_program_is_loaded_is_130_and_no_traceback(
    tmp_path: Path, module: str
) -> None:
    done = start(tmp_path, module, "default_int_handler")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_a_program_that_ignores_ctrl_c_goes_on_doing_so(tmp_path: Path) -> None:
    done = start(tmp_path, "click", "SIG_IGN")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/config.toml\n"


def test_the_command_begins_where_ctrl_c_is_heeded() -> None:
    """The script that pip makes loads what it names before anything can be caught."""
    root = Path(__file__).resolve().parents[2]
    assert 'clew = "clew.__main__:main"' in (root / "pyproject.toml").read_text(encoding="utf-8")
