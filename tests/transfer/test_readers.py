"""What is particular to each agent: compactions, sub-agents, branches of tools, notes."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.core.notes import Todo
from clew.core.session import Session
from clew.ports import Store
from clew.transfer.histories import Brought, import_sources
from clew.transfer.readers.catalogue import get_reader, list_readers
from clew.transfer.readers.reader import Home
from tests.transfer.samples import claude_code, codex, databases, pi
from tests.transfer.samples.talk import FIRST, LONGER, SECOND, THIRD, WHOLE, iso, write_lines

LATER = 4_000_000_000_000


async def bring(store: Store, agent: str, home: Path, **options: Any) -> dict[str, Brought]:
    reader = get_reader(agent, list_readers())
    sources = list(reader.find(Home(home, {})))
    results = [each async for each in import_sources(store, reader, sources, now=LATER, **options)]
    assert [each.error for each in results] == [None] * len(results)
    return {each.native_id: each for each in results}


async def bring_one(store: Store, agent: str, home: Path) -> tuple[Session, Brought]:
    (brought,) = (await bring(store, agent, home)).values()
    return await store.get_session(brought.session_id or ""), brought


async def texts(store: Store, session: Session) -> list[str]:
    return [each.content for each in await store.get_messages(session.id)]


# --- Claude Code --------------------------------------------------------------------------------


async def test_a_compaction_of_claude_code_keeps_the_past(store: Store, tmp_path: Path) -> None:
    writer = claude_code.Writer(WHOLE)
    writer.exchange(FIRST)
    before, writer.parent = writer.parent, None
    writer.line(
        "system", subtype="compact_boundary", logicalParentUuid=before,
        compactMetadata={"trigger": "auto", "preTokens": 900},
    )  # fmt: skip
    writer.user("They looked around.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    writer.exchange(THIRD)
    folder = tmp_path / ".claude" / "projects" / "-home-me-notes"
    write_lines(folder / f"{WHOLE.native}.jsonl", writer.lines)
    session, _ = await bring_one(store, "claude-code", tmp_path)

    assert (await texts(store, session))[0] == FIRST.question
    assert session.head == 6
    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.summary, compaction.keep_from) == ("They looked around.", 5)
    assert compaction.tokens_before == 900


async def test_parallel_tools_of_claude_code_keep_all_their_results(
    store: Store, tmp_path: Path
) -> None:
    writer = claude_code.Writer(WHOLE)
    writer.user("Do both.")
    for name in ("one", "two"):
        use = {
            "type": "tool_use",
            "id": f"toolu_{name}",
            "name": "Bash",
            "input": {"command": name},
        }
        writer.assistant("msg_1", use, stop="tool_use")
    calls = {line["message"]["content"][0]["id"]: line["uuid"] for line in writer.lines[1:]}
    for native, parent in calls.items():
        writer.parent = parent  # each result is the child of its own call
        result = {"type": "tool_result", "tool_use_id": native, "content": f"did {native}"}
        writer.user([result])
    writer.assistant("msg_2", {"type": "text", "text": "Both are done."})
    folder = tmp_path / ".claude" / "projects" / "-home-me-notes"
    write_lines(folder / f"{WHOLE.native}.jsonl", writer.lines)
    session, brought = await bring_one(store, "claude-code", tmp_path)

    rows = await store.get_messages(session.id)
    assert [each.role for each in rows] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call.id for call in rows[1].tool_calls] == ["toolu_one", "toolu_two"]
    assert brought.branches == 0
    assert session.usage.api_calls == 2  # usage is repeated on each line of an answer


async def test_what_claude_code_says_to_itself_is_no_talk(store: Store, tmp_path: Path) -> None:
    writer = claude_code.Writer(WHOLE)
    writer.user("Caveat: …", isMeta=True)
    writer.user("<command-name>/model</command-name>\n<command-message>model</command-message>")
    writer.user("<local-command-stdout>Set model</local-command-stdout>")
    writer.user("Hello.")
    failed = {"type": "text", "text": "API Error: 500 overloaded"}
    writer.assistant("msg_1", failed, stop="stop_sequence")
    writer.lines[-1]["isApiErrorMessage"] = True
    todos = [{"content": "buy milk", "status": "in_progress", "activeForm": "Buying milk"}]
    use = {"type": "tool_use", "id": "toolu_1", "name": "TodoWrite", "input": {"todos": todos}}
    writer.user("Again.")
    writer.assistant("msg_2", use)
    folder = tmp_path / ".claude" / "projects" / "-home-me-notes"
    write_lines(folder / f"{WHOLE.native}.jsonl", writer.lines)
    session, brought = await bring_one(store, "claude-code", tmp_path)

    assert (await texts(store, session))[::2] == ["Hello.", "Again."]
    assert brought.lost == {"commands and notes of the program": 3}
    turns = await store.list_turns(session.id)
    assert [(each.status, each.error) for each in turns] == [
        ("failed", "API Error: 500 overloaded"),
        ("done", None),
    ]
    assert await store.get_todos(session.id) == (Todo("buy milk", "in_progress"),)


async def test_sub_agents_of_claude_code_are_sessions_of_their_own(
    store: Store, tmp_path: Path
) -> None:
    path = claude_code.write_claude_code(tmp_path, WHOLE)
    writer = claude_code.Writer(WHOLE)
    writer.exchange(THIRD)
    for line in writer.lines:
        line |= {"isSidechain": True, "agentId": "a1"}
    write_lines(path.with_suffix("") / "subagents" / "agent-a1.jsonl", writer.lines)
    found = await bring(store, "claude-code", tmp_path)

    child = await store.get_session(found[f"{WHOLE.native}/agent-a1"].session_id or "")
    assert (child.kind, child.parent_id) == ("subagent", found[WHOLE.native].session_id)
    assert await texts(store, child) == [THIRD.question, THIRD.answer]


# --- Codex --------------------------------------------------------------------------------------


async def test_a_compaction_and_an_exit_code_of_codex(store: Store, tmp_path: Path) -> None:
    writer = codex.Writer(WHOLE)
    writer.line("session_meta", {"id": WHOLE.native, "cwd": "/x", "timestamp": iso(WHOLE.at(0))})
    writer.exchange(0, FIRST)
    end = next(each for each in writer.lines if each["payload"].get("type") == "exec_command_end")
    end["payload"]["exit_code"] = 2
    writer.line("compacted", {"message": "They looked.", "replacement_history": []})
    writer.event(type="context_compacted")
    writer.exchange(1, THIRD)
    writer.event(type="token_count", info=None)
    path = (
        tmp_path
        / ".codex"
        / "archived_sessions"
        / f"rollout-2025-10-09T08-53-20-{WHOLE.native}.jsonl"
    )
    write_lines(path, writer.lines)
    session, _ = await bring_one(store, "codex", tmp_path)

    assert [each.is_error for each in await store.get_messages(session.id)][2] is True
    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.summary, compaction.keep_from) == ("They looked.", 5)


async def test_the_oldest_files_of_codex_have_no_envelope(store: Store, tmp_path: Path) -> None:
    said = [{"type": "input_text", "text": "Hello."}]
    answer = [{"type": "output_text", "text": "Hi."}]
    lines = [
        {"id": WHOLE.native, "timestamp": iso(WHOLE.at(0)), "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "id": None, "role": "user", "content": said},
        {"type": "message", "id": None, "role": "assistant", "content": answer},
    ]
    path = tmp_path / ".codex" / "sessions" / "2025" / "05" / "01"
    write_lines(path / f"rollout-2025-05-01T00-00-00-{WHOLE.native}.jsonl", lines)
    session, brought = await bring_one(store, "codex", tmp_path)
    assert await texts(store, session) == ["Hello.", "Hi."]
    assert (session.created_at, brought.lost) == (WHOLE.at(0), {})


# --- pi and its relatives -----------------------------------------------------------------------


async def test_a_compaction_of_pi_keeps_what_it_names(store: Store, tmp_path: Path) -> None:
    writer = pi.Writer(WHOLE)
    writer.tree(named=False)
    first = writer.lines[-4]["id"]
    writer.entry("compaction", summary="They looked.", firstKeptEntryId=first, tokensBefore=900)
    ran = {"role": "bashExecution", "command": "ls", "output": "notes.txt", "exitCode": 0}
    writer.entry("message", message=ran)
    writer.entry("custom", customType="x", data={})
    writer.entry("custom_message", customType="x", content="Mind the milk.", display=True)
    folder = tmp_path / ".pi" / "agent" / "sessions" / "--x--"
    write_lines(folder / f"2025-10-09T08-53-20-000Z_{WHOLE.native}.jsonl", writer.lines)
    session, brought = await bring_one(store, "pi", tmp_path)

    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.keep_from, compaction.made_at_seq) == (5, 8)
    assert (await texts(store, session))[8:] == ["Ran `ls`\n```\nnotes.txt\n```", "Mind the milk."]
    assert brought.lost == {"custom entries": 1}


async def test_oh_my_pi_has_images_beside_and_sub_agents_below(
    store: Store, tmp_path: Path
) -> None:
    path = pi.write_omp(tmp_path, WHOLE)
    data = b"\x89PNG not really"
    name = hashlib.sha256(data).hexdigest()
    blobs = tmp_path / ".omp" / "agent" / "blobs"
    blobs.mkdir()
    (blobs / name).write_bytes(data)
    writer = pi.Writer(WHOLE)
    image = {"type": "image", "data": f"blob:sha256:{name}", "mimeType": "image/png"}
    writer.lines.append({"type": "session", "version": 3, "id": "b" * 8, "cwd": "/x"})
    writer.message("user", [{"type": "text", "text": "Look."}, image])
    write_lines(path.with_suffix("") / "bbbbbbbb.jsonl", writer.lines)
    found = await bring(store, "oh-my-pi", tmp_path)

    child = await store.get_session(found["bbbbbbbb"].session_id or "")
    assert child.parent_id == found[WHOLE.native].session_id
    (message,) = await store.get_messages(child.id)
    assert message.parts[0]["blob"] == name


async def test_an_answer_that_was_never_sent_is_left_out(store: Store, tmp_path: Path) -> None:
    path = pi.write_clawdbot(tmp_path, WHOLE)
    writer = pi.Writer(WHOLE, pi.envelope)
    writer.tree(named=False)
    writer.message("user", [{"type": "text", "text": "(nothing for you)"}])
    writer.answer({"type": "text", "text": "NO_REPLY"})
    write_lines(path, writer.lines)
    session, brought = await bring_one(store, "clawdbot", tmp_path)
    assert brought.lost == {"answers that were never sent": 1}
    assert "NO_REPLY" not in await texts(store, session)


async def test_without_zstd_it_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pi.write_openclaw(tmp_path, WHOLE)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    reader = get_reader("openclaw", list_readers())
    sources = list(reader.find(Home(tmp_path, {})))
    (brought,) = [each async for each in import_sources(store, reader, sources, now=LATER)]
    assert brought.outcome == "failed"
    assert "clew[zstd]" in (brought.error or "")


# --- databases ----------------------------------------------------------------------------------


async def test_a_compression_of_hermes_is_one_session(store: Store, tmp_path: Path) -> None:
    path = databases.write_hermes(tmp_path, WHOLE)
    connection = databases.sqlite3.connect(path)
    connection.execute("UPDATE sessions SET end_reason = 'compression'")
    databases.fill(connection, "sessions", id="next", source="cli", started_at=WHOLE.at(40) / 1000,
                   parent_session_id=WHOLE.native, title="Renamed")  # fmt: skip
    rows = [
        ("user", "[CONTEXT COMPACTION — REFERENCE ONLY] They looked."),
        ("assistant", SECOND.answer),
        ("user", THIRD.question),
        ("assistant", THIRD.answer),
    ]
    for number, (role, text) in enumerate(rows):
        at = WHOLE.at(40 + number) / 1000
        databases.fill(
            connection, "messages", session_id="next", role=role, content=text, timestamp=at
        )
    databases.done(connection, path)
    session, _ = await bring_one(store, "hermes", tmp_path)

    assert session.title == "Renamed"
    assert (await texts(store, session))[-3:] == [SECOND.answer, THIRD.question, THIRD.answer]
    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.keep_from, compaction.made_at_seq) == (8, 8)


async def test_a_compaction_of_opencode_and_its_sub_agent(store: Store, tmp_path: Path) -> None:
    path = databases.write_opencode(tmp_path, WHOLE)
    connection = databases.sqlite3.connect(path)
    now = WHOLE.at(40)
    times = {"time_created": now, "time_updated": now}
    rows: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        (
            "msg_0040",
            {"role": "user", "time": {"created": now}},
            {"type": "compaction", "auto": True},
        ),
        (
            "msg_0041",
            {"role": "assistant", "summary": True, "time": {"created": now, "completed": now}},
            {"type": "text", "text": "They looked."},
        ),
        (
            "msg_0042",
            {"role": "user", "time": {"created": now}},
            {"type": "text", "text": "Go on."},
        ),
    ]
    for native, info, part in rows:
        data = json.dumps(info)
        databases.fill(
            connection, "message", id=native, session_id=WHOLE.native, data=data, **times
        )
        databases.fill(connection, "part", id=f"prt_{native}", message_id=native,
                       session_id=WHOLE.native, data=json.dumps(part), **times)  # fmt: skip
    databases.fill(
        connection,
        "session",
        id="ses_child",
        project_id="p",
        slug="s",
        directory="/x",
        title="New session - 2025-10-09",
        version="1",
        parent_id=WHOLE.native,
        **times,
    )
    said = json.dumps({"role": "user", "time": {"created": now}})
    databases.fill(connection, "message", id="msg_c", session_id="ses_child", data=said, **times)
    part = json.dumps({"type": "text", "text": "Search."})
    databases.fill(connection, "part", id="prt_c", message_id="msg_c", session_id="ses_child",
                   data=part, **times)  # fmt: skip
    databases.done(connection, path)
    found = await bring(store, "opencode", tmp_path)

    session = await store.get_session(found[WHOLE.native].session_id or "")
    child = await store.get_session(found["ses_child"].session_id or "")
    assert (child.parent_id, child.title) == (session.id, None)
    assert (await texts(store, session))[-1] == "Go on."
    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.summary, compaction.keep_from) == ("They looked.", 9)
    assert await store.get_todos(session.id) == (Todo("buy milk", "in_progress"),)


async def test_a_summary_of_goose_is_a_compaction(store: Store, tmp_path: Path) -> None:
    path = databases.write_goose(tmp_path, WHOLE)
    connection = databases.sqlite3.connect(path)
    hidden = '{"userVisible": false, "agentVisible": true}'
    connection.execute("""UPDATE messages SET metadata_json = '{"userVisible": true}'""")
    for role, text, shown in (("user", "They looked.", hidden), ("assistant", "I see.", hidden),
                              ("user", "Go on.", "{}")):  # fmt: skip
        items = json.dumps([{"type": "text", "text": text}])
        databases.fill(
            connection,
            "messages",
            session_id=WHOLE.native,
            role=role,
            content_json=items,
            created_timestamp=WHOLE.at(40),
            metadata_json=shown,
        )
    databases.done(connection, path)
    session, brought = await bring_one(store, "goose", tmp_path)
    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.summary, compaction.keep_from) == ("They looked.", 9)
    assert (await texts(store, session))[-1] == "Go on."
    assert brought.lost == {"messages for the agent alone": 1}


async def test_agsh_repeats_what_a_compaction_kept(store: Store, tmp_path: Path) -> None:
    path = databases.write_agsh(tmp_path, WHOLE)
    connection = databases.sqlite3.connect(path)
    summary = {"role": "user", "content": [{"type": "text", "text": "They looked."}]}
    boundary = {"CompactBoundary": {"summary": summary, "replaced_count": 8}}
    repair = {"Repair": {"replaced_count": 1, "messages": []}}
    for role, content in (
        ("compact_boundary", json.dumps(boundary)),
        ("assistant", json.dumps([{"type": "text", "text": SECOND.answer}])),
        ("user", "Go on."),
        ("user", "No, wait."),
        ("repair", json.dumps(repair)),
    ):
        databases.fill(connection, "messages", session_id=WHOLE.native, role=role, content=content,
                       created_at=iso(WHOLE.at(40)))  # fmt: skip
    databases.done(connection, path)
    session, _ = await bring_one(store, "agsh", tmp_path)
    assert (await texts(store, session))[-2:] == [SECOND.answer, "Go on."]
    (compaction,) = await store.list_compactions(session.id)
    assert (compaction.keep_from, compaction.made_at_seq) == (8, 8)
    entry = await store.find_scratch(session.id, "output-1")
    assert entry is not None
    assert entry.content == "buy milk"


async def test_a_database_that_another_process_writes_is_read_as_it_is(
    store: Store, tmp_path: Path
) -> None:
    path = databases.write_goose(tmp_path, LONGER)
    connection = databases.sqlite3.connect(path)  # it keeps the WAL open
    connection.execute("UPDATE sessions SET name = 'Another name'")
    connection.commit()
    session, _ = await bring_one(store, "goose", tmp_path)
    assert session.title == "Another name"
    connection.close()
