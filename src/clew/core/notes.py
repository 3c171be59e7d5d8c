"""What a session has besides its messages: scratchpad, todo list, compactions, blobs."""

from __future__ import annotations

from typing import Literal

import msgspec

TodoStatus = Literal["pending", "in_progress", "done", "cancelled"]


class ScratchEntry(msgspec.Struct, frozen=True):
    """A named text of a session. In listings `content` is left out; `size` is in bytes."""

    name: str
    content: str
    size: int
    created_at: int


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a session's todo list."""

    text: str
    status: TodoStatus = "pending"


class Compaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A summary that stands for everything before `keep_from` when the model reads the thread.

    It deletes nothing. `made_at_seq` is the head at that time; `undone_at` is when it was undone.
    """

    id: str
    session_id: str
    keep_from: int
    made_at_seq: int
    summary: str
    short_summary: str | None
    tokens_before: int | None
    tokens_after: int | None
    created_at: int
    undone_at: int | None = None


class Blob(msgspec.Struct, frozen=True):
    """Stored bytes, named by their SHA-256."""

    hash: str
    media_type: str
    data: bytes


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a compaction, for the person."""

    compaction_id: str
    summarised: int
    kept: int
    tokens_before: int
    tokens_after: int
