"""Screens over the chat: a question that names its keys, and the picker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from clew.api.sessions import SessionView
from clew.core.text import strip_controls
from clew.terminal.asker import set_up_picker
from clew.terminal.picker import Picked
from clew.terminal.seat import Seat

T = TypeVar("T")

_KEY: Final = re.compile(r"\[([^\]\s]{1,12})\]")


def list_keys(question: str) -> tuple[str, ...]:
    """The keys that a question names: `[f]ork it, [n]o` has f and n, `[y/N]` y and n."""
    found = [part for match in _KEY.finditer(question) for part in match[1].split("/")]
    return tuple(dict.fromkeys(part.lower() for part in found if len(part) == 1))


class AskScreen(ModalScreen[str]):
    """A question over the chat; the answer is a key that it names, or nothing."""

    DEFAULT_CSS = """
    AskScreen { align: center middle; }
    AskScreen > Vertical {
        width: 80%; max-width: 90; height: auto; max-height: 80%; padding: 1 2;
        background: $panel; border: round $primary;
    }
    AskScreen .hint { color: $text-muted; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,ctrl+c,ctrl+d", "answer('')", "None of these", priority=True),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = strip_controls(question).strip().removesuffix(":")
        self._keys = list_keys(question)

    def compose(self) -> ComposeResult:
        """The question, and which keys answer."""
        shown = Text(self._question)
        shown.highlight_regex(_KEY, "bold")
        keys = " or ".join(", ".join(self._keys).rsplit(", ", 1))
        with Vertical():
            yield Static(shown)
            yield Static(f"Press {keys}; Esc for none of these", classes="hint", markup=False)

    def on_key(self, event: events.Key) -> None:
        """One of the keys answers at once."""
        key = (event.character or "").lower()
        # A question that offers a no takes a yes too: its asker knows what that means.
        if key in self._keys or (key == "y" and "n" in self._keys):
            event.stop()
            self.dismiss(key)

    def action_answer(self, answer: str) -> None:
        """Nothing was chosen."""
        self.dismiss(answer)


class TextScreen(ModalScreen[str]):
    """A question over the chat that a line of text answers. `hidden`: it is not shown."""

    DEFAULT_CSS = """
    TextScreen { align: center middle; }
    TextScreen > Vertical {
        width: 80%; max-width: 90; height: auto; max-height: 80%; padding: 1 2;
        background: $panel; border: round $primary;
    }
    TextScreen .hint { color: $text-muted; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,ctrl+d", "leave", "Nothing", priority=True),
    ]

    def __init__(self, question: str, *, hidden: bool) -> None:
        super().__init__()
        self._question = strip_controls(question).strip().removesuffix(":")
        self._hidden = hidden

    def compose(self) -> ComposeResult:
        """The question, a line to type in, and how to leave."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(password=self._hidden)
            yield Static("Enter to go on; Esc for nothing", classes="hint", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The line is the answer."""
        event.stop()
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Nothing was typed."""
        self.dismiss("")


async def show_over(
    app: App[Any], screen: Screen[T], shown: Callable[[], None] = lambda: None
) -> T | None:
    """Show a screen over the chat, and return its result. Any task may wait for it."""
    answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def settle(given: T | None) -> None:
        if not answer.done():
            answer.set_result(given)

    await app.push_screen(screen, settle)
    shown()
    return await answer


def open_picker(seat: Seat, sessions: tuple[SessionView, ...]) -> Screen[Picked | None]:
    """The picker, among these sessions or all."""
    from clew.terminal.picker.screen import PickerScreen  # noqa: PLC0415  # a chat starts faster

    return PickerScreen(set_up_picker(seat, sessions))
