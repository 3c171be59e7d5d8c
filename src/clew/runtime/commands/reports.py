"""Commands that only report: help, status, usage, memory, todos, scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clew.core.commands import describe_help
from clew.core.context.compaction import is_counted
from clew.core.memory import MEMORY_NAMES
from clew.core.models import clamp_thinking
from clew.core.names import (
    counted,
    format_bytes,
    format_cost,
    format_count,
    format_tokens,
    time_ago,
)
from clew.core.rules import HeldRule, list_held, word_rule
from clew.core.session import OWNER, Session
from clew.core.usage import ESTIMATED, Usage
from clew.errors import InvalidInput
from clew.ports import Store
from clew.runtime.commands.desk import Desk, Reply

RULES = 20
"""Rules that `/status` lists."""

RECENT = 20
"""How many messages are searched for the last answer."""

MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]", "cancelled": "[-]"}


async def help_(desk: Desk, rest: str) -> Reply:
    """`/help [COMMAND]`: the commands that the person can use here."""
    return Reply(text=describe_help(desk.issuer, rest))


async def status(desk: Desk, _rest: str) -> Reply:
    """`/status`."""
    session = await desk.refresh()
    info = desk.model
    mode = desk.setting("mode") or "default"
    facts = [
        ("session", "none yet" if session is None else session.id),
        ("key", desk.at.key if session is None else session.key),
        ("title", desk.setting("title") or "none yet"),
        ("model", info.name if info.problem is None else f"{info.name} ({info.problem})"),
        ("personality", desk.personality.id),
        ("thinking", clamp_thinking(desk.setting("thinking"), info.thinking)),
        ("mode", "default (a plan is paused)" if mode == "plan_paused" else mode),
    ]
    if session is not None:
        facts += [
            ("context", await _context(desk, session, info.context_window)),
            ("messages", format_count(session.message_count)),
            ("compactions", format_count(session.compactions)),
            ("queue", format_count(desk.runtime.count_queued(session.id))),
            ("begun", time_ago(session.created_at, desk.now, desk.zone)),
            *_spent(session.usage, estimated=is_estimated(session)),
            ("verbose", "on" if session.metadata.get("verbose") else "off"),
        ]
    if desk.person == OWNER:
        facts += _rules(list_held(session, desk.rules))
    return Reply(text=_table(facts))


def _rules(held: Sequence[HeldRule]) -> list[tuple[str, str]]:
    """The rules about tools, one to a line."""
    shown = [word_rule(each) for each in held[:RULES]]
    if len(held) > RULES:
        shown.append(f"… {counted(len(held) - RULES, 'more rule')}: `clew show ID --json`")
    shown = shown or ["none: what changes things is asked about"]
    return [("" if number else "rules", each) for number, each in enumerate(shown)]


async def _context(desk: Desk, session: Session, window: int | None) -> str:
    used = session.context_tokens
    if used is None:
        return "not measured yet"
    size = await format_context(desk.store, session)
    if window is None:
        return f"{size} tokens"
    return f"{size} of {format_count(window)} tokens ({used * 100 // window} %)"


async def format_context(store: Store, session: Session) -> str:
    """The tokens of the last request, with `~` if no provider has counted them."""
    recent = await store.get_messages(session.id, RECENT)
    estimated = not is_counted(recent, await store.list_compactions(session.id))
    return format_tokens(session.context_tokens or 0, estimated=estimated)


def is_estimated(session: Session) -> bool:
    """Whether some of the session's totals are estimates."""
    return bool(session.metadata.get(ESTIMATED))


async def usage(desk: Desk, _rest: str) -> Reply:
    """`/usage`."""
    session = await desk.refresh()
    today = datetime.fromtimestamp(desk.now / 1000, desk.zone).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    since = int(today.timestamp() * 1000)
    spent = await desk.store.get_usage(since=since)
    rows = [("today, all sessions", *_cells(spent, estimated=await _any_estimated(desk, since)))]
    if session is not None:
        mine = _cells(session.usage, estimated=is_estimated(session))
        rows.insert(0, ("this session", *mine))
    rows.insert(0, ("", "tokens in", "out", "cached", "calls", ""))
    wide = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return Reply(
        text="\n".join(
            f"{name:<{wide[0]}}  {read:>{wide[1]}}  {said:>{wide[2]}}  {cached:>{wide[3]}}  "
            f"{calls:>{wide[4]}}  {cost}".rstrip()
            for name, read, said, cached, calls, cost in rows
        )
    )


async def _any_estimated(desk: Desk, since: int) -> bool:
    return any(row.estimated for row in await desk.store.list_usage("platform", since=since))


def _cells(usage: Usage, *, estimated: bool) -> tuple[str, str, str, str, str]:
    return (
        format_tokens(usage.input_tokens, estimated=estimated),
        format_tokens(usage.output_tokens, estimated=estimated),
        format_count(usage.cache_read_tokens + usage.cache_creation_tokens),
        format_count(usage.api_calls),
        format_cost(usage.cost, estimated=estimated),
    )


def _spent(usage: Usage, *, estimated: bool) -> list[tuple[str, str]]:
    """What a session has spent, in two lines that fit any terminal."""
    if not usage.api_calls:
        return [("usage", "nothing yet")]
    read, said, cached, _, cost = _cells(usage, estimated=estimated)
    calls = counted(usage.api_calls, "call")
    tokens = f"{read} tokens in, {said} out" + ("" if cached == "0" else f", {cached} cached")
    return [("usage", tokens), ("cost", f"{cost.removeprefix('cost ')}, {calls}")]


async def memory(desk: Desk, rest: str) -> Reply:
    """`/memory [search WORDS]`: both files with their sizes and places, or what fits the words."""
    word, _, question = rest.strip().partition(" ")
    if word == "search":
        return await _search_memory(desk, question.strip())
    if word:
        raise InvalidInput("/memory shows both files; /memory search WORDS searches them.")
    personality = desk.personality
    blocks = []
    for name in MEMORY_NAMES:
        file = await desk.memory.read(name, personality)
        head = f"{file.path} ({format_bytes(len(file.text.encode(errors='replace')))})"
        blocks.append(f"{head}\n{file.text.strip() or '(empty)'}")
    return Reply(text="\n\n".join(blocks))


async def _search_memory(desk: Desk, question: str) -> Reply:
    if not question:
        raise InvalidInput("Say what to search for: /memory search WORDS.")
    found = await desk.recall.search(question, desk.personality)
    lines = [f"{each.chunk.place}\n  {' '.join(each.chunk.text.split())}" for each in found.hits]
    told = [found.notice] if found.notice is not None else []
    return Reply(text="\n".join([*told, *lines]) or "Nothing in the memory fits.")


async def todos(desk: Desk, _rest: str) -> Reply:
    """`/todos`."""
    if desk.current is None:
        return Reply(text="There are no todos yet.")
    found = await desk.store.get_todos(desk.current.id)
    lines = [f"{MARKS[each.status]} {each.text}" for each in found]
    return Reply(text="\n".join(lines) or "There are no todos.")


async def scratchpad(desk: Desk, rest: str) -> Reply:
    """`/scratchpad [NAME]`."""
    session = desk.current
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
