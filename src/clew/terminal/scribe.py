"""The scribe writes a session's events down as they come: text as it streams, a line for a tool.

It knows paper and events, not lines that are typed: questions and ends of turns it passes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from clew.core.live_events import (
    Committed,
    Event,
    Notice,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from clew.core.message import Message
from clew.core.text import strip_controls
from clew.core.turn import ENDS, Turn
from clew.terminal.drawing import call_line, message_lines, one_line
from clew.terminal.paper import Cleaner, Paper

PROMPT: Final = "> "


class Scribe:
    """What has been written down of the session, and where the cursor stands."""

    def __init__(self, out: Paper, aside: Paper, *, verbose: Callable[[], bool]) -> None:
        self.out = out
        self.aside = aside
        self.said: deque[str] = deque()
        """Messages that the person sees already, because they typed them."""
        self._verbose = verbose
        self._cleaner = Cleaner()
        self._streamed = False
        self._thought = False
        self._prompted = False
        self._retried: tuple[int, str] | None = None

    # --- lines ----------------------------------------------------------------------------------

    def line(self, text: str = "", style: str | None = None) -> None:
        """A line of the conversation."""
        self.make_room()
        self.out.line(text, style)

    def note(self, text: str, style: str | None = "dim") -> None:
        """A line beside it."""
        self.make_room()
        self.aside.line(text, style)

    def prompt(self, text: str = PROMPT) -> None:
        """Show that it is the person's turn, once."""
        if not self._prompted:
            self.make_room()
            self.out.write(self.out.paint(text, "user"))
            self._prompted = True

    def take_line(self) -> None:
        """The person has typed a line, and the terminal has ended it."""
        self._prompted = False
        self.out.moved()

    def break_off(self) -> None:
        """Ctrl+C was pressed: the terminal shows that, and stays in the line."""
        self._cleaner = Cleaner()
        self._streamed = self._thought = self._prompted = False
        self.out.break_flow()

    def make_room(self) -> None:
        """End what streams, and leave a prompt that stands there alone."""
        if self._streamed or self._thought:
            self.out.flow(self._cleaner.end())
            self.out.end_flow()
        self._streamed = self._thought = self._prompted = False
        self.out.fresh()

    # --- events ---------------------------------------------------------------------------------

    def write(self, event: Event) -> None:
        """Write an event down; those that are not for reading are passed over."""
        match event:
            case TextDelta(text):
                self._stream(text)
            case ThinkingDelta(text):
                self._think(text)
            case Committed(message):
                self._write_committed(message)
            case ToolStarted(_, name, arguments):
                self.line(f"* {call_line(name, arguments)}", "tool")
            case ToolProgress(_, text):
                self.out.passing(f"  {one_line(text, 70)}")
            case Retrying():
                self._write_retry(event)
            case Notice(text):
                self.note(text, "warning")
            case TurnEnded(turn):
                self._write_end(turn)
            case _:
                pass

    def write_message(self, message: Message) -> None:
        """A whole message, as it is in the store."""
        for line, style in message_lines(message, verbose=self._verbose()):
            self.line(line, style)

    def write_unfinished(self, turn: Turn) -> None:
        """What a turn had said when it was stopped."""
        for line in strip_controls(turn.partial or "").strip("\n").split("\n"):
            self.line(line, "dim")
        self.line(f"({ENDS.get(turn.status, turn.status)})", "dim")

    def _stream(self, text: str) -> None:
        if not self._streamed:
            self.make_room()
            self._streamed = True
            if self.out.is_terminal and not text.startswith("  "):
                text = text.removeprefix(" ")  # the line before was broken here
        self.out.flow(self._cleaner.feed(text))

    def _think(self, text: str) -> None:
        if self._verbose():
            self.out.write(self.out.paint(self._cleaner.feed(text), "dim"))
        elif not self._thought:
            self.out.passing("thinking …")
        self._thought = True

    def _write_committed(self, message: Message) -> None:
        if message.role == "user" and self.said and self.said[0] == message.content:
            self.said.popleft()
        elif message.role == "assistant" and self._streamed:
            self.make_room()
        elif message.role == "assistant":
            # Its tool calls have their own events while they run here.
            for line, style in message_lines(message, verbose=False):
                if style is None:
                    self.line(line)
        else:
            self.write_message(message)

    def _write_retry(self, event: Retrying) -> None:
        text = (
            f"{event.reason} Trying again in {max(1, round(event.seconds))} s "
            f"({event.attempt} of {event.attempts})"
        )
        if self.out.is_terminal:
            self.make_room()
            self.out.passing(one_line(text, 78))
        elif (event.attempt, event.reason) != self._retried:
            self.note(text, "warning")
        self._retried = (event.attempt, event.reason)

    def _write_end(self, turn: Turn) -> None:
        self.make_room()
        if turn.status == "failed":
            error = turn.error or "The turn failed."
            self.note(error, "error")
            again = "" if "/retry" in error else " /retry tries again."
            self.note(f"Your message is kept.{again}")
        elif turn.status in ("aborted", "interrupted"):
            self.note("Stopped. /retry goes on, /undo takes it back.")
