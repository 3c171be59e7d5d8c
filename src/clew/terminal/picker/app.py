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
from clew.terminal.screen import styles

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
        styles.wear(self, dark=dark)
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
        """Ignore a key that comes after the screen has ended."""
        if not self.screen_stack:
            event.prevent_default()


def spare_collector() -> None:
    """Exclude what is loaded by now from garbage collection: call it when a process begins.

    To look through all of it takes thirty milliseconds, in which no key is answered.
    """
    gc.freeze()


def _find_driver() -> type[Driver] | None:
    """The driver that draws on stdout; None, which is stderr, where a program reads stdout."""
    if sys.platform == "win32" or sys.__stdout__ is None or not sys.__stdout__.isatty():
        return None
    from clew.terminal.screen.driver import TerminalDriver  # noqa: PLC0415  # not on Windows

    return TerminalDriver
