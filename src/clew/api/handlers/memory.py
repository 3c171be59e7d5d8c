"""What the operations about the memory files do. The memory is the owner's."""

from __future__ import annotations

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.memory import GET, HISTORY, WRITE, GetMemory, MemoryHistory, MemoryView, WriteMemory
from clew.core.memory import MemoryName
from clew.core.personality import Personality


@handles(GET)
async def get_memory(parts: Parts, params: GetMemory, caller: Caller) -> MemoryView:
    """A memory file; it is the owner's."""
    caller.need_owner("read the memory")
    hat = parts.personalities.get_personality(params.personality)
    return await _memory_view(parts, params.store, hat, params.personality)


@handles(WRITE)
async def write_memory(parts: Parts, params: WriteMemory, caller: Caller) -> MemoryView:
    """A memory file, whole."""
    caller.need_owner("write the memory")
    hat = parts.personalities.get_personality(params.personality)
    by = "api" if caller.token_id is None else f"api:{caller.token_id}"
    await parts.memory.write(params.store, params.content, hat, by=by, etag=params.if_match)
    return await _memory_view(parts, params.store, hat, params.personality)


async def _memory_view(
    parts: Parts, store: MemoryName, hat: Personality, named: str | None
) -> MemoryView:
    file = await parts.memory.read(store, hat)
    return MemoryView(store, file.text, file.etag, hat.memory_scope, named and hat.id)


@handles(HISTORY)
async def get_history(parts: Parts, params: GetMemory, caller: Caller) -> MemoryHistory:
    """What was written before."""
    caller.need_owner("read the memory")
    hat = parts.personalities.get_personality(params.personality)
    versions = await parts.memory.list_versions(params.store, hat)
    return MemoryHistory(params.store, hat.memory_scope, versions)
