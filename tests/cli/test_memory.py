"""`clew memory` and `clew personality`, over real files."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from pathlib import Path

import pytest

from clew.memory import MarkdownMemory
from tests.cli.conftest import Home
from tests.weights import have_embeddings


def editor(script: str, tmp_path: Path) -> dict[str, str]:
    """An editor that does something to the file it is given."""
    program = tmp_path / "editor.py"
    program.write_text(
        f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{script}\n", encoding="utf-8"
    )
    return {"VISUAL": f"{shlex.quote(sys.executable)} {shlex.quote(str(program))}"}


def write(home: Home, *texts: str) -> None:
    """Let the agent write MEMORY.md, so often."""

    async def act() -> None:
        for text in texts:
            await MarkdownMemory(home.path).write("memory", text, by="agent")

    asyncio.run(act())


def memory_of(home: Home) -> str:
    return (home.path / "MEMORY.md").read_bytes().decode()


def add_personality(home: Home) -> None:
    directory = home.path / "personalities" / "gardener"
    directory.mkdir(parents=True)
    (directory / "SOUL.md").write_text("You love beans.\n", encoding="utf-8")
    (directory / "config.toml").write_text(
        'name = "Gardener"\ndescription = "Grows things"\nmemory_scope = "per-personality"\n'
        'tools = ["memory_read"]\n',
        encoding="utf-8",
    )


# --- show and path ----------------------------------------------------------------------------


def test_show_prints_both_files_with_size_and_place(home: Home) -> None:
    write(home, "# Learned\n- tea\n")
    shown = home.clew("memory", "show").stdout
    assert shown == (
        f"USER.md  0 B · {home.path}/USER.md\n(empty)\n\n"
        f"MEMORY.md  16 B · {home.path}/MEMORY.md\n# Learned\n- tea\n"
    )
    (file,) = home.json("memory", "show", "--store", "memory")["files"]
    assert (file["name"], file["size"], file["text"]) == ("memory", 16, "# Learned\n- tea\n")


def test_show_of_a_fresh_home_makes_nothing(home: Home) -> None:
    assert home.clew("memory", "show").exit_code == 0
    assert not home.path.exists()


def test_show_drives_no_terminal(home: Home) -> None:
    write(home, "\x1b[2Jclear\x07\n")
    shown = home.clew("memory", "show", "--store", "memory").stdout
    assert shown.splitlines()[1:] == ["clear"]


def test_a_file_that_is_not_utf8_is_an_error_with_a_way_on(home: Home) -> None:
    home.path.mkdir()
    (home.path / "USER.md").write_bytes(b"\xff")
    result = home.clew("memory", "show")
    assert result.exit_code == 1
    assert "USER.md is not UTF-8 text" in result.stderr
    assert "Save it as UTF-8" in result.stderr


def test_path_is_the_file_and_nothing_else(home: Home) -> None:
    assert home.clew("memory", "path").stdout == f"{home.path}/MEMORY.md\n"
    assert home.clew("memory", "path", "--store", "user").stdout == f"{home.path}/USER.md\n"


def test_another_store_is_wrong_usage(home: Home) -> None:
    result = home.clew("memory", "show", "--store", "other")
    assert result.exit_code == 2
    assert "'user', 'memory'" in result.stderr


# --- edit -------------------------------------------------------------------------------------


def test_edit_saves_what_the_editor_saved_exactly(home: Home, tmp_path: Path) -> None:
    write(home, "one\r\ntwo")
    env = editor("file.write_bytes(file.read_bytes() + b'\\r\\nthree')", tmp_path)
    result = home.clew("memory", "edit", env=env)
    assert (result.exit_code, result.stdout) == (0, f"Saved {home.path}/MEMORY.md.\n")
    assert memory_of(home) == "one\r\ntwo\r\nthree"
    assert home.json("memory", "log")["versions"][0]["by"] == "owner"


@pytest.mark.parametrize("script", ["", "file.write_bytes(file.read_bytes())"])
def test_edit_without_a_change_says_so(home: Home, tmp_path: Path, script: str) -> None:
    write(home, "one\n")
    result = home.clew("memory", "edit", env=editor(script, tmp_path))
    assert (result.exit_code, result.stdout) == (0, "Nothing was changed.\n")


def test_edit_over_a_newer_file_keeps_both(home: Home, tmp_path: Path) -> None:
    write(home, "one\n")
    theirs = f"pathlib.Path({str(home.path / 'MEMORY.md')!r}).write_text('theirs\\n')"
    env = editor(f"{theirs}\nfile.write_text('mine\\n')", tmp_path)
    result = home.clew("memory", "edit", env=env)
    assert result.exit_code == 1
    assert "was changed while you edited it" in result.stderr
    assert memory_of(home) == "theirs\n"
    kept = re.search(r"Your text is in (\S+):", result.stderr)
    assert kept is not None
    assert Path(kept[1]).read_text("utf-8") == "mine\n"
    assert Path(kept[1]).parent == home.path


def test_edit_that_can_not_be_saved_loses_no_text(home: Home, tmp_path: Path) -> None:
    write(home, "one\n")
    result = home.clew("memory", "edit", env=editor("file.write_bytes(b'\\xff\\xfe')", tmp_path))
    assert result.exit_code == 1
    assert "not UTF-8" in result.stderr
    kept = re.search(r"Your text is in (\S+)\.\n", result.stderr)
    assert kept is not None
    assert Path(kept[1]).read_bytes() == b"\xff\xfe"
    assert memory_of(home) == "one\n"


# --- log, diff and restore --------------------------------------------------------------------


def test_log_lists_versions_newest_first(home: Home) -> None:
    assert home.clew("memory", "log").stdout == "Nothing was written to MEMORY.md by clew yet.\n"
    write(home, "one\n", "one\ntwo\n")
    heading, *lines = home.clew("memory", "log").stdout.splitlines()
    assert heading.split() == ["N", "WRITTEN", "SIZE", "BY"]
    assert [(line.split()[0], line.split()[-3:]) for line in lines] == [
        ("1", ["8", "B", "agent"]),
        ("2", ["4", "B", "agent"]),
    ]
    assert [each["number"] for each in home.json("memory", "log")["versions"]] == [1, 2]


def test_log_says_when_the_file_was_edited_by_hand(home: Home) -> None:
    write(home, "one\n")
    (home.path / "MEMORY.md").write_text("one, by hand\n", encoding="utf-8")
    result = home.clew("memory", "log")
    assert "edited by hand since" in result.stderr
    assert "+one, by hand" in home.clew("memory", "diff", "1").stdout


def test_diff_shows_what_changed_since_and_between(home: Home) -> None:
    write(home, "one\n", "one\ntwo\n", "two\n")
    since = home.clew("memory", "diff", "3").stdout.splitlines()
    assert since[:2] == ["--- version 3", "+++ now"]
    assert since[3:] == ["-one", "+two"]
    between = home.json("memory", "diff", "3", "2")
    assert between["to"] == 2
    assert between["diff"].splitlines()[3:] == [" one", "+two"]
    assert home.clew("memory", "diff", "1").stdout == (
        "There is no difference between version 1 and now.\n"
    )


def test_diff_tells_a_missing_newline_from_no_difference(home: Home) -> None:
    write(home, "one\n", "one")
    assert "only in the newline at the end" in home.clew("memory", "diff", "2").stdout


def test_restore_brings_a_version_back_as_a_new_one(home: Home) -> None:
    write(home, "one\n", "two\n")
    result = home.clew("memory", "restore", "2")
    assert result.stdout == ("Restored version 2 of MEMORY.md. The text before is now version 2.\n")
    assert memory_of(home) == "one\n"
    versions = home.json("memory", "log")["versions"]
    assert [each["by"] for each in versions] == ["owner, restored version 2", "agent", "agent"]


def test_restore_loses_no_edit_by_hand(home: Home) -> None:
    write(home, "one\n", "two\n")
    (home.path / "MEMORY.md").write_text("by hand\n", encoding="utf-8")
    home.clew("memory", "restore", "2")
    assert memory_of(home) == "one\n"
    home.clew("memory", "restore", "2")
    assert memory_of(home) == "by hand\n"


def test_restore_of_what_is_there_changes_nothing(home: Home) -> None:
    write(home, "one\n")
    assert home.json("memory", "restore", "1")["changed"] is False
    assert len(home.json("memory", "log")["versions"]) == 1


@pytest.mark.parametrize(("command", "code"), [("diff 9", 1), ("restore 9", 1), ("restore 0", 2)])
def test_a_version_that_is_not_there_is_an_error(home: Home, command: str, code: int) -> None:
    write(home, "one\n")
    result = home.clew("memory", *command.split())
    assert result.exit_code == code
    assert "bug" not in result.stderr


# --- personalities ----------------------------------------------------------------------------


def test_a_personality_may_have_files_of_its_own(home: Home) -> None:
    add_personality(home)
    write(home, "shared\n")
    own = home.clew("memory", "path", "--personality", "gardener").stdout
    assert own == f"{home.path}/personalities/gardener/MEMORY.md\n"
    shared = home.clew("memory", "path", "--personality", "engineer").stdout
    assert shared == f"{home.path}/MEMORY.md\n"


def test_an_unknown_personality_is_an_error_with_the_list(home: Home) -> None:
    for command in (
        ["memory", "show", "--personality", "pirate"],
        ["personality", "show", "pirate"],
    ):
        result = home.clew(*command)
        assert result.exit_code == 1
        assert "engineer" in result.stderr


def test_personalities_are_listed_with_where_they_come_from(home: Home) -> None:
    add_personality(home)
    listed = home.json("personality", "list")["personalities"]
    assert [each["id"] for each in listed] == [
        "default", "coach", "engineer", "gardener", "researcher", "reviewer"
    ]  # fmt: skip
    lines = home.clew("personality", "list").stdout.splitlines()
    (gardener,) = [line for line in lines if "gardener" in line]
    assert re.split(r"\s{2,}", gardener) == ["gardener", "Gardener", "you", "own", "Grows things"]


def test_a_personality_is_shown_with_its_soul(home: Home) -> None:
    add_personality(home)
    shown = home.clew("personality", "show", "gardener").stdout
    assert shown.startswith("Gardener\n")
    assert "files of its own" in shown
    assert "memory_read" in shown
    assert shown.endswith("\n\nYou love beans.\n")
    assert home.json("personality", "show", "gardener")["soul"].strip() == "You love beans."


def test_writing_as_a_personality_makes_no_new_one(home: Home, tmp_path: Path) -> None:
    add_personality(home)
    env = editor("file.write_text('beans\\n')", tmp_path)
    assert home.clew("memory", "edit", "--personality", "gardener", env=env).exit_code == 0
    (file,) = home.json("memory", "show", "--store", "memory", "--personality", "gardener")["files"]
    assert file["text"] == "beans\n"
    assert not (home.path / "MEMORY.md").exists()


# --- search and people ------------------------------------------------------------------------


def test_search_finds_by_words_without_a_store_and_says_why(home: Home) -> None:
    write(home, "# Home\n- the spare key is with Mrs. Halvorsen\n- ticket 48213\n")
    shown = home.clew("memory", "search", "who", "has", "the", "key").stdout
    assert shown == ("  MEMORY.md › Home  words 1\n  the spare key is with Mrs. Halvorsen\n")
    assert not list(home.path.glob("*.db"))
    found = home.json("memory", "search", "-k", "1", "48213")
    assert [each["text"] for each in found["hits"]] == ["ticket 48213"]
    assert found["mode"] == "markdown"
    assert home.clew("memory", "search", "elephant").stdout == "Nothing in the memory fits.\n"


def test_vector_mode_without_its_weights_says_what_to_run(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    home.clew("config", "set", "memory.mode", "vector")
    for command in (["ask", "hello"], ["chat", "--plain"], ["serve", "--port", "0"]):
        result = home.clew(*command)
        assert result.exit_code != 0, command
        assert "clew model pull embeddings" in result.output
        assert "memory.mode markdown" in result.output
    doctor = home.clew("doctor")
    assert "The model of the vector memory is not on this machine" in doctor.output
    write(home, "- the spare key\n")
    searched = home.clew("memory", "search", "key")
    assert "The memory was searched by words only" in searched.output
    assert "the spare key" in searched.output


def test_vector_mode_finds_by_meaning_with_the_real_model(home: Home) -> None:
    have_embeddings()
    home.clew("config", "set", "memory.mode", "vector")
    write(home, "# Home\n- Mrs. Halvorsen keeps our spare key\n- the boiler loses pressure\n")
    found = home.json("memory", "search", "who can let me in when I am locked out")
    assert (found["mode"], found["model"]) == ("vector", "all-minilm-l6-v2")
    assert found["hits"][0]["text"] == "Mrs. Halvorsen keeps our spare key"
    assert found["hits"][0]["vector_rank"] == 1
    assert found["hits"][0]["text"] in found["prompt"]
    assert "* MEMORY.md › Home" in home.clew("memory", "search", "locked out").stdout
    pulled = home.json("model", "pull", "embeddings")
    assert pulled["fetched"] is False


def test_a_person_has_a_file_of_their_own(home: Home, tmp_path: Path) -> None:
    person = ("--store", "user", "--person", "telegram:7")
    env = editor("file.write_text('likes chess\\n')", tmp_path)
    assert home.clew("memory", "edit", *person, env=env).exit_code == 0
    path = Path(home.clew("memory", "path", *person).stdout.strip())
    assert path.read_text() == "likes chess\n"
    assert path.is_relative_to(home.path / "people")
    assert "likes chess" in home.clew("memory", "show", *person).stdout
    assert "likes chess" not in home.clew("memory", "show").stdout
    assert len(home.json("memory", "log", *person)["versions"]) == 1
    assert "likes chess" in home.clew("memory", "search", "chess", *person[2:]).stdout


def test_in_vector_mode_a_write_takes_effect_on_the_next_turn(home: Home) -> None:
    have_embeddings()
    call = {
        "name": "memory_write",
        "arguments": {"action": "add", "text": "- her vessel: Havsfrun"},
    }
    home.script(
        {"tool_calls": [call]},
        {"echo": "instructions"},
        {"echo": "instructions"},
        more='[memory]\nmode = "vector"\n',
    )
    talk = home.chat("Remember my boat's name", "What is my ship called?")
    assert talk.exit_code == 0, talk.output
    first, _, second = talk.stdout.partition("What is my ship called?")
    assert "Havsfrun" in memory_of(home)
    assert talk.stdout.count("[MEMORY.md]\nher vessel: Havsfrun") == 1, (first, second)
