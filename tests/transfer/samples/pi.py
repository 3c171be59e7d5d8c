"""Made sessions of pi, oh-my-pi, Clawdbot and OpenClaw: one format, four places."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import zstandard

from tests.transfer.samples.talk import BEGIN, Exchange, Sample, Talk, dump, iso, write_lines

USAGE = {
    "input": 10,
    "output": 7,
    "cacheRead": 100,
    "cacheWrite": 5,
    "totalTokens": 122,
    "cost": {"input": 0.1, "output": 0.1, "cacheRead": 0, "cacheWrite": 0, "total": 0.2},
}


class Writer:
    def __init__(self, talk: Talk, wrap: Callable[[str, int], str] = lambda text, _: text) -> None:
        self.talk = talk
        self.wrap = wrap
        self.lines: list[dict[str, Any]] = []
        self.parent: str | None = None
        self.step = 0

    def entry(self, kind: str, **more: Any) -> None:
        self.step += 1
        native = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.step}:{more}").hex[:8]
        base = {"type": kind, "id": native, "parentId": self.parent}
        self.lines.append(base | {"timestamp": iso(self.talk.at(self.step))} | more)
        self.parent = native

    def message(self, role: str, content: Any, **more: Any) -> None:
        at = self.talk.at(self.step + 1)
        self.entry("message", message={"role": role, "content": content, "timestamp": at} | more)

    def answer(self, *content: dict[str, Any]) -> None:
        self.message(
            "assistant",
            list(content),
            api="anthropic-messages",
            provider="anthropic",
            model="claude-sonnet-4-5",
            usage=USAGE,
            stopReason="stop",
        )

    def exchange(self, each: Exchange) -> None:
        call = f"toolu_{uuid.uuid5(uuid.NAMESPACE_URL, each.question).hex[:8]}"
        said = self.wrap(each.question, self.talk.at(self.step))
        self.message("user", [{"type": "text", "text": said}])
        if each.command is not None:
            self.answer(
                {"type": "thinking", "thinking": "Let me look.", "thinkingSignature": "c2ln"},
                {
                    "type": "toolCall",
                    "id": call,
                    "name": "bash",
                    "arguments": {"command": each.command},
                },
            )
            self.message(
                "toolResult",
                [{"type": "text", "text": each.result}],
                toolCallId=call,
                toolName="bash",
                isError=False,
            )
        self.answer({"type": "text", "text": each.answer})

    def tree(self, *, named: bool) -> list[dict[str, Any]]:
        talk = self.talk
        header = {"type": "session", "version": 3, "id": talk.native, "timestamp": iso(talk.at(0))}
        self.lines.append(header | {"cwd": "/home/me/notes"})
        self.entry("model_change", provider="anthropic", modelId="claude-sonnet-4-5")
        if named:
            self.entry("session_info", name=talk.title)
        for each in talk.exchanges[:1]:
            self.exchange(each)
        knot = self.parent
        for each in talk.left:
            self.exchange(each)
        self.parent = knot
        for each in talk.exchanges[1:]:
            self.exchange(each)
        return self.lines


def write_pi(home: Path, talk: Talk) -> Path:
    folder = home / ".pi" / "agent" / "sessions" / "--home-me-notes--"
    path = folder / f"2025-10-09T08-53-20-000Z_{talk.native}.jsonl"
    return write_lines(path, Writer(talk).tree(named=True))


def write_omp(home: Path, talk: Talk) -> Path:
    folder = home / ".omp" / "agent" / "sessions" / "-notes"
    path = folder / f"2025-10-09T08-53-20-000Z_{talk.native}.jsonl"
    slot = json.dumps({"type": "title", "title": talk.title})
    write_lines(path, Writer(talk).tree(named=False))
    # The slot is 256 bytes long, so that the title can be written in its place.
    path.write_bytes(slot.ljust(255).encode() + b"\n" + path.read_bytes())
    return path


def envelope(text: str, at: int) -> str:
    stamp = iso(at)[:16].replace("T", " ")
    return f"[Telegram Alice id:42 {stamp}] {text}\n[message_id: 7]"


def index_of(talk: Talk) -> dict[str, Any]:
    facts = {"sessionId": talk.native, "updatedAt": talk.at(20), "displayName": talk.title}
    return {"agent:main:telegram:dm:42": facts | {"chatType": "direct", "channel": "telegram"}}


def write_clawdbot(home: Path, talk: Talk) -> Path:
    folder = home / ".clawdbot" / "agents" / "main" / "sessions"
    path = write_lines(folder / f"{talk.native}.jsonl", Writer(talk, envelope).tree(named=False))
    (folder / "sessions.json").write_text(json.dumps(index_of(talk)), encoding="utf-8")
    return path


EVENTS = """
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
  created_at INTEGER NOT NULL, event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT,
  PRIMARY KEY (session_id, seq)) STRICT;
CREATE TABLE session_windows (session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, display_name TEXT) STRICT;
CREATE TABLE auth_profiles (secret TEXT);
INSERT INTO auth_profiles VALUES ('sk-never-read');
"""


def write_openclaw(home: Path, talk: Talk) -> Path:
    path = home / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    connection = apsw.Connection(str(path))
    connection.execute(EVENTS)
    packer = zstandard.ZstdCompressor()
    for seq, line in enumerate(Writer(talk, envelope).tree(named=False)):
        text = dump(line).strip()
        packed = packer.compress(text.encode()) if seq % 2 else None
        row = (talk.native, seq, None if packed else text, talk.at(seq), packed, len(text.encode()))
        connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
    key = "agent:main:telegram:dm:42"
    window = (talk.native, key, BEGIN, talk.at(20), talk.title)
    connection.execute("INSERT INTO session_windows VALUES (?, ?, ?, ?, ?)", window)
    connection.close()
    return path


PI = Sample("pi", write_pi, branches=True)
OH_MY_PI = Sample("oh-my-pi", write_omp, branches=True)
CLAWDBOT = Sample("clawdbot", write_clawdbot, branches=True)
OPENCLAW = Sample("openclaw", write_openclaw, branches=True, lines=False)
