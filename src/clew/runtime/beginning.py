"""The beginning of a session at a seat: what it is to be like, and its row in the store.

When one begins, because somebody says something or because another's time is over, is the seat's
affair; what the person has chosen for it is kept in `sitting`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from clew.core.keys import Place
from clew.core.models import ModelInfo
from clew.core.session import NewSession, Session, SessionEdit
from clew.errors import Conflict
from clew.ports import Store

SETTABLE: Final = (
    "title", "title_by", "personality", "thinking", "service_tier", "mode", "send_policy",
)  # fmt: skip
"""What a person can choose for a session before it begins, beside its model."""


class Ready(msgspec.Struct, frozen=True):
    """The session that the next message goes to, whether it has just begun, and what to say."""

    session: Session
    is_new: bool = False
    notice: str | None = None


def shape_session(
    wanted: dict[str, Any], model: ModelInfo, *, key: str, place: Place, platform: str, person: str
) -> NewSession:
    """A session as it is wanted, in this place."""
    chosen = {name: value for name, value in wanted.items() if name in SETTABLE}
    return NewSession(
        id=wanted.get("id"),
        key=key,
        platform=platform,
        person=person,
        cwd=place.cwd,
        project=place.project,
        previous_id=wanted.get("previous_id"),
        reset_reason=wanted.get("reset_reason"),
        transcript_path=wanted.get("transcript_path"),
        metadata={"directory": place.facts} | (wanted.get("noted") or {}),
        **(chosen | {"model": model.name, "provider": model.provider}),
    )


async def begin_session(store: Store, new: NewSession, *, route: str, pinned: bool) -> Session:
    """The session's row, and a key's route to it. One whose id is given is made only once."""
    try:
        session = await store.create_session(new, route=route)
    except Conflict:
        if new.id is None:
            raise
        session = await store.get_session(new.id)  # another terminal was quicker
    if pinned:
        session = await store.edit_session(session.id, SessionEdit(pinned=True))
    return session
