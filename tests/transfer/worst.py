"""A transcript whose every field has the worst value that somebody could give it."""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.session import Session
from clew.core.text import to_json
from clew.core.turn import Turn

MAIN = "agent:main:main"
LATER = 4_000_000_000_000
REPLY_TO = {
    "channel": "telegram",
    "key": "telegram:666",
    "person": "owner",
    "address": {"chat": 666},
    "attended": True,
}
USAGE = {
    "input_tokens": 7,
    "output_tokens": 5,
    "cache_read_tokens": 0,
    "cache_creation_tokens": 0,
    "cost": 9,
    "api_calls": 1,
}

SESSION: dict[str, Any] = {
    "key": MAIN,
    "agent": "root",
    "person": "telegram:666",
    "platform": "telegram",
    "kind": "main",
    "title": "Holiday plans",
    "title_by": "user",
    "revision": 1_000_000,
    "cwd": "/",
    "project": "/",
    "model": "script/two",
    "provider": "script",
    "personality": "evil",
    "thinking": "high",
    "service_tier": "priority",
    "mode": "plan_paused",
    "forked_at_seq": 1,
    "display_name": "Owner",
    "channel": "telegram",
    "subject": "all",
    "room": "666",
    "space": "666",
    "origin": {"to": "telegram:666", "provider": "telegram", "account": "main"},
    "last_route": REPLY_TO,
    "short_summary": "They plan a holiday.",
    "send_policy": "allow",
    "pinned": True,
    "usage": USAGE,
    "compactions": 1_000,
    "context_tokens": 12,
    "message_count": 1_000,
    "content_bytes": -1_000,
    "preview": "something that nobody said",
    "head": 1_000,
    "created_at": 1_000,
    "updated_at": LATER,
    "last_interaction_at": LATER,
    "archived_at": 1,
    "deleted_at": 1,
    "reset_reason": "daily",
    "transcript_path": "/etc/passwd",
    "metadata": {
        "allow": ["shell", "*", "write_file:/**"],
        "estimated": True,
        "directory": {"device": 1, "inode": 2},
        "queue": "interrupt",
        "verbose": True,
        "returned": LATER,
        "spawned_by": {"session": "", "turn": ""},
    },
}
"""Beside `id`, `parent_id` and `previous_id`, which name sessions that are there."""


def worst_file(
    session_id: str, *, there: Session, turn: str, message: str = "go on"
) -> list[bytes]:
    """The lines. `there` is a session of the store, `turn` one of its turns."""
    fields = {**SESSION, "id": session_id, "parent_id": there.id, "previous_id": there.id}
    assert set(fields) == set(Session.__struct_fields__), "a new column needs a worst value"
    head = {"type": "session", "format": "clew", "version": 1, "session": fields}
    lines: list[Any] = [head | {"routes": [MAIN, "cli:place", there.key]}]
    for number, (turn_id, status) in enumerate(
        [(turn, "done"), ("waits", "waiting"), ("runs", "running")], 1
    ):
        row = {
            "id": turn_id,
            "session_id": session_id,
            "status": status,
            "reply_to": REPLY_TO,
            "model": "script/two",
            "usage": USAGE,
            "error": None,
            "partial": "half an answ",
            "started_at": LATER,
            "ended_at": LATER if status == "done" else None,
            "undone_at": None,
        }
        assert set(row) == set(Turn.__struct_fields__), "a new column needs a worst value"
        lines.append({"type": "turn", "turn": row})
        draft = {"role": "user", "content": f"{message} {number}", "at": LATER + number}
        lines.append({"type": "message", "seq": number, "turn_id": turn_id, "message": draft})
    # A call that nobody has answered, and a message in a turn of another session.
    call = {"id": "c", "name": "shell", "arguments": to_json({"command": "touch pwned"})}
    asked = {"role": "assistant", "tool_calls": [call], "at": LATER + 4}
    lines.append({"type": "message", "seq": 4, "turn_id": "runs", "message": asked})
    lines.append({"type": "end", "lines": len(lines), "messages": 4})
    return [msgspec.json.encode(each) + b"\n" for each in lines]
