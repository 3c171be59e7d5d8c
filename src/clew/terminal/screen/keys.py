"""Keys that terminals send and Textual does not know yet.

Without these, Alt+Enter in a terminal that only knows the old sequences (tmux, most over ssh)
would arrive as Enter, and send what was to go on in a new line.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


class NewLine(Enum):
    """Another way to a new line."""

    ALT_ENTER = "alt+enter"


SEQUENCES: Final = {
    "\x1b\r": NewLine.ALT_ENTER,
    "\x1b\n": NewLine.ALT_ENTER,
}

NEW_LINE: Final = (
    *("alt+enter", "shift+enter", "ctrl+enter", "ctrl+j"),
    *("\r", "shift+\r", "ctrl+\r"),  # what Textual makes of xterm's way to say Alt+Enter and so on
)
"""Keys that begin a new line in a message."""


def teach() -> None:
    """Let Textual's parser know them; doing it twice changes nothing."""
    known: Any = ANSI_SEQUENCES_KEYS
    for sequence, key in SEQUENCES.items():
        known[sequence] = (key,)
