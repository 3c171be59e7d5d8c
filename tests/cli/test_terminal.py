"""The command line in a real terminal: widths, colours, questions and interrupts."""

from __future__ import annotations

import click
import pytest

from clew.cli.app import Progress
from clew.core.text import columns
from tests.cli.conftest import Home
from tests.cli.screens import Terminal


@pytest.fixture
def full(home: Home) -> Home:
    home.add(
        "A title that is long enough to be cut wherever it is shown",
        "so we said redirect " + "and more words " * 12,
        cwd="/srv/projects/a-very-long-name/packages/frontend/src/components",
    )
    home.add("京都へ行く旅行の計画を立てる、そして宿と電車を予約する", "redirect 京都 " * 20)
    home.add(
        "🚀 launch 👩‍💻 checklist with many things in it",
        "redirect",
        platform="telegram",
        kind="dm",
    )
    home.clew("pin", home.add("Pinned").id)
    home.clew("archive", home.add("Away").id)
    return home


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(
    "args", [("list",), ("search", "redirect"), ("stats",), ("prune", "--dry-run")]
)
def test_lines_fit_the_terminal(full: Home, width: int, args: tuple[str, ...]) -> None:
    terminal = Terminal(full, *args, width=width)
    assert terminal.finish() == 0
    for line in click.unstyle(terminal.output).splitlines():
        assert columns(line) <= width, line
        assert line == line.rstrip()


def test_directories_are_shown_where_there_is_room(full: Home) -> None:
    narrow, wide = Terminal(full, "list", width=80), Terminal(full, "list", width=120)
    assert (narrow.finish(), wide.finish()) == (0, 0)
    assert "DIRECTORY" not in narrow.output
    assert "src/components" in wide.output


def test_prose_is_broken_between_words_and_code_is_not(home: Home) -> None:
    code = "x = " + "1 + " * 30 + "1"
    session = home.add("Long", "word " * 30 + f"\n```\n{code}\n```")
    terminal = Terminal(home, "show", session.id, width=60)
    assert terminal.finish() == 0
    lines = click.unstyle(terminal.output).splitlines()
    assert code in lines
    assert "word word word word word word word word word word word word" in lines


def test_a_match_is_highlighted(full: Home) -> None:
    terminal = Terminal(full, "search", "redirect")
    assert terminal.finish() == 0
    assert click.style("redirect", fg="red", bold=True) in terminal.output


def test_no_color_means_no_colour(full: Home) -> None:
    terminal = Terminal(full, "list", NO_COLOR="1")
    assert terminal.finish() == 0
    assert "\x1b" not in terminal.output


def test_json_is_indented_for_people(full: Home) -> None:
    terminal = Terminal(full, "stats", "--json")
    assert terminal.finish() == 0
    assert '\n  "sessions": 4,\n' in terminal.output


@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("", 1), ("y", 0), ("yes", 0)])
def test_deleting_everything_asks(home: Home, answer: str, left: int) -> None:
    home.add("One")
    terminal = Terminal(home, "delete", "--all")
    terminal.wait_for("Put the only session in the trash? [y/N] ")
    terminal.type(f"{answer}\n")
    assert terminal.finish() == 0
    assert len(home.json("list")["sessions"]) == left


def test_the_end_of_input_is_a_no_and_leaves_the_line(home: Home) -> None:
    home.add("One")
    terminal = Terminal(home, "delete", "--all")
    terminal.wait_for("[y/N] ")
    terminal.type("\x04")
    assert terminal.finish() == 0
    assert terminal.output.endswith("[y/N] \nNothing was deleted.\n")
    assert len(home.json("list")["sessions"]) == 1


def test_an_interrupt_at_a_question_is_130_and_changes_nothing(home: Home) -> None:
    home.add("One")
    terminal = Terminal(home, "delete", "--all")
    terminal.wait_for("[y/N] ")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert "Traceback" not in terminal.output
    assert len(home.json("list")["sessions"]) == 1


def test_progress_is_drawn_for_work_that_lasts(home: Home) -> None:
    script = """
import time
from clew.cli import app
app.BAR_AFTER_S = 0
deadline = time.monotonic() + 240
with app.Progress("Counting", 10, shown=True) as bar:
    bar.advance(4)  # and not a word more, as a long statement of SQLite's
    while not bar.visible and time.monotonic() < deadline:
        pass
"""
    terminal = Terminal(home, program=script)
    assert terminal.finish() == 0
    assert "Counting" in terminal.output
    assert "4/10" in terminal.output


def test_progress_of_a_file_has_a_unit(home: Home) -> None:
    script = """
import time
from clew.cli import app
app.BAR_AFTER_S = 0
deadline = time.monotonic() + 240
with app.Progress("Backing up", None, shown=True, unit="bytes") as bar:
    bar.reach(1_000_000, 4_000_000)
    while not bar.visible and time.monotonic() < deadline:
        pass
"""
    terminal = Terminal(home, program=script, width=100)
    assert terminal.finish() == 0
    assert "1.0/4.0 MB" in terminal.output


def test_progress_says_what_is_done_now(home: Home) -> None:
    script = """
import time
from clew.cli import app
app.BAR_AFTER_S = 0
deadline = time.monotonic() + 240
with app.Progress("Copying", 10, shown=True) as bar:
    while not bar.visible and time.monotonic() < deadline:
        pass
    bar.relabel("Building indexes (3 of 9)")
"""
    terminal = Terminal(home, program=script, width=100)
    assert terminal.finish() == 0
    assert "Building indexes (3 of 9)" in terminal.output


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("Counting", None, shown=False) as progress:
        for _ in range(3):
            progress.advance()
        progress.total = 3
    assert progress.done == 3
    assert capsys.readouterr().err == ""
