"""The two memory files for the agent: read one, change a line. Only the owner's turns write."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from clew.agent.tools.kit import Arguments, Job, Tool, ToolFailure, is_owner
from clew.core.memory import (
    FILE_NAMES,
    AddLine,
    MemoryEdit,
    MemoryName,
    RemoveText,
    ReplaceText,
    apply_edit,
)
from clew.errors import ClewError, StaleMemory

ATTEMPTS = 5

FileArgument = Annotated[
    MemoryName,
    Meta(description="user: who the user is. memory: what was learned about anything else."),
]


class ReadMemory(Arguments, frozen=True):
    """A memory file."""

    file: FileArgument = "memory"


class WriteMemory(Arguments, frozen=True):
    """A change of a memory file."""

    action: Literal["add", "replace", "remove"]
    file: FileArgument = "memory"
    text: Annotated[
        str, Meta(max_length=10_000, description="The line to add, or what takes the old's place.")
    ] = ""
    old: Annotated[
        str, Meta(max_length=10_000, description="The exact text to replace or remove.")
    ] = ""


async def memory_read(job: Job, given: ReadMemory) -> str:
    """Read a memory file as it is now.

    Both are in the system prompt already, as they were when this turn began.
    """
    try:
        found = await job.memory.read(given.file, job.personality)
    except ClewError as error:
        raise ToolFailure(str(error)) from None
    return found.text or f"{FILE_NAMES[given.file]} is empty."


async def memory_write(job: Job, given: WriteMemory) -> str:
    """Remember something for later conversations, or correct what is remembered.

    add puts a line at the end, replace and remove change an exact text that occurs once. Keep what
    will still matter in a month, in short lines; no secrets. It takes effect with the next turn.
    """
    if not is_owner(job.turn):
        raise ToolFailure("Only the owner's conversations may write memory.")
    await job.permit({}, summary=f"Write to {FILE_NAMES[given.file]}: {given.text or given.old}")
    by = f"agent, session {job.turn.session.id[:8]}"
    for _ in range(ATTEMPTS):
        try:
            found = await job.memory.read(given.file, job.personality)
            text = apply_edit(found.text, read_edit(given))
            await job.memory.write(given.file, text, job.personality, by=by, etag=found.etag)
        except StaleMemory:
            continue
        except ClewError as error:
            raise ToolFailure(str(error)) from None
        return f"Written to {FILE_NAMES[given.file]}. It is read from the next turn on."
    raise ToolFailure("Somebody else keeps writing to this file. Try again later.")


def read_edit(given: WriteMemory) -> MemoryEdit:
    """The change that is meant."""
    match given.action:
        case "add":
            return AddLine(given.text)
        case "replace":
            if not given.text.strip():
                raise ToolFailure("There is no text to put in its place; remove takes it out.")
            return ReplaceText(given.old, given.text)
        case _:
            return RemoveText(given.old)


TOOLS = (
    Tool(name="memory_read", arguments=ReadMemory, function=memory_read),
    Tool(name="memory_write", arguments=WriteMemory, function=memory_write),
)
