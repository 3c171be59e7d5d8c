"""The status line, the todos and the waiting messages, kept up to date beside the conversation."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from rich.text import Text
from textual.widgets import Static

from clew.api.sessions import StateView
from clew.core.models import clamp_thinking
from clew.core.notes import Todo
from clew.core.session import Session
from clew.core.turn import QueueMode
from clew.errors import ClewError
from clew.terminal.conversation import Conversation
from clew.terminal.plain_output import one_line
from clew.terminal.screen.statusline import Facts
from clew.terminal.seat import Seat

if TYPE_CHECKING:
    from clew.terminal.screen.screen import ChatScreen

NEW: Final = "New session"

TICK: Final = 1.0
"""Seconds between two drawings, when nothing happens."""

REST: Final = 0.1
"""Seconds between two reads at least."""

MARKS: Final = {"pending": "○", "in_progress": "◐", "done": "●", "cancelled": "✗"}
WAITING: Final[dict[QueueMode, str]] = {
    "followup": "queued",
    "steer": "goes into this turn",
    "interrupt": "next",
    "collect": "collected",
}
TODOS: Final = 7
QUEUED: Final = 3


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A session, its todos and its state, as they were read last."""

    session: Session | None = None
    todos: tuple[Todo, ...] = ()
    state: StateView = StateView()


class Sidebar:
    """Reads the session and draws its parts. `pending` are messages sent but not yet taken."""

    def __init__(self, chat: Conversation, screen: ChatScreen, pending: Sequence[str]) -> None:
        self._chat = chat
        self._seat = chat.seat
        self._screen = screen
        self._pending = pending
        self._happened = asyncio.Event()
        self._seen = Snapshot()
        self._began: float | None = None
        chat.seat.live.changed = self.wake

    def wake(self) -> None:
        """Read the session again soon."""
        self._happened.set()

    def begin(self) -> None:
        """A turn begins now."""
        self._began = time.monotonic()

    async def run(self) -> None:
        """Read and draw until the chat ends."""
        self._happened.set()
        while True:
            if self._happened.is_set():
                self._happened.clear()
                with contextlib.suppress(ClewError):  # the last snapshot stays
                    self._seen = await take_snapshot(self._seat)
            self._draw()
            await asyncio.sleep(REST)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK - REST):
                    await self._happened.wait()

    def _draw(self) -> None:
        screen, seen = self._screen, self._seen
        if not self._chat.is_running or seen.state.runs_elsewhere:
            self._began = None
        elif self._began is None:
            self._began = time.monotonic()
        working = None if self._began is None else int(time.monotonic() - self._began)
        waiting = len(screen.approvals.waiting)
        screen.status.facts = make_facts(self._seat, seen, working=working, waiting=waiting)
        screen.todos.show(seen.todos)
        queued = tuple(each.text for each in self._seat.live.list_waiting())
        screen.queue.show((*queued, *self._pending), self._seat.queue_mode)


async def take_snapshot(seat: Seat) -> Snapshot:
    """Read the seat's session."""
    if seat.session is None:
        return Snapshot()
    sessions = seat.client.sessions
    found = await sessions.get(seat.session.id, messages=0)
    todos = await sessions.todos(found.session.id)
    return Snapshot(session=found.session, todos=todos, state=found.state)


def make_facts(seat: Seat, seen: Snapshot, *, working: int | None, waiting: int) -> Facts:
    """The facts of the status line."""
    session, mine = seen.session, seat.session
    facts = Facts(
        title=seat.setting("title") or NEW,
        model=seat.model.name,
        queued=len(seat.live.list_waiting()),
        working=working,
        waiting=waiting,
        mode=seat.setting("mode"),
        thinking=clamp_thinking(seat.setting("thinking"), seat.model.thinking),
        read_only=seat.read_only,
    )
    if mine is None or session is None or session.id != mine.id:
        return facts
    return msgspec.structs.replace(
        facts,
        title=session.title or session.name,
        context_tokens=session.context_tokens,
        context_window=seat.model.context_window,
        cost=session.usage.cost,
        calls=session.usage.api_calls,
        elsewhere=_describe_others(seen.state),
        mode=session.mode,
    )


def _describe_others(state: StateView) -> str:
    """Who else is at the session, in words."""
    if state.runs_elsewhere:
        return "runs elsewhere"
    if state.elsewhere and state.attachment is not None:
        return f"open elsewhere (pid {state.attachment.pid})"
    return ""


def todo_lines(todos: Sequence[Todo], rows: int = TODOS) -> tuple[tuple[str, str], ...]:
    """The list in so many rows, each with its status; if too long, done items are left out."""
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
                self._hidden = False  # show a new plan
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
        """Show the waiting messages."""
        if (queued, mode) == self._shown:
            return
        self._shown = (queued, mode)
        self.set_class(bool(queued), "-shown")
        lines = [f"{WAITING[mode]}: {one_line(text, 400)}" for text in queued[:QUEUED]]
        if len(queued) > QUEUED:
            lines.append(f"… and {len(queued) - QUEUED} more in the queue")
        self.update(Text("\n".join(lines), "dim", no_wrap=True, overflow="ellipsis", end=""))
