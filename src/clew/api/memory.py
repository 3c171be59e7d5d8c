"""The memory files: reading, writing, versions and searching them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.fields import _LAST, Query, Word
from clew.api.operation import Params, row
from clew.core.chunks import PROMPT_CHARACTERS, PROMPT_CHUNKS, ChunkFile
from clew.core.memory import MEMORY_BYTES, PERSON_CHARACTERS, MemoryName, MemoryVersion
from clew.core.models import MemoryScope

Person = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=PERSON_CHARACTERS,
        description="Whose USER.md: a person like telegram:456. Left out, it is the owner's.",
    ),
]
MOST_HITS: Final = 100


# --- memory and credentials -------------------------------------------------------------------
class GetMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, of which personality, and whose. MEMORY.md is the same for every person."""

    store: MemoryName
    personality: Word | None = None
    person: Person | None = None


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
    person: Person | None = None
    if_match: Annotated[str, Meta(max_length=200)] | None = None


class RenderMemory(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text that is not written yet, as a person types it."""

    store: MemoryName
    content: Annotated[str, Meta(max_length=2 * MEMORY_BYTES)]


class ListChunks(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which personality, and whose files."""

    personality: Word | None = None
    person: Person | None = None


class SearchMemory(ListChunks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`q` is a question or words; `k` is how many chunks are wanted at most."""

    q: Query
    k: Annotated[int, Meta(ge=1, le=MOST_HITS)] = PROMPT_CHUNKS


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
    person: str | None = None


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


MemoryMode = Literal["markdown", "vector"]


class ChunkView(msgspec.Struct, frozen=True):
    """A piece of a memory file. `place` is the file and its headings; `embedded`: it has a vector.

    `file` is `archive` for lines that no longer fitted into their file.
    """

    file: ChunkFile
    place: str
    text: str
    embedded: bool


class ChunkList(msgspec.Struct, frozen=True):
    """All chunks of a person's memory, in the order of the files. `model` embeds them, if any."""

    mode: MemoryMode
    chunks: tuple[ChunkView, ...]
    model: str | None = None


class FoundChunk(msgspec.Struct, frozen=True):
    """A chunk that was found, and why: its rank among the matches of words, and by meaning.

    Rank 1 is the best, None is not found that way. `score` joins both ranks; `similarity` is the
    cosine of the vectors. `given`: a turn with this question would get it.
    """

    file: ChunkFile
    place: str
    text: str
    score: float
    keyword_rank: int | None
    vector_rank: int | None
    similarity: float | None
    given: bool


class FoundMemory(msgspec.Struct, frozen=True):
    """What was found, best first, and what a turn with this question would get.

    In the mode `vector` a turn gets `prompt`: of the hits those that are `given`, at most
    `prompt_chunks` and `prompt_characters`. In the mode `markdown` it gets the whole files, and
    `prompt` is None. `notice` says why only words were compared, if meanings should have been.
    """

    mode: MemoryMode
    hits: tuple[FoundChunk, ...]
    prompt: str | None = None
    model: str | None = None
    notice: str | None = None
    prompt_chunks: int = PROMPT_CHUNKS
    prompt_characters: int = PROMPT_CHARACTERS


def _memory_etag(answer: MemoryView) -> str:
    return answer.etag


def _restored_etag(answer: MemoryRestored) -> str:
    return answer.file.etag


# --- the rows of the table ---------------------------------------------------------------------

SEARCH: Final = row(
    "memory.search", "GET", "recall", "read", SearchMemory, FoundMemory,
    "Search the memory, and see what a turn would get of it.",
)  # fmt: skip
CHUNKS: Final = row(
    "memory.chunks", "GET", "recall/chunks", "read", ListChunks, ChunkList,
    "List the chunks that the memory is searched in.",
)  # fmt: skip
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
    SEARCH,
    CHUNKS,
    GET,
    WRITE,
    HISTORY,
    VERSION,
    RESTORE,
    RENDER,
)
