"""The parts of the picker's screen that take keys: two lines to type in, and a question.

What is done with what they take is the screen's to know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from clew.core.text import strip_controls


class Written(Input):
    """A line to type in, in which nothing can be pasted that a terminal would obey."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "screen.leave", show=False)]

    DEFAULT_CSS = """
    Written, Written:focus { border: none; height: 1; padding: 0 1; background: $surface; }
    """

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        line = strip_controls(event.text[:10_000]).strip("\n").split("\n", 1)[0]
        if line:
            self.replace(line, *self.selection)


class FilterLine(Written):
    """What is looked for. The keys that move in a list move in the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "screen.move_home", show=False),
        Binding("end", "screen.move_end", show=False),
        Binding("delete", "screen.trash", show=False),
        Binding("enter", "screen.choose", show=False),
    ]


class TitleLine(Written):
    """The title that a session gets. Enter keeps it, Esc doesn't."""


class Question(Static, can_focus=True):
    """A question that one key answers."""

    def __init__(self, answer: Callable[[bool], None]) -> None:
        super().__init__()
        self._answer = answer
        self._is_open = False

    def ask(self, question: str) -> None:
        """Show a question, as it is written."""
        self.update(Text(question))
        self._is_open = True

    def close(self) -> None:
        """No answer is wanted any more."""
        self._is_open = False

    def on_key(self, event: events.Key) -> None:
        """Any key is an answer, y is yes. Ctrl+C is for the screen."""
        if event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        if self._is_open:
            self._is_open = False
            self._answer(event.character in ("y", "Y"))
        else:  # it was pressed right behind the answer, and is meant for what comes after
            self.app.post_message(events.Key(event.key, event.character))
