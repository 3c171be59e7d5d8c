"""The switch from one session to another, and leaving.

A switch attaches the target, aborts the turn that began here, detaches the old session, and lets
the key lead to the new one. If a step fails, the steps before it are undone.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

import msgspec

from clew.core.channels.session_choice import RETURNED
from clew.core.models import ModelInfo
from clew.core.session import Session, SessionEdit, word_reader
from clew.core.turn import Attachment
from clew.errors import ClewError, ModelNotFound, SwitchRefused
from clew.ports import Store
from clew.runtime.commits import note, unbroken
from clew.runtime.place.begin import Surface
from clew.runtime.place.directories import fork_here
from clew.runtime.recovery import Recovered, recover
from clew.runtime.runtime import Runtime

Reason = Literal["startup", "resume", "new", "fork"]


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """From `previous` to `target`; None is a session that the next message makes.

    `model` is the one used so far. `stops`: the turn that runs in `previous` belongs to the surface
    and is aborted; `waiting` are its queued messages, which stay in the inbox. `returns`: a person
    named the target, so it is not reset, however old it is.
    """

    target: Session | None
    reason: Reason
    previous: Session | None = None
    model: str | None = None
    read_only: bool = False
    returns: bool = False
    stops: bool = False
    waiting: tuple[str, ...] = ()

    @property
    def is_reload(self) -> bool:
        """Whether the surface stays where it is."""
        return (
            self.target is not None
            and self.previous is not None
            and self.target.id == self.previous.id
        )


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """The session that the surface is at now, and facts to report about the switch.

    `model` answers next; `replacement` is its name if it replaces the session's own model, which is
    no longer configured. `taken_over`: the dead process that had the session open.
    """

    session: Session | None
    previous_id: str | None
    reason: Reason
    model: ModelInfo
    replacement: str | None = None
    taken_over: Attachment | None = None
    recovered: Recovered = Recovered()
    notices: tuple[str, ...] = ()


class WayBack:
    """How to undo the steps of a switch, and what to do once it has succeeded."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Awaitable[object] | object]] = []
        self._finish: list[Callable[[], None]] = []

    def undo(self, step: Callable[[], Awaitable[object] | object]) -> None:
        """Register how to undo the next step: before that step, which may fail half-way."""
        self._undo.append(step)

    def finish(self, step: Callable[[], None]) -> None:
        """Register a step for the end, which can't fail."""
        self._finish.append(step)

    async def go(self) -> None:
        """Undo all steps, the last one first, even if undoing one of them fails."""
        while self._undo:
            with contextlib.suppress(Exception):
                done = self._undo.pop()()
                if isinstance(done, Awaitable):
                    await done

    def close(self) -> None:
        """The switch has succeeded: run the final steps."""
        self._undo.clear()
        for step in self._finish:
            step()


@asynccontextmanager
async def switching(at: Surface, wanted: Switch) -> AsyncIterator[Switched]:
    """Leave a session for another one. `SwitchRefused` if a hook says no.

    If anything fails, also inside the block, everything is restored; only an aborted turn stays
    aborted.
    """
    about = at.describe_switch(wanted.previous, wanted.target, wanted.reason)
    verdict = await at.runtime.hooks.ask("session_before_switch", about)
    if verdict.cancelled:
        raise SwitchRefused(f"A hook refused the switch: {verdict.reason or 'no reason given'}")
    back = WayBack()
    try:
        switched = await _go(at, wanted, back)
        if wanted.returns or wanted.reason == "resume":
            switched = await _return_to(at, switched, read_only=wanted.read_only)
        told = await at.runtime.hooks.tell("session_switch", about)
        yield msgspec.structs.replace(switched, notices=(*switched.notices, *told))
    except BaseException:
        await unbroken(back.go())
        raise
    back.close()


async def switch(at: Surface, wanted: Switch) -> Switched:
    """Leave a session for another one, as `switching` does."""
    async with switching(at, wanted) as switched:
        return switched


async def _go(at: Surface, wanted: Switch, back: WayBack) -> Switched:
    target, previous = wanted.target, wanted.previous
    current = at.find_model(wanted.model or (previous.model if previous is not None else None))
    dead, recovered = None, Recovered()
    if target is not None:
        target = await at.store.get_session(target.id)
    if target is not None and not wanted.read_only:
        dead = await _attach(at, target, back)
        recovered = await recover(at.store, target.id)
    if previous is not None:
        await _get_up(at, wanted, previous, back)
    if target is None and wanted.reason == "new":
        await _remember_route(at, back)
        await at.store.clear_route(at.key)
    elif target is not None and not wanted.read_only:
        target = await _make_current(at, target, back)
    model = current if target is None else _find_model(at, target)
    return Switched(
        session=target,
        previous_id=None if previous is None else previous.id,
        reason=wanted.reason,
        model=model or current,
        replacement=current.name if model is None else None,
        taken_over=dead,
        recovered=recovered,
        notices=_list_notices(at, wanted, target, current if model is None else None),
    )


def _list_notices(
    at: Surface, wanted: Switch, target: Session | None, replacement: ModelInfo | None
) -> tuple[str, ...]:
    """What a person has to know before they say something in the session."""
    if target is None:
        return ()
    reader = None if wanted.read_only else word_reader(target, at.person)
    model = None if replacement is None else _word_model(target, replacement)
    return tuple(each for each in (reader, model) if each is not None)


async def _attach(at: Surface, target: Session, back: WayBack) -> Attachment | None:
    if at.attachments is None:
        return None
    if not at.attachments.has(target):
        back.undo(partial(at.attachments.release, target))
    return await at.attachments.take(target)


async def _get_up(at: Surface, wanted: Switch, previous: Session, back: WayBack) -> None:
    """Abort the turn that began here, hold back queued messages, and detach.

    Reloading the same session changes nothing; it is only detached if it is opened read-only.
    """
    runtime = at.runtime
    if wanted.stops and not wanted.is_reload:
        if not _is_others(runtime, previous.id, wanted.waiting):
            back.undo(partial(runtime.let_go_on, previous.id))
            back.finish(partial(runtime.let_go_on, previous.id, without_queue=True))
            await runtime.hold_back(previous.id)
        await runtime.stop(previous.id)
    attachments = at.attachments
    if attachments is None or not attachments.has(previous):
        return
    if wanted.read_only or not wanted.is_reload:
        back.undo(partial(attachments.take, previous))
        await attachments.release(previous)


def _is_others(runtime: Runtime, session_id: str, mine: Collection[str]) -> bool:
    """Whether other people's messages wait there too: those still get their turn."""
    return bool({each.id for each in runtime.list_queued(session_id)} - set(mine))


async def _make_current(at: Surface, session: Session, back: WayBack) -> Session:
    """Take a session out of the archive, and let the key of its own directory lead to it."""
    store = at.store
    if session.archived_at is not None:
        back.undo(partial(store.edit_session, session.id, SessionEdit(archived=True)))
        session = await store.edit_session(session.id, SessionEdit(archived=False))
    if session.platform == "cli" and not at.asks and at.place.is_home_of(session):
        await _remember_route(at, back)
        await store.set_route(at.key, session.id)
    return session


async def _remember_route(at: Surface, back: WayBack) -> None:
    before = await at.store.find_route(at.key)
    if before is None:
        back.undo(partial(at.store.clear_route, at.key))
    else:
        back.undo(partial(at.store.set_route, at.key, before.id))


def _find_model(at: Surface, session: Session) -> ModelInfo | None:
    """The session's model; None if it is no longer configured: then the current model stays."""
    try:
        return at.models.get_model(session.model)
    except ModelNotFound:
        return None


def _word_model(session: Session, current: ModelInfo) -> str:
    return f"The model {session.model} is no longer configured; going on with {current.name}."


async def _return_to(at: Surface, switched: Switched, *, read_only: bool) -> Switched:
    """Note that a person opened the session on purpose, which counts like writing there."""
    session, now = switched.session, at.runtime.clock()
    if session is None or read_only or at.judge is None or at.judge(session, now).fresh:
        return switched
    session = await note(at.store, session.id, lambda noted: noted | {RETURNED: now})
    return msgspec.structs.replace(switched, session=session)


@asynccontextmanager
async def branching(
    at: Surface, wanted: Switch, *, title: str | None = None
) -> AsyncIterator[Switched]:
    """Switch to a fork of the target. If that fails, the fork is deleted."""
    if wanted.target is None:
        raise TypeError("a branch needs a session to branch off")
    made = await fork_here(at.store, wanted.target, at.place, person=at.person)
    try:
        if title:
            made = await at.store.edit_session(made.id, SessionEdit(title=title))
        to_branch = msgspec.structs.replace(wanted, target=made, reason="fork")
        async with switching(at, to_branch) as switched:
            yield switched
    except BaseException:
        await at.store.delete_sessions([made.id])
        await at.store.purge_sessions([made.id])
        raise


async def find_framework(store: Store, session: Session) -> str | None:
    """The framework whose store this session is; None for clew's own, and for forks of such.

    A framework does not know what others say in its session, so a person goes on with a fork.
    """
    framework, key = session.origin.get("framework"), session.origin.get("key")
    if not isinstance(framework, str) or not isinstance(key, str):
        return None
    led_to = await store.find_route(key)
    return framework if led_to is not None and led_to.id == session.id else None


async def leave(
    at: Surface, session: Session, *, stops: bool = False, waiting: Collection[str] = ()
) -> bool:
    """Leave a session: abort the surface's turn, detach, and tell the hooks.

    Queued messages stay in the inbox, unless others wait there too. Returns whether a turn was
    aborted.
    """
    stopped = stops and await _stop(at.runtime, session.id, waiting)
    if at.attachments is not None:
        await at.attachments.release(session)
    about = at.describe_switch(None, session, "exit")
    with contextlib.suppress(ClewError):
        await at.runtime.hooks.tell("session_end", about)
    return stopped


async def _stop(runtime: Runtime, session_id: str, mine: Collection[str]) -> bool:
    if _is_others(runtime, session_id, mine):
        return await runtime.stop(session_id)
    await runtime.hold_back(session_id)
    try:
        return await runtime.stop(session_id)
    finally:
        runtime.let_go_on(session_id, without_queue=True)
