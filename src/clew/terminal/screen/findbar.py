"""The line in which one types what to find in the conversation."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static


class FindBar(Horizontal):
    """Enter and Up go to the hit before, Down to the next one, Esc back to the editor."""

    DEFAULT_CSS = """
    FindBar { height: 1; display: none; background: $panel; padding: 0 1; }
    FindBar.-open { display: block; }
    FindBar > .label { width: auto; color: $text-muted; }
    FindBar > Input { width: 1fr; border: none; height: 1; background: $panel; padding: 0; }
    FindBar > Input:focus { border: none; }
    FindBar > .found { width: auto; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("down", "go(1)", "Next"),
        Binding("up,ctrl+f", "go(-1)", "Previous"),
    ]

    class Find(Message):
        """Look for this from the end on."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Go(Message):
        """To the next hit, or the one before."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Closed(Message):
        """No more looking."""

    def __init__(self) -> None:
        super().__init__(id="find")
        self._sought = ""

    def compose(self) -> ComposeResult:
        """A label, the text, and what was found."""
        yield Static("Find: ", classes="label")
        yield Input(compact=True, select_on_focus=True, id="sought")
        yield Static("", classes="found", markup=False)

    def open(self) -> None:
        """Begin to look."""
        self._sought = ""
        self.add_class("-open")
        self.tell("Enter finds, Esc ends")
        self.screen.set_focus(self.query_one(Input))  # at once: the next key is already for it

    def tell(self, found: str) -> None:
        """What was found."""
        self.query_one(".found", Static).update(found)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Look for it; the second time, for the one before."""
        event.stop()
        text = event.value.strip()
        if not text:
            return
        if text == self._sought:
            self.post_message(self.Go(-1))
        else:
            self._sought = text
            self.post_message(self.Find(text))

    def action_go(self, by: int) -> None:
        """To another hit."""
        if self._sought:
            self.post_message(self.Go(by))

    def action_close(self) -> None:
        """Back to the editor."""
        self.remove_class("-open")
        self.post_message(self.Closed())
