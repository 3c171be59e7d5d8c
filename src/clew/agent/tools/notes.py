"""Tools for what the agent writes down: memory files, scratchpad, todo list, and a plan to approve.

Writes to the session's scratchpad and todo list are recorded with the call's result. Memory files
are written at once, and only in the owner's turns.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from clew.agent.tool_interface import ToolOutcome
from clew.agent.tools.output import page_text
from clew.agent.tools.tool import Arguments, Job, Tool, ToolFailure, is_owner, show_detail
from clew.core.changes import DeleteScratch, WriteScratch, WriteTodos
from clew.core.memory import (
    FILE_NAMES,
    AddLine,
    MemoryEdit,
    MemoryName,
    RemoveText,
    ReplaceText,
    apply_edit,
)
from clew.core.names import counted, format_bytes
from clew.core.notes import Todo, TodoStatus
from clew.errors import ClewError, StaleMemory

MAX_ENTRY = 1_000_000
MEMORY_ATTEMPTS = 5
"""How often a memory file is read and written again when another writer was faster."""

FileArgument = Annotated[
    MemoryName,
    Meta(description="user: who the user is. memory: what was learned about anything else."),
]

NameArgument = Annotated[
    str, Meta(min_length=1, max_length=100, description="The entry's name, such as findings.")
]


class WriteEntry(Arguments, frozen=True):
    """An entry to write."""

    name: NameArgument
    content: Annotated[str, Meta(max_length=MAX_ENTRY)]


class ReadEntry(Arguments, frozen=True):
    """A page of an entry."""

    name: NameArgument
    offset: Annotated[int, Meta(ge=1, description="The first line to show.")] = 1
    limit: Annotated[int, Meta(ge=1, le=5000, description="How many lines at most.")] = 2000


class DeleteEntry(Arguments, frozen=True):
    """An entry to delete."""

    name: NameArgument


class ListEntries(Arguments, frozen=True):
    """No arguments."""


class TodoLine(Arguments, frozen=True):
    """A line of the list."""

    text: Annotated[str, Meta(min_length=1, max_length=500)]
    status: TodoStatus = "pending"


class WriteTodoList(Arguments, frozen=True):
    """The whole list."""

    todos: Annotated[list[TodoLine], Meta(max_length=100, description="The whole list, in order.")]


class ReadTodoList(Arguments, frozen=True):
    """No arguments."""


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
    """Replace the whole todo list: for work of several steps, and whenever a step is done.

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

    Both are in the system prompt already, as they were when this turn began: whole, or the parts
    that fit what was asked.
    """
    try:
        found = await job.memory.read(given.file, job.personality, person=job.turn.person)
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
    for _ in range(MEMORY_ATTEMPTS):
        try:
            found = await job.memory.read(given.file, job.personality)
            text = apply_edit(found.text, read_edit(given))
            await job.memory.write(given.file, text, job.personality, by=by, etag=found.etag)
        except StaleMemory:
            continue
        except ClewError as error:
            raise ToolFailure(str(error)) from None
        return f"Written to {FILE_NAMES[given.file]}. It is read from the next turn on."
    raise ToolFailure("Another writer keeps changing this file. Try again later.")


def read_edit(given: WriteMemory) -> MemoryEdit:
    """The edit of the memory file that the arguments describe."""
    match given.action:
        case "add":
            return AddLine(given.text)
        case "replace":
            if not given.text.strip():
                raise ToolFailure("`text` is empty. To delete the old text, use remove.")
            return ReplaceText(given.old, given.text)
        case _:
            return RemoveText(given.old)


class ProposePlan(Arguments, frozen=True):
    """A plan."""

    plan: Annotated[str, Meta(min_length=1, description="The steps, in Markdown.")]


async def propose_plan(job: Job, given: ProposePlan) -> str:
    """Show the person a finished plan and ask whether it may be carried out.

    Use it once you have looked at everything that the plan rests on.
    """
    async with job.notes.asking:
        approval = await job.turn.ask(
            job.call,
            {
                "summary": "Carry out this plan?",
                "detail": show_detail(given.plan),
                "rule": None,
                "cwd": job.turn.session.cwd,
                "plan": True,
            },
        )
    if approval.decision != "yes":
        late = approval.decided_by == "expired"
        raise ToolFailure(
            "The owner did not answer in time. Plan mode stays on; wait for the person."
            if late
            else "The person does not want this plan yet. Plan mode stays on: ask what to change."
        )
    await job.turn.set_mode("plan_paused")
    job.notes.mode = "plan_paused"
    return (
        "The person approved the plan. Plan mode is paused and all tools are back: "
        "carry the plan out now, step by step."
    )


TOOLS = (
    Tool(name="memory_read", arguments=ReadMemory, function=memory_read),
    Tool(name="memory_write", arguments=WriteMemory, function=memory_write),
    Tool(name="scratchpad_write", arguments=WriteEntry, function=scratchpad_write),
    Tool(name="scratchpad_read", arguments=ReadEntry, function=scratchpad_read),
    Tool(name="scratchpad_list", arguments=ListEntries, function=scratchpad_list),
    Tool(name="scratchpad_delete", arguments=DeleteEntry, function=scratchpad_delete),
    Tool(name="todo_write", arguments=WriteTodoList, function=todo_write),
    Tool(name="todo_read", arguments=ReadTodoList, function=todo_read),
    Tool(name="propose_plan", arguments=ProposePlan, function=propose_plan, special=True),
)
