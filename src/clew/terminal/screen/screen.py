"""The screen of a chat: the layout, and which key does what.

A key is handled by the widget that it is about, or by the app.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen

from clew.terminal.screen.approvals import ApprovalBar
from clew.terminal.screen.completion import Popup
from clew.terminal.screen.editor import Editor
from clew.terminal.screen.find import FindBar
from clew.terminal.screen.history import History
from clew.terminal.screen.sidebar import QueueStrip, TodoPanel
from clew.terminal.screen.statusline import StatusLine
from clew.terminal.screen.transcript import Transcript

KEYS: Final = """\
/  commands    @  files    ?  these keys, on an empty line
Enter       send                   Esc     close what is open; stop the turn
Alt+Enter   new line (or Ctrl+J)   Ctrl+C  stop the turn; twice: leave
                                   Ctrl+D  leave, at an empty line
Up, Down    what you sent before   Ctrl+R  another session
Tab         take a completion      Ctrl+F  find in the conversation
            or go to a question    Ctrl+O  unfold, fold the tools
PgUp, PgDn  scroll                 Ctrl+T  show, hide the todos
Shift+Tab   read: Up and Down go,  F2      light or dark
            Enter folds, c copies  Ctrl+G  write in $EDITOR
Ctrl+_      undo an edit           Ctrl+Z  to the shell; fg comes back"""


READING: Final = frozenset(
    key.strip()
    for binding in Transcript.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
)
"""Keys that the transcript handles."""


class ChatScreen(Screen[None]):
    """A conversation above, a message below."""

    DEFAULT_CSS = """
    ChatScreen { layout: vertical; background: $background; overflow: hidden; }
    ChatScreen Transcript { height: 1fr; }
    ChatScreen > #foot { dock: bottom; height: auto; }
    ChatScreen ToastRack { dock: top; align: right top; margin: 0; }
    ChatScreen.-low TodoPanel { max-height: 1; border: none; }
    ChatScreen.-low QueueStrip { max-height: 1; }
    ChatScreen.-low Popup { max-height: 3; }
    ChatScreen.-low Editor { max-height: 4; }
    ChatScreen.-low ApprovalBar { max-height: 4; }
    ChatScreen.-low ApprovalBar.-aside { max-height: 1; border: none; }
    """
    # On a low screen every part gets fewer lines.
    VERTICAL_BREAKPOINTS = [(0, "-low"), (18, "-high")]  # noqa: RUF012  # as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "request('interrupt')", "Stop", priority=True),
        Binding("ctrl+r", "request('pick')", "Sessions", priority=True),
        Binding("ctrl+f", "find", "Find", priority=True),  # the next key is for the find bar
        Binding("ctrl+o", "request('unfold')", "Tools", priority=True),
        Binding("ctrl+t", "request('todos')", "Todos", priority=True),
        Binding("ctrl+g", "request('edit')", "Editor", priority=True),
        Binding("ctrl+z", "request('suspend')", "Suspend", priority=True),
        Binding("f1", "request('help')", "Help"),
        Binding("f2", "request('theme')", "Light or dark"),
        Binding("pageup", "scroll_by(-1)", "Up", priority=True),
        Binding("pagedown", "scroll_by(1)", "Down", priority=True),
        Binding("tab", "home", "Back to the message", show=False),
        Binding("shift+tab", "back", "Conversation", show=False),
        Binding("escape", "escape", "Close, or stop the turn", show=False),
        Binding("ctrl+d", "leave", "Leave", show=False),
    ]

    class Shown(Message):
        """There is something to type into."""

    @dataclass
    class Requested(Message):
        """A key asks the app for something."""

        what: str

    def __init__(self, transcript: Transcript, history: History, approvals: ApprovalBar) -> None:
        super().__init__()
        self.transcript = transcript
        self.todos = TodoPanel()
        self.queue = QueueStrip()
        self.approvals = approvals
        self.approvals.give_back = self.action_home
        self.popup = Popup()
        self.find_bar = FindBar()
        self.editor = Editor(self.popup, history)
        self.editor.take_first = self._take_for_question
        self.newest_key: events.Key | None = None
        """The key that was pressed last; the editor may still have others before it."""
        self.status = StatusLine()

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.transcript
        yield self.todos
        yield self.queue
        yield self.approvals
        yield self.popup
        yield self.find_bar
        with Vertical(id="foot"):  # docked, so that it is seen on the smallest screen
            yield self.editor
            yield self.status

    def on_mount(self) -> None:
        """Give the keys to the editor."""
        self.editor.focus()
        self.post_message(self.Shown())

    # --- keys -----------------------------------------------------------------------------------

    def action_request(self, what: str) -> None:
        """Ask the app to do it, after the editor has handled the keys before this one."""
        self.editor.call_later(self.app.post_message, self.Requested(what))

    def action_scroll_by(self, pages: int) -> None:
        """Scroll the conversation, whatever has the focus."""
        self.transcript.action_page(pages)

    def _take_for_question(self, key: events.Key) -> bool:
        """Give a key of the editor to the question that waits, unless more was typed behind it.

        Else the keys behind it, which were typed for the editor, could take an answer.
        """
        if key is not self.newest_key and key.key != "escape":
            return bool(self.approvals.waiting) and key.key == "tab"
        return self.approvals.take_editor_key(key.key)

    def action_back(self) -> None:
        """Into the conversation, and back."""
        (self.editor if self.focused is self.transcript else self.transcript).focus()

    def action_home(self) -> None:
        """To the editor; at once, because the next key is for it."""
        self.set_focus(self.editor)

    def action_escape(self) -> None:
        """Close what is open, one after the other; then stop the turn."""
        if self.popup.is_open:
            self.popup.close()
        elif self.approvals.is_asking:
            self.approvals.action_step_back()
        elif self.find_bar.is_open:
            self.find_bar.action_close()
        elif self.focused is not self.editor:
            self.action_home()
        else:
            self.action_request("stop")

    def action_leave(self) -> None:
        """Leave from anywhere, as at an empty line; a draft stays."""
        if not self.editor.text:
            self.editor.post_message(Editor.Left())

    def action_find(self) -> None:
        """Search in the conversation; pressed again, go to the previous hit."""
        if self.focused is not None and self.find_bar in self.focused.ancestors:
            self.find_bar.action_go(-1)
        else:
            self.find_bar.open()

    def on_key(self, event: events.Key) -> None:
        """A letter typed while reading goes to the editor."""
        typed = event.character
        reads = self.focused is None or self.focused is self.transcript
        if reads and typed and event.is_printable and event.key not in READING:
            event.stop()
            self.editor.focus()
            self.editor.insert(typed)

    # --- what its widgets say -------------------------------------------------------------------

    def on_transcript_copied(self, event: Transcript.Copied) -> None:
        """A block, for the clipboard."""
        self.app.copy_to_clipboard(event.text)
        self.notify("Copied", timeout=2)

    def on_text_selected(self) -> None:
        """What was marked with the mouse is copied at once: Ctrl+C stops a turn."""
        text = self.get_selected_text() or ""
        if text.strip():
            self.app.copy_to_clipboard(text)
            self.notify("Copied", timeout=2)

    def on_find_bar_find(self, event: FindBar.Find) -> None:
        """Search for it, also in messages that are not loaded yet."""
        self.run_worker(self._find(event.text), exclusive=True)

    async def _find(self, text: str) -> None:
        found = await self.transcript.find(text)
        self.find_bar.tell(f"{found:,} found" if found else "not found")

    def on_find_bar_go(self, event: FindBar.Go) -> None:
        """Go to another hit."""
        self.transcript.action_find(event.by)

    def on_find_bar_closed(self) -> None:
        """Back to the editor."""
        self.editor.focus()
