"""The picker: choosing one session of all there are, by its name or by what was said in it.

It is a client of the API, in process or at a gateway. Textual is loaded when a picker is run, not
when this is imported. What happens to the chosen session is decided by whoever asked.
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

__all__ = ["Picked", "run_picker"]


class Picked(msgspec.Struct, frozen=True):
    """A session that the person chose: to go on with it, or to branch off."""

    session: Session
    forks: bool = False


async def run_picker(
    client: Client,
    *,
    place: Place,
    now: Callable[[], int],
    zone: Callable[[int], tzinfo],
    only: tuple[Session, ...] = (),
    everywhere: bool = False,
    dark: bool = True,
) -> Picked | None:
    """Let the person choose one of these sessions (without `only`, one of all); None for none.

    Takes the whole terminal until then. Esc and Ctrl+C are none. `everywhere` begins with the
    sessions of all directories.
    """
    from clew.terminal.picker.app import (  # noqa: PLC0415  # Textual takes a while
        PickerApp,
        spare_collector,
    )

    spare_collector()
    app = PickerApp(
        client, place=place, now=now, zone=zone, only=only, everywhere=everywhere, dark=dark
    )
    return await app.run_async()
