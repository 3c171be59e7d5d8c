from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew.store.sqlite.schema import shipped_migrations
from tests.cli.conftest import Home
from tests.store.files import FORK, OLD, contents, flip, holding, made_with, snapshot


@pytest.fixture
def full(home: Home) -> Home:
    home.add("One", "hello", "again")
    home.add("Two", "there")
    return home


def test_a_copy_says_what_it_copied_and_how_to_use_it(full: Home, tmp_path: Path) -> None:
    before = snapshot(full.path)
    target = tmp_path / "new.db"
    result = full.clew("store", "copy", str(full.path / "sessions.db"), str(target))
    assert result.exit_code == 0, result.output
    assert "Copied 2 sessions and 3 messages" in result.stdout
    assert f"clew config set store.url {target}" in result.stdout
    assert contents(target) == ["hello", "again", "there"]
    assert snapshot(full.path) == before
    assert full.clew("--store", str(target), "doctor", "--full").exit_code == 0


def test_programs_get_counts_and_hashes(full: Home, tmp_path: Path) -> None:
    result = full.clew(
        "store", "copy", str(full.path / "sessions.db"), str(tmp_path / "n.db"), "--json"
    )
    copied = msgspec.json.decode(result.stdout)
    tables = {each["name"]: each for each in copied["tables"]}
    assert tables["messages"]["rows"] == 3
    assert len(tables["messages"]["sha256"]) == 64
    assert copied["passed_over"] == 0


def test_urls_are_as_good_as_paths(full: Home, tmp_path: Path) -> None:
    source = (full.path / "sessions.db").as_uri().replace("file:", "sqlite:")
    target = (tmp_path / "new.db").as_uri().replace("file:", "sqlite:")
    assert full.clew("store", "copy", source, target).exit_code == 0
    assert len(contents(tmp_path / "new.db")) == 3


def test_a_store_that_has_sessions_is_not_copied_over(full: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.add("Mine", "mine")
    target = other.path / "sessions.db"
    result = full.clew("store", "copy", str(full.path / "sessions.db"), str(target))
    assert result.exit_code == 1
    assert "already has sessions. A copy needs a new or empty store." in result.stderr
    assert contents(target) == ["mine"]


def test_a_store_in_use_is_code_3(full: Home, tmp_path: Path) -> None:
    path = full.path / "sessions.db"
    with holding(path) as child:
        result = full.clew("store", "copy", str(path), str(tmp_path / "new.db"))
        assert result.exit_code == 3
        assert f"pid {child.process.pid}" in result.stderr
    assert not (tmp_path / "new.db").exists()


def test_a_store_that_is_not_there_is_said(home: Home, tmp_path: Path) -> None:
    result = home.clew("store", "copy", str(tmp_path / "none.db"), str(tmp_path / "new.db"))
    assert result.exit_code == 1
    assert "There is no store at" in result.stderr
    assert not (tmp_path / "new.db").exists()
    assert home.clew("store", "copy", "mysql://u:hunter2@h/x", "y").exit_code == 2


def test_a_store_of_an_older_clew_is_updated_with_a_word_about_it(home: Home) -> None:
    path = home.path / "sessions.db"
    made_with(path, shipped_migrations()[:4])

    result = home.clew("list", "--json")

    assert result.exit_code == 0, result.output
    assert {each["id"] for each in msgspec.json.decode(result.stdout)["sessions"]} == {OLD, FORK}
    assert f"{path} is from an older clew and is updated (schema 4 to " in result.stderr
    assert "of disk for a while" in result.stderr
    assert home.clew("list").stderr == ""


def test_damaged_messages_are_told_of_by_export_backup_and_copy(full: Home, tmp_path: Path) -> None:
    session = full.add("Bad", "nothing", "@wordless@")
    path = full.path / "sessions.db"
    flip(path, b"@wordless@")

    exported = full.clew("export", session.id, "--format", "jsonl", "-o", "-")
    backup = full.clew("backup", str(tmp_path / "backup.db"))
    restored = full.clew("restore", "--replace", str(tmp_path / "backup.db"))
    copied = full.clew("store", "copy", str(path), str(tmp_path / "copy.db"))
    doctor = full.clew("doctor", "--full")

    assert (exported.exit_code, len(exported.stdout.splitlines())) == (1, 4)
    assert "1 message damaged in the store, and so in the file: 2." in exported.stderr
    for result in (backup, restored, copied):
        assert result.exit_code == 0, result.output
        assert "1 message of " in result.stderr
        assert "damaged. `clew doctor --full` names them" in result.stderr
    assert doctor.exit_code == 1
    assert f"{session.id} message 2" in doctor.stdout
