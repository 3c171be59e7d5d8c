from __future__ import annotations

import signal
import sys
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from clew.errors import (
    ClewError,
    Conflict,
    InvalidInput,
    Locked,
    NotFound,
    StoreDamaged,
    StoreForeign,
    StoreInUse,
    StoreTooNew,
    TargetNotEmpty,
)
from clew.store.sqlite.backup import Manifest, back_up, manifest_path, restore
from tests.store.files import Child, contents, digest, fill, holding, query, snapshot

NOW = 1_700_000_000_000

ADVICE = "Check that disk and its quota, or choose another place."
LITTLE_ROOM = """
import resource, sys
from pathlib import Path
from clew.errors import ClewError
from clew.store.sqlite.backup import back_up

resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
try:
    back_up(Path(sys.argv[1]), Path(sys.argv[2]), now=0)
except ClewError as error:
    print(error.exit_code, error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


def test_a_backup_has_everything_and_says_so_in_its_manifest(path: Path, backup: Path) -> None:
    fill(path, "one", "two")
    manifest = back_up(path, backup, now=NOW)
    assert (manifest.sessions, manifest.messages, manifest.made_at) == (1, 2, NOW)
    assert manifest.sha256 == digest(backup)
    written = msgspec.json.decode(manifest_path(backup).read_bytes(), type=Manifest)
    assert written == manifest
    assert contents(backup) == ["one", "two"]


def test_a_backup_is_one_private_file_and_its_manifest(path: Path, backup: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    files = sorted(file for file in backup.parent.iterdir() if file.is_file())
    assert files == [backup, manifest_path(backup)]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_writers_go_on_while_a_backup_is_made_and_it_shows_one_moment(
    path: Path, backup: Path
) -> None:
    fill(path, *["x" * 10_000] * 1_500)
    seen: list[tuple[int, int]] = []

    def write_meanwhile(done: int, total: int) -> None:
        if not seen:
            fill(path, "later")
        seen.append((done, total))

    manifest = back_up(path, backup, now=NOW, progress=write_meanwhile)
    assert len(seen) > 1
    assert seen[-1][0] == seen[-1][1] == backup.stat().st_size
    assert manifest.messages == 1_500
    assert "later" in contents(path)
    assert "later" not in contents(backup)


def test_a_backup_beside_a_running_process_is_fine(path: Path, backup: Path) -> None:
    fill(path, "one")
    with holding(path):
        assert back_up(path, backup, now=NOW).messages == 1


def test_a_second_backup_into_the_same_file_is_refused_and_the_first_is_whole(
    path: Path, backup: Path
) -> None:
    fill(path, "one")
    refused: list[str] = []

    def at_once(_done: int, _total: int) -> None:
        with pytest.raises(Locked, match="Another backup") as caught:
            back_up(path, backup, now=NOW, force=True)
        refused.append(str(caught.value))

    back_up(path, backup, now=NOW, progress=at_once)

    assert refused
    assert contents(backup) == ["one"]
    assert sorted(file for file in backup.parent.iterdir() if file.is_file()) == [
        backup,
        manifest_path(backup),
    ]


def test_an_older_file_is_written_over_only_when_told_to(path: Path, backup: Path) -> None:
    fill(path, "one")
    backup.write_text("precious")
    with pytest.raises(Conflict, match="--force"):
        back_up(path, backup, now=NOW)
    assert backup.read_text() == "precious"
    back_up(path, backup, now=NOW, force=True)
    assert contents(backup) == ["one"]


def test_the_store_itself_is_no_place_for_a_backup(path: Path) -> None:
    fill(path, "one")
    with pytest.raises(InvalidInput, match="the store itself"):
        back_up(path, path, now=NOW, force=True)
    assert contents(path) == ["one"]


def test_what_is_not_there_can_not_be_backed_up(path: Path, backup: Path) -> None:
    with pytest.raises(NotFound, match="no store"):
        back_up(path, backup, now=NOW)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    with pytest.raises(NotFound, match="empty"):
        back_up(path, backup, now=NOW)
    assert not backup.exists()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nowhere/backup.db", "There is no directory .*/nowhere[.]"),
        ("home/sessions.db/backup.db", "There is no directory .*/sessions[.]db[.]"),
        ("home", "home is a directory"),
        ("x" * 300, "xxx can't be used: File name too long"),
        ("x" * 253, "xxx can't be written: File name too long"),
    ],
)
def test_a_target_that_can_not_be_written_is_named(
    path: Path, tmp_path: Path, name: str, complaint: str
) -> None:
    fill(path, "one")
    before = snapshot(path.parent)
    for force in (False, True):
        with pytest.raises(ClewError, match=complaint) as caught:
            back_up(path, tmp_path / name, now=NOW, force=force)
        assert caught.value.exit_code == 1
    assert snapshot(path.parent) == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["home"]


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits")
def test_a_target_without_room_is_named_and_nothing_is_left(path: Path, backup: Path) -> None:
    fill(path, "x" * 2_000_000)
    with Child(LITTLE_ROOM, path, backup) as child:
        child.wait_for(f"1 Writing {backup} failed. {ADVICE}")
    assert not list(backup.parent.glob("backup*"))


def test_a_damaged_store_gives_no_backup_and_leaves_nothing(path: Path, backup: Path) -> None:
    fill(path, "one")
    path.write_bytes(b"garbage" * 1_000)
    with pytest.raises(StoreDamaged):
        back_up(path, backup, now=NOW)
    assert not backup.exists()
    assert not list(backup.parent.glob("backup*"))


def test_a_backup_comes_back_where_no_store_is(path: Path, backup: Path, tmp_path: Path) -> None:
    session_id = fill(path, "one", "two")
    back_up(path, backup, now=NOW)
    elsewhere = tmp_path / "elsewhere" / "sessions.db"
    restored = restore(elsewhere, backup, now=NOW)
    assert (restored.sessions, restored.messages, restored.kept) == (1, 2, None)
    assert restored.hashed
    assert contents(elsewhere) == ["one", "two"]
    assert query(elsewhere, "SELECT id FROM sessions") == [(session_id,)]
    assert query(elsewhere, "PRAGMA journal_mode") == [("wal",)]
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    fill(elsewhere, "three", key="cli:other")  # and it is a store that can be used


def test_a_store_with_sessions_is_not_overwritten(path: Path, backup: Path) -> None:
    fill(path, "old")
    back_up(path, backup, now=NOW)
    fill(path, "newer")
    before = snapshot(path.parent)
    with pytest.raises(TargetNotEmpty, match="--replace"):
        restore(path, backup, now=NOW)
    assert snapshot(path.parent) == before


def test_a_store_without_sessions_gives_way(path: Path, backup: Path, tmp_path: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    empty = tmp_path / "empty" / "sessions.db"
    empty.parent.mkdir()
    empty.touch()
    restore(empty, backup, now=NOW)
    assert contents(empty) == ["one"]


def test_replacing_keeps_the_store_of_before(path: Path, backup: Path) -> None:
    fill(path, "old")
    back_up(path, backup, now=NOW)
    fill(path, "newer")
    restored = restore(path, backup, now=NOW, replace=True)
    assert contents(path) == ["old"]
    assert restored.kept is not None
    assert restored.kept.name.startswith("sessions.db.replaced-2023")
    assert contents(restored.kept) == ["old", "newer"]
    # What was kept is a backup too.
    restore(path, restored.kept, now=NOW + 1, replace=True)
    assert contents(path) == ["old", "newer"]


def test_a_damaged_store_can_be_replaced_and_is_kept_byte_for_byte(
    path: Path, backup: Path
) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    path.write_bytes(b"garbage" * 1_000)
    path.with_name("sessions.db-wal").write_bytes(b"a log of the damaged store")
    with pytest.raises(StoreDamaged):
        restore(path, backup, now=NOW)
    restored = restore(path, backup, now=NOW, replace=True)
    assert contents(path) == ["one"]
    assert restored.kept is not None
    assert restored.kept.read_bytes() == b"garbage" * 1_000
    log = restored.kept.with_name(restored.kept.name + "-wal")
    assert log.read_bytes() == b"a log of the damaged store"


def test_a_backup_that_was_changed_is_refused(path: Path, backup: Path, tmp_path: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    data = bytearray(backup.read_bytes())
    data[5_000] ^= 1
    backup.write_bytes(data)
    target = tmp_path / "target" / "sessions.db"
    with pytest.raises(StoreDamaged, match="manifest"):
        restore(target, backup, now=NOW)
    assert not target.exists()


def test_a_manifest_that_can_not_be_read_is_refused(path: Path, backup: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    manifest_path(backup).write_text("{")
    with pytest.raises(StoreDamaged, match="Remove it to restore"):
        restore(path, backup, now=NOW, replace=True)


def test_without_a_manifest_the_database_itself_is_checked(
    path: Path, backup: Path, tmp_path: Path
) -> None:
    fill(path, *(f"message {number} " * 50 for number in range(200)))
    back_up(path, backup, now=NOW)
    manifest_path(backup).unlink()
    target = tmp_path / "target" / "sessions.db"
    assert not restore(target, backup, now=NOW).hashed
    target.unlink()
    data = bytearray(backup.read_bytes())
    middle = len(data) // 2 // 8192 * 8192
    data[middle : middle + 8192] = b"\xa5" * 8192
    backup.write_bytes(data)
    with pytest.raises(StoreDamaged):
        restore(target, backup, now=NOW)
    assert not target.exists()


def test_what_is_no_backup_is_refused(path: Path, tmp_path: Path) -> None:
    fill(path, "one")
    before = snapshot(path.parent)
    with pytest.raises(NotFound):
        restore(path, tmp_path / "missing.db", now=NOW, replace=True)
    with pytest.raises(NotFound):
        restore(path, tmp_path, now=NOW, replace=True)
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, but long enough to look like one " * 40)
    with pytest.raises(StoreDamaged):
        restore(path, text, now=NOW, replace=True)
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(StoreDamaged, match="empty"):
        restore(path, empty, now=NOW, replace=True)
    with pytest.raises(InvalidInput, match="the store itself"):
        restore(path, path, now=NOW, replace=True)
    foreign = tmp_path / "foreign.db"
    query(foreign, "CREATE TABLE t (x)")
    with pytest.raises(StoreForeign):
        restore(path, foreign, now=NOW, replace=True)
    assert snapshot(path.parent) == before


def test_a_backup_of_a_newer_clew_is_refused(path: Path, backup: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    query(backup, "PRAGMA user_version = 9999")
    manifest_path(backup).unlink()
    before = snapshot(path.parent)
    with pytest.raises(StoreTooNew):
        restore(path, backup, now=NOW, replace=True)
    assert snapshot(path.parent) == before


def test_a_store_that_somebody_has_open_is_not_replaced(path: Path, backup: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    with holding(path) as child:
        before = snapshot(path.parent)
        with pytest.raises(StoreInUse, match=f"pid {child.process.pid}, clew "):
            restore(path, backup, now=NOW, replace=True)
        assert snapshot(path.parent) == before
    restore(path, backup, now=NOW, replace=True)


def test_a_store_that_another_program_reads_is_not_replaced(path: Path, backup: Path) -> None:
    fill(path, "one")
    back_up(path, backup, now=NOW)
    with closing(apsw.Connection(str(path))) as shell:
        shell.execute("UPDATE sessions SET mode = 'by hand'")
        shell.execute("BEGIN")
        assert shell.execute("SELECT count(*) FROM sessions").get == 1
        with pytest.raises(StoreInUse, match="not clew"):
            restore(path, backup, now=NOW, replace=True)
    assert not list(path.parent.glob("*.replaced-*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from clew.store.sqlite.backup import restore

left = int(sys.argv[3])

def kill(event, _arguments):
    global left
    if event in ("os.rename", "os.link", "os.remove"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
restore(Path(sys.argv[1]), Path(sys.argv[2]), now=1_700_000_000_000 + left, replace=True)
print("done", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_restore_killed_at_any_step_leaves_the_old_store_or_the_new(
    path: Path, backup: Path
) -> None:
    fill(path, "old")
    back_up(path, backup, now=NOW)
    fill(path, "newer")
    outcomes = []
    for step in range(1, 60):
        with Child(KILLED, path, backup, step) as child:
            pass
        found = contents(path)
        outcomes.append(found)
        assert found in (["old"], ["old", "newer"])
        assert query(path, "PRAGMA integrity_check") == [("ok",)]
        if child.process.returncode == 0:
            break
        assert child.process.returncode == -signal.SIGKILL
        if found == ["old"]:
            fill(path, "newer")
    else:
        pytest.fail("the restore never came to its end")
    assert len(outcomes) > 3
    assert outcomes[-1] == ["old"]
