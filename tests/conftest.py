"""What holds for all tests: the option `--full`, patience, the end of the process that forks."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import forks, sizes


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make proof` gives it."""
    parser.addoption("--full", action="store_true", help="the long tests at their full size")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is read."""
    sizes.set_full(config.getoption("--full"))
    # No test finds the histories of the person who runs it.
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        os.environ[name] = str(Path(__file__).parent / "nothing here")
    settings.register_profile(
        "patient",
        max_examples=sizes.pick(40, 100),
        # How long an example takes, or its making, says something about the machine only.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("patient")
    # What is loaded now stays to the end: the garbage collector need not look at it, now or later.
    gc.disable()


def pytest_collection_finish() -> None:
    """All that the tests need is loaded."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """The process that forks ends with the tests."""
    forks.close()
