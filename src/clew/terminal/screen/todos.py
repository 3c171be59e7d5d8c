"""The todo list above the editor, and the messages that wait for their turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text
from textual.widgets import Static

from clew.core.notes import Todo
from clew.core.turn import QueueMode
from clew.terminal.drawing import one_line

MARKS: Final = {"pending": "○", "in_progress": "◐", "done": "●", "cancelled": "✗"}
WAITING: Final[dict[QueueMode, str]] = {
    "followup": "queued",
    "steer": "goes into this turn",
    "interrupt": "next",
    "collect": "collected",
}
TODOS: Final = 7
QUEUED: Final = 3


def todo_lines(todos: Sequence[Todo], rows: int = TODOS) -> tuple[tuple[str, str], ...]:
    """The list in so many rows, each with its status; what is done goes first if it is too long."""
    done = sum(each.status in ("done", "cancelled") for each in todos)
    shown = list(todos)
    while len(shown) > rows and shown[0].status in ("done", "cancelled"):
        shown.pop(0)
    lines = [(f"{MARKS[each.status]} {one_line(each.text, 400)}", each.status) for each in shown]
    rest = len(lines) - rows
    if rest > 0:
        lines = [*lines[:rows], (f"… {rest} more", "pending")]
    return ((f"Todos, {done} of {len(todos)} done (Ctrl+T hides them)", "head"), *lines)


class TodoPanel(Static):
    """The session's todos, when there are any and the person wants to see them."""

    DEFAULT_CSS = """
    TodoPanel { height: auto; display: none; padding: 0 1; border-top: solid $panel-lighten-2; }
    TodoPanel.-shown { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False, id="todos")
        self._todos: tuple[Todo, ...] = ()
        self._hidden = False

    def show(self, todos: tuple[Todo, ...]) -> None:
        """The list as it is now."""
        if todos != self._todos:
            if all(each.status in ("done", "cancelled") for each in self._todos):
                self._hidden = False  # a new plan is worth a look
            self._todos = todos
            self._draw()

    def toggle(self) -> bool:
        """Show or hide it; False if there is nothing to see."""
        self._hidden = not self._hidden if self._todos else False
        self._draw()
        return bool(self._todos)

    def _draw(self) -> None:
        self.set_class(bool(self._todos) and not self._hidden, "-shown")
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        styles = {"head": "dim", "done": "dim", "cancelled": "dim strike", "in_progress": "bold"}
        for line, status in todo_lines(self._todos):
            text.append(f"{line}\n", styles.get(status, ""))
        text.rstrip()
        self.update(text)


class QueueStrip(Static):
    """Messages that were sent while something ran, until their turn begins."""

    DEFAULT_CSS = """
    QueueStrip { height: auto; display: none; padding: 0 1; color: $text-muted; }
    QueueStrip.-shown { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False, id="queue")
        self._shown: tuple[tuple[str, ...], QueueMode] = ((), "followup")

    def show(self, queued: tuple[str, ...], mode: QueueMode = "followup") -> None:
        """These wait; the mode says for what."""
        if (queued, mode) == self._shown:
            return
        self._shown = (queued, mode)
        self.set_class(bool(queued), "-shown")
        lines = [f"{WAITING[mode]}: {one_line(text, 400)}" for text in queued[:QUEUED]]
        if len(queued) > QUEUED:
            lines.append(f"… and {len(queued) - QUEUED} more in the queue")
        self.update(Text("\n".join(lines), "dim", no_wrap=True, overflow="ellipsis", end=""))
