from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory in which one works."""
    path = tmp_path / "work"
    path.mkdir()
    return path
