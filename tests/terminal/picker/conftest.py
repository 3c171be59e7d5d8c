from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.ports import Store
from clew.store import open_store
from tests.stores import lay_store


class Ticking:
    """The time, but never the same twice: what was made later is listed as later."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        return self._last


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    path = tmp_path / "store" / "sessions.db"
    lay_store(path)
    async with await open_store(str(path), clock=Ticking()) as opened:
        yield opened


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The directory in which the picker is opened."""
    path = tmp_path / "api"
    path.mkdir()
    return path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    path = tmp_path / "web"
    path.mkdir()
    return path
