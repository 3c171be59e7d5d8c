"""The pictures of the docs are snapshots: the real program draws each anew, and it is the same."""

from __future__ import annotations

import difflib
import html
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import picture
from scripts.scenes import SCENES
from scripts.screens import Screen
from tests.patience import PATIENCE

WORKING = re.compile(r"working&#160;\d&#160;s")
"""How long it has worked so far; what comes later than after nine seconds is a failure."""


@pytest.fixture
def place() -> Iterator[Path]:
    with picture.scratch() as path:
        yield path


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_looks_as_in_the_docs(name: str, place: Path) -> None:
    """`python scripts/picture.py` draws the pictures; look at them before you commit them."""
    scene, pictures = SCENES[name]
    drawn = []
    for shot, screen in scene(place):
        drawn.append(shot)
        compare(shot, screen, place)
    assert tuple(drawn) == pictures


def compare(name: str, screen: Screen, place: Path) -> None:
    """Read until the screen is the picture."""
    wanted = steady((picture.TARGET / f"{name}.svg").read_text("utf-8"))
    limit = time.monotonic() + PATIENCE
    while (seen := steady(picture.draw_screen(name, screen, place))) != wanted:
        if not read_on(screen, limit):
            news = difflib.unified_diff(
                lines_of(wanted), lines_of(seen), "docs", "now", lineterm="", n=0
            )
            raise AssertionError(f"{name} looks different:\n" + ("\n".join(news) or "in colour"))


def read_on(screen: Screen, limit: float) -> bool:
    """Take in what comes next, and what comes right behind it: drawing a picture takes longer."""
    if not screen.read(limit - time.monotonic()):
        return False
    end = min(limit, time.monotonic() + 0.3)
    while screen.read(min(0.05, end - time.monotonic())):
        pass
    return True


def steady(svg: str) -> str:
    return WORKING.sub("working", svg)


def lines_of(svg: str) -> list[str]:
    """What can be read on a picture, line by line."""
    lines: dict[float, str] = {}
    for y, text in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        lines[float(y)] = lines.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    return [text.rstrip() for _, text in sorted(lines.items())]
