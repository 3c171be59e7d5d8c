"""The picker: which key does what.

Keys are answered at once; what they set going is beside them, in `board`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from clew.api.sessions import SessionView
from clew.core.overview import name_of
from clew.core.text import strip_controls
from clew.errors import SessionNotFound
from clew.terminal.picker import Picked
from clew.terminal.picker.board import Board
from clew.terminal.picker.inputs import FilterLine, TitleLine
from clew.terminal.picker.library import Scope
from clew.terminal.picker.rows import Row, make_row


class PickerScreen(Board):
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
        """While a title is typed or a question asked, other keys do nothing."""
        del parameters
        return self._subject is None or action in ("cancel", "leave", "copy_text")

    def on_input_changed(self, event: FilterLine.Changed) -> None:
        """Something was typed."""
        if event.input is self._filter:
            self._type(event.value)

    def _type(self, text: str) -> None:
        text = text.strip()
        if text == self._seeker.text:
            return
        self._seeker.type(text)
        self._notice = []
        self._moved = self._wants_end = False
        if text:
            self._typed.set()
            self._seek()
            self._dress()
        else:
            self._show_found()

    def _forget_notice(self) -> None:
        self._moved = True
        self._wants_end = False
        if self._notice:
            self._notice = []
            self._dress()

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
        """End: the last of all, also if it is not loaded yet."""
        self._forget_notice()
        self._list.end()
        if not self._seeker.text and not self._seeker.catalogue.is_complete:
            self._wants_end = True

    def action_turn(self) -> None:
        """Tab: this directory, all."""
        if self._library.only:
            self._say("Only these sessions fit.")
            return
        scope = self._seeker.scope
        self._turn_to(Scope(not scope.everywhere, scope.platform))

    def action_turn_platform(self) -> None:
        """Ctrl+P: one platform after the other, then all again."""
        scope = self._seeker.scope
        platforms = self._library.list_platforms(scope)
        if scope.platform is None and len(platforms) < 2:
            said = f"All of them are {platforms[0]} sessions." if platforms else "There are none."
            self._say(said)
            return
        further = [each for each in platforms if scope.platform is None or each > scope.platform]
        self._turn_to(Scope(scope.everywhere, further[0] if further else None))

    def _turn_to(self, scope: Scope) -> None:
        self._seeker.turn_to(scope)
        self._notice = []
        self._moved = self._wants_end = False
        self._start("open", self._open)

    # --- choosing -------------------------------------------------------------------------

    def action_choose(self, forks: bool = False) -> None:
        """Enter, Ctrl+F."""
        self._start("choose", partial(self._choose, forks))

    async def _choose(self, forks: bool) -> None:
        """Choose what fits all that was typed, also if that was faster than the list."""
        self._type(self._filter.value)
        if not self._seeker.is_named:
            await self._await_workers("open", "names")
        if self._list.row is None and not self._seeker.is_searched:
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
            self._say(f'"{row.title}" is not there any more: it was deleted.', "error")
        else:
            self.dismiss(Picked(detail.session, forks))

    def on_session_list_chosen(self) -> None:
        """A double click."""
        self.action_choose()

    def action_cancel(self) -> None:
        """Esc: no title, no deleting; else no session."""
        if self._subject is None:
            self.dismiss(None)
        else:
            self._resume_choosing()

    def action_leave(self) -> None:
        """Ctrl+C."""
        self.app.exit()

    # --- changing -------------------------------------------------------------------------

    def action_rename(self) -> None:
        """Ctrl+R."""
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
        self._say(f'A title for "{row.title}". Enter keeps it, Esc leaves all as it was.')
        self.set_focus(self._title)

    def on_input_submitted(self, event: TitleLine.Submitted) -> None:
        """The title is typed."""
        if event.input is self._title and self._subject is not None:
            row, title = self._subject, strip_controls(event.value, keep_newlines=False)
            self._resume_choosing()
            rename = partial(self._client.sessions.update, row.id, title=title or None)
            self._change(rename, "Renamed.")

    def action_pin(self) -> None:
        """Ctrl+T."""
        if (row := self._list.row) is not None:
            said = f'Unpinned "{row.title}".' if row.pinned else f'Pinned "{row.title}".'
            self._change(partial(self._client.sessions.update, row.id, pinned=not row.pinned), said)

    def _change(self, change: Callable[[], Awaitable[SessionView]], said: str) -> None:
        async def work() -> None:
            changed = make_row(name_of(await change()))
            self._library.put(changed)
            self._seeker.put(changed)
            self._moved = True  # the selection goes with it
            self._show_found()
            self._say(said)

        self._start("act", work, exclusive=False)

    def action_trash(self) -> None:
        """Del: asks first."""
        row = self._list.row
        if row is None:
            return
        if row.id == self._current:
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
        with contextlib.suppress(SessionNotFound):  # it is gone already
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
        self._library.remove(row.id)
        self._seeker.forget(row.id)
        self._show_found()

    def action_undo(self) -> None:
        """Ctrl+Z: what was trashed here last comes back."""
        if not self._deleted:
            self._say("Nothing was trashed here.")
            return
        self._start("act", partial(self._restore, self._deleted.pop()), exclusive=False)

    async def _restore(self, row: Row) -> None:
        try:
            await self._client.sessions.restore(row.id)
        except SessionNotFound:  # unless it is in the list again, which is as good
            await self._client.sessions.get(row.id, messages=0)
        self._library.restore(row.id)
        self._show_found()
        self._list.select_id(row.id)
        self._seek()
        self._say(f'"{row.title}" is back.')

    def _resume_choosing(self) -> None:
        self._subject = None
        self._notice = []
        self._dress()
        self._question.close()
        self.remove_class("-renaming", "-asking")
        self.set_focus(self._filter)
