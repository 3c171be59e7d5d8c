"""The editor: Enter sends, Alt+Enter begins a new line, Up and Down fetch history.

It posts what is sent to the app, which gives it to the conversation. While a list of completions is
open, the keys are for the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from clew.core.names import counted
from clew.core.text import strip_controls
from clew.terminal.screen.completion import Choice, Popup, Wanted, find_wanted
from clew.terminal.screen.driver import NEW_LINE
from clew.terminal.screen.history import History

FOLDS: Final = 30
"""Lines from which on a paste is folded to a few words."""

SLOW_ALT: Final = 0.25
"""Seconds between Esc and Enter within which a slow line has taken Alt+Enter apart."""

PLACEHOLDER: Final = "Write a message; / for commands, @ for files"
READ_ONLY: Final = "This session is read-only here; /fork goes on in a branch"


class Editor(TextArea):
    """The input. Its text is a draft until Enter; `Sent` carries it."""

    DEFAULT_CSS = """
    Editor {
        height: auto; max-height: 10; min-width: 4; border: none; border-top: solid $primary 50%;
        padding: 0 1; background: $background; scrollbar-size-vertical: 1;
    }
    Editor:focus { border: none; border-top: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = []

    @dataclass
    class Sent(Message):
        """The person has sent this."""

        text: str

    class Left(Message):
        """Ctrl+D where nothing is typed."""

    class AltEntered(Message):
        """The Esc before was the beginning of Alt+Enter."""

    class Asked(Message):
        """`?` where nothing is typed."""

    class Edited(Message):
        """Ctrl+X Ctrl+E."""

    @dataclass
    class Wanting(Message):
        """The word before the cursor has changed; None for one that can't be completed."""

        wanted: Wanted | None

    def __init__(self, popup: Popup, history: History) -> None:
        super().__init__(
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=PLACEHOLDER,
            id="editor",
        )
        self.cursor_blink = False  # so that nothing is sent over a slow line while nothing happens
        self.take_first: Callable[[events.Key], bool] = lambda _key: False
        """Called with keys that may be for a question above; returns whether this one was."""
        self._popup = popup
        self._past = history
        self._pasted: dict[str, str] = {}
        self.wanted: Wanted | None = None
        """What could be completed now."""
        self._declined: Wanted | None = None
        self._has_prefix = False
        """Whether Ctrl+X was pressed, which may begin Ctrl+X Ctrl+E."""
        self._escaped_at: float | None = None
        """When Esc was pressed, if that was the last key and closed no list."""

    # --- text -----------------------------------------------------------------------------------

    @property
    def message(self) -> str:
        """The text to send, with folded pastes in full."""
        text = self.text
        for token, pasted in self._pasted.items():
            text = text.replace(token, pasted, 1)
        return text

    def look_only(self, read_only: bool) -> None:
        """Say whether the session is read-only; commands can still be sent."""
        self.placeholder = READ_ONLY if read_only else PLACEHOLDER

    def empty(self) -> None:
        """Clear the draft."""
        self.text = ""
        self._pasted.clear()
        self.history.clear()

    def take_choice(self, choice: Choice) -> None:
        """Put a choice in, in place of what it completes."""
        wanted = self._popup.wanted
        if wanted is None:
            return
        row, column = self.cursor_location
        closing = "" if choice.goes_on and wanted.kind == "file" else " "
        if wanted.kind == "argument":
            closing = ""
        self._popup.close()
        self.replace(choice.text + closing, (row, wanted.start), (row, column))
        self.move_cursor((row, wanted.start + len(choice.text + closing)))
        if wanted.kind == "argument":
            self._declined = self.wanted = self._find_wanted()

    def catch_up(self, early: Sequence[events.Key]) -> None:
        """Take keys that came before there was an editor; Enter was a line feed then."""
        for event in early:
            if event.key in ("enter", "ctrl+j"):
                self._send()
            elif event.key in ("backspace", "ctrl+h"):
                self.action_delete_left()
            elif event.key in ("up", "down"):
                self._take_key(event.key)
            elif event.character and event.is_printable:
                self.insert(event.character)

    # --- keys -----------------------------------------------------------------------------------

    async def _on_key(self, event: events.Key) -> None:
        escaped_at, self._escaped_at = self._escaped_at, None
        if event.key == "escape" and not self._popup.is_open:
            self._escaped_at = event.time
        if event.key == "enter" and escaped_at is not None and event.time - escaped_at < SLOW_ALT:
            self.post_message(self.AltEntered())
            taken = self._take_key("alt+enter")
        else:
            taken = self._is_for_question(event) or self._take_key(event.key)
        if taken:
            event.stop()
            event.prevent_default()
        elif event.key.startswith("alt+") and event.is_printable:
            event.prevent_default()  # a shortcut of a window manager, not a letter

    def _is_for_question(self, event: events.Key) -> bool:
        """Esc, and Tab, unless they are for a list; other keys only while nothing is typed."""
        if event.key == "escape":
            return not self._popup.is_open and self.take_first(event)
        if event.key == "tab":
            completes = self._popup.is_open or self._find_wanted() is not None
            return not completes and self.take_first(event)
        return not self.text and self.take_first(event)

    def _take_key(self, key: str) -> bool:
        """Handle the keys that a plain text area does not know. Returns whether it was one."""
        has_prefix, self._has_prefix = self._has_prefix, False
        if self._popup.is_open and self._take_popup_key(key):
            return True
        if key == "enter":
            self._send()
        elif key in NEW_LINE:
            self.insert("\n")
            self.scroll_cursor_visible()
        elif key == "up" and self.navigator.is_first_wrapped_line(self.cursor_location):
            self.fetch(self._past.older(self.text))
        elif key == "down" and self.navigator.is_last_wrapped_line(self.cursor_location):
            self.fetch(self._past.newer())
        elif key == "ctrl+x" and self.selection.is_empty:  # else it cuts
            self._has_prefix = True
        elif key == "ctrl+e" and has_prefix:
            self.post_message(self.Edited())
        elif key == "question_mark" and not self.text:
            self.post_message(self.Asked())
        elif key == "ctrl+underscore":
            self.action_undo()
        elif key == "ctrl+d" and not self.text:
            self.post_message(self.Left())
        else:
            return False
        return True

    def _take_popup_key(self, key: str) -> bool:
        chosen = self._popup.chosen
        is_stale = self._popup.wanted != self._find_wanted()
        match key:
            case "enter" | "tab" if is_stale:  # more was typed since: the list is for another word
                self._popup.close()
                return key == "tab"
            case "up" | "down":
                self._popup.move(-1 if key == "up" else 1)
            case "escape":
                self._declined = self._popup.wanted
                self._popup.close()
            case "tab":
                self.take_choice(chosen or self._popup.choices[0])
            case "enter" if chosen is not None and not self._is_there(chosen):
                runs = chosen.text.startswith("/") and not chosen.goes_on
                self.take_choice(chosen)
                if runs:  # the command takes no argument
                    self._send()
            case _:
                return False
        return True

    def _is_there(self, choice: Choice) -> bool:
        """Whether the choice is what was typed already: then Enter sends."""
        wanted = self._popup.wanted
        return wanted is not None and choice.text.lstrip("/@") == wanted.text

    def _send(self) -> None:
        text = self.message
        self._popup.close()
        if text.strip():
            self.empty()
            self.app.post_message(self.Sent(text))  # at once, before a Ctrl+C behind it

    def fetch(self, text: str | None) -> None:
        """Show a whole message, from history, without offering completions."""
        if text is not None:
            with self.prevent(TextArea.Changed):
                self.text = text
                self.move_cursor(self.document.end)
            self._declined = self.wanted = self._find_wanted()

    async def _on_paste(self, event: events.Paste) -> None:
        """Fold a long paste to a few words, and send it in full; drop escape sequences."""
        event.prevent_default()
        event.stop()
        text = strip_controls(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        lines = text.rstrip("\n").count("\n") + 1
        if lines >= FOLDS:
            token = f"[pasted {counted(lines, 'line')}]"
            if token in self._pasted:
                token = f"[pasted {counted(lines, 'line')}, {len(self._pasted) + 1}]"
            self._pasted[token] = text
            text = token
        start, end = self.selection
        if result := self._replace_via_keyboard(text, start, end):
            self.move_cursor(result.end_location)

    # --- completion -----------------------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """The text is a draft of its own now, and may have something to complete."""
        event.stop()
        self._past.settle()
        self._look()

    def on_text_area_selection_changed(self, event: Any) -> None:
        """The cursor may be after another word now."""
        event.stop()
        if self._popup.is_open:
            self._look()

    def _find_wanted(self) -> Wanted | None:
        row, column = self.cursor_location
        return find_wanted(self.document.get_line(row)[:column], first=row == 0)

    def _look(self) -> None:
        wanted = None
        if self.selection.is_empty:
            wanted = self._find_wanted()
        if wanted is None or wanted != self._declined:
            self._declined = None
            if wanted != self.wanted:
                self.post_message(self.Wanting(wanted))
        self.wanted = wanted
