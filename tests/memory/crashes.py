"""Writes a memory file in processes that die at every step: `crashes.py DIR`.

Each child dies right before its n-th change or opening of a file under DIR, n being one more every
time, until one comes through. What each death left behind is judged here; prints how many there
were. A process of its own, since it forks and pytest may have threads.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from clew.core.memory import MEMORY_BYTES, AddLine
from clew.memory import MarkdownMemory

STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.truncate"}
WRITTEN = "by the agent\n"
BY_HAND = "".join(f"{number} {'h' * 1000}\n" for number in range(MEMORY_BYTES // 1010))
LINE = "new " + "n" * 5000
DIED = 9


def prepare(home: Path) -> None:
    """A file that was written once and edited by hand since, with little room left."""
    asyncio.run(MarkdownMemory(home).write("memory", WRITTEN, by="agent"))
    (home / "MEMORY.md").write_text(BY_HAND, encoding="utf-8")


def add(home: Path) -> str:
    memory = MarkdownMemory(home)
    return asyncio.run(memory.edit("memory", AddLine(LINE), by="agent")).text


def die_at(home: Path, last: int) -> None:
    """Die before the step of that number, as if by kill -9: nothing is flushed or tidied up."""
    steps = itertools.count(1)

    def watch(event: str, given: tuple[object, ...]) -> None:
        if event in STEPS and str(given[0]).startswith(str(home)) and next(steps) == last:
            os._exit(DIED)

    sys.addaudithook(watch)


def judge(home: Path, after: str) -> None:
    """Everything that must be true after any death."""
    memory = MarkdownMemory(home)
    text = (home / "MEMORY.md").read_text("utf-8")
    assert text in (BY_HAND, after), "neither old nor new"
    archive = home / "memory-archive.md"
    lines = (archive.read_text("utf-8") if archive.exists() else "") + text
    assert {*BY_HAND.splitlines()} <= {*lines.splitlines()}, "lines lost"
    versions = asyncio.run(memory.list_versions("memory"))
    texts = [asyncio.run(memory.get_version("memory", each.number)) for each in versions]
    whole = [after, BY_HAND, WRITTEN]
    by = ["agent", "hand", "agent"]
    assert texts == whole[-len(texts) :], "history and file disagree"
    assert [each.by for each in versions] == by[-len(texts) :], "history names the wrong one"
    assert (len(texts) == 3) == (text == after), "a version that never was, or one too few"
    if text != after:
        assert add(home) == after, "the next write fails"
        assert len(asyncio.run(memory.list_versions("memory"))) == 3
    left = [path.name for path in home.rglob("*") if path.name.endswith("-draft")]
    assert left == [], "drafts are left behind"


def main(directory: Path) -> int:
    prepare(directory / "whole")
    after = add(directory / "whole")
    for last in itertools.count(1):
        home = directory / str(last)
        prepare(home)
        child = os.fork()
        if child == 0:
            die_at(home, last)
            add(home)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        judge(home, after)
        if code != DIED:
            assert code == 0
            return last - 1
    raise AssertionError


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))  # noqa: T201  # its receipt
