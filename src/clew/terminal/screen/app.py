"""The full-screen chat: a display of a `Conversation`, as line mode is another.

The conversation decides what a message or a command does. Here its events go to the widgets, and
keys go to it, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from textual import events
from textual.app import App
from textual.binding import BindingType
from textual.screen import Screen
from textual.timer import Timer

from clew.api.seats import Seated
from clew.api.sessions import MessagePage, SessionView
from clew.core.live_events import Event, TurnStarted
from clew.core.turn import Approval
from clew.errors import ClewError
from clew.terminal.conversation import Conversation, read_command
from clew.terminal.picker import Picked
from clew.terminal.plain_output import one_line
from clew.terminal.screen import driver, handover, styles
from clew.terminal.screen.approvals import SETTLES, ApprovalBar
from clew.terminal.screen.completion import Choice, Wanted, complete
from clew.terminal.screen.dialogs import AskScreen, TextScreen, open_picker, show_over
from clew.terminal.screen.driver import NEW_LINE
from clew.terminal.screen.editor import SLOW_ALT, Editor
from clew.terminal.screen.history import History
from clew.terminal.screen.screen import KEYS, ChatScreen
from clew.terminal.screen.sidebar import Sidebar
from clew.terminal.screen.transcript import Transcript
from clew.terminal.seat import Seat
from clew.terminal.startup import Startup

T = TypeVar("T")
Note = tuple[str, str | None]

QUIET: Final = 0.7
"""Seconds without a key after which the person does not seem to type."""

CANCEL_AGAIN: Final = 0.5
"""Seconds after which a task that still runs is cancelled once more."""

ALONE: Final = 0.15
"""Seconds without another key, after a key that gives the terminal to another program."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How the chat begins: the session that is opened, and notes about it."""

    opening: Seated
    notes: tuple[Note, ...] = ()
    dark: bool = True
    settles: float = SETTLES
    editor: dict[str, str] = {}
    """`VISUAL` and `EDITOR`."""


async def _load_markdown() -> None:
    """Load the module that draws answers; a new chat does not wait for it."""
    await asyncio.to_thread(importlib.import_module, "clew.terminal.screen.markdown")


def _is_typing(event: events.Event) -> bool:
    """Whether an event changes the text in the editor."""
    if isinstance(event, events.Key):
        return event.is_printable or event.key in ("backspace", "delete", *NEW_LINE)
    return isinstance(event, events.Paste)


class BackgroundTasks:
    """Tasks beside the conversation. `failed` is called with the error of a task that fails."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def close(self) -> None:
        """Cancel all tasks, and wait for their end."""
        while tasks := {each for each in self._tasks if not each.done()}:
            for task in tasks:
                task.cancel()
            # Python 3.11 can lose a cancellation that comes together with what was waited for.
            await asyncio.wait(tasks, timeout=CANCEL_AGAIN)


class ChatApp(App[int], inherit_bindings=False):
    """One conversation on a whole screen. Its result is the exit code."""

    TITLE = "clew"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, seat: Seat, startup: Startup, start: Start, history: History, **more: Any
    ) -> None:
        driver.add_key_sequences()
        super().__init__(**more)
        styles.apply_theme(self, dark=start.dark)
        startup.asker = self
        self.seat = seat
        self.conversation = Conversation(seat, self, startup)
        self.failure: BaseException | None = None
        self.is_there = asyncio.Event()
        """Set when the screen shows the session."""
        self._start = start
        self._history = history
        self._turned = False
        """Whether tools are shown the other way than the session says."""
        transcript = Transcript(self._load, verbose=self._is_verbose)
        self.chat = ChatScreen(transcript, history, ApprovalBar(settles=start.settles))
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._background = BackgroundTasks(self._fail)
        self._pending: list[str] = []
        """Messages sent while a slow command, such as /compact, runs."""
        self._sidebar = Sidebar(self.conversation, self.chat, self._pending)
        self._over = False
        self._early: list[events.Key] | None = []
        self._held: list[events.Key] | None = None
        """Keys for a picker that is about to open."""
        self._at_work = False
        self._is_away = False
        """Whether the person's editor has the terminal."""
        self._stopping: Timer | None = None
        """Stops the turn soon after Esc, unless that was the beginning of Alt+Enter."""
        self._last_key = time.monotonic()

    def get_default_screen(self) -> ChatScreen:
        """The chat is the only screen."""
        return self.chat

    async def run_chat(self) -> int:
        """Run the chat until the person leaves. Returns the exit code."""
        try:
            await self.run_async()
        finally:
            await self.close_chat()
        if self.failure is not None:
            raise self.failure
        return self.exit_code

    @property
    def exit_code(self) -> int:
        """The exit code; a picker that was left with Ctrl+C has no result of its own."""
        return self.return_value if self.return_value is not None else self.return_code or 0

    async def close_chat(self) -> None:
        """Stop all tasks, and keep unsent text in the history."""
        self._over = True
        for text in (*self._pending, self.chat.editor.message):
            self._history.keep(text)  # Up brings it back in the next chat
        await self._background.close()
        self.conversation.close()

    async def wait_for_quiet(self) -> None:
        """Wait until the person does not type, before work that would delay the echo of keys."""
        while (left := self._last_key + QUIET - time.monotonic()) > 0:  # noqa: ASYNC110  # keys put it off
            await asyncio.sleep(left)

    def interrupt(self) -> None:
        """Ctrl+C: stops what runs; a second one soon after leaves."""
        if self._is_away:
            return  # it was for the editor
        self._background.run(self._try(self._interrupt))

    def stop(self) -> None:
        """Esc: stops what runs."""
        self._background.run(self._try(self._stop))

    def leave(self, code: int = 0) -> None:
        """Leave the chat. Everything that was said is stored."""
        self._over = True
        self.exit(code)

    # --- work, one after the other --------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Keys that are pressed while the screen is being made are kept for it."""
        if isinstance(event, events.Key | events.Paste):
            self._last_key = time.monotonic()
        if isinstance(event, events.Key):
            self.chat.newest_key = event
        if self._early is not None and isinstance(event, events.Key):
            self._early.append(event)
        elif self._held is not None and isinstance(event, events.Key):
            self._held.append(event)
        else:
            if _is_typing(event):
                self.chat.approvals.let_go()  # before the next key: an Enter must not answer
            if isinstance(event, events.Key) and event.key == "ctrl+r" and self._is_free():
                self._held = []  # until the picker is there
            await super().on_event(event)

    def _is_free(self) -> bool:
        """Whether the chat is in front, and no work is running or queued."""
        return self.screen is self.chat and not self._at_work and self._work.empty()

    def _release_keys(self) -> None:
        """Hand over the keys that were typed after Ctrl+R."""
        held, self._held = self._held or [], None
        for event in held:
            self.post_message(event)

    def on_chat_screen_shown(self) -> None:
        """Open the session, and handle what is typed."""
        early, self._early = self._early or [], None
        if any(event.key in ("ctrl+c", "ctrl+d") for event in early):
            self.leave()
            return
        self.chat.editor.catch_up(early)
        self._background.run(self._converse())
        self._background.run(self._sidebar.run())

    async def _converse(self) -> None:
        await asyncio.to_thread(self._history.load)
        await self._try(partial(self.conversation.sit_down, self._start.opening))
        for text, style in self._start.notes:
            self.note(text, style)
        self.is_there.set()
        self._background.run(_load_markdown())
        while not self.conversation.is_leaving:
            work = await self._work.get()
            self._at_work = True
            await self._try(work)
            self._at_work = False
            self._release_keys()
            self._sidebar.wake()
        self.leave()

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ClewError as error:
            self.note(str(error), "error")

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.leave(1)

    def _handle_exception(self, error: Exception) -> None:
        """A bug: `run_chat` raises it, without Textual's long report."""
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self._fail(error)

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work.put_nowait(work)

    # --- the display of the conversation --------------------------------------------------------

    @property
    def is_attended(self) -> bool:
        """A full screen always has a person in front of it."""
        return True

    def note(self, text: str, style: str | None = "dim") -> None:
        """A line beside the conversation."""
        if not self._over:
            self.chat.transcript.note(text, style)

    def tell(self, text: str) -> None:
        """What a command answers."""
        if not self._over:
            self.chat.transcript.tell(text)

    def show(self, event: Event) -> None:
        """Something happens in the session."""
        if self._over:
            return
        self.chat.transcript.show(event)
        if isinstance(event, TurnStarted):
            self._sidebar.begin()

    def sent(self, text: str) -> None:
        """The person's message is on its way."""
        if not self._over:
            self.chat.transcript.sent(text)
            self._sidebar.wake()

    def queued(self, text: str) -> None:
        """It is shown above the editor until its turn begins."""
        del text
        self._sidebar.wake()

    def unsent(self, text: str) -> None:
        """It is a draft again, unless another one was started."""
        if not self._over and not self.chat.editor.text:
            self.chat.editor.fetch(text)

    def taken_back(self, texts: tuple[str, ...]) -> None:
        """They are a draft again, in front of what is typed."""
        if self._over:
            return
        editor = self.chat.editor
        editor.fetch("\n".join([*texts, *([editor.text] if editor.text else [])]))
        self.note("Your waiting messages are in the editor again.")
        self._sidebar.wake()

    async def redraw(self, session: SessionView | None) -> None:
        """Show another session. The draft stays."""
        self.chat.approvals.clear()
        self.chat.editor.look_only(self.seat.read_only)
        await self.chat.transcript.open(session)
        self._sidebar.wake()

    def put_question(self, approval: Approval) -> None:
        """A tool wants something."""
        self.chat.approvals.put(approval)
        self._sidebar.wake()

    def withdraw_question(self, approval: Approval) -> None:
        """It needs no answer any more."""
        self.chat.approvals.withdraw(approval)
        self._sidebar.wake()

    def ready(self) -> None:
        """Nothing runs any more."""
        self._sidebar.wake()

    async def ask(self, question: str) -> str:
        """A question over the chat."""
        return await self._ask_screen(AskScreen(question)) or ""

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        """A line of text, typed over the chat."""
        return await self._ask_screen(TextScreen(question, hidden=hidden)) or ""

    async def choose(self, sessions: tuple[SessionView, ...]) -> Picked | None:
        """The picker, among these or all."""
        return await self._ask_screen(open_picker(self.seat, sessions))

    async def _ask_screen(self, screen: Screen[T]) -> T | None:
        self.chat.approvals.let_go()
        given = await show_over(self, screen, self._release_keys)
        self.chat.editor.focus()
        return given

    async def _load(self, before: int | None, limit: int) -> MessagePage:
        session = self.seat.session
        if session is None:
            return MessagePage((), 0)
        return await self.seat.client.sessions.messages(session.id, limit=limit, before=before)

    def _is_verbose(self) -> bool:
        return self.seat.is_verbose != self._turned

    # --- what keys and widgets say --------------------------------------------------------------

    def on_editor_sent(self, event: Editor.Sent) -> None:
        """A message, or a command."""
        self._pending.append(event.text)
        self._do(self._take)
        self._sidebar.wake()

    async def _take(self) -> None:
        text = next(iter(self._pending), None)
        if text is not None:
            await asyncio.to_thread(self._history.keep, text)
        if text is None or not self._pending:
            return  # it was taken back
        self._pending.pop(0)
        if read_command(text) is not None:  # so that its answer is understood later
            self.note(one_line(text, 400))
        await self.conversation.take(text)
        if read_command(text) == ("help", ""):
            self.tell(KEYS)

    def on_editor_asked(self) -> None:
        """`?`: all keys."""
        self.tell(KEYS)

    def on_editor_edited(self) -> None:
        """Ctrl+X Ctrl+E."""
        self._hand_over(self._edit)

    def _hand_over(self, work: Callable[[], Awaitable[None]]) -> None:
        """Give the terminal away, unless more keys follow at once: then they were not typed.

        A paste may contain any key, and what comes behind it would be typed into the editor.
        """
        pressed = self._last_key

        def begin() -> None:
            if self._last_key == pressed:
                self._background.run(self._try(work))

        self.set_timer(ALONE, begin)

    async def _suspend(self) -> None:
        handover.suspend()

    async def _edit(self) -> None:
        """Let the person write the message in their editor."""
        if self._is_away:
            return
        self._is_away = True
        editor = self.chat.editor
        try:
            edited = await handover.edit(self, editor.message, self._start.editor)
        finally:
            self._is_away = False
        editor.empty()
        editor.fetch(edited)

    def on_driver_signal_resume(self) -> None:
        """Back from the shell: what was on the screen is gone, so draw all of it."""
        self.screen.refresh()

    def on_editor_alt_entered(self) -> None:
        """A new line was meant, not Esc."""
        if self._stopping is not None:
            self._stopping.stop()

    def on_editor_left(self) -> None:
        """Ctrl+D."""
        self.leave()

    def on_approval_bar_decided(self, event: ApprovalBar.Decided) -> None:
        """An answer; it does not wait for queued work."""
        answer = self.conversation.answer
        given = partial(answer, event.approval, event.decision, event.scope, event.reason)
        self._background.run(self._try(given))

    def on_editor_wanting(self, event: Editor.Wanting) -> None:
        """A word that could be completed, or not any more."""
        if event.wanted is None:
            self.chat.popup.close()
        else:
            self._background.run(self._offer(event.wanted))

    async def _offer(self, wanted: Wanted) -> None:
        choices: tuple[Choice, ...] = ()
        with contextlib.suppress(ClewError):
            choices = await complete(self.seat, wanted)
        if self.chat.editor.wanted == wanted:  # unless something else was typed since
            self.chat.popup.open(wanted, choices)

    def on_chat_screen_requested(self, event: ChatScreen.Requested) -> None:
        """Do what a key of the chat asks for."""
        match event.what:
            case "interrupt":
                self.interrupt()
            case "stop":
                self._stopping = self.set_timer(SLOW_ALT, self.stop)
            case "suspend":
                self._hand_over(self._suspend)
            case "edit":
                self._hand_over(self._edit)
            case "pick":
                self._do(self.conversation.pick)
            case "help":
                self.on_editor_sent(Editor.Sent("/help"))
            case "todos" if not self.chat.todos.toggle():
                self.notify("There are no todos.", timeout=5)
            case "unfold":
                self._turned = not self._turned
                self.chat.transcript.draw()
            case "theme":
                dark = not self.current_theme.dark
                self.theme = styles.theme_name(dark=dark)

    async def _stop(self) -> None:
        if self.conversation.is_running:
            self._take_back_pending()
            await self.conversation.stop()

    def _take_back_pending(self) -> None:
        if self.conversation.is_running and self._pending:
            pending, self._pending[:] = tuple(self._pending), ()
            self.taken_back(pending)

    async def _interrupt(self) -> None:
        draft = "" if self.conversation.is_running else self.chat.editor.message.strip()
        self._take_back_pending()
        if draft:
            self._history.keep(self.chat.editor.message)
            self.chat.editor.empty()
            self.note("Up brings back what you were typing.")
        if await self.conversation.interrupt(afresh=bool(draft)):
            self.leave()
