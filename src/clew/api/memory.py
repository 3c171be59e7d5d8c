"""The two memory files."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import _LAST, Word
from clew.api.operation import Params, row
from clew.core.memory import MEMORY_BYTES, MemoryName, MemoryVersion
from clew.core.models import MemoryScope


# --- memory and credentials -------------------------------------------------------------------
class GetMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, and of which personality."""

    store: MemoryName
    personality: Word | None = None


class GetMemoryVersion(GetMemory, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`number`: 1 is the newest version."""

    number: Annotated[int, Meta(ge=1, le=_LAST)]


class RestoreMemory(GetMemoryVersion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`if_match` is the etag that the caller has seen; left out, the current one is used."""

    if_match: Annotated[str, Meta(max_length=200)] | None = None


class WriteMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole new content. `if_match` is the etag that the caller has seen."""

    store: MemoryName
    content: Annotated[str, Meta(max_length=2 * MEMORY_BYTES)]
    personality: Word | None = None
    if_match: Annotated[str, Meta(max_length=200)] | None = None


class RenderMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text that is not written yet, as a person types it."""

    store: MemoryName
    content: Annotated[str, Meta(max_length=2 * MEMORY_BYTES)]


# --- memory and people ------------------------------------------------------------------------
class MemoryView(msgspec.Struct, frozen=True):
    """A memory file. `scope` is the resolved one: `global`, or of this personality only.

    `path` is where the file is, on the machine that has the memory.
    """

    store: MemoryName
    content: str
    etag: str
    scope: MemoryScope
    path: str
    personality: str | None = None


class MemoryHistory(msgspec.Struct, frozen=True):
    """The versions, newest first; `etag` and `path` are those of the current file."""

    store: MemoryName
    scope: MemoryScope
    versions: tuple[MemoryVersion, ...]
    etag: str
    path: str


class MemoryText(msgspec.Struct, frozen=True):
    """The text of a version of a memory file."""

    store: MemoryName
    number: int
    content: str


class MemoryRestored(msgspec.Struct, frozen=True):
    """A memory file that was restored to a version.

    `changed`: it was different before. `kept`: the earlier text is now version number 2.
    """

    file: MemoryView
    number: int
    changed: bool
    kept: bool


class MemoryHtml(msgspec.Struct, frozen=True):
    """Safe HTML of a text: Markdown as in messages; a very long text is shown unrendered."""

    html: str


def _memory_etag(answer: MemoryView) -> str:
    return answer.etag


def _restored_etag(answer: MemoryRestored) -> str:
    return answer.file.etag


# --- the rows of the table ---------------------------------------------------------------------

GET: Final = row(
    "memory.get", "GET", "memory/{store}", "read", GetMemory, MemoryView,
    "Read a memory file.", etag=_memory_etag,
)  # fmt: skip
WRITE: Final = row(
    "memory.write", "PUT", "memory/{store}", "write", WriteMemory, MemoryView,
    "Replace a memory file.", etag=_memory_etag,
)  # fmt: skip
HISTORY: Final = row(
    "memory.history", "GET", "memory/{store}/history", "read", GetMemory, MemoryHistory,
    "List the versions of a memory file.",
)  # fmt: skip
VERSION: Final = row(
    "memory.version", "GET", "memory/{store}/history/{number}", "read", GetMemoryVersion,
    MemoryText, "Read a version of a memory file.",
)  # fmt: skip
RESTORE: Final = row(
    "memory.restore", "POST", "memory/{store}/restore", "write", RestoreMemory,
    MemoryRestored, "Restore a memory file to a version.", etag=_restored_etag,
)  # fmt: skip
RENDER: Final = row(
    "memory.render", "POST", "memory/{store}/render", "write", RenderMemory, MemoryHtml,
    "Render a text as a memory file would be shown. Nothing is written.",
)  # fmt: skip
ROWS: Final = (
    GET,
    WRITE,
    HISTORY,
    VERSION,
    RESTORE,
    RENDER,
)
