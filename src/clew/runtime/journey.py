"""A journey from one session to another: each step with its way back, until one has arrived.

What the steps are is told in `switching`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from clew.core.keys import Place
from clew.core.session import Session, SessionEdit
from clew.ports import Store

Step = Callable[[], Awaitable[object] | object]


class Journey:
    """What to do to be where one was, and what to do on arrival."""

    def __init__(self) -> None:
        self._back: list[Step] = []
        self._onward: list[Callable[[], None]] = []

    def back(self, step: Step) -> None:
        """How to undo what comes next. It is said before, for a step may end in its middle."""
        self._back.append(step)

    def onward(self, step: Callable[[], None]) -> None:
        """What is done when nothing can go wrong any more, and so must not itself."""
        self._onward.append(step)

    async def turn_back(self) -> None:
        """Undo all steps, the last one first. One that fails does not keep the others."""
        while self._back:
            with contextlib.suppress(Exception):
                done = self._back.pop()()
                if isinstance(done, Awaitable):
                    await done

    def arrive(self) -> None:
        """There is no way back from here."""
        self._back.clear()
        for step in self._onward:
            step()


async def make_current(
    store: Store, session: Session, key: str, place: Place, journey: Journey
) -> Session:
    """Take a session out of the archive, and let the key of its own directory lead to it."""
    if session.archived_at is not None:
        journey.back(partial(store.edit_session, session.id, SessionEdit(archived=True)))
        session = await store.edit_session(session.id, SessionEdit(archived=False))
    if session.platform == "cli" and place.is_home_of(session):
        await _remember_route(store, key, journey)
        await store.set_route(key, session.id)
    return session


async def clear_way(store: Store, key: str, journey: Journey) -> None:
    """Let the key lead nowhere."""
    await _remember_route(store, key, journey)
    await store.clear_route(key)


async def _remember_route(store: Store, key: str, journey: Journey) -> None:
    before = await store.find_route(key)
    if before is None:
        journey.back(partial(store.clear_route, key))
    else:
        journey.back(partial(store.set_route, key, before.id))
