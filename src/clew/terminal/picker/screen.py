"""The picker's screen: the list with its preview, and what each key does.

`PickerView` shows and loads; slow work runs in workers, which end when their result is not needed
any more. `PickerScreen` adds the keys, which are answered at once; `PickerApp` shows it without a
chat. `name_match` and `search` decide what matches, `lines` and `preview` how it looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from clew.api.sessions import SessionView, StateView
from clew.core.names import time_ago
from clew.core.session import MAX_TITLE, name_of
from clew.core.text import strip_controls
from clew.errors import ClewError, SessionNotFound
from clew.terminal.picker import Picked, PickerSetup
from clew.terminal.picker.lines import (
    RowDetails,
    describe_empty,
    draw_heading,
    draw_keys,
    find_badge,
)
from clew.terminal.picker.lists import Lists, Scope
from clew.terminal.picker.preview import Line, load_preview
from clew.terminal.picker.rows import Row, clean_line, make_row
from clew.terminal.picker.search import Search
from clew.terminal.picker.widgets import Bar, FilterLine, Pane, Question, SessionList, TitleLine
from clew.terminal.screen.styles import apply_theme

if TYPE_CHECKING:
    from textual.driver import Driver

PAUSE: Final = 0.06
"""Seconds between a move of the selection and its preview."""
LOAD_AFTER: Final = 0.3
"""Seconds after which the rest of the names is loaded, if nothing is typed before."""
STATES_EVERY: Final = 2.0
"""Seconds between two requests for the states of the visible sessions."""
FIRST_PATIENCE: Final = 0.5
"""Seconds that the first frame waits for its rows."""
SHOWN_EVERY: Final = 10
"""Pages of names after which a list that is still loading is drawn again."""

Work = Callable[[], Awaitable[object]]


class PickerView(Screen[Picked | None]):
    """The picker without its keys: what it shows, and what it loads."""

    HORIZONTAL_BREAKPOINTS = [(0, "-usual"), (140, "-wide")]  # noqa: RUF012  # Textual's own way
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-tall")]  # noqa: RUF012  # Textual's own way
    AUTO_FOCUS: ClassVar[str | None] = "FilterLine"

    DEFAULT_CSS = """
    PickerView {
        layout: vertical;
        #body { height: 1fr; layout: vertical; }
        &.-wide #body { layout: horizontal; }
        &.-wide #preview { width: 2fr; border-top: none; border-left: solid $panel; }
        &.-wide SessionList { width: 3fr; }
        &.-usual SessionList { height: 3fr; }
        &.-usual #preview { height: 2fr; }
        &.-low #preview { display: none; }
        TitleLine, Question { display: none; height: 1; }
        Question { padding: 0 1; background: $warning 30%; }
        &.-renaming TitleLine { display: block; }
        &.-asking Question { display: block; }
        &.-asking #keys { display: none; }
    }
    """

    def __init__(self, setup: PickerSetup) -> None:
        super().__init__()
        self._setup = setup
        self._client = setup.client
        place = setup.place
        self._directory = clean_line(place.project if place.scope == "git" else place.cwd)
        self._lists = Lists(setup.client, place, setup.only)
        scope = Scope(everywhere=setup.everywhere or bool(setup.only))
        self._search = Search(setup.client, self._lists, scope, self._show_found)
        self._states: dict[str, StateView] = {}
        self._deleted: list[Row] = []
        self._subject: Row | None = None
        self._notice: Line = []
        self._moved = False
        self._wants_end = False
        self._typed = asyncio.Event()
        self._list = SessionList(self._look)
        self._pane = Pane("preview")
        self._heading = Bar("heading")
        self._keys = Bar("keys")
        self._filter = FilterLine(
            placeholder="Type to search names and messages", select_on_focus=False
        )
        self._title = TitleLine(max_length=MAX_TITLE, select_on_focus=False)
        self._question = Question(self._answer)

    def compose(self) -> ComposeResult:
        """Heading, search line, list, preview, keys."""
        yield self._heading
        yield self._filter
        with Container(id="body"):
            yield self._list
            yield self._pane
        yield self._title
        yield self._question
        yield self._keys

    async def on_mount(self) -> None:
        """Show the first page in the first frame, if the answer comes quickly enough for that."""
        opening = self._start("open", self._open)
        await asyncio.wait({asyncio.ensure_future(_settled(opening))}, timeout=FIRST_PATIENCE)
        self._draw_bars()

    def _answer(self, yes: bool) -> None:
        """Take the answer to the question; see `PickerScreen`."""
        raise NotImplementedError

    # --- what tests and benchmarks wait for ------------------------------------------------------

    @property
    def selected(self) -> Row | None:
        """The session that is selected."""
        return self._list.row

    @property
    def typed(self) -> str:
        """What stands in the search line."""
        return self._filter.value

    @property
    def is_named(self) -> bool:
        """Whether all names that fit what is typed are shown."""
        return self._is_heard and self._search.is_named

    @property
    def is_searched(self) -> bool:
        """Whether all messages that fit what is typed are shown."""
        return self._is_heard and self._search.is_searched

    async def wait_until_loaded(self) -> None:
        """Wait for the names of all sessions of the list."""
        await self._await_workers("open", "load")

    @property
    def _is_heard(self) -> bool:
        return self._filter.value.strip() == self._search.text

    # --- what is shown --------------------------------------------------------------------------

    def _look(self, row: Row) -> RowDetails:
        try:
            zone = self._setup.zone(row.updated_at)
            age = time_ago(row.updated_at, self._setup.now(), zone)
        except (ValueError, OverflowError, OSError):
            age = "unknown"  # an imported session may have any number
        badge = find_badge(row, self._states.get(row.id), current=self._setup.current)
        hit = self._search.find_hit(row.id)
        return RowDetails(age, badge, self._search.words, None if hit is None else hit.snippet)

    def _show_found(self) -> None:
        """Show what was found so far. A selection that the person made stays."""
        search = self._search
        row = self._list.row
        keep = row.id if row is not None and self._moved else None
        self._list.message = describe_empty(
            search.scope,
            search.text,
            limited=bool(self._lists.only),
            searching=not (search.is_named and search.is_searched),
        )
        self._list.show(search.list_items(), keep=keep)
        self._draw_bars()

    def _draw_bars(self) -> None:
        """Draw the heading and the keys."""
        limited = bool(self._lists.only)
        scope, width = self._search.scope, max(20, self.size.width - 2)
        heading = draw_heading(width, scope, self._directory, self._search.count, limited=limited)
        self._heading.show([heading])
        self._keys.show([self._notice or draw_keys(width, scope, limited=limited)])

    def _say(self, text: str, style: str = "") -> None:
        """Show a notice in the place of the keys, until the next key."""
        self._notice = [(clean_line(text), style)]
        self._draw_bars()

    def on_resize(self) -> None:
        """Draw the bars for another width."""
        self._draw_bars()

    def on_session_list_moved(self) -> None:
        """Load the preview and the states of what is visible now."""
        self._start("preview", self._preview)
        self._start("states", self._watch_states)

    # --- workers --------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Show the first page of the scope's list, and start loading the rest."""
        listed = self._search.listed
        await self._try(listed.load_first)
        self._show_found()
        self._seek()
        if not listed.is_complete:
            self._start("load", self._load_rest)

    async def _load_rest(self) -> None:
        listed = self._search.listed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOAD_AFTER):
                await self._typed.wait()
        pages = 0
        while not listed.is_complete and await self._try(listed.load):
            pages += 1
            if pages % SHOWN_EVERY == 0:
                self._take_more()
        self._take_more()
        if self._wants_end:
            self._list.end()

    def _take_more(self) -> None:
        if self._search.text:
            self._start("names", self._search.match)
        else:
            self._list.refresh()
            self._draw_bars()

    def _seek(self) -> None:
        """Start to look for what is typed."""
        if self._search.text:
            self._start("names", self._search.match)
            self._start("text", self._search.search)

    async def _preview(self) -> None:
        row = self._list.row
        if row is None:
            self._pane.show([])
            return
        await asyncio.sleep(PAUSE)
        size = self._pane.size
        hit = self._search.find_hit(row.id)
        lines: Sequence[Line] = []
        if size.width > 4 and size.height > 0:
            lines = await load_preview(
                self._client,
                row,
                size,
                hit=hit,
                query=self._search.text,
                state=self._states.get(row.id),
            )
        self._pane.show(lines)

    async def _watch_states(self) -> None:
        """Keep the states of the visible sessions up to date."""
        await asyncio.sleep(PAUSE / 2)
        while ids := [row.id for row in self._list.list_visible()]:
            states = await self._client.sessions.states(ids)
            if any(self._states.get(each) != states.get(each) for each in ids):
                self._states |= states
                self._list.refresh()
            await asyncio.sleep(STATES_EVERY)

    def _start(self, group: str, work: Work, *, exclusive: bool = True) -> Worker[bool]:
        """Run work in the background; an exclusive one ends what runs in its group."""
        # A coroutine would be left unawaited if the worker were cancelled before its first step.
        return self.run_worker(partial(self._try, work), group=group, exclusive=exclusive)

    async def _try(self, work: Work) -> bool:
        """Do the work; an error is shown as a notice, and the list stays as it is."""
        try:
            await work()
        except ClewError as error:
            self._say(str(error), "error")
            return False
        return True

    async def _await_workers(self, *groups: str) -> None:
        waiting = [_settled(worker) for worker in self.workers if worker.group in groups]
        await asyncio.gather(*waiting)


async def _settled(worker: Worker[Any]) -> None:
    """Wait for a worker, however it ends."""
    with contextlib.suppress(WorkerCancelled, WorkerFailed):
        await worker.wait()


# --- the keys ---------------------------------------------------------------------------------


class PickerScreen(PickerView):
    """Ends with what was picked; None for nothing. Ctrl+C ends the whole app."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move_home", show=False),
        Binding("end", "move_end", show=False),
        Binding("enter", "choose", show=False),
        Binding("tab,shift+tab", "turn", show=False),
        Binding("ctrl+p", "turn_platform", show=False),
        Binding("ctrl+f", "choose(True)", show=False),
        Binding("ctrl+r", "rename", show=False),
        Binding("ctrl+t", "pin", show=False),
        Binding("delete", "trash", show=False),
        Binding("ctrl+z", "undo", show=False),
        Binding("escape", "cancel", show=False),
        Binding("ctrl+c", "leave", show=False),
    ]

    # --- looking --------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let other keys do nothing while a title is typed or a question is asked."""
        del parameters
        return self._subject is None or action in ("cancel", "leave", "copy_text")

    def on_input_changed(self, event: FilterLine.Changed) -> None:
        """Search for what is typed."""
        if event.input is self._filter:
            self._type(event.value)

    def _type(self, text: str) -> None:
        text = text.strip()
        if text == self._search.text:
            return
        self._search.type(text)
        self._notice = []
        self._moved = self._wants_end = False
        if text:
            self._typed.set()
            self._seek()
            self._draw_bars()
        else:
            self._show_found()

    def _forget_notice(self) -> None:
        self._moved = True
        self._wants_end = False
        if self._notice:
            self._notice = []
            self._draw_bars()

    def action_move(self, steps: int) -> None:
        """Up, Down."""
        self._forget_notice()
        self._list.move(steps)

    def action_page(self, direction: int) -> None:
        """PgUp, PgDn."""
        self._forget_notice()
        self._list.page(direction)

    def action_move_home(self) -> None:
        """Home."""
        self._forget_notice()
        self._list.home()

    def action_move_end(self) -> None:
        """End: the last session, also if it is not loaded yet."""
        self._forget_notice()
        self._list.end()
        if not self._search.text and not self._search.listed.is_complete:
            self._wants_end = True

    def action_turn(self) -> None:
        """Tab: the sessions of this directory, or of all."""
        if self._lists.only:
            self._say("Only these sessions match.")
            return
        scope = self._search.scope
        self._turn_to(Scope(not scope.everywhere, scope.platform))

    def action_turn_platform(self) -> None:
        """Ctrl+P: one platform after the other, then all again."""
        scope = self._search.scope
        platforms = self._lists.list_platforms(scope)
        if scope.platform is None and len(platforms) < 2:
            said = f"All are {platforms[0]} sessions." if platforms else "There are no sessions."
            self._say(said)
            return
        further = [each for each in platforms if scope.platform is None or each > scope.platform]
        self._turn_to(Scope(scope.everywhere, further[0] if further else None))

    def _turn_to(self, scope: Scope) -> None:
        self._search.turn_to(scope)
        self._notice = []
        self._moved = self._wants_end = False
        self._start("open", self._open)

    # --- choosing -------------------------------------------------------------------------

    def action_choose(self, forks: bool = False) -> None:
        """Enter resumes, Ctrl+F forks."""
        self._start("choose", partial(self._choose, forks))

    async def _choose(self, forks: bool) -> None:
        """Choose the best match of all that was typed, also if the list is not there yet."""
        self._type(self._filter.value)
        if not self._search.is_named:
            await self._await_workers("open", "names")
        if self._list.row is None and not self._search.is_searched:
            await self._await_workers("text")
        row = self._list.row
        if row is None:
            return
        await self._pick(row, forks)

    async def _pick(self, row: Row, forks: bool) -> None:
        try:
            detail = await self._client.sessions.get(row.id, messages=0)
        except SessionNotFound:
            self._drop(row)
            self._say(f'"{row.title}" was deleted.', "error")
        else:
            self.dismiss(Picked(detail.session, forks))

    def on_session_list_chosen(self) -> None:
        """Resume on a double click."""
        self.action_choose()

    def action_cancel(self) -> None:
        """Esc: leave the title or the question; else end without a session."""
        if self._subject is None:
            self.dismiss(None)
        else:
            self._resume_choosing()

    def action_leave(self) -> None:
        """Ctrl+C: end the whole app."""
        self.app.exit()

    # --- changing -------------------------------------------------------------------------

    def action_rename(self) -> None:
        """Ctrl+R: ask for a title."""
        if (row := self._list.row) is not None:
            self._start("act", partial(self._ask_title, row), exclusive=False)

    async def _ask_title(self, row: Row) -> None:
        session = (await self._client.sessions.get(row.id, messages=0)).session
        title = strip_controls(session.title or "", keep_newlines=False)
        self._subject = row
        self._title.value = title
        self._title.placeholder = "No title"
        self._title.cursor_position = len(title)
        self.add_class("-renaming")
        self._say(f'A title for "{row.title}". Enter saves it, Esc cancels.')
        self.set_focus(self._title)

    def on_input_submitted(self, event: TitleLine.Submitted) -> None:
        """Rename to the title that was typed."""
        if event.input is self._title and self._subject is not None:
            row, title = self._subject, strip_controls(event.value, keep_newlines=False)
            self._resume_choosing()
            rename = partial(self._client.sessions.update, row.id, title=title or None)
            self._change(rename, "Renamed.")

    def action_pin(self) -> None:
        """Ctrl+T: pin or unpin."""
        if (row := self._list.row) is not None:
            said = f'Unpinned "{row.title}".' if row.pinned else f'Pinned "{row.title}".'
            self._change(partial(self._client.sessions.update, row.id, pinned=not row.pinned), said)

    def _change(self, change: Callable[[], Awaitable[SessionView]], said: str) -> None:
        async def work() -> None:
            changed = make_row(name_of(await change()))
            self._lists.put(changed)
            self._search.put(changed)
            self._moved = True  # the selection goes with it
            self._show_found()
            self._say(said)

        self._start("act", work, exclusive=False)

    def action_trash(self) -> None:
        """Del: put in the trash, after a question."""
        row = self._list.row
        if row is None:
            return
        if row.id == self._setup.current:
            self._say("That is the session you are in.", "warning")
            return
        state = self._states.get(row.id)
        busy = " It is running." if state is not None and state.running else ""
        self._subject = row
        self._question.ask(f'Put "{row.title}" in the trash?{busy} [y/N]')
        self.add_class("-asking")
        self.set_focus(self._question)

    def _answer(self, yes: bool) -> None:
        row = self._subject
        self._resume_choosing()
        if row is not None and yes:
            self._start("act", partial(self._trash, row), exclusive=False)

    async def _trash(self, row: Row) -> None:
        with contextlib.suppress(SessionNotFound):  # it was deleted already
            await self._client.sessions.delete(row.id)
            self._deleted.append(row)
        self._drop(row)
        self._say(f'"{row.title}" is in the trash. Ctrl+Z brings it back.')

    def _drop(self, row: Row) -> None:
        """Take a session out of the list; its neighbour is selected."""
        self._list.move(1)
        if self._list.row == row:
            self._list.move(-1)
        self._moved = True
        self._lists.remove(row.id)
        self._search.forget(row.id)
        self._show_found()

    def action_undo(self) -> None:
        """Ctrl+Z: bring back what was trashed last in this picker."""
        if not self._deleted:
            self._say("Nothing was put in the trash here.")
            return
        self._start("act", partial(self._restore, self._deleted.pop()), exclusive=False)

    async def _restore(self, row: Row) -> None:
        try:
            await self._client.sessions.restore(row.id)
        except SessionNotFound:  # it may have been restored already
            await self._client.sessions.get(row.id, messages=0)
        self._lists.restore(row.id)
        self._show_found()
        self._list.select_id(row.id)
        self._seek()
        self._say(f'"{row.title}" is back.')

    def _resume_choosing(self) -> None:
        self._subject = None
        self._notice = []
        self._draw_bars()
        self._question.close()
        self.remove_class("-renaming", "-asking")
        self.set_focus(self._filter)


# --- without a chat ---------------------------------------------------------------------------


class PickerApp(App[Picked | None]):
    """The picker on a screen of its own, as `clew --resume` and `clew pick` open it."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, setup: PickerSetup, *, dark: bool = True) -> None:
        super().__init__(driver_class=_find_driver())
        apply_theme(self, dark=dark)
        self.picker = PickerScreen(setup)

    def on_mount(self) -> None:
        """Show the picker, and end with it."""
        self.push_screen(self.picker, self.exit)

    def on_key(self, event: events.Key) -> None:
        """Ignore a key that comes after the screen has ended."""
        if not self.screen_stack:
            event.prevent_default()


def freeze_garbage_collector() -> None:
    """Exclude the modules loaded so far from garbage collection; call it when a process begins.

    A full collection takes 30 ms, in which no key is answered.
    """
    gc.freeze()


def _find_driver() -> type[Driver] | None:
    """The driver that draws on stdout; None, for stderr, if a program reads stdout."""
    if sys.platform == "win32" or sys.__stdout__ is None or not sys.__stdout__.isatty():
        return None
    from clew.terminal.screen.driver import TerminalDriver  # noqa: PLC0415  # not on Windows

    return TerminalDriver
