"""What a session has besides its messages: scratchpad, todos, compactions, blobs, its source."""

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


# Known by its first bytes: the claim of a sender or a file's name decides nothing.
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"RIFF": "image/webp",
}


def find_picture_type(data: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP; None for everything else. Twelve bytes do."""
    for magic, kind in _BEGINNINGS.items():
        if data.startswith(magic) and (kind != "image/webp" or data[8:12] == b"WEBP"):
            return kind
    return None


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a compaction, for the person."""

    compaction_id: str
    summarised: int
    kept: int
    tokens_before: int
    tokens_after: int


Gone = Literal["trashed", "purged"]


class ImportNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session came from. `native_id` is the id that its agent has for it.

    `transfer.histories` decides with it what is new. Retention leaves such a session alone until
    somebody talks in it. `stamp` is what the source looked like when it was last read; the same
    stamp means that there is nothing new. Messages up to `head` came from the source. `gone` says
    that the session is in the trash or purged; it is only read.
    """

    session_id: str
    agent: str
    native_id: str
    stamp: str
    head: int
    gone: Gone | None = None
