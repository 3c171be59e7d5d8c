from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.ports import Store
from clew.store import open_store
from tests.stores import lay_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    lay_store(tmp_path / "one" / "sessions.db")
    async with await open_store(f"sqlite://{tmp_path}/one/sessions.db") as opened:
        yield opened


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Store]:
    """A second, empty store."""
    lay_store(tmp_path / "two" / "sessions.db")
    async with await open_store(f"sqlite://{tmp_path}/two/sessions.db") as opened:
        yield opened
