from __future__ import annotations

from pathlib import Path

import pytest

from clew.agent.tools.search_process import glob_pattern
from tests.agent.tools.conftest import Bench


@pytest.fixture
def tree(bench: Bench) -> Bench:
    """A small project."""
    files = {
        ".gitignore": "*.log\n/build/\n!keep.log\n# words\n",
        "a.py": "import os\nprint('needle')\n",
        "keep.log": "needle\n",
        "lost.log": "needle\n",
        "build/out.py": "needle\n",
        "src/b.py": "x = 'NEEDLE'\n",
        "src/build/c.txt": "a.c\nabc\n",
        "src/.gitignore": "private.txt\n",
        "src/private.txt": "needle\n",
        ".git/config": "needle\n",
    }
    for name, text in files.items():
        path = bench.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (bench.root / "blob.bin").write_bytes(b"needle\0")
    (bench.outside / "x.txt").write_text("needle\n")
    (bench.root / "away").symlink_to(bench.outside)
    return bench


async def test_files_are_listed_without_what_git_ignores(tree: Bench) -> None:
    outcome = await tree.call("list_files")
    assert outcome.content.split("\n") == [
        ".gitignore", "a.py", "blob.bin", "keep.log",
        "src/.gitignore", "src/b.py", "src/build/c.txt",
    ]  # fmt: skip
    everything = await tree.call("list_files", ignored=True)
    assert "build/out.py" in everything.content
    assert ".git/config" not in everything.content
    assert "away" not in everything.content


async def test_a_glob_and_a_directory_narrow_the_list(tree: Bench) -> None:
    assert (await tree.call("list_files", glob="*.py")).content == "a.py\nsrc/b.py"
    assert (await tree.call("list_files", glob="src/**")).content.count("\n") == 2
    assert (await tree.call("list_files", path="src", glob="*.txt")).content == "src/build/c.txt"
    (tree.root / "src" / "more.log").write_text("x")
    assert "more.log" not in (await tree.call("list_files", path="src/")).content
    assert (await tree.call("list_files", path="build")).content == "build/out.py"
    assert (await tree.call("list_files", glob="*.rs")).content == "No files."


async def test_a_list_is_bounded(tree: Bench) -> None:
    outcome = await tree.call("list_files", limit=2)
    assert outcome.content.split("\n")[:2] == [".gitignore", "a.py"]
    assert "More than 2" in outcome.content


async def test_text_is_found_with_file_and_line(tree: Bench) -> None:
    outcome = await tree.call("search_files", pattern="needle")
    assert outcome.content == "a.py:2: print('needle')\nkeep.log:1: needle"
    either = await tree.call("search_files", pattern="needle", ignore_case=True, glob="*.py")
    assert either.content.count("\n") == 1


async def test_plain_text_is_no_expression_unless_asked(tree: Bench) -> None:
    assert (await tree.call("search_files", pattern="a.c")).content == "src/build/c.txt:1: a.c"
    both = await tree.call("search_files", pattern="^a.c$", regex=True)
    assert both.content.count("\n") == 1


async def test_one_file_can_be_searched(tree: Bench) -> None:
    outcome = await tree.call("search_files", pattern="needle", path="lost.log")
    assert outcome.content == "lost.log:1: needle"


async def test_a_wrong_expression_and_a_missing_place_are_said(tree: Bench) -> None:
    wrong = await tree.call("search_files", pattern="(", regex=True)
    assert wrong.is_error
    assert "the pattern is wrong" in wrong.content
    assert (await tree.call("list_files", path="nowhere")).is_error


async def test_a_pattern_that_takes_for_ever_is_stopped(tree: Bench) -> None:
    (tree.root / "evil.txt").write_text("a" * 60 + "b\n")
    tree.make_tools(timeout=0.5)
    outcome = await tree.call("search_files", pattern="(a+)+$", regex=True)
    assert outcome.is_error
    assert "took too long" in outcome.content


async def test_looking_outside_asks(tree: Bench) -> None:
    tree.turn.answers = [("no", "once"), ("yes", "once")]
    assert (await tree.call("search_files", pattern="needle", path="away")).is_error
    found = await tree.call("search_files", pattern="needle", path="away")
    assert found.content == "away/x.txt:1: needle"
    assert tree.turn.asked[0]["path"] == str(tree.outside)


async def test_strange_names_are_listed(bench: Bench) -> None:
    name = b"a\nb\xff.txt"
    (Path(str(bench.root)) / name.decode("utf-8", "surrogateescape")).write_text("x")
    outcome = await bench.call("list_files")
    assert not outcome.is_error
    assert outcome.content == "a\nb\ufffd.txt"


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("a/**/*.py", "a/b/c.py", True),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("a?.py", "ab.py", True),
        ("a.py", "abpy", False),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    assert bool(glob_pattern(glob).fullmatch(path)) is fits
