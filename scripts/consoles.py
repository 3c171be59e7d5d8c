"""Keeps the consoles of the docs true: types what they show, and writes down what was printed.

    python scripts/consoles.py [PAGE...]

A console is a fenced block of that language: lines that begin with `$ ` are typed (`> ` goes on),
the others are what came of it, and a line `…` stands for what was left out. All consoles of a page
run in one shell. The tutorial begins in an empty home, every other page in that of a demo. What
differs from day to day (times, ids of new sessions, sizes) is not compared.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
READER = "/home/ada"
"""The home of the person who reads the docs."""

SHORT = "/tmp"  # noqa: S108  # what `tempfile` makes has too long a name
"""Where a home with as short a path can be."""

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEMO = ("clew demo --home ~/try", "export CLEW_HOME=~/try")
GAP = "…"

VARYING = (
    (re.compile(r"^. (SQLite|file system|disk space|write-ahead log) .*"), r"\1"),
    (re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?( UTC)?|\d+[mhd] ago|just now"), "<when>"),
    (re.compile(r"\b\d{8}-\d{6}-\d{3}\b"), "<when>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\b[\d.]+ [KMGT]?B\b"), "<size>"),
    (re.compile(r"\s+"), " "),
)
IDS = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8}\b")


class Step(NamedTuple):
    """Something that is typed, and the lines that are shown below it."""

    typed: str
    shown: list[str]


class Answer(NamedTuple):
    """What came of a step."""

    code: int
    printed: list[str]


def main(names: list[str]) -> int:
    """Write down anew what the consoles of the pages print; all pages if none is named."""
    pages = [Path(name).resolve() for name in names] or pages_with_consoles()
    return max([refresh(page) for page in pages], default=0)


def refresh(page: Path) -> int:
    """Run the consoles of a page and write down what they print; 1 if a step failed."""
    updated, failed = rewrite(page)
    if updated != page.read_text(encoding="utf-8"):
        page.write_text(updated, encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")
    return failed


def rewrite(page: Path) -> tuple[str, int]:
    """The page with what its consoles print now; 1 if a step failed."""
    text = page.read_text(encoding="utf-8")
    steps = steps_of(text)
    with empty_home() as home:
        answers = answer(page, steps, home)
    failed = 0
    for step, (code, printed) in zip(steps, answers, strict=True):
        if code != 0:
            failed = 1
            lines = "\n".join(printed)
            print(f"{page.name}: {step.typed!r} ended with {code}:\n{lines}", file=sys.stderr)
    fresh = iter(
        Step(step.typed, merge(step.shown, printed))
        for step, (_, printed) in zip(steps, answers, strict=True)
    )
    return CONSOLE.sub(lambda block: render([next(fresh) for _ in parse(block[1])]), text), failed


@contextmanager
def empty_home() -> Iterator[Path]:
    """A home whose path is as long as the reader's: columns then stay as they were printed."""
    letters = string.ascii_lowercase + string.digits
    while True:
        name = "".join(secrets.choice(letters) for _ in range(len(READER) - len(f"{SHORT}/")))
        home = Path(SHORT) / name
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
            break
    try:
        yield home
    finally:
        shutil.rmtree(home)


def pages_with_consoles() -> list[Path]:
    """The pages that show consoles."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if CONSOLE.search(page.read_text(encoding="utf-8"))]


def steps_of(text: str) -> list[Step]:
    """All steps of a page, in order."""
    return [step for block in CONSOLE.findall(text) for step in parse(block)]


def parse(block: str) -> list[Step]:
    """The steps of one console."""
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        elif line.startswith("> "):
            steps[-1] = Step(f"{steps[-1].typed}\n{line[2:]}", [])
        else:
            steps[-1].shown.append(line)
    return steps


def render(steps: list[Step]) -> str:
    """A console of these steps."""
    lines = []
    for step in steps:
        first, *further = step.typed.split("\n")
        lines += [f"$ {first}", *(f"> {each}" for each in further), *step.shown]
    return "\n".join(["```console", *lines, "```"])


def merge(shown: list[str], printed: list[str]) -> list[str]:
    """What to show of what was printed: as much as before on both sides of a gap.

    What is still true stays as it is, so that only news change a page.
    """
    if GAP not in shown:
        return shown if sorted(map(steady, shown)) == sorted(map(steady, printed)) else printed
    if {*map(steady, shown)} <= {*map(steady, printed), "", GAP}:
        return shown
    head = shown.index(GAP)
    tail = len(shown) - 1 - head
    return [*printed[:head], GAP, *printed[len(printed) - tail :]]


def differences(step: Step, answer: Answer) -> list[str]:
    """Lines that are shown and were not printed; which ids they name does not matter."""
    printed = {IDS.sub("", steady(line)) for line in answer.printed} | {"", GAP}
    return [line for line in step.shown if IDS.sub("", steady(line)) not in printed]


def steady(line: str) -> str:
    """A line without what differs from day to day."""
    for pattern, instead in VARYING:
        line = pattern.sub(instead, line)
    return line.strip()


def answer(page: Path, steps: list[Step], home: Path) -> list[Answer]:
    """Type the steps into one shell, in an empty home."""
    begin = [] if page.name == "tutorial.md" else list(DEMO)
    script = [f'clew() {{ {shlex.quote(sys.executable)} -m clew "$@"; }}', "exec 2>&1", *begin]
    for step in steps:
        script += ["printf '\\001'", step.typed, "printf '\\002%s' $?"]
    environment = {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "TZ": "UTC",
    }
    ran = subprocess.run(  # noqa: S603  # what our own pages show
        ["bash", "-c", "\n".join(script)],  # noqa: S607  # the reader's shell
        cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        encoding="utf-8", timeout=240, check=False,
    )  # fmt: skip
    parts = [part.rpartition("\002") for part in ran.stdout.split("\001")[1:]]
    return [
        Answer(int(code), printed.replace(str(home), READER).splitlines())
        for printed, _, code in parts
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
