"""Made exports of ChatGPT, Claude.ai and Open WebUI, and a made file of aider."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.transfer.samples.talk import Sample, Talk, iso


def messages(talk: Talk) -> list[tuple[str, str | None, str, str, int]]:
    """Id, parent, role, text and time; a branch that was left comes first."""
    rows: list[tuple[str, str | None, str, str, int]] = []

    def add(parent: str | None, exchanges: Any, step: int) -> tuple[str | None, int]:
        for each in exchanges:
            for role, text in (("user", each.question), ("assistant", each.answer)):
                step += 1
                native = f"{role}-{step}-{text[:8]}"
                rows.append((native, parent, role, text, talk.at(step)))
                parent = native
        return parent, step

    knot, step = add(None, talk.exchanges[:1], 0)
    add(knot, talk.left, step)
    add(knot, talk.exchanges[1:], step)
    return rows


def put(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def chatgpt(talk: Talk) -> list[dict[str, Any]]:
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    last = ""
    for native, parent, role, text, at in messages(talk):
        last = native
        message = {
            "id": native,
            "author": {"role": role, "name": None},
            "create_time": at / 1000,
            "content": {"content_type": "text", "parts": [text]},
            "metadata": {"model_slug": "gpt-5"} if role == "assistant" else {},
            "recipient": "all",
        }
        mapping[native] = {"id": native, "message": message, "parent": parent or "root"}
    return [
        {
            "title": talk.title,
            "create_time": talk.at(0) / 1000,
            "update_time": talk.at(len(mapping)) / 1000,
            "mapping": mapping,
            "current_node": last,
            "conversation_id": talk.native,
        }
    ]


def write_chatgpt(home: Path, talk: Talk) -> Path:
    return put(home / "Downloads" / "conversations.json", chatgpt(talk))


def write_chatgpt_zip(home: Path, talk: Talk) -> Path:
    path = home / "Downloads" / "chatgpt.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(chatgpt(talk)))
        archive.writestr("user.json", '{"email": "me@example.org"}')
    return path


def write_claude_ai(home: Path, talk: Talk) -> Path:
    rows = [
        {
            "uuid": native,
            "parent_message_uuid": parent or "00000000-0000-4000-8000-000000000000",
            "sender": "human" if role == "user" else role,
            "text": text,
            "content": [{"type": "text", "text": text}],
            "created_at": iso(at),
            "attachments": [],
            "files": [],
        }
        for native, parent, role, text, at in messages(talk)
    ]
    chat = {
        "uuid": talk.native,
        "name": talk.title,
        "created_at": iso(talk.at(0)),
        "updated_at": iso(talk.at(len(rows))),
        "chat_messages": rows,
    }
    return put(home / "Downloads" / "conversations.json", [chat])


def write_open_webui(home: Path, talk: Talk) -> Path:
    rows = messages(talk)
    nodes = {
        native: {
            "id": native,
            "parentId": parent,
            "childrenIds": [],
            "role": role,
            "content": text,
            "timestamp": at // 1000,
            "model": "llama3",
        }
        for native, parent, role, text, at in rows
    }
    history = {"messages": nodes, "currentId": rows[-1][0]}
    chat = {
        "id": talk.native,
        "user_id": "u",
        "title": talk.title,
        "chat": {"title": talk.title, "models": ["llama3"], "history": history},
        "created_at": talk.at(0) // 1000,
        "updated_at": talk.at(len(rows)) // 1000,
    }
    return put(home / "Downloads" / "chat-export-1760000000000.json", [chat])


def write_aider(home: Path, talk: Talk) -> Path:
    started = datetime.fromtimestamp(talk.at(0) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = ["", f"# aider chat started at {started}", "", "> Aider v0.86.1  ", "> Model: gpt-5  "]
    for each in talk.exchanges:
        lines += ["", "#### /add notes.txt  ", "> Added notes.txt to the chat  "]
        lines += ["", *(f"#### {part}  " for part in each.question.split("\n")), ""]
        lines += [each.answer, "", "> Tokens: 115 sent, 7 received.  "]
    path = home / "notes" / ".aider.chat.history.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


PLAIN: dict[str, Any] = {"tools": False, "usage": False, "found": False, "lines": False}
CHATGPT = Sample("chatgpt", write_chatgpt, branches=True, **PLAIN)
CHATGPT_ZIP = Sample("chatgpt", write_chatgpt_zip, branches=True, form="zip", **PLAIN)
CLAUDE_AI = Sample("claude-ai", write_claude_ai, branches=True, **PLAIN)
OPEN_WEBUI = Sample("open-webui", write_open_webui, branches=True, **PLAIN)
AIDER = Sample("aider", write_aider, titled=False, **PLAIN)
