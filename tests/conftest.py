"""What holds for all tests: the option `--full`, patience, the end of the process that forks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests import forks, sizes

# How long an example takes, or its making, says something about the machine only.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make proof` gives it."""
    parser.addoption("--full", action="store_true", help="the long tests at their full size")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is read."""
    sizes.set_full(config.getoption("--full"))


def pytest_unconfigure() -> None:
    """The process that forks ends with the tests."""
    forks.close()
