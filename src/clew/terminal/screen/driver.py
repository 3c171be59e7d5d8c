"""Textual's driver, but on stdout, and without errors when the terminal goes away.

It also adds keys that terminals send and Textual does not know yet.
"""

from __future__ import annotations

import contextlib
import os
import sys
from enum import Enum
from typing import Any, Final

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.drivers.linux_driver import LinuxDriver


class TerminalFile:
    """Writes to a terminal; once that is gone, text is dropped without an error.

    Textual writes in a thread, from a queue. If an error ended that thread, the queue would fill,
    and the next writer would wait for ever.
    """

    def __init__(self, fileno: int) -> None:
        self._fileno = fileno

    def write(self, text: str) -> int:
        """Write all of it, if possible."""
        data = text.encode(errors="replace")
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._fileno, data) :]
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def fileno(self) -> int:
        """The descriptor."""
        return self._fileno


class TerminalDriver(LinuxDriver):
    """Draws on stdout: stderr may lead to a file."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._is_away = False
        """Whether the terminal is another program's; nobody would take what is written then."""
        if sys.__stdout__ is not None:
            self._file: Any = TerminalFile(sys.__stdout__.fileno())

    def write(self, data: str) -> None:
        """Write, unless another program has the terminal."""
        if not self._is_away:
            super().write(data)

    def suspend_application_mode(self) -> None:
        """Leave the terminal to another program."""
        super().suspend_application_mode()
        self._is_away = True

    def resume_application_mode(self) -> None:
        """Take the terminal back."""
        self._is_away = False
        super().resume_application_mode()
        self._is_away = self._must_signal_resume  # still in the background

    def _sigcont_application(self, *_: Any) -> None:
        """Go on after `fg`, also where the process was stopped without notice."""
        if self._auto_restart:
            if not self._is_away:
                super().suspend_application_mode()
                self._must_signal_resume = True
            self.resume_application_mode()

    def _get_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal: an exported `COLUMNS` would not follow a change of its size."""
        with contextlib.suppress(OSError):
            width, height = os.get_terminal_size(self._file.fileno())
            if width and height:
                return width, height
        return super()._get_terminal_size()


class NewLine(Enum):
    """A key that begins a new line."""

    ALT_ENTER = "alt+enter"


SEQUENCES: Final = {
    "\x1b\r": NewLine.ALT_ENTER,
    "\x1b\n": NewLine.ALT_ENTER,
}

NEW_LINE: Final = (
    *("alt+enter", "shift+enter", "ctrl+enter", "ctrl+j"),
    *("\r", "shift+\r", "ctrl+\r"),  # what Textual reads when xterm sends Alt+Enter and so on
)
"""Keys that begin a new line in a message."""


def add_key_sequences() -> None:
    """Add `SEQUENCES` to Textual's parser."""
    known: Any = ANSI_SEQUENCES_KEYS
    for sequence, key in SEQUENCES.items():
        known[sequence] = (key,)
