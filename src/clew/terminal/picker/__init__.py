"""The picker: choose one of all sessions, by its name or by what was said in it.

It is a client of the API, in process or at a gateway. Textual is loaded when a picker runs, not
when this is imported. The caller decides what happens to the chosen session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from clew.core.session import Session

if TYPE_CHECKING:
    from datetime import tzinfo

    from clew.client.client import Client
    from clew.core.keys import Place

__all__ = ["Picked", "PickerSetup", "run_picker"]


class Picked(msgspec.Struct, frozen=True):
    """A session that the person chose: to go on with it, or to branch off."""

    session: Session
    forks: bool = False


class PickerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions to choose from, and the clock and time zone that their ages are told by.

    `only`: just these sessions; empty for all. `everywhere`: begin with the sessions of all
    directories. `current`: the session that the person is in.
    """

    client: Client
    place: Place
    now: Callable[[], int]
    zone: Callable[[int], tzinfo]
    only: tuple[Session, ...] = ()
    everywhere: bool = False
    current: str | None = None


async def run_picker(setup: PickerSetup, *, dark: bool = True) -> Picked | None:
    """Let the person choose a session, on the whole terminal. None after Esc or Ctrl+C."""
    from clew.terminal.picker.screen import (  # noqa: PLC0415  # Textual is slow to load
        PickerApp,
        freeze_garbage_collector,
    )

    freeze_garbage_collector()
    return await PickerApp(setup, dark=dark).run_async()
