from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.agent.tools.conftest import Bench

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- reading ----------------------------------------------------------------------------------


async def test_a_file_is_read_with_line_numbers(bench: Bench) -> None:
    put(bench.root / "a.txt", "one\r\ntwo\n")
    outcome = await bench.call("read_file", path="a.txt")
    assert outcome.content == "     1\tone\n     2\ttwo"
    assert not outcome.is_error
    assert bench.turn.asked == []


async def test_a_page_says_how_to_read_on(bench: Bench) -> None:
    put(bench.root / "a.txt", "".join(f"line {n}\n" for n in range(1, 101)))
    outcome = await bench.call("read_file", path="a.txt", offset=10, limit=2)
    assert outcome.content.splitlines() == [
        "    10\tline 10",
        "    11\tline 11",
        "[Lines 10 to 11 of 100. Read on with offset=12.]",
    ]


async def test_a_huge_file_is_a_page_within_the_limit(bench: Bench) -> None:
    put(bench.root / "a.txt", "x" * 100 + "\n" + ("y" * 999 + "\n") * 1000)
    outcome = await bench.call("read_file", path="a.txt")
    assert len(outcome.content) <= 30_000
    assert "Read on with offset=" in outcome.content
    assert outcome.changes == ()


async def test_one_endless_line_is_cut(bench: Bench) -> None:
    put(bench.root / "a.txt", "z" * 3_000_000)
    outcome = await bench.call("read_file", path="a.txt")
    assert len(outcome.content) < 3_000
    assert "line cut" in outcome.content


async def test_an_image_becomes_a_blob(bench: Bench) -> None:
    (bench.root / "a.png").write_bytes(PNG)
    await bench.list_names()
    outcome = await bench.call("read_file", path="a.png")
    (part,) = outcome.parts
    assert part["media_type"] == "image/png"
    assert (await bench.store.get_blob(part["blob"])).data == PNG


async def test_a_model_without_eyes_is_told_so(bench: Bench) -> None:
    (bench.root / "a.png").write_bytes(PNG)
    await bench.list_names(images=False)
    outcome = await bench.call("read_file", path="a.png")
    assert outcome.is_error
    assert "can't look at images" in outcome.content


async def test_binary_files_and_pipes_are_refused_at_once(bench: Bench) -> None:
    (bench.root / "a.bin").write_bytes(b"abc\0def")
    os.mkfifo(bench.root / "pipe")
    for name in ("a.bin", "pipe", "missing", "."):
        assert (await bench.call("read_file", path=name)).is_error


async def test_terminal_sequences_are_not_stored(bench: Bench) -> None:
    put(bench.root / "a.txt", "\x1b[31mred\x1b[0m \x1b]0;title\x07word\x07\n")
    outcome = await bench.call("read_file", path="a.txt")
    assert outcome.content == "     1\tred word"


# --- the border of the workspace --------------------------------------------------------------


@pytest.mark.parametrize("how", ["dots", "absolute", "link", "linked directory"])
async def test_a_file_outside_is_asked_about_with_its_real_path(bench: Bench, how: str) -> None:
    secret = put(bench.outside / "secret.txt", "hidden")
    (bench.root / "link").symlink_to(secret)
    (bench.root / "away").symlink_to(bench.outside)
    path = {
        "dots": "../outside/secret.txt",
        "absolute": str(secret),
        "link": "link",
        "linked directory": "away/secret.txt",
    }[how]
    bench.turn.answers = [("no", "once"), ("yes", "once")]
    refused = await bench.call("read_file", path=path)
    assert refused.is_error
    assert "said no" in refused.content
    assert "hidden" not in refused.content
    assert bench.turn.asked[0]["path"] == str(secret)
    assert bench.turn.asked[0]["rule"] == f"read_file={secret}"
    allowed = await bench.call("read_file", path=path)
    assert allowed.content == "     1\thidden"


@pytest.mark.parametrize("path", ["../outside/new.txt", "away/new.txt", "dangling"])
async def test_nothing_is_written_outside_without_a_yes(bench: Bench, path: str) -> None:
    (bench.root / "away").symlink_to(bench.outside)
    (bench.root / "dangling").symlink_to(bench.outside / "new.txt")
    bench.make_tools(allow=("write_file", "edit_file"))
    bench.turn.answers = [("no", "once")]
    outcome = await bench.call("write_file", path=path, content="x")
    assert outcome.is_error
    assert not (bench.outside / "new.txt").exists()
    assert "outside the workspace" in bench.turn.asked[0]["summary"]


async def test_a_link_that_appears_during_the_question_is_not_followed(bench: Bench) -> None:
    put(bench.root / "dir" / "a.txt", "old")
    put(bench.outside / "a.txt", "old")

    def swap() -> None:
        (bench.root / "dir").rename(bench.root / "was")
        (bench.root / "dir").symlink_to(bench.outside)

    bench.turn.on_ask = swap
    bench.turn.answers = [("yes", "once")]
    outcome = await bench.call("write_file", path="dir/a.txt", content="new")
    assert outcome.is_error
    assert (bench.outside / "a.txt").read_text() == "old"


async def test_an_edit_outside_tells_nothing_before_the_yes(bench: Bench) -> None:
    put(bench.outside / "a.txt", "password")
    bench.turn.answers = [("no", "once"), ("no", "once")]
    texts = [
        (await bench.call("edit_file", path="../outside/a.txt", old=old, new="x")).content
        for old in ("password", "nothing like it")
    ]
    assert texts[0] == texts[1]


async def test_a_path_that_can_not_be_is_a_plain_error(bench: Bench) -> None:
    (bench.root / "loop").symlink_to("loop")
    for path in ("a\0b", "loop/x", "x" * 300):
        assert (await bench.call("read_file", path=path)).is_error


async def test_files_of_clew_itself_stay_closed_under_any_name(bench: Bench) -> None:
    own = put(bench.root / "own" / "sessions.db", "SQLite")
    put(bench.root / "own" / "sessions.db-wal", "log")
    os.link(own, bench.root / "hard")
    (bench.root / "soft").symlink_to(own)
    bench.make_tools(sealed=(str(own),), allow=("read_file",))
    for path in ("own/sessions.db", "own/sessions.db-wal", "hard", "soft"):
        outcome = await bench.call("read_file", path=path)
        assert "belongs to clew" in outcome.content
    found = await bench.call("search_files", pattern="SQLite", path="own")
    assert found.content == "Nothing found."


# --- writing ----------------------------------------------------------------------------------


async def test_a_write_shows_the_difference_and_keeps_the_mode(bench: Bench) -> None:
    script = put(bench.root / "run.sh", "echo one\necho two\n")
    script.chmod(0o750)
    bench.turn.answers = [("yes", "once")]
    outcome = await bench.call("write_file", path="run.sh", content="echo one\necho three\n")
    (asked,) = bench.turn.asked
    assert asked["summary"] == "Change a file: run.sh"
    assert "-echo two\n+echo three" in asked["detail"]
    assert asked["rule"] == "write_file"
    assert outcome.content == "Changed run.sh: 1 lines added, 1 removed; 2 in all."
    assert script.read_text() == "echo one\necho three\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert [path.name for path in bench.root.iterdir()] == ["run.sh"]


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("\x85", r"\x85"), ("\x1c", r"\x1c"), ("\x1d", r"\x1d"), ("\x1e", r"\x1e"),
        ("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\x0b", r"\x0b"), ("\x0c", r"\x0c"),
        ("\r", r"\r"), ("\u202e", r"\u202e"), ("\x1b[2K", r"\x1b[2K"), ("\u200b", r"\u200b"),
    ],
)  # fmt: skip
async def test_what_is_no_line_end_is_shown_as_such_and_written_as_shown(
    bench: Bench, character: str, shown: str
) -> None:
    """To `git` and to a shell this is one line; a reader must not take it for two."""
    put(bench.root / "run.sh", "# a comment\n")
    content = f"# a comment{character}rm -r x\n"
    bench.turn.answers = [("yes", "once")]
    await bench.call("write_file", path="run.sh", content=content)
    detail = bench.turn.asked[0]["detail"]
    assert f"-# a comment\n+# a comment{shown}rm -r x\n" in detail
    assert "control or invisible characters" in detail
    assert (bench.root / "run.sh").read_bytes() == content.encode()


async def test_a_name_does_not_look_like_a_line_of_the_difference(bench: Bench) -> None:
    bench.turn.answers = [("no", "once")]
    await bench.call("write_file", path="a\n+harmless", content="x\n")
    assert "\n+harmless" not in bench.turn.asked[0]["detail"]


async def test_a_difference_in_nothing_but_line_ends_is_shown(bench: Bench) -> None:
    (bench.root / "a").write_bytes(b"one\r\ntwo\n")
    bench.turn.answers = [("no", "once"), ("no", "once")]
    await bench.call("write_file", path="a", content="one\ntwo\n")
    assert "-one\\r\n+one\n two" in bench.turn.asked[0]["detail"]
    await bench.call("write_file", path="a", content="one\r\ntwo")
    assert "-two\n+two\n\\ No newline at end of file" in bench.turn.asked[1]["detail"]


async def test_what_is_written_outside_is_shown_in_the_same_way(bench: Bench) -> None:
    bench.turn.answers = [("no", "once")]
    await bench.call("write_file", path="../outside/a", content="x\u2028y")
    assert "x\\u2028y" in bench.turn.asked[0]["detail"]


async def test_a_new_file_gets_its_directories(bench: Bench) -> None:
    bench.turn.answers = [("yes", "once")]
    outcome = await bench.call("write_file", path="a/b/c.txt", content="1\n2\n")
    assert outcome.content == "Created a/b/c.txt: 2 lines."
    assert (bench.root / "a/b/c.txt").read_text() == "1\n2\n"


async def test_yes_for_the_session_is_not_asked_again(bench: Bench) -> None:
    bench.turn.answers = [("yes", "session")]
    await bench.call("write_file", path="a", content="1")
    await bench.call("write_file", path="b", content="2")
    assert bench.turn.allowed == [("write_file", False)]
    assert (bench.root / "b").read_text() == "2"


async def test_always_holds_in_the_next_session_too(bench: Bench) -> None:
    bench.turn.answers = [("yes", "always")]
    await bench.call("write_file", path="a", content="1")
    assert bench.turn.allowed == [("write_file", True)]
    await bench.begin()
    assert not (await bench.call("write_file", path="b", content="2")).is_error


async def test_rules_of_the_session_count(bench: Bench) -> None:
    await bench.begin(metadata={"allow": ["write_file:docs/**", 7, "no rule!"]})
    assert not (await bench.call("write_file", path="docs/a/b.md", content="x")).is_error
    bench.turn.answers = [("no", "once")]
    assert (await bench.call("write_file", path="src/b.md", content="x")).is_error


async def test_writing_into_git_always_asks(bench: Bench) -> None:
    bench.make_tools(allow=("write_file",))
    bench.turn.answers = [("no", "once")]
    outcome = await bench.call("write_file", path=".git/hooks/pre-commit", content="evil")
    assert outcome.is_error
    assert bench.turn.asked[0]["rule"] == "write_file=.git/hooks/pre-commit"


async def test_an_edit_replaces_what_occurs_once(bench: Bench) -> None:
    put(bench.root / "a.txt", "a b a\n")
    bench.make_tools(allow=("edit_file",))
    assert (await bench.call("edit_file", path="a.txt", old="a", new="c")).is_error
    assert (await bench.call("edit_file", path="a.txt", old="x", new="c")).is_error
    await bench.call("edit_file", path="a.txt", old="b", new="d")
    assert (bench.root / "a.txt").read_text() == "a d a\n"
    await bench.call("edit_file", path="a.txt", old="a", new="c", replace_all=True)
    assert (bench.root / "a.txt").read_text() == "c d c\n"


async def test_an_edit_keeps_carriage_returns(bench: Bench) -> None:
    (bench.root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    bench.make_tools(allow=("edit_file",))
    await bench.call("edit_file", path="a.txt", old="one\ntwo", new="1\n2")
    assert (bench.root / "a.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_a_file_that_changed_during_the_question_is_left_alone(bench: Bench) -> None:
    path = put(bench.root / "a.txt", "old")

    def interfere() -> None:
        put(path, "theirs")

    bench.turn.on_ask = interfere
    bench.turn.answers = [("yes", "once")]
    outcome = await bench.call("edit_file", path="a.txt", old="old", new="new")
    assert outcome.is_error
    assert path.read_text() == "theirs"


async def test_what_is_no_text_is_not_changed(bench: Bench) -> None:
    (bench.root / "a").write_bytes(b"\xff\xfe")
    bench.make_tools(allow=("edit_file", "write_file"))
    assert (await bench.call("edit_file", path="a", old="x", new="y")).is_error
    assert (await bench.call("write_file", path="a", content="y")).is_error


async def test_a_directory_that_is_gone_is_said(bench: Bench) -> None:
    await bench.begin(cwd=str(bench.root / "gone"))
    outcome = await bench.call("read_file", path="a")
    assert "does not exist (any more)" in outcome.content


async def test_the_workspace_is_the_project_and_paths_begin_at_the_directory(bench: Bench) -> None:
    put(bench.root / "a.txt", "top")
    (bench.root / "sub").mkdir()
    await bench.begin(cwd=str(bench.root / "sub"), project=str(bench.root))
    assert (await bench.call("read_file", path="../a.txt")).content == "     1\ttop"
