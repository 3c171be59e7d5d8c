"""The picker on a screen of its own, as `clew --resume` and `clew pick` open it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING

from textual import events
from textual.app import App

from clew.client.client import Client
from clew.core.keys import Place
from clew.core.session import Session
from clew.terminal.picker import Picked
from clew.terminal.picker.screen import PickerScreen
from clew.terminal.screen import themes

if TYPE_CHECKING:
    from textual.driver import Driver


class PickerApp(App[Picked | None]):
    """Ends with what was picked; None for nothing, after Esc as after Ctrl+C."""

    ENABLE_COMMAND_PALETTE = False

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
        dark: bool = True,
    ) -> None:
        super().__init__(driver_class=_find_driver())
        themes.wear(self, dark=dark)
        self.picker = PickerScreen(
            client,
            place=place,
            now=now,
            zone=zone,
            only=only,
            everywhere=everywhere,
            current=current,
        )

    def on_mount(self) -> None:
        """Show the picker, and end with it."""
        self.push_screen(self.picker, self.exit)

    def on_key(self, event: events.Key) -> None:
        """A key that was pressed right behind the last one finds no screen any more."""
        if not self.screen_stack:
            event.prevent_default()


def spare_collector() -> None:
    """Let the garbage collector pass over what is loaded by now, and stays.

    Looking through all of it takes thirty milliseconds, in which no key is answered. For the
    beginning of a process.
    """
    gc.freeze()


def _find_driver() -> type[Driver] | None:
    """Draws on stdout; where that is read by a program, on stderr, which is Textual's own way."""
    if sys.platform == "win32" or sys.__stdout__ is None or not sys.__stdout__.isatty():
        return None
    from clew.terminal.screen.driver import TerminalDriver  # noqa: PLC0415  # not on Windows

    return TerminalDriver
