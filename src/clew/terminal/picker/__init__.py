"""The picker: choosing one session of all there are, by its name or by what was said in it.

Textual is loaded when a picker is run, not when this is imported. What happens to the chosen
session is decided by whoever asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.core.session import Session
    from clew.runtime.commands.desk import Desk
    from clew.terminal.entrance import Picked

__all__ = ["run_picker"]


async def run_picker(
    desk: Desk, sessions: tuple[Session, ...] = (), *, dark: bool = True
) -> Picked | None:
    """Let the person choose one of these sessions, without any one of all; None for none.

    Takes the whole terminal until then. Esc and Ctrl+C are none.
    """
    from clew.terminal.picker.app import (  # noqa: PLC0415  # Textual takes a while
        PickerApp,
        spare_collector,
    )

    spare_collector()
    seat = desk.seat
    app = PickerApp(
        desk.store,
        place=seat.place,
        viewer=seat.person,
        now=seat.runtime.clock,
        zone=desk.zone,
        only=sessions,
        dark=dark,
    )
    return await app.run_async()
