"""Begins a session at a place: its settings, its row, and the key's route to it.

A session begins with the first message of a surface, or when the reset rule ends the previous one.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, Final

import msgspec
from msgspec import UNSET

from clew.core.channels.session_choice import NOTED, Judge, last_interaction
from clew.core.keys import Place, ask_key, new_key
from clew.core.models import ModelInfo
from clew.core.session import OWNER, NewSession, Session, SessionEdit
from clew.errors import Conflict, ModelNotFound
from clew.ports import Models, Store
from clew.runtime.place.attachment import Attachments
from clew.runtime.runtime import Runtime

CHOSEN: Final = ("title", "personality", "thinking", "service_tier", "mode", "send_policy")
"""What a person can choose for a session before it begins, besides its model."""

KEPT: Final = ("model", "provider", "personality", "thinking", "service_tier", "send_policy")
"""What a new session copies from the previous one after a reset."""


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session is used from: a terminal in a directory, or a conversation on a channel.

    `key` is the surface's own. `attachments` are the sessions that a terminal of this process
    holds; a gateway and channels hold none. `judge` is the reset rule: whether a session continues;
    without it all do. `asks`: it asks a single question, so no key changes where it leads.
    """

    runtime: Runtime
    models: Models
    place: Place
    key: str
    person: str = OWNER
    platform: str = "cli"
    attachments: Attachments | None = None
    judge: Judge | None = None
    asks: bool = False

    @property
    def store(self) -> Store:
        """The store, through the runtime."""
        return self.runtime.store

    def find_model(self, name: str | None) -> ModelInfo:
        """The model of that name; the default model if it is not configured."""
        try:
            return self.models.get_model(name)
        except ModelNotFound:
            return self.models.get_model()

    def describe_switch(
        self, previous: Session | None, target: Session | None, reason: str
    ) -> dict[str, Any]:
        """The payload of the hooks for a switch."""
        return {
            "session_id": None if target is None else target.id,
            "previous_id": None if previous is None else previous.id,
            "reason": reason,
            "cwd": self.place.cwd,
            "at": self.runtime.clock(),
        }


async def begin(
    at: Surface,
    wanted: SessionEdit,
    *,
    previous_id: str | None = None,
    transcript_path: str | None = None,
    yields: bool = False,
) -> Session:
    """Begin a session with the person's choices, and let the surface's key lead to it.

    `yields`: unless the key leads to a session already.
    """
    chosen = {name: value for name in CHOSEN if (value := getattr(wanted, name)) is not UNSET}
    if chosen.get("title"):
        chosen["title_by"] = "user"
    model = at.find_model(None if wanted.model is UNSET else wanted.model)
    chosen |= {"model": model.name, "provider": model.provider}
    return await _create(
        at,
        pinned=wanted.pinned is True,
        previous_id=previous_id,
        transcript_path=transcript_path,
        yields=yields,
        **chosen,
    )


async def renew(at: Surface, session: Session) -> Session:
    """Return the session, or its successor if the reset rule ends it and nothing runs in it.

    The successor keeps the person's choices. A hook may refuse it; then the old session continues.
    """
    if at.judge is None or at.runtime.is_running(session.id):
        return session
    verdict = at.judge(session, at.runtime.clock())
    if verdict.fresh:
        return session
    about = at.describe_switch(session, None, "new")
    asked = await at.runtime.hooks.ask("session_before_switch", about)
    if asked.cancelled:
        return session
    new = await _create(
        at,
        id=_name_successor(session),
        pinned=session.pinned,
        previous_id=session.id,
        reset_reason=verdict.reason,
        noted={name: session.metadata[name] for name in NOTED if name in session.metadata},
        **_keep_choices(at, session),
    )
    if session.pinned:
        await at.store.edit_session(session.id, SessionEdit(pinned=False))
    if at.attachments is not None:
        await at.attachments.release(session)
    await at.runtime.hooks.tell("session_switch", about | {"session_id": new.id})
    return new


def _keep_choices(at: Surface, session: Session) -> dict[str, Any]:
    kept = {name: getattr(session, name) for name in KEPT}
    if session.title_by == "user":
        kept |= {"title": session.title, "title_by": "user"}
    model = at.find_model(session.model)
    return kept | {"model": model.name, "provider": model.provider}


def _name_successor(session: Session) -> str:
    """The id of the session that follows after a reset.

    It is derived from the last interaction, so that several terminals that do this at once get the
    same new session.
    """
    digest = hashlib.sha256(f"reset {session.id} {last_interaction(session)}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


async def _name_key(at: Surface) -> str:
    """The key that a new session has as its own."""
    if at.asks:
        return ask_key(at.place.basename, at.runtime.clock())
    is_known = await at.store.find_keys(at.key, limit=1)
    return new_key(at.key, at.runtime.clock()) if is_known else at.key


async def _create(
    at: Surface,
    *,
    pinned: bool = False,
    noted: dict[str, Any] | None = None,
    yields: bool = False,
    **facts: Any,
) -> Session:
    """Make the session's row and the route to it, and attach it. A given id is made only once."""
    store = at.store
    new = NewSession(
        key=await _name_key(at),
        platform=at.platform,
        person=at.person,
        cwd=at.place.cwd,
        project=at.place.project,
        metadata={"directory": at.place.facts} | (noted or {}),
        **facts,
    )
    try:
        session = await store.create_session(new, route=None if at.asks else at.key, yields=yields)
    except Conflict:
        if new.id is None:
            raise
        session = await store.get_session(new.id)  # another terminal was quicker
    if pinned:
        session = await store.edit_session(session.id, SessionEdit(pinned=True))
    if at.attachments is not None:
        await at.attachments.take(session)
    return session
