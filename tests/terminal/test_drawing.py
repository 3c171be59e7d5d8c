"""Text that is laid out for a screen or for output."""

from __future__ import annotations

from typing import Any

import pytest
from rich.style import Style

from clew.terminal.plain_output import call_line
from clew.terminal.screen.blocks import ReplyBlock
from clew.terminal.screen.styles import Palette, get_styles

PALETTE = Palette(get_styles(Style.parse("white on black"), lambda _: Style.parse("red on blue")))


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, "tool"),
        ({"path": "a.py", "content": "x"}, "tool a.py"),
        ({"todos": [{"text": "one"}, {"text": "two"}]}, "tool 2 todos"),
        ({"text": "a few\nwords"}, "tool a few words"),
        ({"number": 3}, "tool 3"),
        ({"a": None}, 'tool {"a": null}'),
        ({"a": 1, "b": [2]}, 'tool {"a": 1, "b": [2]}'),
    ],
)
def test_a_call_is_shown_with_what_matters_most(arguments: dict[str, Any], shown: str) -> None:
    assert call_line("tool", arguments) == shown


def test_what_a_command_answers_goes_on_below_its_own_column() -> None:
    reply = ReplyBlock("  name  a sentence that is too long for it\nshort")
    drawn = [strip.text.rstrip() for strip in reply.draw(PALETTE, 24, folded=False)]
    assert drawn == ["  name  a sentence", "    that is too long for", "    it", "short"]
