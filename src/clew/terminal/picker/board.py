"""The picker's screen without its keys: the list, its preview, and what loads beside them.

Everything that may take a moment is a worker, and what makes it needless ends it. Rules live
elsewhere: what fits in `matching`, what is found in `seeking`, how it looks in `drawing` and
`preview`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from functools import partial
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from clew.api.sessions import StateView
from clew.client.client import Client
from clew.core.keys import Place
from clew.core.names import time_ago
from clew.core.session import MAX_TITLE, Session
from clew.core.text import strip_controls
from clew.errors import ClewError
from clew.terminal.picker import Picked
from clew.terminal.picker.drawing import Look, find_badge
from clew.terminal.picker.inputs import FilterLine, Question, TitleLine
from clew.terminal.picker.library import Library, Scope
from clew.terminal.picker.preview import Line
from clew.terminal.picker.previewing import load_preview
from clew.terminal.picker.rows import Row
from clew.terminal.picker.seeking import Seeker
from clew.terminal.picker.widgets import Bar, Pane, SessionList
from clew.terminal.picker.wording import word_empty, word_heading, word_keys

PAUSE: Final = 0.06
"""Seconds that the selection rests before its preview is drawn."""
LOAD_AFTER: Final = 0.3
"""Seconds after which the rest of the names is loaded, if nobody has typed before."""
STATES_EVERY: Final = 2.0
FIRST_PATIENCE: Final = 0.5
"""Seconds that the first frame waits for its rows."""
SHOWN_EVERY: Final = 10
"""Pages of names between two times that a growing list is drawn anew."""


Work = Callable[[], Awaitable[object]]


class Board(Screen[Picked | None]):
    """The picker without its keys."""

    HORIZONTAL_BREAKPOINTS = [(0, "-usual"), (140, "-wide")]  # noqa: RUF012  # Textual's own way
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-tall")]  # noqa: RUF012  # likewise
    AUTO_FOCUS: ClassVar[str | None] = "FilterLine"

    DEFAULT_CSS = """
    Board {
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

    def __init__(
        self,
        client: Client,
        *,
        place: Place,
        now: Callable[[], int],
        zone: Callable[[int], tzinfo],
        only: tuple[Session, ...] = (),
        everywhere: bool = False,
        current: str | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._directory = strip_controls(
            place.project if place.scope == "git" else place.cwd, keep_newlines=False
        )
        self._now = now
        self._zone = zone
        self._current = current
        self._library = Library(client, place, only)
        scope = Scope(everywhere=everywhere or bool(only))
        self._seeker = Seeker(client, self._library, scope, self._show_found)
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
        """Heading, line to type in, list, preview, keys."""
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
        self._dress()

    def _answer(self, yes: bool) -> None:
        """Somebody has answered the question. What was asked, the keys know."""
        raise NotImplementedError

    # --- how far it is --------------------------------------------------------------------------

    @property
    def selected(self) -> Row | None:
        """The session that is selected."""
        return self._list.row

    @property
    def typed(self) -> str:
        """What stands in the line to type in."""
        return self._filter.value

    @property
    def is_named(self) -> bool:
        """Whether all names that fit what is typed are shown."""
        return self._is_heard and self._seeker.is_named

    @property
    def is_searched(self) -> bool:
        """Whether all messages that fit what is typed are shown."""
        return self._is_heard and self._seeker.is_searched

    async def wait_until_loaded(self) -> None:
        """Wait for the names of all sessions of the list."""
        await self._await_workers("open", "load")

    @property
    def _is_heard(self) -> bool:
        return self._filter.value.strip() == self._seeker.text

    # --- what is shown --------------------------------------------------------------------------

    def _look(self, row: Row) -> Look:
        try:
            age = time_ago(row.updated_at, self._now(), self._zone(row.updated_at))
        except (ValueError, OverflowError, OSError):
            age = "unknown"  # an import may claim any number
        badge = find_badge(row, self._states.get(row.id), current=self._current)
        hit = self._seeker.find_hit(row.id)
        return Look(age, badge, self._seeker.words, None if hit is None else hit.snippet)

    def _show_found(self) -> None:
        """Show what there is now. The selection stays where a person has put it."""
        seeker = self._seeker
        row = self._list.row
        keep = row.id if row is not None and self._moved else None
        self._list.message = word_empty(
            seeker.scope,
            seeker.text,
            limited=bool(self._library.only),
            searching=not (seeker.is_named and seeker.is_searched),
        )
        self._list.show(seeker.list_items(), keep=keep)
        self._dress()

    def _dress(self) -> None:
        """Heading and keys."""
        limited = bool(self._library.only)
        scope, width = self._seeker.scope, max(20, self.size.width - 2)
        heading = word_heading(width, scope, self._directory, self._seeker.count, limited=limited)
        self._heading.show([heading])
        self._keys.show([self._notice or word_keys(width, scope, limited=limited)])

    def _say(self, text: str, style: str = "") -> None:
        """Say something where the keys are, until the next thing happens."""
        self._notice = [(strip_controls(text, keep_newlines=False), style)]
        self._dress()

    def on_resize(self) -> None:
        """Another width."""
        self._dress()

    def on_session_list_moved(self) -> None:
        """Look at what is in sight now."""
        self._start("preview", self._preview)
        self._start("states", self._watch_states)

    # --- beside the keys ------------------------------------------------------------------------

    async def _open(self) -> None:
        """Show the list of the scope, and see to it that the rest of it is loaded."""
        catalogue = self._seeker.catalogue
        await self._try(catalogue.load_first)
        self._show_found()
        self._seek()
        if not catalogue.is_complete:
            self._start("load", self._load_rest)

    async def _load_rest(self) -> None:
        catalogue = self._seeker.catalogue
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOAD_AFTER):
                await self._typed.wait()
        pages = 0
        while not catalogue.is_complete and await self._try(catalogue.load):
            pages += 1
            if pages % SHOWN_EVERY == 0:
                self._take_more()
        self._take_more()
        if self._wants_end:
            self._list.end()

    def _take_more(self) -> None:
        if self._seeker.text:
            self._start("names", self._seeker.match)
        else:
            self._list.refresh()
            self._dress()

    def _seek(self) -> None:
        """Look for what is typed."""
        if self._seeker.text:
            self._start("names", self._seeker.match)
            self._start("text", self._seeker.search)

    async def _preview(self) -> None:
        row = self._list.row
        if row is None:
            self._pane.show([])
            return
        await asyncio.sleep(PAUSE)
        size = self._pane.size
        hit = self._seeker.find_hit(row.id)
        lines: Sequence[Line] = []
        if size.width > 4 and size.height > 0:
            lines = await load_preview(
                self._client,
                row,
                size,
                hit=hit,
                query=self._seeker.text,
                state=self._states.get(row.id),
            )
        self._pane.show(lines)

    async def _watch_states(self) -> None:
        """What goes on in the sessions in sight, for as long as they are."""
        await asyncio.sleep(PAUSE / 2)
        while ids := [row.id for row in self._list.list_visible()]:
            states = await self._client.sessions.states(ids)
            if any(self._states.get(each) != states.get(each) for each in ids):
                self._states |= states
                self._list.refresh()
            await asyncio.sleep(STATES_EVERY)

    def _start(self, group: str, work: Work, *, exclusive: bool = True) -> Worker[bool]:
        """Set something going beside the keys; it ends what was going on in its group."""
        # A coroutine would be left unawaited if the worker were cancelled before its first step.
        return self.run_worker(partial(self._try, work), group=group, exclusive=exclusive)

    async def _try(self, work: Work) -> bool:
        """Do something with the client; what goes wrong is said, and the list stays as it is."""
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
    """Wait for a worker, whatever becomes of it."""
    with contextlib.suppress(WorkerCancelled, WorkerFailed):
        await worker.wait()
