"""Whatever a session holds comes back from its transcript."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.core.changes import (
    AddCompaction,
    AddMessage,
    AddUsage,
    Change,
    EndTurn,
    StartTurn,
    UndoCompaction,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.message import Draft, ToolCall
from clew.core.notes import Todo
from clew.core.session import NewSession, Session, SessionEdit, SessionFacts
from clew.core.usage import Usage
from clew.ports import Store
from clew.store import open_store
from tests.sizes import pick
from tests.transfer.threads import bring, export_lines, record

# Surrogates, NUL and the escape of clew's own encoding are in the alphabet on purpose.
HOSTILE = st.sampled_from("\0\ud800\udfff\ufff9\u2028\r\n")
TEXT = st.text(st.characters(codec=None) | HOSTILE, max_size=12)
WORD = st.text(min_size=1, max_size=8)
NUMBER = st.integers(0, 2**40)
TIME = st.integers(0, 4_000_000_000_000)
MAYBE = st.none() | TEXT
USAGE = st.builds(Usage, NUMBER, NUMBER, NUMBER, NUMBER, st.none() | NUMBER, NUMBER)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT.filter(lambda name: name != "blob"), JSON, max_size=2)
BLOBS = (b"", b"\x00\xff picture", b"x" * 1000)


@st.composite
def drafts(draw: st.DrawFn, role: str | None = None) -> Draft:
    parts = draw(st.lists(OBJECT, max_size=2))
    for blob in draw(st.lists(st.sampled_from(BLOBS), max_size=2)):
        parts.append({"blob": hashlib.sha256(blob).hexdigest(), "media_type": "image/png"})
    return Draft(
        role=role or draw(st.sampled_from(("user", "assistant", "tool"))),  # type: ignore[arg-type]
        content=draw(TEXT),
        parts=tuple(parts),
        tool_call_id=draw(MAYBE),
        tool_name=draw(MAYBE),
        tool_calls=tuple(draw(st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2))),
        is_error=draw(st.booleans()),
        model=draw(MAYBE),
        usage=draw(st.none() | USAGE),
        at=draw(TIME),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Records as a living session would make them."""
    records: list[list[Change]] = []
    turns: list[str] = []
    head = 0
    for number in range(draw(st.integers(0, 5))):
        turn_id = f"turn-{number}-{draw(st.uuids())}"
        kind = draw(st.sampled_from(("turn", "turn", "loose", "compaction", "notes")))
        changes: list[Change] = []
        if kind == "turn":
            turns.append(turn_id)
            messages = draw(st.lists(drafts(), max_size=4))
            head += len(messages)
            changes = [
                StartTurn(
                    turn_id=turn_id,
                    model=draw(MAYBE),
                    reply_to=draw(st.none() | OBJECT),
                    at=draw(TIME),
                ),
                *(AddMessage(each, turn_id, draw(st.booleans())) for each in messages),
                AddUsage(usage=draw(USAGE), turn_id=turn_id, context_tokens=draw(NUMBER)),
            ]
            if draw(st.integers(0, 9)):
                status: Any = draw(st.sampled_from(("done", "failed", "aborted", "interrupted")))
                changes.append(
                    EndTurn(
                        turn_id=turn_id,
                        status=status,
                        error=draw(MAYBE),
                        partial=draw(MAYBE),
                        at=draw(TIME),
                    )
                )
        elif kind == "loose":
            head += 1
            changes = [AddMessage(draw(drafts())), AddUsage(usage=draw(USAGE))]
        elif kind == "compaction":
            changes = [
                AddCompaction(
                    compaction_id=turn_id,
                    keep_from=draw(st.integers(1, head + 1)),
                    summary=draw(TEXT),
                    short_summary=draw(MAYBE),
                    tokens_before=draw(st.none() | NUMBER),
                    tokens_after=draw(st.none() | NUMBER),
                    at=draw(TIME),
                )
            ]
            if draw(st.booleans()):
                changes.append(UndoCompaction(turn_id, draw(TIME)))
        else:
            todo = st.builds(Todo, TEXT, st.sampled_from(("pending", "done", "cancelled")))
            changes = [
                WriteScratch(draw(TEXT.filter(bool)), draw(TEXT), draw(TIME)),
                WriteTodos(tuple(draw(st.lists(todo, max_size=3)))),
            ]
        records.append(changes)
    undone = draw(st.lists(st.sampled_from(turns), unique=True)) if turns else []
    return [*records, [UndoTurn(turn_id, draw(TIME)) for turn_id in undone]]


NEW = st.builds(
    NewSession,
    key=TEXT.filter(bool),
    platform=WORD,
    kind=st.sampled_from(("cli", "dm", "group")),
    title=MAYBE,
    title_by=st.sampled_from(("user", "auto")),
    cwd=MAYBE,
    model=MAYBE,
    origin=OBJECT,
    metadata=OBJECT,
    send_policy=st.sampled_from((None, "allow", "deny")),
    created_at=TIME,
)


@settings(max_examples=pick(15, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(NEW, histories(), st.booleans(), st.booleans(), st.none() | OBJECT)
def test_an_exported_session_comes_back_equal_from_an_empty_store(
    new: NewSession,
    history: list[list[Change]],
    pinned: bool,
    archived: bool,
    last_route: dict[str, Any] | None,
) -> None:
    async def scenario(folder: str) -> None:
        async with (
            await open_store(f"sqlite://{folder}/a/sessions.db", durability="normal") as store,
            await open_store(f"sqlite://{folder}/b/sessions.db", durability="normal") as other,
        ):
            session = await store.create_session(new)
            for blob in BLOBS:
                await store.put_blob(blob, "image/png")
            for changes in history:
                await record(store, session.id, *changes)
            await store.describe_session(session.id, SessionFacts(last_route=last_route))
            if pinned or archived:
                marks = SessionEdit(pinned=pinned, archived=archived)
                await store.edit_session(session.id, marks)
            await check_round_trip(store, other, session.id)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(folder))


async def check_round_trip(store: Store, other: Store, session_id: str) -> None:
    lines = await export_lines(store, session_id)
    imported = await bring(other, lines)
    assert (imported.outcome, imported.skipped, imported.whole) == ("created", (), True)
    assert await values(other, session_id) == await values(store, session_id)

    before = await values(other, session_id, times=True)
    again = await bring(other, lines)
    assert (again.outcome, again.messages) == ("unchanged", 0)
    assert await values(other, session_id, times=True) == before

    second = await export_lines(other, session_id)
    assert second[1:] == lines[1:]
    assert without_marks(second[0]) == without_marks(lines[0])


def without_marks(line: bytes) -> dict[str, Any]:
    """The first line without what is of one store only: edits and the time of archiving."""
    fields = msgspec.json.decode(line, type=dict[str, Any])
    session = fields["session"]
    return fields | {
        "session": session | {"revision": 0, "archived_at": bool(session["archived_at"])}
    }


async def values(store: Store, session_id: str, *, times: bool = False) -> list[Any]:
    """Everything that a session is."""
    session = await store.get_session(session_id)
    if not times:
        session = of_any_store(session)
    entries = await store.list_scratch(session_id)
    messages = await store.get_messages(session_id, undone=True)
    return [
        session,
        [(each.seq, each.turn_id, each.draft) for each in messages],
        [each.seq for each in await store.get_messages(session_id)],
        await store.list_turns(session_id, limit=100),
        await store.list_compactions(session_id),
        [await store.find_scratch(session_id, each.name) for each in entries],
        await store.get_todos(session_id),
        [await store.get_blob(blob) for blob in sorted(blobs_of(messages))],
    ]


def of_any_store(session: Session) -> Session:
    archived_at = None if session.archived_at is None else 1
    return msgspec.structs.replace(session, revision=0, archived_at=archived_at)


def blobs_of(messages: Any) -> set[str]:
    return {part["blob"] for each in messages for part in each.parts if "blob" in part}
