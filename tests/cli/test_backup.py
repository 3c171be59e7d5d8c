from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Home
from tests.store.files import holding


@pytest.fixture
def full(home: Home) -> Home:
    home.add("One", "hello")
    home.add("Two", "hello", "again")
    return home


@pytest.fixture
def backup(full: Home, tmp_path: Path) -> Path:
    file = tmp_path / "backup.db"
    assert full.clew("backup", str(file)).exit_code == 0
    return file


def titles(home: Home) -> list[str]:
    return sorted(session["title"] for session in home.json("list")["sessions"])


def test_a_backup_says_what_is_in_it(full: Home, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    result = full.clew("backup", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"Backed up to {file}: 2 sessions, 3 messages.\n"


def test_one_is_one(home: Home, tmp_path: Path) -> None:
    home.add("One", "hello")
    assert "1 session, 1 message." in home.clew("backup", str(tmp_path / "backup.db")).stdout


def test_a_backup_for_programs_is_its_manifest(full: Home, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    said = full.json("backup", str(file))
    manifest = msgspec.json.decode(Path(f"{file}.manifest.json").read_bytes())
    assert said == {"file": str(file)} | manifest


def test_a_name_is_relative_to_where_you_are(
    full: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert full.clew("backup", "backup.db").exit_code == 0
    assert (tmp_path / "backup.db").exists()


def test_an_older_file_is_written_over_only_with_force(full: Home, backup: Path) -> None:
    full.add("Three")
    refused = full.clew("backup", str(backup))
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert "3 sessions" in full.clew("backup", "--force", str(backup)).stdout


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("/nonexistent/x.db", "There is no directory /nonexistent. "),
        ("/", "/ is a directory. "),
        ("/dev/null/x.db", "There is no directory /dev/null. "),
    ],
)
def test_a_target_that_can_not_be_written_is_named(full: Home, target: str, complaint: str) -> None:
    result = full.clew("backup", "--force", target)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"clew: {complaint}")
    assert "sessions.db" not in result.stderr


def test_the_store_itself_is_wrong_usage(full: Home) -> None:
    assert full.clew("backup", "--force", str(full.path / "sessions.db")).exit_code == 2


def test_nothing_to_back_up_is_code_1(home: Home, tmp_path: Path) -> None:
    result = home.clew("backup", str(tmp_path / "backup.db"))
    assert result.exit_code == 1
    assert "nothing to back up" in result.stderr
    assert not home.path.exists()


def test_a_damaged_store_is_code_4_and_gives_no_backup(full: Home, tmp_path: Path) -> None:
    (full.path / "sessions.db").write_bytes(b"garbage" * 10_000)
    result = full.clew("backup", str(tmp_path / "backup.db"))
    assert result.exit_code == 4
    assert "sessions.db" in result.stderr
    assert not list(tmp_path.glob("backup*"))


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_file_has_to_be_named(home: Home, command: str) -> None:
    result = home.clew(command)
    assert result.exit_code == 2
    assert "FILE" in result.stderr


def test_a_backup_comes_back_elsewhere(full: Home, backup: Path, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    result = other.clew("restore", str(backup))
    assert (result.exit_code, result.stdout) == (0, "Restored: 2 sessions, 3 messages.\n")
    assert titles(other) == titles(full)


def test_a_store_with_sessions_is_replaced_only_when_told_to_and_kept(
    full: Home, backup: Path
) -> None:
    full.add("Three")
    refused = full.clew("restore", str(backup))
    assert refused.exit_code == 1
    assert "--replace" in refused.stderr
    assert titles(full) == ["One", "Three", "Two"]
    replaced = full.clew("restore", "--replace", str(backup))
    assert replaced.exit_code == 0
    assert titles(full) == ["One", "Two"]
    kept = replaced.stdout.splitlines()[1].removeprefix("The previous store is kept as ")
    assert Path(kept.removesuffix(".")).exists()


def test_a_restore_for_programs_says_what_was_kept(full: Home, backup: Path) -> None:
    said = full.json("restore", "--replace", str(backup))
    assert (said["sessions"], said["messages"], said["hashed"]) == (2, 3, True)
    assert Path(said["kept"]).exists()


def test_a_backup_without_its_manifest_is_restored_with_a_note(
    backup: Path, tmp_path: Path
) -> None:
    Path(f"{backup}.manifest.json").unlink()
    result = Home(tmp_path / "other").clew("restore", str(backup))
    assert result.exit_code == 0
    assert "has no manifest" in result.stderr


def test_a_file_that_is_not_there_is_code_1(home: Home, tmp_path: Path) -> None:
    result = home.clew("restore", str(tmp_path / "nope.db"))
    assert result.exit_code == 1
    assert "nope.db" in result.stderr


def test_a_damaged_backup_is_code_4_and_changes_nothing(full: Home, backup: Path) -> None:
    backup.write_bytes(backup.read_bytes()[:-5000])
    for manifest in (True, False):
        result = full.clew("restore", "--replace", str(backup))
        assert result.exit_code == 4
        assert "backup.db" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        if manifest:
            Path(f"{backup}.manifest.json").unlink()
    assert titles(full) == ["One", "Two"]


def test_a_store_in_use_is_not_replaced_and_that_is_code_3(full: Home, backup: Path) -> None:
    with holding(full.path / "sessions.db") as child:
        result = full.clew("restore", "--replace", str(backup), "--json")
        assert result.exit_code == 3
        error = msgspec.json.decode(result.stderr)
        assert error["error"] == "store_in_use"
        assert f"python (pid {child.process.pid}" in error["message"]
