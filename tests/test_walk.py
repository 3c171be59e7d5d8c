"""The way of a message that docs/how-it-works.md shows is the way that a message takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts import walk

ROOT = Path(__file__).resolve().parent.parent


def make_walk(*entries: tuple[str, str, bool]) -> str:
    way = walk.Way("the terminal", tuple(walk.Entry(*each) for each in entries))
    return walk.render([walk.Walk("A line", (way,))])


def test_the_page_shows_the_way_that_a_message_takes() -> None:
    """If this fails after a change of the modules on the way, `make walk` writes the page anew."""
    done = subprocess.run(
        [sys.executable, "scripts/walk.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_was_entered_in_most_rounds_is_the_way() -> None:
    first = [walk.Way("p", (walk.Entry("a", "f", True), walk.Entry("b", "g", True)))]
    second = [walk.Way("p", (walk.Entry("noise", "n", True), walk.Entry("a", "f", True)))]
    third = [walk.Way("p", (walk.Entry("a", "f", True), walk.Entry("b", "g", False)))]
    fourth = [walk.Way("p", (walk.Entry("a", "f", True), walk.Entry("b", "g", False)))]

    (way,) = walk.agree([first, second, third, fourth, first])

    assert way.entries == (walk.Entry("a", "f", True), walk.Entry("b", "g", False))


def test_a_module_that_came_went_or_changed_sides_is_told() -> None:
    shown = make_walk(("clew.errors", "f", True), ("clew.version", "g", True))

    assert not list(walk.compare(shown, shown))
    for other in (
        [("clew.errors", "f", True)],
        [("clew.errors", "f", True), ("clew.version", "g", True), ("clew.ports", "h", False)],
        [("clew.errors", "f", True), ("clew.version", "g", False)],
    ):
        printed = make_walk(*other)
        assert list(walk.compare(shown, printed))
        assert list(walk.compare(printed, shown))


def test_a_module_far_from_its_place_is_told() -> None:
    entries = [("clew.errors", "f", True), ("clew.version", "g", True), ("clew.ports", "h", True)]

    assert list(walk.compare(make_walk(*entries), make_walk(*reversed(entries))))


def test_another_number_of_functions_is_told_when_it_is_far_off() -> None:
    many = [("clew.errors", f"f{number}", True) for number in range(100)]
    shown = make_walk(*many)

    assert not list(walk.compare(shown, make_walk(*many[:95])))
    assert list(walk.compare(shown, make_walk(*many[:80])))


def test_the_page_is_changed_between_its_marks_only() -> None:
    page = f"before\n{walk.BEGIN}\nold\n{walk.END}\nafter\n"

    updated = walk.in_page(page, "new")

    assert updated == f"before\n{walk.BEGIN}\n```modules\nnew\n```\n{walk.END}\nafter\n"
    assert walk.in_page(updated, "new") == updated
