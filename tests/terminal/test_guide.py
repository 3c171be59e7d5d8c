"""The guide to the chat against its keys: none is left out, and none is made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.binding import Binding

from clew.terminal.picker.screen import PickerScreen
from clew.terminal.picker.widgets import FilterLine
from clew.terminal.screen.dialogs import AskScreen
from clew.terminal.screen.driver import NEW_LINE
from clew.terminal.screen.find import FindBar
from clew.terminal.screen.screen import KEYS, ChatScreen
from clew.terminal.screen.transcript import Transcript

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "chat.md"
NAMES = {
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "escape": "Esc",
    "delete": "Del",
    "f1": "F1",
    "f2": "F2",
}
TYPING = {"Enter", "Up", "Down", "Ctrl+D", "Ctrl+X Ctrl+E", "Ctrl+_", "?"}
"""Keys of the editor, which are no bindings."""


def tables() -> list[set[str]]:
    """The keys of each table, in the order of the page."""
    text = PAGE.read_text("utf-8")
    found = re.findall(r"^\| key \| does \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [
        {key for row in rows.splitlines() for key in row.split("|")[1].strip().split(", ")}
        for rows in found
    ]


def keys_of(*owners: type) -> set[str]:
    """What the bindings of these are called."""
    bindings = [each for owner in owners for each in owner.__dict__["BINDINGS"]]
    assert all(isinstance(each, Binding) for each in bindings)
    return {name_of(key.strip()) for each in bindings for key in each.key.split(",")}


def name_of(key: str) -> str:
    """`ctrl+c` as people write it."""
    if key in NAMES:
        return NAMES[key]
    if len(key) == 1:
        return key
    return "+".join(part.capitalize() for part in key.split("+"))


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        (0, keys_of(ChatScreen) | TYPING | {name_of(key) for key in NEW_LINE if "\r" not in key}),
        (1, keys_of(Transcript)),
        (2, keys_of(FindBar) | {"Enter"}),
        (3, keys_of(PickerScreen, FilterLine)),
    ],
    ids=["chat", "conversation", "finding", "picker"],
)
def test_the_guide_names_every_key_and_no_other(table: int, keys: set[str]) -> None:
    assert tables()[table] == keys


def test_a_question_over_the_chat_is_left_by_any_key_that_leaves() -> None:
    assert keys_of(AskScreen) == {"Esc", "Enter", "Ctrl+C", "Ctrl+D"}


def test_help_in_the_chat_names_what_the_guide_names() -> None:
    named = set(re.findall(r"(?:Ctrl|Alt|Shift)\+\w+|\bF\d\b|Pg\w\w", KEYS))
    assert named <= tables()[0] | tables()[1]
