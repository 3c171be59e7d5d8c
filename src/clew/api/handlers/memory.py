"""Handlers of the operations about the memory files. The memory belongs to the owner."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.memory import (
    GET,
    HISTORY,
    RENDER,
    RESTORE,
    VERSION,
    WRITE,
    GetMemory,
    GetMemoryVersion,
    MemoryHistory,
    MemoryHtml,
    MemoryRestored,
    MemoryText,
    MemoryView,
    RenderMemory,
    RestoreMemory,
    WriteMemory,
)
from clew.core.memory import FILE_NAMES, MemoryFile
from clew.core.message import Draft, number
from clew.core.models import Personality
from clew.errors import InvalidInput, NotFound, RecordNotFound


@handles(GET)
async def get_memory(parts: Parts, params: GetMemory, _caller: Caller) -> MemoryView:
    """Read a memory file."""
    personality = _get_personality(parts, params)
    return _view(await parts.memory.read(params.store, personality), params, personality)


@handles(WRITE)
async def write_memory(parts: Parts, params: WriteMemory, caller: Caller) -> MemoryView:
    """Replace the whole text of a memory file."""
    personality = _get_personality(parts, params)
    await parts.memory.write(
        params.store, params.content, personality, by=caller.signature, etag=params.if_match
    )
    return _view(await parts.memory.read(params.store, personality), params, personality)


@handles(HISTORY)
async def get_history(parts: Parts, params: GetMemory, _caller: Caller) -> MemoryHistory:
    """List the versions of a memory file."""
    personality = _get_personality(parts, params)
    versions = await parts.memory.list_versions(params.store, personality)
    file = await parts.memory.read(params.store, personality)
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
    before = await parts.memory.read(params.store, personality)
    content = await _get_version(parts, params, personality)
    by = f"{caller.signature}, restored version {params.number}"
    seen = params.if_match or before.etag
    after = await parts.memory.write(params.store, content, personality, by=by, etag=seen)
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


def _get_personality(parts: Parts, params: GetMemory | WriteMemory) -> Personality:
    return parts.personalities.get_personality(params.personality)


async def _get_version(parts: Parts, params: GetMemoryVersion, personality: Personality) -> str:
    try:
        return await parts.memory.get_version(params.store, params.number, personality)
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
    )
