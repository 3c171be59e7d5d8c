"""Where a seat is, as a value: its session, or what the next one will be like.

Going somewhere makes a new value, so that going back is easy. How one gets there is the seat's
affair.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from clew.core.models import ModelInfo
from clew.core.placing import NOTED
from clew.core.session import MAX_TITLE, Session, SessionEdit
from clew.errors import InvalidInput, ModelNotFound
from clew.ports import Models
from clew.runtime.journey import Journey

Crumb = Callable[[str | None, bool], None]
"""Remember where this terminal was: the session, and whether `/new` was the last act."""

KEPT = ("model", "provider", "personality", "thinking", "service_tier")
"""What a new session takes over from the one that the person comes from."""

FRESH = ("title", "mode", "pinned", "transcript_path")
"""What it does not."""


class Sitting(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is used in place of the session's own; `wanted` is for a session that is to come."""

    session: Session | None = None
    model: str | None = None
    read_only: bool = False
    wanted: dict[str, Any] = {}

    def setting(self, name: str) -> Any:
        """A setting of the session (`model`, `mode`, …), or what the next one will have."""
        return self.wanted.get(name) if self.session is None else getattr(self.session, name)


def find_model(at: Sitting, models: Models) -> ModelInfo:
    """The model that the next turn uses; the default where the session's is not configured."""
    if at.model is not None:
        return models.get_model(at.model)
    try:
        return models.get_model(at.setting("model"))
    except ModelNotFound:
        return models.get_model()


def want(at: Sitting, edit: SessionEdit) -> Sitting:
    """A person's change, to the session that the first message makes."""
    _check_title(edit.title)
    given = msgspec.structs.asdict(edit)
    wanted = at.wanted | {k: v for k, v in given.items() if v is not UNSET}
    wanted |= {"title_by": "user" if wanted.get("title") else None}
    return msgspec.structs.replace(at, wanted=wanted)


def _check_title(title: str | UnsetType | None) -> None:
    """What the store would say, before there is a row to say it about."""
    if isinstance(title, str) and len(title.strip()) > MAX_TITLE:
        raise InvalidInput(f"A title can have {MAX_TITLE} characters; this has {len(title)}.")


def sit_at_nothing(before: Sitting) -> Sitting:
    """The first message makes a session, with what the person had chosen before."""
    wanted = before.wanted | dict.fromkeys(FRESH)
    if before.session is not None:
        wanted |= {name: getattr(before.session, name) for name in KEPT}
        wanted |= {"previous_id": before.session.id}
    return Sitting(model=before.model, wanted=wanted)


def sit_after_reset(before: Sitting, session: Session, reason: str | None, at: int) -> Sitting:
    """The same where a session ends by itself: with all that the person has chosen for it.

    Of several who find that at once, all get one new session: `at`, when a person was last there,
    is the same for them.
    """
    wanted = sit_at_nothing(before).wanted
    if session.title_by == "user":
        wanted |= {"title": session.title, "title_by": "user"}
    digest = hashlib.sha256(f"reset {session.id} {at}".encode()).digest()
    wanted |= {
        "id": str(uuid.UUID(bytes=digest[:16], version=4)),
        "reset_reason": reason,
        "send_policy": session.send_policy,
        "pinned": session.pinned,
        "noted": {name: session.metadata[name] for name in NOTED if name in session.metadata},
    }
    return Sitting(model=before.model, wanted=wanted)


def sit_at(
    before: Sitting, session: Session, models: Models, current: ModelInfo, *, read_only: bool
) -> tuple[Sitting, tuple[str, ...]]:
    """At a session with all that it is set to, and what there is to say about it.

    Where its model is no longer configured, the current one stays.
    """
    model: str | None = None
    notices: tuple[str, ...] = ()
    try:
        models.get_model(session.model)
    except ModelNotFound:
        model = current.name
        notices = (f"The model {session.model} is no longer configured; going on with {model}.",)
    sitting = Sitting(session=session, model=model, read_only=read_only, wanted=before.wanted)
    return sitting, notices


class Trail:
    """The breadcrumbs of a terminal, the last one of which is remembered for the way back."""

    def __init__(self, write: Crumb) -> None:
        self._write = write
        self._last: tuple[str | None, bool] | None = None

    def leave(
        self, session: Session | None, journey: Journey | None = None, *, fresh: bool = False
    ) -> None:
        """Remember where this terminal is. What an earlier chat has left there is not known."""
        if journey is not None and self._last is not None:
            journey.back(partial(self._write, *self._last))
            journey.back(partial(setattr, self, "_last", self._last))
        self._last = (None if session is None else session.id, fresh)
        self._write(*self._last)
