"""A full disk, or a medium that is read-only: what only reads works, and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.core.message import Draft
from clew.store import open_sqlite
from clew.testing.contract.case import make
from tests.patience import PATIENCE
from tests.sizes import pick

# A file system of its own, seen by this process alone, that is full or read-only.
MOUNT = """
set -e
mount -t tmpfs -o size=4m tmpfs "$DISK"
cp -a "$HOME_DIR"/. "$DISK"
case "$1" in
  full) cat /dev/zero > "$DISK/filler" 2>/dev/null || true ;;
  read-only) mount -o remount,ro "$DISK" ;;
esac
exec "$PYTHON" -c "$PROGRAM"
"""

PROGRAM = """
import json, os
from pathlib import Path
from clew.cli import main

def listing():
    return sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns)
                  for p in Path(os.environ["CLEW_HOME"]).rglob("*") if p.is_file())

def run(arguments):
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.dup2(to_out, 1), os.dup2(to_err, 2)
        main(arguments)
    os.close(to_out), os.close(to_err)
    said = [os.fdopen(each).read() for each in (out, err)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *said]

before = listing()
results = [run(each) for each in json.loads(os.environ["COMMANDS"])]
print(json.dumps([results, before == listing()]))
"""


def run_on(disk: Path, kind: str, home: Path, *commands: list[str]) -> tuple[list[Any], bool]:
    """What became of the commands, and whether all files are as they were."""
    disk.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CLEW_")}
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, "sh", kind],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=kept
        | {
            "DISK": str(disk),
            "HOME_DIR": str(home),
            "PYTHON": sys.executable,
            "PROGRAM": PROGRAM,
            "CLEW_HOME": str(disk),
            "COMMANDS": json.dumps(commands),
            "PYTHONPATH": ":".join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    if done.returncode and "unshare" in done.stderr + done.stdout:
        pytest.skip(f"No file systems can be made here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    results, unchanged = json.loads(done.stdout)
    return results, unchanged


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """A store with a session, closed."""
    home = tmp_path / "home"
    async with await open_sqlite(str(home / "sessions.db")) as store:
        session = await make(store, title="Refunds")
        lease = await store.acquire_lease(session.id, "me")
        await store.append(session.id, lease.epoch, Draft(role="user", content="the refund policy"))
        await store.release_lease(lease)
    return home


LEFT = """
import asyncio, os, sys
from clew.core.message import Draft
from clew.store import open_sqlite
from clew.testing.contract.case import make

async def main():
    store = await open_sqlite(sys.argv[1])
    session = await make(store, title="Refunds")
    lease = await store.acquire_lease(session.id, "me")
    await store.append(session.id, lease.epoch, Draft(role="user", content="the refund policy"))
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="Linux has it")
@pytest.mark.parametrize("gone", pick(["-shm"], ["", "-shm"]))
def test_what_a_crash_left_in_the_log_is_read_there_too(tmp_path: Path, gone: str) -> None:
    home = tmp_path / "home"
    subprocess.run([sys.executable, "-c", LEFT, home / "sessions.db"], check=True, timeout=PATIENCE)
    if gone:
        (home / f"sessions.db{gone}").unlink()
    commands = [["search", "refund"], ["backup", str(tmp_path / "backup.db")]]
    results, unchanged = run_on(tmp_path / "disk", "read-only", home, *commands)
    assert [code for code, *_ in results] == [0, 0], results
    assert "the refund policy" in results[0][1]
    assert unchanged


@pytest.mark.skipif(shutil.which("unshare") is None, reason="Linux has it")
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_what_only_reads_works_where_nothing_can_be_written(
    kind: str, home: Path, tmp_path: Path
) -> None:
    results, unchanged = run_on(
        tmp_path / "disk", kind, home,
        ["list"],
        ["show", "Refunds"],
        ["search", "refund"],
        ["export", "Refunds", "--format", "jsonl", "-o", "-"],
        ["rename", "Refunds", "Returns"],
    )  # fmt: skip
    *read, (refused, _, told) = results
    for code, out, err in read:
        assert (code, err) == (0, "")
        assert "efund" in out
    assert refused == 4
    assert "Reading works" in told
    assert unchanged
