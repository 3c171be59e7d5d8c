"""The session's own notes: scratchpad and todo list. Writes are recorded with the call's result."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from clew.agent.tooling import ToolOutcome
from clew.agent.tools.kit import Arguments, Job, Tool, ToolFailure
from clew.agent.tools.pages import page_text
from clew.core.changes import DeleteScratch, WriteScratch, WriteTodos
from clew.core.names import counted, format_bytes
from clew.core.notes import Todo, TodoStatus

MAX_ENTRY = 1_000_000

NameArgument = Annotated[
    str, Meta(min_length=1, max_length=100, description="The entry's name, such as findings.")
]


class WriteEntry(Arguments, frozen=True):
    """An entry."""

    name: NameArgument
    content: Annotated[str, Meta(max_length=MAX_ENTRY)]


class ReadEntry(Arguments, frozen=True):
    """A page of an entry."""

    name: NameArgument
    offset: Annotated[int, Meta(ge=1, description="The first line to show.")] = 1
    limit: Annotated[int, Meta(ge=1, le=5000, description="How many lines at most.")] = 2000


class DeleteEntry(Arguments, frozen=True):
    """A name."""

    name: NameArgument


class ListEntries(Arguments, frozen=True):
    """Nothing."""


class TodoLine(Arguments, frozen=True):
    """A line of the list."""

    text: Annotated[str, Meta(min_length=1, max_length=500)]
    status: TodoStatus = "pending"


class WriteTodoList(Arguments, frozen=True):
    """The whole list."""

    todos: Annotated[list[TodoLine], Meta(max_length=100, description="The whole list, in order.")]


class ReadTodoList(Arguments, frozen=True):
    """Nothing."""


async def scratchpad_write(job: Job, given: WriteEntry) -> ToolOutcome:
    """Keep a text under a name in this session, over an older one of that name.

    Entries stay when the conversation gets long and old messages are summarised.
    """
    old = await job.store.find_scratch(job.turn.session.id, given.name)
    verb = "Kept" if old is None else "Replaced"
    return ToolOutcome(
        content=f"{verb} {given.name}: {counted(len(given.content), 'character')}.",
        changes=(WriteScratch(given.name, given.content),),
    )


async def scratchpad_read(job: Job, given: ReadEntry) -> str:
    """Read a scratchpad entry, with line numbers."""
    entry = await job.store.find_scratch(job.turn.session.id, given.name)
    if entry is None:
        raise ToolFailure(f"No scratchpad entry {given.name!r}. scratchpad_list shows them.")
    return page_text(entry.content, given.offset, given.limit, job.policy.max_output)


async def scratchpad_list(job: Job, given: ListEntries) -> str:  # noqa: ARG001  # nothing is given
    """List the names and sizes of the scratchpad entries."""
    entries = await job.store.list_scratch(job.turn.session.id)
    lines = [f"{entry.name} ({format_bytes(entry.size)})" for entry in entries]
    return "\n".join(lines) or "The scratchpad is empty."


async def scratchpad_delete(job: Job, given: DeleteEntry) -> ToolOutcome:
    """Delete a scratchpad entry."""
    if await job.store.find_scratch(job.turn.session.id, given.name) is None:
        raise ToolFailure(f"No scratchpad entry {given.name!r}. scratchpad_list shows them.")
    return ToolOutcome(content=f"Deleted {given.name}.", changes=(DeleteScratch(given.name),))


async def todo_write(job: Job, given: WriteTodoList) -> ToolOutcome:  # noqa: ARG001  # no port needed
    """Write the whole todo list anew: for work of several steps, and whenever a step is done.

    The person sees it. Keep exactly one line in_progress while you work.
    """
    todos = tuple(Todo(line.text, line.status) for line in given.todos)
    return ToolOutcome(content=show_todos(todos), changes=(WriteTodos(todos),))


async def todo_read(job: Job, given: ReadTodoList) -> str:  # noqa: ARG001  # nothing is given
    """Read the todo list."""
    return show_todos(await job.store.get_todos(job.turn.session.id))


def show_todos(todos: tuple[Todo, ...]) -> str:
    """The list as text."""
    return "\n".join(f"[{todo.status}] {todo.text}" for todo in todos) or "The todo list is empty."


TOOLS = (
    Tool(name="scratchpad_write", arguments=WriteEntry, function=scratchpad_write),
    Tool(name="scratchpad_read", arguments=ReadEntry, function=scratchpad_read),
    Tool(name="scratchpad_list", arguments=ListEntries, function=scratchpad_list),
    Tool(name="scratchpad_delete", arguments=DeleteEntry, function=scratchpad_delete),
    Tool(name="todo_write", arguments=WriteTodoList, function=todo_write),
    Tool(name="todo_read", arguments=ReadTodoList, function=todo_read),
)
