"""Commands that only tell: help, status, usage, memory, todos, scratchpad."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from clew.core.memory import MEMORY_NAMES
from clew.core.models import clamp_thinking
from clew.core.names import counted, format_bytes, format_cost, format_count, time_ago
from clew.core.usage import Usage
from clew.errors import InvalidInput
from clew.runtime.commands.desk import Desk, Reply

if TYPE_CHECKING:
    from clew.runtime.commands import Command

COMMANDS: dict[str, Command] = {}
ALIASES: dict[str, str] = {}
"""The table, filled in by it: help tells of everything that is there."""

MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]", "cancelled": "[-]"}


async def help_(_desk: Desk, rest: str) -> Reply:
    """`/help [COMMAND]`."""
    wanted = rest.lstrip("/").lower()
    wanted = ALIASES.get(wanted, wanted)
    if wanted and wanted not in COMMANDS:
        raise InvalidInput(f"There is no command /{wanted}. /help shows what there is.")
    shown = {wanted: COMMANDS[wanted]} if wanted else COMMANDS
    width = max(len(f"/{name} {each.usage}") for name, each in shown.items())
    lines = [
        f"{f'/{name} {each.usage}'.strip():<{width}}  {each.help}" for name, each in shown.items()
    ]
    if not wanted:
        also = ", ".join(f"/{alias} is /{name}" for alias, name in ALIASES.items())
        lines += ["", f"{also}. Anything else is a message. Ctrl+C stops the turn that runs."]
    return Reply(text="\n".join(lines))


async def status(desk: Desk, _rest: str) -> Reply:
    """`/status`."""
    seat = desk.seat
    session = await seat.refresh()
    info = seat.model
    mode = seat.setting("mode") or "default"
    facts = [
        ("session", "none yet" if session is None else session.id),
        ("key", seat.key if session is None else session.key),
        ("title", seat.setting("title") or "none yet"),
        ("model", info.name if info.problem is None else f"{info.name} ({info.problem})"),
        ("personality", desk.personality.id),
        ("thinking", clamp_thinking(seat.setting("thinking"), info.thinking)),
        ("mode", "default (a plan is paused)" if mode == "plan_paused" else mode),
    ]
    if session is not None:
        facts += [
            ("context", _context(session.context_tokens, info.context_window)),
            ("messages", format_count(session.message_count)),
            ("compactions", format_count(session.compactions)),
            ("queue", format_count(seat.runtime.count_queued(session.id))),
            ("begun", time_ago(session.created_at, desk.now, desk.zone(session.created_at))),
            ("usage", _spent(session.usage)),
            ("verbose", "on" if session.metadata.get("verbose") else "off"),
        ]
    return Reply(text=_table(facts))


def _context(used: int | None, window: int | None) -> str:
    if used is None:
        return "not measured yet"
    if window is None:
        return f"{format_count(used)} tokens"
    return f"{format_count(used)} of {format_count(window)} tokens ({used * 100 // window} %)"


async def usage(desk: Desk, _rest: str) -> Reply:
    """`/usage`."""
    session = await desk.seat.refresh()
    today = datetime.fromtimestamp(desk.now / 1000, desk.zone(desk.now)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    spent = await desk.store.get_usage(since=int(today.timestamp() * 1000))
    rows = [("today, all sessions", _spent(spent))]
    if session is not None:
        rows.insert(0, ("this session", _spent(session.usage)))
    return Reply(text=_table(rows))


def _spent(usage: Usage) -> str:
    if not usage.api_calls:
        return "nothing yet"
    cached = usage.cache_read_tokens + usage.cache_creation_tokens
    parts = [
        f"{format_count(usage.input_tokens)} tokens in",
        f"{format_count(usage.output_tokens)} out",
        *([f"{format_count(cached)} cached"] if cached else []),
        counted(usage.api_calls, "call"),
        format_cost(usage.cost),
    ]
    return ", ".join(parts)


async def memory(desk: Desk, _rest: str) -> Reply:
    """`/memory`: both files, their sizes, and where they are."""
    personality = desk.personality
    blocks = []
    for name in MEMORY_NAMES:
        file = await desk.memory.read(name, personality)
        head = f"{file.path} ({format_bytes(len(file.text.encode(errors='replace')))})"
        blocks.append(f"{head}\n{file.text.strip() or '(empty)'}")
    return Reply(text="\n\n".join(blocks))


async def todos(desk: Desk, _rest: str) -> Reply:
    """`/todos`."""
    if desk.seat.session is None:
        return Reply(text="There are no todos yet.")
    found = await desk.store.get_todos(desk.seat.session.id)
    lines = [f"{MARKS[each.status]} {each.text}" for each in found]
    return Reply(text="\n".join(lines) or "There are no todos.")


async def scratchpad(desk: Desk, rest: str) -> Reply:
    """`/scratchpad [NAME]`."""
    session = desk.seat.session
    if session is None:
        return Reply(text="The scratchpad is empty.")
    if rest:
        entry = await desk.store.find_scratch(session.id, rest)
        if entry is None:
            raise InvalidInput(f'There is no scratchpad entry "{rest}".')
        return Reply(text=entry.content)
    entries = await desk.store.list_scratch(session.id)
    rows = [(each.name, format_bytes(each.size)) for each in entries]
    return Reply(text=_table(rows) if rows else "The scratchpad is empty.")


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
