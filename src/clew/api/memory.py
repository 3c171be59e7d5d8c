"""The two memory files."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Word
from clew.api.operation import Params, row
from clew.core.memory import MEMORY_BYTES, MemoryName, MemoryVersion
from clew.core.personality import MemoryScope


# --- memory and credentials -------------------------------------------------------------------
class GetMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, and under which hat."""

    store: MemoryName
    personality: Word | None = None


class WriteMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file anew. `if_match` is the etag that the caller has seen."""

    store: MemoryName
    content: Annotated[str, Meta(max_length=MEMORY_BYTES)]
    personality: Word | None = None
    if_match: Annotated[str, Meta(max_length=200)] | None = None


# --- memory and people ------------------------------------------------------------------------
class MemoryView(msgspec.Struct, frozen=True):
    """A memory file. `scope` is what was resolved: everybody's, or this personality's own."""

    store: MemoryName
    content: str
    etag: str
    scope: MemoryScope
    personality: str | None = None


class MemoryHistory(msgspec.Struct, frozen=True):
    """What was written before, newest first."""

    store: MemoryName
    scope: MemoryScope
    versions: tuple[MemoryVersion, ...]


def _memory_etag(answer: MemoryView) -> str:
    return answer.etag


# --- the rows of the table ---------------------------------------------------------------------

GET: Final = row(
    "memory.get", "GET", "memory/{store}", "read", GetMemory, MemoryView,
    "Read a memory file.", etag=_memory_etag,
)  # fmt: skip
WRITE: Final = row(
    "memory.write", "PUT", "memory/{store}", "write", WriteMemory, MemoryView,
    "Write a memory file whole.", etag=_memory_etag,
)  # fmt: skip
HISTORY: Final = row(
    "memory.history", "GET", "memory/{store}/history", "read", GetMemory, MemoryHistory,
    "List the versions of a memory file.",
)  # fmt: skip
ROWS: Final = (
    GET,
    WRITE,
    HISTORY,
)
