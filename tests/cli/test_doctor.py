from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest

from clew.core.text import columns
from clew.store.presence import command_name
from tests.cli.conftest import Home
from tests.cli.screens import Terminal
from tests.patience import PATIENCE
from tests.store.files import holding, query


@pytest.fixture
def sound(home: Home) -> Home:
    home.add("One", "hello")
    return home


def finding(home: Home, name: str, *args: str) -> dict[str, str]:
    result = home.clew("doctor", "--json", *args)
    findings = msgspec.json.decode(result.stdout)["findings"]
    found: dict[str, str] = next(each for each in findings if each["name"] == name)
    return found


def test_a_sound_store_is_all_ticks_and_code_0(sound: Home) -> None:
    result = sound.clew("doctor")
    assert result.exit_code == 0
    assert all(line.startswith("✓ ") for line in result.stdout.splitlines())
    assert "right for 1 session\n" in result.stdout
    assert "in step, 1 message\n" in result.stdout
    assert result.stderr == ""


def test_sizes_are_in_units_that_people_read(sound: Home) -> None:
    what = finding(sound, "disk space")["what"]
    assert "the store takes " in what
    assert what.endswith(" KB")
    assert finding(sound, "write-ahead log")["what"] == "0 B"


@pytest.mark.parametrize("args", [(), ("--full",), ("--fix",), ("--full", "--fix")])
def test_programs_get_json(sound: Home, args: tuple[str, ...]) -> None:
    found = sound.json("doctor", *args)
    assert (found["sound"], found["usable"], found["fixed"]) == (True, True, [])
    assert {each["level"] for each in found["findings"]} == {"ok"}
    assert ("whole index" in {each["name"] for each in found["findings"]}) == ("--full" in args)


def test_no_store_and_an_empty_file_are_no_problem(home: Home) -> None:
    assert home.clew("doctor").exit_code == 0
    assert not home.path.exists()
    home.path.mkdir(0o700)
    (home.path / "sessions.db").touch(0o600)
    result = home.clew("doctor")
    assert result.exit_code == 0
    assert "! store " in result.stdout
    assert "The next start makes them." in result.stdout
    assert home.clew("list").exit_code == 0
    assert "empty" not in home.clew("doctor").stdout


def test_what_is_wrong_is_code_1_until_it_is_fixed(sound: Home) -> None:
    query(sound.path / "sessions.db", "UPDATE sessions SET message_count = 77")
    result = sound.clew("doctor")
    assert result.exit_code == 1
    assert "✗ counters " in result.stdout
    assert "`clew doctor --fix` puts it right." in result.stdout
    fixed = sound.clew("doctor", "--fix")
    assert fixed.exit_code == 0
    assert fixed.stdout.endswith("fixed  counters: the counters of 1 session corrected\n")
    assert sound.clew("doctor").exit_code == 0


def test_a_damaged_store_is_code_4_and_the_advice_is_given_once(sound: Home) -> None:
    (sound.path / "sessions.db").write_bytes(b"garbage" * 10_000)
    result = sound.clew("doctor")
    assert result.exit_code == 4
    assert result.stdout.count("clew restore BACKUP --replace") == 1
    assert sound.clew("doctor", "--fix").exit_code == 4


def test_a_newer_store_is_code_4_and_the_advice_is_given_once(sound: Home) -> None:
    query(sound.path / "sessions.db", "PRAGMA user_version = 9999")
    result = sound.clew("doctor")
    assert result.exit_code == 4
    assert result.stdout.count("Update clew") == 1


def test_clews_own_directory_is_closed_to_others(sound: Home) -> None:
    sound.path.chmod(0o755)
    fixed = sound.clew("doctor", "--fix")
    assert "fixed  permissions: home is now readable by its owner only\n" in fixed.stdout
    assert sound.path.stat().st_mode & 0o777 == 0o700


def test_the_directory_of_a_store_that_is_elsewhere_is_left_alone(
    home: Home, tmp_path: Path
) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o755)
    store = place / "x.db"
    home.clew("--store", str(store), "list")
    assert "permissions      only its owner" in home.clew("--store", str(store), "doctor").stdout
    store.chmod(0o644)
    fixed = home.clew("--store", str(store), "doctor", "--fix")
    assert "x.db" in fixed.stdout.splitlines()[-1]
    assert "shared" not in fixed.stdout.splitlines()[-1]
    assert place.stat().st_mode & 0o777 == 0o755
    assert store.stat().st_mode & 0o777 == 0o600


def test_an_index_in_use_is_not_rebuilt_and_that_is_code_3(sound: Home) -> None:
    path = sound.path / "sessions.db"
    query(path, "INSERT INTO messages_fts (messages_fts) VALUES ('delete-all')")
    with holding(path) as child:
        refused = sound.clew("doctor", "--fix")
        assert refused.exit_code == 3
        assert f"open in: python (pid {child.process.pid}" in refused.stderr
    assert sound.clew("doctor", "--fix").exit_code == 0


def test_words_that_nobody_asked_for_are_wrong_usage(home: Home) -> None:
    assert home.clew("doctor", "everything").exit_code == 2


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_findings_are_wrapped_and_indented(sound: Home, width: int) -> None:
    path = sound.path / "sessions.db"
    query(path, "UPDATE sessions SET message_count = 77")
    path.chmod(0o644)
    query(path, "PRAGMA journal_mode = delete")
    terminal = Terminal(sound, "doctor", width=width)
    assert terminal.finish() == 1
    for line in click.unstyle(terminal.output).splitlines():
        assert columns(line) <= width, line
        assert line.startswith(("✓ ", "! ", "✗ ", " " * 19)), line


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/usr/bin/clew", "list"], "clew list"),
        (["/usr/bin/clew", "--store", "secret"], "clew"),
        (["/lib/clew/__main__.py", "list"], "clew list"),
        (["-"], "python"),
        (["-c", "secret"], "python"),
        ([""], "python"),
        ([], "python"),
    ],
)
def test_processes_are_called_by_what_started_them(argv: list[str], command: str) -> None:
    assert command_name(argv) == command


def test_a_program_from_standard_input_is_called_python(sound: Home) -> None:
    program = f"""
import asyncio, pathlib
from clew.store import open_store

async def main():
    async with await open_store({str(sound.path / "sessions.db")!r}):
        (file,) = pathlib.Path({str(sound.path)!r}, "processes").iterdir()
        print(file.read_text())

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-"],
        input=program,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert msgspec.json.decode(done.stdout)["command"] == "python"
