"""The server's own backup, as the guide tells it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from clew.store.postgres import doctor
from tests.patience import PATIENCE
from tests.postgres.histories import fill
from tests.postgres.server import Server, find_programs
from tests.postgres.test_copy import rows_of


def test_a_dump_that_is_restored_is_the_same_store(
    server: Server, url: str, tmp_path: Path
) -> None:
    asyncio.run(fill(url, messages=5))
    new = server.url(server.create_database())
    for program, *arguments in (
        ("pg_dump", "--format", "custom", "--file", "clew.dump", url),
        ("pg_restore", "--no-owner", "--dbname", new, "clew.dump"),
    ):
        subprocess.run(
            [find_programs() / program, *arguments],
            cwd=tmp_path,
            check=True,
            timeout=PATIENCE,
        )
    assert rows_of(new, server) == rows_of(url, server)
    found = asyncio.run(doctor.examine(new, full=True)).findings
    assert {each.name for each in found if each.level != "ok"} == {"durability"}
