"""Made databases of Hermes, agsh, meka, opencode, goose and llm; opencode's older files."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.transfer.samples.talk import Exchange, Sample, Talk, iso

DIRECTORY = "/home/me/notes"


def connect(path: Path, schema: str) -> sqlite3.Connection:
    """A new database in WAL mode, as these agents use it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(schema)
    return connection


def fill(connection: sqlite3.Connection, table: str, **values: Any) -> None:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))


def done(connection: sqlite3.Connection, path: Path) -> Path:
    connection.commit()
    connection.close()
    return path


def steps(talk: Talk) -> list[tuple[int, str, Exchange]]:
    """What happens one after the other: the numbers are the same for the same exchange."""
    rows = []
    step = 0
    for each in talk.exchanges:
        for kind in ("user", "call", "result", "answer"):
            step += 1
            if each.command is None and kind in ("call", "result"):
                continue
            rows.append((step, kind, each))
    return rows


# --- Hermes -------------------------------------------------------------------------------------

HERMES_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, system_prompt TEXT,
  parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
  message_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
  cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0, cwd TEXT,
  estimated_cost_usd REAL, actual_cost_usd REAL, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
  timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT,
  reasoning_content TEXT, active INTEGER NOT NULL DEFAULT 1);
CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT);
"""


def write_hermes(home: Path, talk: Talk) -> Path:
    path = home / ".hermes" / "state.db"
    connection = connect(path, HERMES_SCHEMA)
    answers = sum(2 if each.command else 1 for each in talk.exchanges)
    fill(connection, "sessions", id=talk.native, source="cli", model="hermes-4", cwd=DIRECTORY,
         started_at=talk.at(0) / 1000, title=talk.title, input_tokens=115 * answers,
         output_tokens=7 * answers, cache_read_tokens=100 * answers)  # fmt: skip
    fill(connection, "messages", session_id=talk.native, role="session_meta", content="{}",
         timestamp=talk.at(0) / 1000)  # fmt: skip
    for each in talk.left:
        fill(connection, "messages", session_id=talk.native, role="user", content=each.question,
             timestamp=talk.at(5) / 1000, active=0)  # fmt: skip
    for step, kind, each in steps(talk):
        row: dict[str, Any] = {"session_id": talk.native, "timestamp": talk.at(step) / 1000}
        match kind:
            case "user":
                parts = [{"type": "text", "text": each.question}]
                plain = step > 1
                said = each.question if plain else "\x00json:" + json.dumps(parts)
                row |= {"role": "user", "content": said}
            case "call":
                made = {"name": "terminal", "arguments": json.dumps({"command": each.command})}
                calls = [{"id": f"call_{step}", "type": "function", "function": made}]
                row |= {"role": "assistant", "content": "", "tool_calls": json.dumps(calls)}
                row |= {"reasoning_content": "Let me look."}
            case "result":
                row |= {"role": "tool", "content": each.result, "tool_name": "terminal"}
                row |= {"tool_call_id": f"call_{step - 1}"}
            case _:
                row |= {"role": "assistant", "content": each.answer}
        fill(connection, "messages", **row)
    return done(connection, path)


# --- agsh and meka ------------------------------------------------------------------------------

AGSH_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, cwd TEXT, permission TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE tool_outputs (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, name TEXT NOT NULL,
  content TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE provider_credentials (name TEXT PRIMARY KEY, credential TEXT);
INSERT INTO provider_credentials VALUES ('claude', 'sk-never-read');
"""


def write_agsh(home: Path, talk: Talk, place: tuple[str, str] = ("agsh", "sessions.db")) -> Path:
    path = home / ".local" / "share" / place[0] / place[1]
    connection = connect(path, AGSH_SCHEMA)
    fill(connection, "sessions", id=talk.native, created_at=iso(talk.at(0)),
         updated_at=iso(talk.at(30)), cwd=DIRECTORY, permission="write")  # fmt: skip
    for step, kind, each in steps(talk):
        match kind:
            case "user":
                role = "user"
                content = f"<context>\ncwd: {DIRECTORY}\n</context>\n\n{each.question}"
            case "call":
                use = {"type": "tool_use", "id": f"toolu_{step}", "name": "execute_command"}
                role = "assistant"
                content = json.dumps([use | {"input": {"command": each.command}}])
            case "result":
                result = {"type": "tool_result", "tool_use_id": f"toolu_{step - 1}"}
                role = "tool_results"
                content = json.dumps([result | {"content": each.result, "is_error": False}])
            case _:
                role, content = "assistant", json.dumps([{"type": "text", "text": each.answer}])
        fill(connection, "messages", session_id=talk.native, role=role, content=content,
             created_at=iso(talk.at(step)))  # fmt: skip
    fill(connection, "tool_outputs", session_id=talk.native, name="output-1", content="buy milk",
         created_at=iso(talk.at(4)))  # fmt: skip
    return done(connection, path)


def write_meka(home: Path, talk: Talk) -> Path:
    return write_agsh(home, talk, ("meka", "meka.db"))


# --- opencode -----------------------------------------------------------------------------------

OPENCODE_SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, parent_id TEXT,
  slug TEXT NOT NULL, directory TEXT NOT NULL, title TEXT NOT NULL, version TEXT NOT NULL,
  revert TEXT, permission TEXT, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL,
  time_updated INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
  time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE todo (session_id TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL,
  priority TEXT NOT NULL, position INTEGER NOT NULL, time_created INTEGER, time_updated INTEGER);
"""


def opencode_rows(talk: Talk) -> list[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Messages with their parts: a call and its result are one part."""
    rows: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = []
    tokens = {"input": 10, "output": 7, "reasoning": 0, "cache": {"read": 100, "write": 5}}
    for step, kind, each in steps(talk):
        at = talk.at(step)
        native = f"msg_{step:04}"
        if kind == "user":
            parts = [
                {"type": "text", "text": each.question},
                {"type": "text", "text": "Called the Read tool", "synthetic": True},
            ]
            rows.append((native, {"role": "user", "time": {"created": at}}, parts))
            continue
        info = {
            "role": "assistant",
            "time": {"created": at, "completed": at + 500},
            "cost": 0.01,
            "modelID": "claude-sonnet-4-5",
            "providerID": "anthropic",
            "tokens": tokens,
        }
        if kind == "call":
            state = {"status": "completed", "input": {"command": each.command}, "title": "",
                     "output": each.result, "metadata": {},
                     "time": {"start": at, "end": talk.at(step + 1)}}  # fmt: skip
            parts = [{"type": "step-start"}, {"type": "reasoning", "text": "Let me look."},
                     {"type": "tool", "callID": f"call_{step}", "tool": "bash", "state": state},
                     {"type": "step-finish"}]  # fmt: skip
            rows.append((native, info, parts))
        elif kind == "answer":
            rows.append((native, info, [{"type": "text", "text": each.answer}]))
    return rows


def write_opencode(home: Path, talk: Talk) -> Path:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    connection = connect(path, OPENCODE_SCHEMA)
    fill(connection, "session", id=talk.native, project_id="p", slug="s", directory=DIRECTORY,
         title=talk.title, version="1.2.0", time_created=talk.at(0),
         time_updated=talk.at(30), permission='[{"permission":"*","action":"allow"}]')  # fmt: skip
    for native, info, parts in opencode_rows(talk):
        created = info["time"]["created"]
        times = {"time_created": created, "time_updated": created}
        fill(
            connection, "message", id=native, session_id=talk.native, data=json.dumps(info), **times
        )
        for number, part in enumerate(parts):
            fill(connection, "part", id=f"prt_{native}_{number}", message_id=native,
                 session_id=talk.native, data=json.dumps(part), **times)  # fmt: skip
    fill(connection, "todo", session_id=talk.native, content="buy milk", status="in_progress",
         priority="high", position=0)  # fmt: skip
    return done(connection, path)


def write_opencode_files(home: Path, talk: Talk) -> Path:
    storage = home / ".local" / "share" / "opencode" / "storage"

    def put(path: Path, value: dict[str, Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    for old in [*storage.rglob("msg_*.json"), *storage.rglob("prt_*.json")]:
        old.unlink()
    for native, info, parts in opencode_rows(talk):
        place = {"id": native, "sessionID": talk.native}
        put(storage / "message" / talk.native / f"{native}.json", info | place)
        for number, part in enumerate(parts):
            name = f"prt_{native}_{number}"
            put(storage / "part" / native / f"{name}.json", part | {"id": name})
    session = {"id": talk.native, "directory": DIRECTORY, "title": talk.title, "version": "0.15",
               "time": {"created": talk.at(0), "updated": talk.at(30)}}  # fmt: skip
    return put(storage / "session" / "p" / f"{talk.native}.json", session)


# --- goose --------------------------------------------------------------------------------------

GOOSE_SCHEMA = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT,
  working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP, extension_data TEXT,
  accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT,
  session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT);
"""


def write_goose(home: Path, talk: Talk) -> Path:
    path = home / ".local" / "share" / "goose" / "sessions" / "sessions.db"
    connection = connect(path, GOOSE_SCHEMA)
    answers = sum(2 if each.command else 1 for each in talk.exchanges)
    fill(connection, "sessions", id=talk.native, name=talk.title, working_dir=DIRECTORY,
         created_at=iso(talk.at(0))[:19].replace("T", " "),
         updated_at=iso(talk.at(30))[:19].replace("T", " "),
         accumulated_input_tokens=115 * answers, accumulated_output_tokens=7 * answers,
         model_config_json='{"model_name": "gpt-5"}')  # fmt: skip
    for step, kind, each in steps(talk):
        match kind:
            case "user":
                role, items = "user", [{"type": "text", "text": each.question}]
            case "call":
                call = {"status": "success", "value": {"name": "developer__shell"}}
                call["value"] |= {"arguments": {"command": each.command}}  # type: ignore[operator]
                role = "assistant"
                items = [{"type": "toolRequest", "id": f"call_{step}", "toolCall": call}]
            case "result":
                value = [{"type": "text", "text": each.result}]
                role = "user"
                items = [{"type": "toolResponse", "id": f"call_{step - 1}",
                          "toolResult": {"status": "success", "value": value}}]  # fmt: skip
            case _:
                role, items = "assistant", [{"type": "text", "text": each.answer}]
        at = talk.at(step)  # seconds or milliseconds: both occur
        fill(connection, "messages", session_id=talk.native, role=role,
             content_json=json.dumps(items), created_timestamp=at // 1000 if step < 3 else at,
             metadata_json='{"userVisible": true, "agentVisible": true}')  # fmt: skip
    return done(connection, path)


# --- llm ----------------------------------------------------------------------------------------

LLM_SCHEMA = """
CREATE TABLE _llm_migrations (name TEXT PRIMARY KEY, applied_at TEXT);
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT,
  prompt_json TEXT, options_json TEXT, response TEXT, response_json TEXT, conversation_id TEXT,
  duration_ms INTEGER, datetime_utc TEXT, input_tokens INTEGER, output_tokens INTEGER);
CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT,
  arguments TEXT, tool_call_id TEXT);
CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT,
  output TEXT, tool_call_id TEXT, instance_id INTEGER, exception TEXT);
"""
LLM_THREADS = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT,
  tool_name TEXT, text TEXT, payload TEXT);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT,
  datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT,
  tip_message_hash TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER,
  datetime_utc TEXT);
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT);
"""


def write_llm(home: Path, talk: Talk) -> Path:
    path = home / ".config" / "io.datasette.llm" / "logs.db"
    connection = connect(path, LLM_SCHEMA)
    fill(connection, "conversations", id=talk.native, name=talk.title, model="gpt-5")
    for step, kind, each in steps(talk):
        native = f"01k{step:04}"
        if kind in ("user", "result"):
            continue
        calls = kind == "call"
        asked = each.question if calls or each.command is None else ""
        fill(connection, "responses", id=native, model="gpt-5", prompt=asked,
             response="" if calls else each.answer, conversation_id=talk.native,
             datetime_utc=iso(talk.at(step))[:-1], input_tokens=115, output_tokens=7)  # fmt: skip
        if calls:
            arguments = json.dumps({"command": each.command})
            fill(connection, "tool_calls", response_id=native, name="shell", arguments=arguments,
                 tool_call_id=f"call_{step}")  # fmt: skip
        elif each.command is not None:
            fill(connection, "tool_results", response_id=native, name="shell", output=each.result,
                 tool_call_id=f"call_{step - 2}")  # fmt: skip
    return done(connection, path)


def write_llm_threads(home: Path, talk: Talk) -> Path:
    path = home / ".config" / "io.datasette.llm" / "logs.db"
    connection = connect(path, LLM_SCHEMA + LLM_THREADS)
    parent = None
    for step, kind, each in steps(talk):
        name = f"hash {step} {each.question}"
        role = {"user": "user", "result": "tool"}.get(kind, "assistant")
        fill(connection, "messages", hash=name, parent_hash=parent, role=role)
        part: dict[str, Any] = {"message_hash": name, "position": 0}
        match kind:
            case "user":
                part |= {"type": "text", "text": each.question}
            case "call":
                payload = {"name": "shell", "arguments": {"command": each.command}}
                payload["tool_call_id"] = f"call_{step}"
                part |= {"type": "tool_call", "tool_name": "shell", "payload": json.dumps(payload)}
            case "result":
                payload = {"name": "shell", "output": each.result}
                payload["tool_call_id"] = f"call_{step - 1}"
                part |= {
                    "type": "tool_result",
                    "tool_name": "shell",
                    "payload": json.dumps(payload),
                }
            case _:
                part |= {"type": "text", "text": each.answer}
        fill(connection, "parts", **part)
        if role == "assistant":
            fill(connection, "turns", id=f"01k{step:04}", thread_id=talk.native, model="gpt-5",
                 parent_message_hash=parent, tip_message_hash=name, input_tokens=115,
                 output_tokens=7, datetime_utc=iso(talk.at(step))[:-1])  # fmt: skip
        parent = name
    fill(connection, "threads", id=talk.native, name=talk.title, tip_message_hash=parent)
    return done(connection, path)


HERMES = Sample("hermes", write_hermes, lines=False, summed=True)
AGSH = Sample("agsh", write_agsh, lines=False, titled=False, usage=False)
MEKA = Sample("meka", write_meka, lines=False, titled=False, usage=False)
OPENCODE = Sample("opencode", write_opencode, lines=False)
OPENCODE_FILES = Sample("opencode", write_opencode_files, lines=False, form="files")
GOOSE = Sample("goose", write_goose, lines=False, summed=True)
LLM = Sample("llm", write_llm, lines=False)
LLM_NEW = Sample("llm", write_llm_threads, lines=False, form="threads")
