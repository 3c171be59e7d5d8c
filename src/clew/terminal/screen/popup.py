"""The list of choices above the editor. It shows and moves; what is chosen is put in by others."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from clew.core.text import cut, pad, strip_controls
from clew.terminal.screen.completion import Choice, Wanted

ROWS: Final = 8
NAMES: Final = 34
"""Columns of a choice, before the word about it."""


class Popup(Widget):
    """Choices for the word before the cursor. `place` is the chosen one; None for none yet."""

    DEFAULT_CSS = """
    Popup { height: auto; display: none; background: $panel; padding: 0 1; }
    Popup.-open { display: block; }
    Popup > .popup--chosen { background: $primary 40%; text-style: bold; }
    Popup > .popup--help { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"popup--chosen", "popup--help"}

    choices: reactive[tuple[Choice, ...]] = reactive((), layout=True)
    place: reactive[int | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__()
        self.wanted: Wanted | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose from."""
        return bool(self.choices)

    @property
    def chosen(self) -> Choice | None:
        """What Enter takes."""
        return None if self.place is None else self.choices[self.place]

    def open(self, wanted: Wanted, choices: tuple[Choice, ...]) -> None:
        """Offer these. What nobody has begun to type is not chosen by itself."""
        self.wanted = wanted
        self.place = 0 if choices and (wanted.kind == "command" or wanted.text) else None
        self.choices = choices
        self.set_class(bool(choices), "-open")

    def close(self) -> None:
        """Offer nothing."""
        self.wanted = self.place = None
        self.choices = ()
        self.remove_class("-open")

    def move(self, by: int) -> None:
        """Choose the next or the previous one, round and round."""
        if self.place is None:
            self.place = 0 if by > 0 else len(self.choices) - 1
        else:
            self.place = (self.place + by) % len(self.choices)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Some rows, and no more than there are choices."""
        del container, viewport, width
        return min(ROWS, len(self.choices))

    @property
    def _first(self) -> int:
        """The first choice that is seen."""
        return max(0, (self.place or 0) - self.content_size.height + 1)

    def render(self) -> Text:
        """The rows around the chosen one."""
        chosen = self.get_component_rich_style("popup--chosen")
        faint = self.get_component_rich_style("popup--help")
        first, (width, rows) = self._first, self.content_size
        shown = self.choices[first : first + rows]
        column = min(NAMES, max((len(each.shown) for each in shown), default=0)) + 2
        text = Text(no_wrap=True, end="")
        for place, each in enumerate(shown, first):
            name = strip_controls(each.shown, keep_newlines=False)
            about = strip_controls(each.help, keep_newlines=False)
            row = Text(pad(cut(name, column - 2 if about else width), column if about else width))
            row.append(cut(about, max(0, width - column)), "" if place == self.place else faint)
            row.pad_right(max(0, width - row.cell_len))
            if place == self.place:
                row.stylize(chosen)
            text.append_text(row)
            text.append("\n")
        text.rstrip()
        return text

    def on_click(self, event: object) -> None:
        """A click chooses; the key that takes it is the same."""
        place = self._first + getattr(event, "y", 0)
        if place < len(self.choices):
            self.place = place
