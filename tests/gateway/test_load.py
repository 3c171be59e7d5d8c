"""Many conversations at once, over a gateway that is a process of its own.

The whole thing is `benchmarks.load`, with a hundred of them, over a full store and by the clock.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.load import begin, find_disorder
from benchmarks.processes.server import open_gateway
from clew.client import Client


async def test_conversations_at_once_keep_their_order(tmp_path: Path) -> None:
    with open_gateway(tmp_path, tmp_path / "sessions.db") as gateway:
        async with Client(gateway.url, gateway.token) as client:
            talks = await begin(client, 10)
            assert await find_disorder(gateway, client, talks) == []
