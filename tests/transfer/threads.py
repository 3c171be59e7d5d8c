"""Sessions for the tests: written through the ports, read back as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clew.api.sessions import Imported
from clew.core.changes import AddMessage, Change, EndTurn, StartTurn
from clew.core.message import Draft, Role
from clew.core.session import NewSession, Session
from clew.ports import Store
from clew.transfer import export_session, import_transcript


async def make_session(store: Store, *changes: Change, **fields: Any) -> Session:
    """A session with these changes recorded."""
    given: dict[str, Any] = {"key": "cli:test", "created_at": 1_000} | fields
    new = NewSession(**given)
    session = await store.create_session(new)
    return await record(store, session.id, *changes)


async def record(store: Store, session_id: str, *changes: Change) -> Session:
    lease = await store.acquire_lease(session_id, "test")
    if changes:
        await store.record(session_id, lease.epoch, *changes)
    await store.release_lease(lease)
    return await store.get_session(session_id)


def said(*texts: str, turn: str | None = None, start: int = 2_000) -> list[Change]:
    """The owner and the assistant in turn."""
    roles: tuple[Role, ...] = ("user", "assistant")
    return [
        AddMessage(Draft(role=roles[index % 2], content=text, at=start + index), turn)
        for index, text in enumerate(texts)
    ]


def whole_turn(turn_id: str, *texts: str, start: int = 2_000) -> list[Change]:
    return [
        StartTurn(turn_id=turn_id, at=start),
        *said(*texts, turn=turn_id, start=start),
        EndTurn(turn_id=turn_id, status="done", at=start + len(texts)),
    ]


async def export_lines(store: Store, session_id: str) -> list[bytes]:
    session = await store.get_session(session_id)
    pieces = export_session(store, session, "jsonl")
    return [piece.encode() async for piece in pieces]


async def export_text(store: Store, session_id: str, kind: Any, **options: Any) -> str:
    session = await store.get_session(session_id)
    return "".join([piece async for piece in export_session(store, session, kind, **options)])


async def bring(store: Store, lines: Iterable[bytes], **options: Any) -> Imported:
    return await import_transcript(store, list(lines), **options)
