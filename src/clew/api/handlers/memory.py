"""Handlers of the operations about the memory files. The memory belongs to the owner."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.memory import (
    CHUNKS,
    GET,
    HISTORY,
    RENDER,
    RESTORE,
    SEARCH,
    VERSION,
    WRITE,
    ChunkList,
    ChunkView,
    FoundChunk,
    FoundMemory,
    GetMemory,
    GetMemoryVersion,
    ListChunks,
    MemoryHistory,
    MemoryHtml,
    MemoryRestored,
    MemoryText,
    MemoryView,
    RenderMemory,
    RestoreMemory,
    SearchMemory,
    WriteMemory,
)
from clew.core.memory import FILE_NAMES, MemoryFile
from clew.core.message import Draft, number
from clew.core.models import Personality
from clew.core.session import OWNER
from clew.errors import InvalidInput, NotFound, RecordNotFound


@handles(GET)
async def get_memory(parts: Parts, params: GetMemory, _caller: Caller) -> MemoryView:
    """Read a memory file."""
    personality = _get_personality(parts, params)
    return _view(
        await parts.memory.read(params.store, personality, person=_person(params)),
        params,
        personality,
    )


@handles(WRITE)
async def write_memory(parts: Parts, params: WriteMemory, caller: Caller) -> MemoryView:
    """Replace the whole text of a memory file."""
    personality = _get_personality(parts, params)
    await parts.memory.write(
        params.store,
        params.content,
        personality,
        by=caller.signature,
        etag=params.if_match,
        person=_person(params),
    )
    return _view(
        await parts.memory.read(params.store, personality, person=_person(params)),
        params,
        personality,
    )


@handles(HISTORY)
async def get_history(parts: Parts, params: GetMemory, _caller: Caller) -> MemoryHistory:
    """List the versions of a memory file."""
    personality = _get_personality(parts, params)
    versions = await parts.memory.list_versions(params.store, personality, person=_person(params))
    file = await parts.memory.read(params.store, personality, person=_person(params))
    return MemoryHistory(params.store, personality.memory_scope, versions, file.etag, file.path)


@handles(VERSION)
async def get_version(parts: Parts, params: GetMemoryVersion, _caller: Caller) -> MemoryText:
    """Read a version."""
    content = await _get_version(parts, params, _get_personality(parts, params))
    return MemoryText(params.store, params.number, content)


@handles(RESTORE)
async def restore_version(parts: Parts, params: RestoreMemory, caller: Caller) -> MemoryRestored:
    """Restore a version as a new one; the current text stays in the history."""
    personality = _get_personality(parts, params)
    before = await parts.memory.read(params.store, personality, person=_person(params))
    content = await _get_version(parts, params, personality)
    by = f"{caller.signature}, restored version {params.number}"
    seen = params.if_match or before.etag
    after = await parts.memory.write(
        params.store, content, personality, by=by, etag=seen, person=_person(params)
    )
    changed = before.etag != after.etag
    return MemoryRestored(
        file=_view(after, params, personality),
        number=params.number,
        changed=changed,
        kept=changed and bool(before.text),
    )


@handles(RENDER)
async def render_text(parts: Parts, params: RenderMemory, _caller: Caller) -> MemoryHtml:
    """Render a text by the renderer of messages, with its limits."""
    if parts.render is None:
        raise InvalidInput("Texts can't be rendered as HTML here. A gateway can.")
    text = Draft(role="assistant", content=params.content)
    message = number(text, row_id=0, session_id="", seq=1, turn_id=None, at=parts.clock())
    rendered = await parts.render((message,))
    return MemoryHtml(rendered[0].html)


@handles(SEARCH)
async def search_memory(parts: Parts, params: SearchMemory, _caller: Caller) -> FoundMemory:
    """Search the chunks, and say what a turn with this question would get."""
    personality = _get_personality(parts, params)
    found = await parts.recall.search(params.q, personality, person=_person(params), limit=params.k)
    return FoundMemory(
        mode="markdown" if found.model is None else "vector",
        hits=tuple(
            FoundChunk(
                file=each.chunk.file,
                place=each.chunk.place,
                text=each.chunk.text,
                score=each.score,
                keyword_rank=each.keyword_rank,
                vector_rank=each.vector_rank,
                similarity=each.similarity,
                given=each.given,
            )
            for each in found.hits
        ),
        prompt=found.prompt,
        model=found.model,
        notice=found.notice,
    )


@handles(CHUNKS)
async def list_chunks(parts: Parts, params: ListChunks, _caller: Caller) -> ChunkList:
    """List all chunks in the order of the files."""
    personality = _get_personality(parts, params)
    chunks = await parts.recall.list_chunks(personality, person=_person(params))
    model = parts.recall.model
    return ChunkList(
        mode="markdown" if model is None else "vector",
        chunks=tuple(
            ChunkView(each.file, each.place, each.text, embedded) for each, embedded in chunks
        ),
        model=model,
    )


def _person(params: GetMemory | WriteMemory | ListChunks) -> str:
    """Whose files: the owner, who alone may call these, may name anybody."""
    return OWNER if params.person is None else params.person


def _get_personality(parts: Parts, params: GetMemory | WriteMemory | ListChunks) -> Personality:
    return parts.personalities.get_personality(params.personality)


async def _get_version(parts: Parts, params: GetMemoryVersion, personality: Personality) -> str:
    try:
        return await parts.memory.get_version(
            params.store, params.number, personality, person=_person(params)
        )
    except RecordNotFound as error:
        raise NotFound(
            f"{FILE_NAMES[params.store]} has no version {params.number}. "
            "`clew memory log` lists them."
        ) from error


def _view(
    file: MemoryFile, params: GetMemory | WriteMemory, personality: Personality
) -> MemoryView:
    return MemoryView(
        store=file.name,
        content=file.text,
        etag=file.etag,
        scope=personality.memory_scope,
        path=file.path,
        personality=None if params.personality is None else personality.id,
        person=params.person,
    )
