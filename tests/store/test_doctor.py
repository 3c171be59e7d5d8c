from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core.changes import AddMessage, EndTurn, StartTurn, UndoTurn, WriteScratch
from clew.core.message import Draft
from clew.core.session import NewSession
from clew.errors import StoreDamaged, StoreInUse
from clew.files.locks import FileLock
from clew.store import open_store
from clew.store.diagnosis import Diagnosis
from clew.store.sqlite import doctor
from clew.store.sqlite.doctor import check_library, examine
from clew.store.sqlite.repair import repair_file
from tests.patience import PATIENCE
from tests.store.files import HOLDER, Child, contents, fill, holding, query, snapshot

NOW = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions, in several scripts, one of them a fork with an undone turn."""
    file = tmp_path / "home" / "sessions.db"
    fill(file, "the first message", "plain words", "Pythonを使う日本語の文章です", "😀\0\ud800")

    async def more() -> None:
        async with await open_store(str(file)) as store:
            session = await store.create_session(NewSession(key="cli:other"))
            lease = await store.acquire_lease(session.id, "test")
            await store.record(
                session.id,
                lease.epoch,
                StartTurn(turn_id="t"),
                AddMessage(Draft(role="user", content="take this back"), "t"),
                EndTurn(turn_id="t", status="done"),
                AddMessage(Draft(role="assistant", content="stays", parts=({"a": "\ud800"},))),
                UndoTurn("t"),
                WriteScratch("note", "a scratch note"),
            )
            await store.release_lease(lease)
            fork = await store.fork_session(session.id)
            lease = await store.acquire_lease(fork.id, "test")
            await store.append(fork.id, lease.epoch, Draft(role="user", content="in the fork"))

    asyncio.run(more())
    return file


def levels(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.name: finding.level for finding in diagnosis.findings}


def troubles(diagnosis: Diagnosis) -> set[str]:
    return {name for name, level in levels(diagnosis).items() if level != "ok"}


def damage(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


@pytest.mark.parametrize("full", [False, True])
def test_nothing_is_wrong_with_a_sound_store(path: Path, full: bool) -> None:
    before = snapshot(path.parent)
    steps: list[int] = []
    diagnosis = examine(path, now=NOW, full=full, advance=steps.append)
    assert troubles(diagnosis) == set()
    assert diagnosis.sound
    assert sum(steps) == 9 + 2 * full
    assert snapshot(path.parent) == before


def test_a_missing_store_is_no_problem_and_stays_missing(tmp_path: Path) -> None:
    diagnosis = examine(tmp_path / "nowhere" / "sessions.db", now=NOW)
    assert diagnosis.sound
    assert "none at" in diagnosis.findings[-1].what
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("3.40.1", "problem"), ("3.44.5", "problem"), ("3.44.6", "ok"), ("3.45.0", "problem"),
        ("3.50.6", "problem"), ("3.50.7", "ok"), ("3.51.2", "problem"), ("3.51.3", "ok"),
        ("3.54.1", "ok"), ("4.0.0", "ok"),
    ],
)  # fmt: skip
def test_sqlite_versions_with_the_wal_reset_bug_are_known(version: str, level: str) -> None:
    assert check_library(version).level == level


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_a_store_that_others_may_read_is_closed_to_them(path: Path) -> None:
    home = path.parent
    path.chmod(0o644)
    home.chmod(0o755)
    (home / "processes").chmod(0o711)
    diagnosis = examine(path, now=NOW, home=home)
    assert troubles(diagnosis) == {"permissions"}
    assert diagnosis.sound  # a warning
    (mended,) = repair_file(path, diagnosis, now=NOW, home=home)
    assert mended.what.endswith("processes and home are now readable by their owner only")
    assert (mode(path), mode(home), mode(home / "processes")) == (0o600, 0o700, 0o700)
    assert troubles(examine(path, now=NOW, home=home)) == set()


@pytest.mark.parametrize("elsewhere", [None, "."])
def test_a_directory_that_is_not_clews_is_left_as_it_is(path: Path, elsewhere: str | None) -> None:
    home = None if elsewhere is None else Path(elsewhere)
    path.parent.chmod(0o755)
    assert troubles(examine(path, now=NOW, home=home)) == set()
    (path.parent / "store.lock").chmod(0o644)
    diagnosis = examine(path, now=NOW, home=home)
    (mended,) = repair_file(path, diagnosis, now=NOW, home=home)
    assert mended.what == "store.lock is now readable by its owner only"
    assert mode(path.parent) == 0o755


def test_a_home_that_everybody_writes_to_is_left_as_it_is(path: Path) -> None:
    home = path.parent
    path.chmod(0o644)
    home.chmod(0o1777)
    repair_file(path, examine(path, now=NOW, home=home), now=NOW, home=home)
    assert (mode(path), mode(home)) == (0o600, 0o1777)


def test_whoever_has_the_store_open_is_named(path: Path) -> None:
    with holding(path) as child:
        diagnosis = examine(path, now=NOW)
        assert diagnosis.sound
        (processes,) = [each for each in diagnosis.findings if each.name == "processes"]
        assert f"pid {child.process.pid}" in processes.what


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_files_of_dead_processes_are_found_and_cleared_away(path: Path) -> None:
    with Child(HOLDER, path) as child:
        child.wait_for("open")
        child.process.send_signal(signal.SIGKILL)
        child.process.wait(PATIENCE)
    processes = path.parent / "processes"
    assert len(list(processes.iterdir())) == 1
    diagnosis = examine(path, now=NOW)
    assert troubles(diagnosis) == {"process files"}
    assert len(list(processes.iterdir())) == 1
    assert "1 file left behind" in str(diagnosis.findings)
    (mended,) = repair_file(path, diagnosis, now=NOW)
    assert mended.what == "1 file of a dead process removed"
    assert list(processes.iterdir()) == []


def test_a_store_that_is_being_restored_is_left_alone(path: Path) -> None:
    lock = FileLock(path.parent / "store.lock")
    assert lock.acquire()
    diagnosis = examine(path, now=NOW)
    lock.release()
    assert levels(diagnosis)["processes"] == "warning"
    assert "integrity" not in levels(diagnosis)


def test_messages_that_wait_to_be_indexed_are_indexed(path: Path) -> None:
    query(path, "UPDATE messages SET content = content || '漢字' WHERE id = 3")
    diagnosis = examine(path, now=NOW)
    assert troubles(diagnosis) == {"search queue", "counters"}
    assert "1 message waits to be indexed" in str(diagnosis.findings)
    mended = repair_file(path, diagnosis, now=NOW)
    assert "the counters of 1 session corrected" in str(mended)
    assert troubles(examine(path, now=NOW, full=True)) == {"changed by hand"}


def test_a_message_that_is_not_indexed_is_noticed_and_the_index_rebuilt(path: Path) -> None:
    query(path, "DROP TRIGGER messages_ai")
    query(
        path,
        """INSERT INTO messages (session_id, seq, role, content, at)
           SELECT id, head + 1, 'user', 'smuggled in', 1 FROM sessions
           WHERE id = (SELECT session_id FROM messages WHERE id = 1)""",
    )
    query(
        path,
        """UPDATE sessions SET head = head + 1
           WHERE id = (SELECT session_id FROM messages WHERE id = 1)""",
    )
    diagnosis = examine(path, now=NOW)
    assert troubles(diagnosis) == {"search index", "counters"}
    assert not diagnosis.sound
    mended = repair_file(path, diagnosis, now=NOW)
    assert {each.name for each in mended} == {"search index", "counters"}
    assert troubles(examine(path, now=NOW, full=True)) == {"changed by hand"}


def test_an_index_with_the_right_count_and_wrong_words_is_noticed(path: Path) -> None:
    query(path, "DROP TRIGGER messages_au")
    query(path, "UPDATE messages SET content = 'something else entirely' WHERE id = 2")
    diagnosis = examine(path, now=NOW)
    assert {"search index", "counters"} >= troubles(diagnosis) >= {"search index"}
    repair_file(path, diagnosis, now=NOW)
    assert troubles(examine(path, now=NOW, full=True)) == {"changed by hand"}


def test_only_a_full_check_compares_every_word(path: Path) -> None:
    query(path, "DROP TRIGGER messages_au")
    # The sample looks for the first word of a message; this changes the last.
    query(path, "UPDATE messages SET content = 'plain wards' WHERE id = 2")
    assert troubles(examine(path, now=NOW)) == set()
    diagnosis = examine(path, now=NOW, full=True)
    assert troubles(diagnosis) == {"whole index", "changed by hand"}
    repair_file(path, diagnosis, now=NOW)
    assert troubles(examine(path, now=NOW, full=True)) == set()


def test_pairs_of_characters_that_are_missing_are_noticed(path: Path) -> None:
    query(path, "INSERT INTO messages_spaceless (messages_spaceless) VALUES ('delete-all')")
    assert troubles(examine(path, now=NOW)) == {"search index"}
    diagnosis = examine(path, now=NOW, full=True)
    assert troubles(diagnosis) == {"search index", "whole index"}
    repair_file(path, diagnosis, now=NOW)
    assert troubles(examine(path, now=NOW, full=True)) == set()


def test_the_index_is_not_rebuilt_while_somebody_has_the_store_open(path: Path) -> None:
    query(path, "INSERT INTO messages_spaceless (messages_spaceless) VALUES ('delete-all')")
    path.chmod(0o644)
    with holding(path) as child:
        diagnosis = examine(path, now=NOW)
        assert "permissions" in troubles(diagnosis)
        with pytest.raises(StoreInUse, match=rf"python \(pid {child.process.pid}.*Nothing was"):
            repair_file(path, diagnosis, now=NOW)
    assert path.stat().st_mode & 0o777 == 0o644


def test_wrong_counters_are_corrected_beside_a_running_process(path: Path) -> None:
    right = query(path, "SELECT id, message_count, content_bytes FROM sessions ORDER BY id")
    query(path, "UPDATE sessions SET message_count = 77, content_bytes = content_bytes + 1")
    with holding(path):
        diagnosis = examine(path, now=NOW)
        assert troubles(diagnosis) == {"counters"}
        repair_file(path, diagnosis, now=NOW)
        assert troubles(examine(path, now=NOW)) == set()
    assert query(path, "SELECT id, message_count, content_bytes FROM sessions ORDER BY id") == right


def test_wrong_sums_of_usage_are_made_anew_from_the_turns(path: Path) -> None:
    (session_id,) = query(path, "SELECT id FROM sessions LIMIT 1")[0]
    turns = [
        f"('t{number}', '{session_id}', 1, 'done', {number}, {NOW - number})"
        for number in range(300)
    ]
    columns = "id, session_id, first_seq, status, input_tokens, started_at"
    query(path, f"INSERT INTO turns ({columns}) VALUES {', '.join(turns)}")
    assert troubles(examine(path, now=NOW, full=True)) == set()
    query(path, "UPDATE usage_sums SET input_tokens = input_tokens + 1 WHERE kind = 'model'")
    assert troubles(examine(path, now=NOW)) == set(), "the newest sessions are right"
    query(path, "DELETE FROM usage_changes")
    diagnosis = examine(path, now=NOW, full=True)
    assert troubles(examine(path, now=NOW)) == troubles(diagnosis) == {"usage"}

    repair_file(path, diagnosis, now=NOW)

    assert troubles(examine(path, now=NOW, full=True)) == set()
    sums = "SELECT * FROM usage_sums UNION ALL SELECT * FROM usage_changed"
    spent = query(path, f"SELECT sum(input_tokens) FROM ({sums}) WHERE kind = 'model'")
    assert spent == [(sum(range(300)),)]


def test_messages_that_are_missing_from_a_thread_are_a_problem_without_a_fix(path: Path) -> None:
    query(path, "DELETE FROM messages WHERE id = 2")
    diagnosis = examine(path, now=NOW)
    assert "threads" in troubles(diagnosis)
    assert not diagnosis.sound
    repair_file(path, diagnosis, now=NOW)
    assert "threads" in troubles(examine(path, now=NOW))


def test_rows_that_belong_to_nothing_are_noticed(path: Path) -> None:
    query(path, "INSERT INTO routes (key, session_id, updated_at) VALUES ('k', 'gone', 1)")
    diagnosis = examine(path, now=NOW)
    assert troubles(diagnosis) == {"references"}
    assert "routes" in str(diagnosis.findings)


def test_an_overwritten_header_is_told_and_nothing_replaced(path: Path) -> None:
    damage(path, lambda data: data.__setitem__(slice(0, 100), b"\xff" * 100))
    before = snapshot(path.parent)
    diagnosis = examine(path, now=NOW)
    assert not diagnosis.usable
    assert str(diagnosis.findings[-1]).count("clew restore BACKUP --replace") == 1
    assert "clew doctor" not in str(diagnosis.findings[-1])
    assert repair_file(path, diagnosis, now=NOW) == ()
    assert snapshot(path.parent) == before


def test_garbage_in_the_middle_is_found_and_nothing_replaced(path: Path) -> None:
    fill(path, *(f"message {number} " * 100 for number in range(500)))

    def garble(data: bytearray) -> None:
        for page in range(len(data) // 4096 // 3, len(data) // 4096 // 2):
            data[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096

    damage(path, garble)
    before = snapshot(path.parent)
    diagnosis = examine(path, now=NOW)
    assert not diagnosis.sound
    assert str(diagnosis.findings).count("clew restore BACKUP --replace") == 1
    assert all("\n" not in finding.what for finding in diagnosis.findings)
    assert snapshot(path.parent) == before


def test_a_truncated_file_is_found_and_nothing_replaced(path: Path) -> None:
    damage(path, lambda data: data.__delitem__(slice(len(data) // 2, len(data))))
    before = snapshot(path.parent)
    diagnosis = examine(path, now=NOW)
    assert not diagnosis.sound
    assert snapshot(path.parent) == before


def test_many_faults_are_one_short_line(path: Path) -> None:
    query(path, "CREATE TABLE more (x); CREATE INDEX also ON more (x)")
    query(path, "INSERT INTO more SELECT id FROM messages; PRAGMA wal_checkpoint(truncate)")
    ((root,),) = query(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'also'")
    # The index says that it has no cells: SQLite tells of each row that it lacks.
    ((page,),) = query(path, "PRAGMA page_size")
    cells = (root - 1) * page + 3
    damage(path, lambda data: data.__setitem__(slice(cells, cells + 2), b"\0\0"))
    diagnosis = examine(path, now=NOW, full=True)
    (integrity,) = [each for each in diagnosis.findings if each.name == "integrity"]
    assert integrity.level == "problem"
    assert "\n" not in integrity.what
    assert "***" not in integrity.what
    assert integrity.what.count("; ") == 2
    assert "missing from index also" in integrity.what


@pytest.mark.parametrize("full", [False, True])
def test_an_empty_file_is_what_a_killed_start_leaves_and_no_problem(
    tmp_path: Path, full: bool
) -> None:
    empty = tmp_path / "sessions.db"
    empty.touch(0o600)
    diagnosis = examine(empty, now=NOW, full=full)
    assert diagnosis.sound
    assert troubles(diagnosis) == {"store"}
    assert "empty" in diagnosis.findings[-1].what
    assert empty.stat().st_size == 0
    fill(empty, "one")
    assert troubles(examine(empty, now=NOW, full=full)) == set()


def test_a_foreign_file_and_a_newer_one_are_told_apart(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    query(foreign, "CREATE TABLE t (x)")
    newer = tmp_path / "newer" / "sessions.db"
    fill(newer, "one")
    query(newer, "PRAGMA user_version = 9999")
    whats = {}
    for file in (foreign, newer):
        diagnosis = examine(file, now=NOW)
        assert not diagnosis.usable
        whats[file.name] = diagnosis.findings[-1]
    assert "not clew's" in whats["foreign.db"].what
    assert "newer clew" in whats["sessions.db"].what
    assert str(whats["sessions.db"]).count("Update clew") == 1


def test_an_older_schema_is_only_a_warning(path: Path) -> None:
    query(path, "PRAGMA user_version = 0; PRAGMA user_version = -1")
    assert levels(examine(path, now=NOW))["schema"] == "warning"


def test_another_journal_mode_is_a_problem(path: Path) -> None:
    query(path, "PRAGMA journal_mode = delete")
    assert troubles(examine(path, now=NOW)) == {"journal"}


def test_little_disk_space_and_a_long_log_are_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LARGE_LOG", -1)
    monkeypatch.setattr(doctor, "LOW_DISK", 1 << 62)
    assert troubles(examine(path, now=NOW)) == {"write-ahead log", "disk space"}
    monkeypatch.setattr(doctor, "NO_DISK", 1 << 62)
    assert not examine(path, now=NOW).sound


def test_a_damaged_page_is_no_traceback_when_mending(path: Path) -> None:
    query(path, "UPDATE sessions SET message_count = 77")
    diagnosis = examine(path, now=NOW)
    damage(path, lambda data: data.__setitem__(slice(0, 100), b"\xff" * 100))
    with pytest.raises(StoreDamaged):
        repair_file(path, diagnosis, now=NOW)


def test_a_full_check_leaves_no_copy_behind(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    said = contents(path)
    assert examine(path, now=NOW, full=True).sound
    assert list(place.iterdir()) == []
    assert contents(path) == said
