"""Sessions written for other agents, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.core.changes import AddCompaction, AddMessage, EndTurn, StartTurn
from clew.core.message import Draft, ToolCall
from clew.core.session import Session
from clew.core.usage import Usage
from clew.ports import Store
from clew.transfer.agent_files import AgentFormat, place_in, write_agent_file
from clew.transfer.histories import import_sources
from clew.transfer.readers.catalogue import get_reader, list_readers
from tests.transfer.samples.claude_code import CLAUDE_CODE
from tests.transfer.samples.codex import CODEX
from tests.transfer.samples.talk import LONGER, Sample
from tests.transfer.test_histories import bring_one
from tests.transfer.threads import make_session

LATER = 4_000_000_000_000
KINDS: tuple[AgentFormat, ...] = ("claude-code", "codex")
AT = 1_760_000_000_000


async def read_back(
    store: Store, other: Store, session: Session, kind: AgentFormat, at: Path
) -> Session:
    """The session, written for an agent and imported from its file into another store."""
    pieces = [piece async for piece in write_agent_file(store, session, kind)]
    name = f"rollout-2025-10-09T08-53-20-{session.id}" if kind == "codex" else session.id
    path = at / f"{name}.jsonl"
    path.write_text(place_in("".join(pieces), "/home/me/notes"), encoding="utf-8")
    reader = get_reader(kind, list_readers())
    sources = list(reader.open(path))
    (brought,) = [each async for each in import_sources(other, reader, sources, now=LATER)]
    assert (brought.outcome, brought.broken, brought.lost) == ("created", 0, {})
    return await other.get_session(brought.session_id or "")


async def drafts(store: Store, session: Session) -> list[Draft]:
    return [each.draft for each in await store.get_messages(session.id)]


@pytest.mark.parametrize("sample", [CLAUDE_CODE, CODEX], ids=lambda each: each.agent)
async def test_a_history_comes_back_as_it_was(
    store: Store, other: Store, tmp_path: Path, sample: Sample
) -> None:
    brought = await bring_one(store, sample, sample.write(tmp_path, LONGER), tmp_path)
    session = await store.get_session(brought.session_id or "")
    kind: Any = sample.agent
    back = await read_back(store, other, session, kind, tmp_path)

    assert await drafts(other, back) == await drafts(store, session)
    assert back.usage == session.usage
    assert back.created_at <= session.created_at + 1_000
    assert back.origin["directory"] == session.origin["directory"]
    if kind == "claude-code":
        assert (back.title, back.title_by) == (session.title, session.title_by)


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_that_both_know_is_lost(
    store: Store, other: Store, tmp_path: Path, kind: AgentFormat
) -> None:
    blob = await store.put_blob(b"\x89PNG not really", "image/png")
    image = {"type": "file", "blob": blob, "media_type": "image/png"}
    usage = Usage(115, 7, 100, 0, None, 1)
    calls = (ToolCall("call_1", "shell", '{"command":"ls"}'), ToolCall("call_2", "shell", "{}"))
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    rows = [
        Draft(role="user", content="Look\u2028at “this” 🥛", parts=(image,), at=AT),
        Draft(
            role="assistant",
            content="I look.",
            parts=(
                thought if kind == "claude-code" else {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "span": [0, 7]},
                {"type": "tool_call", "index": 0},
                {"type": "tool_call", "index": 1},
            ),
            tool_calls=calls,
            model="gpt-5",
            usage=usage,
            at=AT + 1_000,
        ),
        Draft(role="tool", content="a\nb", tool_call_id="call_1", tool_name="shell", at=AT + 2_000),
        Draft(
            role="tool", content="no", tool_call_id="call_2", tool_name="shell", is_error=True,
            at=AT + 2_000,
        ),
        Draft(role="assistant", content="Two files.", model="gpt-5", usage=usage, at=AT + 3_000),
        Draft(role="user", content="Thanks.", at=AT + 4_000),
        Draft(role="assistant", content="Gladly.", model="gpt-6", usage=usage, at=AT + 5_000),
    ]  # fmt: skip
    compaction = AddCompaction(
        compaction_id="c", keep_from=6, summary="They looked.", tokens_before=900, at=AT + 3_500
    )
    session = await make_session(
        store,
        StartTurn(turn_id="one", at=AT),
        *(AddMessage(each, "one") for each in rows[:5]),
        EndTurn(turn_id="one", status="done", at=AT + 3_000),
        compaction,
        StartTurn(turn_id="two", at=AT + 4_000),
        *(AddMessage(each, "two") for each in rows[5:]),
        EndTurn(turn_id="two", status="done", at=AT + 5_000),
        title="Two files",
        title_by="user",
        created_at=AT,
    )
    back = await read_back(store, other, session, kind, tmp_path)

    assert await drafts(other, back) == rows
    (kept,) = await other.list_compactions(back.id)
    assert (kept.summary, kept.keep_from, kept.made_at_seq) == ("They looked.", 6, 5)
    assert (await other.get_blob(blob)).data == b"\x89PNG not really"
    assert back.usage.output_tokens == 21


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_exported_does_not_come_back_as_another_session(
    store: Store, tmp_path: Path, kind: AgentFormat
) -> None:
    said = [
        Draft(role="user", content="Hello.", at=AT),
        Draft(
            role="assistant", content="Hi.", parts=({"type": "thinking", "thinking": "Hm."},), at=AT
        ),
    ]
    session = await make_session(store, *map(AddMessage, said), created_at=AT)
    pieces = [piece async for piece in write_agent_file(store, session, kind)]
    path = tmp_path / (
        f"rollout-2025-10-09T08-53-20-{session.id}.jsonl"
        if kind == "codex"
        else f"{session.id}.jsonl"
    )
    path.write_text(place_in("".join(pieces), "/home/me"), encoding="utf-8")
    reader = get_reader(kind, list_readers())
    for _ in range(2):
        sources = list(reader.open(path))
        (brought,) = [each async for each in import_sources(store, reader, sources, now=LATER)]
        assert (brought.outcome, brought.session_id) == ("unchanged", session.id)
    assert (await store.stats()).sessions == 1
    assert await store.get_session(session.id) == session
