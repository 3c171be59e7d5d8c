"""Plain output: messages and live events as text that streams down a terminal or into a file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TextIO

from clew.core.live_events import (
    Committed,
    Event,
    Notice,
    Retrying,
    Stalled,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from clew.core.message import Message
from clew.core.text import columns, cut, strip_controls
from clew.core.turn import ENDS, Approval, Turn

PROMPT: Final = "> "

WIDTH: Final = 80

Paint = Callable[[str, str], str]
"""Text in a style, if there are colours."""

_UNFINISHED: Final = re.compile(
    r"""
    (?: (?: \x1b\[ | \x9b ) [0-?]* [\ -/]*                        # CSI
      | \x1b[\]PX^_] [^\x07\x1b\x9c\r\n]{0,4096} \x1b?            # OSC, DCS, SOS, PM, APC
      | [\x90\x98\x9d-\x9f] [^\x07\x1b\x90-\x9f\r\n]{0,4096} \x1b?
      | \x1b [\ -/]*
      | \r
      # characters that a joiner may follow: they make one emoji
      | (?: [^\0-\x9f] [\u200c\u200d] )* [^\0-\x9f] [\u200c\u200d]?
    ) \Z
    """,
    re.VERBOSE,
)

HELD: Final = 30
"""Columns of an unfinished word that is held back; longer text is written at once."""

DEEPEST: Final = 20
"""Columns of indentation that the rest of a broken line keeps."""

_PIECES: Final = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_FENCES: Final = ("```", "~~~")

LINE = 100
"""Columns of a one-line summary."""

BROKEN_OFF: Final = "(This broke off, and is not part of the answer.)"
"""Said below the text of an attempt that failed; the next one begins anew."""

RESULT_LINES = 20
"""Lines of a tool's result that are shown in verbose mode."""


class EventWriter:
    """Writes the messages and events of a session, and knows what is on the line now."""

    def __init__(self, out: TextOutput, aside: TextOutput, *, verbose: Callable[[], bool]) -> None:
        self.out = out
        self.aside = aside
        self.said: deque[str] = deque()
        """Messages that the person sees already, because they typed them."""
        self._verbose = verbose
        self._filter = ControlFilter()
        self._streamed = False
        self._thought = False
        self._prompted = False
        self._retried: tuple[int, str] | None = None
        self._stalled = False

    # --- lines ----------------------------------------------------------------------------------

    def line(self, text: str = "", style: str | None = None) -> None:
        """A line of the conversation."""
        self.make_room()
        self.out.line(text, style)

    def note(self, text: str, style: str | None = "dim") -> None:
        """A line beside the conversation."""
        self.make_room()
        self.aside.line(text, style)

    def prompt(self, text: str = PROMPT) -> None:
        """Show the prompt, once."""
        if not self._prompted:
            self.make_room()
            self.out.write(self.out.paint(text, "user"))
            self._prompted = True

    def take_line(self) -> None:
        """The person has typed a line: the cursor is on a new one."""
        self._prompted = False
        self.out.moved()

    def break_off(self) -> None:
        """After Ctrl+C: forget what was streaming, and begin a new line."""
        self._filter = ControlFilter()
        self._streamed = self._thought = self._prompted = False
        self.out.break_flow()

    def make_room(self) -> None:
        """End what streams, and go to a new line."""
        if self._streamed or self._thought:
            self.out.flow(self._filter.end())
            self.out.end_flow()
        self._streamed = self._thought = self._prompted = False
        self.out.fresh()

    # --- events ---------------------------------------------------------------------------------

    def write(self, event: Event) -> None:
        """Write an event; events that are not for reading are ignored."""
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
            case Stalled():
                self._write_stall(event)
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
        self._stalled = False
        if not self.out.is_terminal:
            return  # a file gets whole answers: an attempt that breaks off could not be taken back
        if not self._streamed:
            self.make_room()
            self._streamed = True
            if self.out.is_terminal and not text.startswith("  "):
                text = text.removeprefix(" ")  # it only parted two lines
        self.out.flow(self._filter.feed(text))

    def _think(self, text: str) -> None:
        if self._verbose():
            self.out.write(self.out.paint(self._filter.feed(text), "dim"))
        elif not self._thought:
            self.out.passing("thinking …")
        self._thought = True

    def _write_committed(self, message: Message) -> None:
        if message.role == "user" and self.said and self.said[0] == message.content:
            self.said.popleft()
        elif message.role == "assistant" and self._streamed:
            self.make_room()
        elif message.role == "assistant":
            # Tool calls have events of their own.
            for line, style in message_lines(message, verbose=False):
                if style is None:
                    self.line(line)
        else:
            self.write_message(message)

    def _write_stall(self, event: Stalled) -> None:
        text = describe_stall(event)
        if self.out.is_terminal:
            self.make_room()
            self.out.passing(text)
        elif not self._stalled:
            self.note(text, "warning")
        self._stalled = True

    def _write_retry(self, event: Retrying) -> None:
        text = describe_retry(event)
        if self._streamed:
            self.note(BROKEN_OFF, "warning")
        if self.out.is_terminal:
            self.make_room()
            self.out.passing(one_line(text, 78))
        elif (event.attempt, event.reason) != self._retried:
            self.note(text, "warning")
        self._retried = (event.attempt, event.reason)

    def _write_end(self, turn: Turn) -> None:
        self.make_room()
        for text, style in describe_end(turn):
            self.note(text, style)


def describe_retry(event: Retrying) -> str:
    """Why a model is asked again, and when."""
    return (
        f"{event.reason.rstrip('.')}. Trying again in {max(1, round(event.seconds))} s "
        f"({event.attempt} of {event.attempts})"
    )


def describe_stall(event: Stalled) -> str:
    """That nothing comes from a provider, and since when."""
    return f"No data for {event.seconds} s; Ctrl+C stops the turn"


def describe_end(turn: Turn) -> Iterator[tuple[str, str]]:
    """What to say about a turn that did not end well: lines, each with its style."""
    if turn.status == "failed":
        error = turn.error or "The turn failed."
        yield error, "error"
        yield "Your message is kept." + ("" if "/retry" in error else " /retry tries again."), "dim"
    elif turn.status in ("aborted", "interrupted"):
        yield "Stopped. /retry goes on, /undo takes it back.", "dim"


class ControlFilter:
    """Removes escape sequences from a stream, also those that arrive in two pieces."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text)
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        return strip_controls(text[:cut])

    def end(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return strip_controls(held)


class Cursor:
    """Where the cursor of a terminal is; two streams to the same terminal share it."""

    def __init__(self) -> None:
        self.at_start = True
        self.passing = 0


class TextOutput:
    """A stream that knows whether its cursor is at the beginning of a line.

    `beside` is another one, which may go to the same terminal.
    """

    def __init__(
        self, paint: Paint, stream: TextIO | None = None, *, beside: TextOutput | None = None
    ) -> None:
        self.paint = paint
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty()
        shared = beside is not None and beside.is_terminal and self.is_terminal
        self._cursor: Cursor = beside._cursor if beside is not None and shared else Cursor()
        self._wrapper = LineWrapper()

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def write(self, text: str) -> None:
        """Text as it is, at once."""
        if not text:
            return
        self._wipe()
        self._stream.write(text)
        self._stream.flush()
        self._cursor.at_start = text.endswith("\n")

    def flow(self, text: str) -> None:
        """Text that streams; on a terminal, lines end between words."""
        self.write(self._wrapper.feed(text, self.width) if self.is_terminal else text)

    def end_flow(self) -> None:
        """End of the text: write what was held back, and go to a new line."""
        self.write(self._wrapper.end(self.width))
        self.fresh()

    def break_flow(self) -> None:
        """After Ctrl+C: drop what was held back, and go to a new line."""
        self._wrapper = LineWrapper()
        self.write("\n" if self.is_terminal else "")
        self.fresh()

    def line(self, text: str = "", style: str | None = None) -> None:
        """A whole line, without control characters."""
        self.fresh()
        text = strip_controls(text)
        if self.is_terminal:
            wrapper, width = LineWrapper(), self.width
            text = wrapper.feed(text, width) + wrapper.end(width)
        self.write((self.paint(text, style) if style else text) + "\n")

    def fresh(self) -> None:
        """Go to the beginning of a line."""
        if not self._cursor.at_start:
            self.write("\n")

    def moved(self) -> None:
        """The terminal has gone to the next line, because Enter was pressed."""
        self._cursor.at_start = True
        self._cursor.passing = 0
        self._wrapper.moved()

    def passing(self, text: str) -> None:
        """A line that the next one overwrites; not written where that is impossible."""
        if self.is_terminal:
            self.fresh()
            self._wipe()
            text = cut(strip_controls(text, keep_newlines=False), self.width - 1)
            self._stream.write(text)
            self._stream.flush()
            self._cursor.passing = columns(text)

    def _wipe(self) -> None:
        if self._cursor.passing:
            self._stream.write("\r" + " " * self._cursor.passing + "\r")
            self._cursor.passing = 0


class LineWrapper:
    """Breaks a stream of text between words. An unfinished word is held back."""

    def __init__(self) -> None:
        self._fenced = False
        self.restart()

    def restart(self) -> None:
        """The cursor is at the beginning of a line."""
        self._column = 0
        self._indent = ""
        self._space = ""
        self._word = ""
        self._verbatim = self._fenced
        self._overlong = False

    def moved(self) -> None:
        """The line was ended from outside, in the middle of the text."""
        self._column = 0
        self._space = ""

    def feed(self, text: str, width: int) -> str:
        """What can be shown by now, in lines of that many columns."""
        shown = []
        for piece in _PIECES.findall(text):
            if piece == "\n":
                shown += [self._flush(width), "\n"]
                self.restart()
            elif piece[0] in " \t":
                shown.append(self._flush(width))
                self._space += piece
                self._overlong = False
            else:
                self._word += piece
                if self._is_due():
                    shown.append(self._flush(width))
                    self._overlong = True
        return "".join(shown)

    def _is_due(self) -> bool:
        """Whether an unfinished word can be written already."""
        if self._verbatim and self._column == 0:
            return not any(fence.startswith(self._word) for fence in _FENCES)
        return self._verbatim or self._overlong or columns(self._word) > HELD

    def end(self, width: int) -> str:
        """What was held back, at the end of the text."""
        shown = self._flush(width)
        self._fenced = False
        self.restart()
        return shown

    def _flush(self, width: int) -> str:
        word, space = self._word, self._space
        if not word:
            return ""
        self._word = self._space = ""
        if self._column == 0:
            self._begin(word, space)
        needed = columns(space.expandtabs()) + columns(word)
        whole = self._verbatim or self._overlong or columns(word) > width
        if self._column and not whole and self._column + needed > width:
            self._column = len(self._indent) + columns(word)
            return f"\n{self._indent}{word}"
        self._column += needed
        if self._column > width:  # the terminal has broken it
            self._column %= width
        return space + word

    def _begin(self, word: str, space: str) -> None:
        """The first word of a line says whether it is code."""
        indent = space.expandtabs()
        self._indent = indent[:DEEPEST]
        if word.startswith(_FENCES):
            self._fenced = not self._fenced
            self._verbatim = True
        elif word.startswith("|") or len(indent) >= 4:
            self._verbatim = True


def one_line(text: str, columns: int = LINE) -> str:
    """The text in one clean line."""
    return cut(" ".join(strip_controls(text).split()), columns)


def call_line(name: str, arguments: dict[str, Any]) -> str:
    """A tool call: its name and its most important argument."""
    if not arguments:
        return strip_controls(name)
    shown = next(
        (arguments[key] for key in ("command", "path", "query", "pattern", "task", "name")
         if key in arguments),
        None,
    )  # fmt: skip
    if shown is None and len(arguments) == 1:
        ((key, shown),) = arguments.items()
        shown = f"{len(shown)} {key}" if isinstance(shown, list) else shown
    if not isinstance(shown, str):
        shown = json.dumps(arguments if shown is None else shown, ensure_ascii=False)
    return one_line(f"{name} {shown}")


def result_lines(content: str, *, verbose: bool, is_error: bool) -> Iterator[str]:
    """A tool's result: how much it is, or its beginning."""
    lines = strip_controls(content).splitlines()
    if is_error:
        yield "failed:" if verbose else f"failed: {one_line(content)}"
    elif not verbose:
        yield f"{len(lines)} lines" if len(lines) != 1 else one_line(content, 72)
    if verbose:
        yield from lines[:RESULT_LINES]
        if len(lines) > RESULT_LINES:
            yield f"… {len(lines) - RESULT_LINES} more lines"


def message_lines(message: Message, *, verbose: bool) -> Iterator[tuple[str, str | None]]:
    """A stored message, line by line, each with its style."""
    match message.role:
        case "user":
            for line in strip_controls(message.content).split("\n"):
                yield f"> {line}", "user"
        case "assistant":
            if message.content.strip():
                for line in strip_controls(message.content).split("\n"):
                    yield line, None
            for call in message.tool_calls:
                yield f"* {call_line(call.name, read_arguments(call.arguments))}", "tool"
        case _:
            for line in result_lines(message.content, verbose=verbose, is_error=message.is_error):
                yield f"  {line}", "error" if message.is_error else "dim"


def question_lines(approval: Approval) -> Iterator[tuple[str, str | None]]:
    """What a tool wants to do, and how to answer."""
    request = approval.request
    summary = str(request.get("summary") or approval.tool_name)
    yield f"? {one_line(summary)}", "warning"
    detail = strip_controls(str(request.get("detail") or ""))
    if detail and not says_all(summary, detail):
        for line in detail.splitlines()[:RESULT_LINES]:
            yield f"    {line}", None
        if len(detail.splitlines()) > RESULT_LINES:
            yield f"    … {len(detail.splitlines()) - RESULT_LINES} more lines", "dim"
    if request.get("rule"):
        yield (
            f"  for the session or always, this is allowed: {one_line(str(request['rule']), 70)}",
            "dim",
        )


def says_all(summary: str, detail: str) -> bool:
    """Whether a summary contains a whole detail; never if that has several lines."""
    return len(detail.strip().splitlines()) <= 1 and one_line(detail) in one_line(summary)


def read_arguments(text: str) -> dict[str, Any]:
    """A call's arguments; anything but a JSON object is one argument."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": value}
