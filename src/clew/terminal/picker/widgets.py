"""The widgets of the picker: the list, the preview, the bars, two input lines, a question.

They show what they are given and report what was typed; `screen` handles it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from clew.core.text import cut, pad, strip_controls
from clew.terminal.picker.lines import Piece, RowDetails, draw_row
from clew.terminal.picker.preview import Line
from clew.terminal.picker.rows import Row

STYLES: Final = frozenset(
    {
        "dim", "pin", "match", "user", "tool", "error", "warning", "heading", "thumb",
        "waiting", "running", "interrupted", "elsewhere", "current", "archived",
    }
)  # fmt: skip

Item = Row | str
"""A line of the list: a session, or a heading between them."""


class StyledLines(Widget):
    """Draws lines of styled pieces."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "style--selected",
        *(f"style--{name}" for name in STYLES),
    }
    DEFAULT_CSS = """
    StyledLines {
        & > .style--selected { background: $primary 30%; text-style: bold; }
        & > .style--dim, & > .style--archived { color: $text-muted; }
        & > .style--heading { color: $text-muted; text-style: italic; }
        & > .style--pin, & > .style--warning { color: $text-warning; }
        & > .style--match { color: $text-accent; text-style: bold underline; }
        & > .style--user { color: $text-primary; text-style: bold; }
        & > .style--tool { color: $text-secondary; }
        & > .style--error, & > .style--interrupted { color: $text-error; }
        & > .style--waiting { color: $text-warning; text-style: bold; }
        & > .style--running { color: $text-success; }
        & > .style--elsewhere { color: $text-secondary; }
        & > .style--current, & > .style--thumb { color: $text-primary; }
    }
    """

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._line_styles: dict[tuple[str, bool], Style] = {}

    def notify_style_update(self) -> None:
        """Make the styles again for another theme."""
        super().notify_style_update()
        self._line_styles.clear()

    def draw(self, pieces: Sequence[Piece], width: int, *, selected: bool = False) -> Strip:
        """A line of pieces, in exactly so many columns."""
        segments = [Segment(text, self._row_style(style, selected)) for text, style in pieces]
        return Strip(segments).adjust_cell_length(width, self._row_style("", selected))

    def _row_style(self, name: str, selected: bool) -> Style:
        """A style by its name, with the background of its line."""
        style = self._line_styles.get((name, selected))
        if style is None:
            style = self._line_styles[name, selected] = self._make_style(name, selected)
        return style

    def _make_style(self, name: str, selected: bool) -> Style:
        base = self.rich_style
        if selected:
            lit = self.get_component_rich_style("style--selected")
            base += Style(bgcolor=lit.bgcolor, bold=True)
        if name not in STYLES:
            return base
        style = self.get_component_rich_style(f"style--{name}")
        return base + Style(
            color=style.color, bold=style.bold, italic=style.italic, underline=style.underline
        )


class SessionList(StyledLines, can_focus=False):
    """The list. It draws the lines that are on the screen and no others, however many there are.

    It scrolls by itself: Textual would lay out the whole screen again whenever the length changes,
    which is at every key.
    """

    DEFAULT_CSS = """
    SessionList { height: 1fr; }
    """

    class Moved(Message):
        """Another session is selected, or other ones are on the screen."""

    class Chosen(Message):
        """The selected session was clicked."""

    def __init__(self, look: Callable[[Row], RowDetails]) -> None:
        super().__init__("sessions")
        self._look = look
        self._items: Sequence[Item] = ()
        self._at = 0
        self._top = 0
        self.message = ""
        """What is shown where there is no session."""

    @property
    def row(self) -> Row | None:
        """The selected session."""
        item = self._items[self._at] if self._at < len(self._items) else None
        return None if isinstance(item, str) else item

    @property
    def _height(self) -> int:
        return max(1, self.size.height)

    def list_visible(self) -> Iterator[Row]:
        """The sessions on the screen."""
        for item in self._items[self._top : self._top + self._height]:
            if not isinstance(item, str):
                yield item

    def show(self, items: Sequence[Item], *, keep: str | None = None) -> None:
        """Show these, and select the session `keep` if it is among them, else the first."""
        self._items = items
        at = None if keep is None else self._find(keep)
        self._at = self._nearest(0, 1) if at is None else at
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def move(self, steps: int) -> None:
        """Select the session so many lines further on, or the last one in that direction."""
        target = min(max(0, self._at + steps), max(0, len(self._items) - 1))
        self.select(self._nearest(target, 1 if steps > 0 else -1))

    def page(self, direction: int) -> None:
        """Move by a screen."""
        self.move(direction * max(1, self._height - 1))

    def end(self) -> None:
        """Select the last one."""
        self.move(len(self._items))

    def home(self) -> None:
        """Select the first one."""
        self.move(-len(self._items))

    def select_id(self, session_id: str) -> None:
        """Select a session, if it is there."""
        at = self._find(session_id)
        if at is not None:
            self.select(at)

    def select(self, at: int) -> None:
        """Select the session of a line."""
        if 0 <= at < len(self._items) and not isinstance(self._items[at], str):
            self._at = at
            self._reveal()
            self.refresh()
            self.post_message(self.Moved())

    def _find(self, session_id: str) -> int | None:
        for at, item in enumerate(self._items):
            if not isinstance(item, str) and item.id == session_id:
                return at
        return None

    def _nearest(self, at: int, direction: int) -> int:
        """The line of a session at this place, or further on, or back again."""
        for way in (direction, -direction):
            place = at
            while 0 <= place < len(self._items):
                if not isinstance(self._items[place], str):
                    return place
                place += way
        return 0

    def _reveal(self) -> None:
        """Scroll as little as it takes to make the selection visible."""
        # A heading above the first session is shown with it.
        first = 0 if self._nearest(0, 1) == self._at else self._at
        self._scroll(max(min(self._top, first), self._at - self._height + 1))

    def _scroll(self, top: int) -> None:
        self._top = max(0, min(top, len(self._items) - self._height))

    def on_resize(self) -> None:
        """Keep the selection visible at another height."""
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def on_mouse_scroll_down(self) -> None:
        """Scroll down; the selection stays."""
        self._turn_wheel(3)

    def on_mouse_scroll_up(self) -> None:
        """Scroll up; the selection stays."""
        self._turn_wheel(-3)

    def _turn_wheel(self, lines: int) -> None:
        self._scroll(self._top + lines)
        self.refresh()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Select; a double click chooses."""
        at = self._top + event.y
        if at == self._at and event.chain > 1 and self.row is not None:
            self.post_message(self.Chosen())
        else:
            self.select(at)

    def render_line(self, y: int) -> Strip:
        """One line, and its part of the scroll bar."""
        width = self.size.width - 1
        at = self._top + y
        if at >= len(self._items):
            return self.draw(self._draw_message(y, width), width + 1)
        item = self._items[at]
        bar = self._draw_bar(y)
        if isinstance(item, str):
            return self.draw([(pad(cut(item, width), width), "heading"), bar], width + 1)
        pieces = draw_row(item, self._look(item), width)
        return self.draw([*pieces, bar], width + 1, selected=at == self._at)

    def _draw_message(self, y: int, width: int) -> list[Piece]:
        if self._items or y != min(1, self.size.height - 1):
            return []
        return [(f"  {cut(self.message, max(1, width - 2))}", "dim")]

    def _draw_bar(self, y: int) -> Piece:
        """A part of the scroll bar; its thumb shows which part of the list is visible."""
        height, length = self._height, len(self._items)
        if length <= height:
            return (" ", "")
        thumb = max(1, height * height // length)
        first = round(self._top * (height - thumb) / (length - height))
        return ("┃" if first <= y < first + thumb else "│", "thumb")


class Pane(StyledLines, can_focus=False):
    """The preview: lines, from the top."""

    DEFAULT_CSS = """
    Pane { height: 1fr; padding: 0 1; border-top: solid $panel; }
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Show these."""
        self.lines = lines
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line."""
        line = self.lines[y] if y < len(self.lines) else []
        return self.draw(line, self.size.width)


class Bar(Pane):
    """One line of text."""

    DEFAULT_CSS = """
    Bar { height: 1; padding: 0 1; border: none; background: $panel; }
    """


class InputLine(Input):
    """An input line. Of a pasted text it takes the first line, without control characters."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "screen.leave", show=False)]

    DEFAULT_CSS = """
    InputLine, InputLine:focus { border: none; height: 1; padding: 0 1; background: $surface; }
    """

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        line = strip_controls(event.text[:10_000]).strip("\n").split("\n", 1)[0]
        if line:
            self.replace(line, *self.selection)


class FilterLine(InputLine):
    """What is searched for. Home, End, Del and Enter are for the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "screen.move_home", show=False),
        Binding("end", "screen.move_end", show=False),
        Binding("delete", "screen.trash", show=False),
        Binding("enter", "screen.choose", show=False),
    ]


class TitleLine(InputLine):
    """The new title of a session. Enter saves it, Esc cancels."""


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
        """Take no answer any more."""
        self._is_open = False

    def on_key(self, event: events.Key) -> None:
        """Take any key as the answer: y is yes. Ctrl+C is for the screen."""
        if event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        if self._is_open:
            self._is_open = False
            self._answer(event.character in ("y", "Y"))
        else:  # pressed right after the answer, so it is for the next widget
            self.app.post_message(events.Key(event.key, event.character))
