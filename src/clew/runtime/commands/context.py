"""Commands about the model's context: compact, uncompact, context."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.context.compaction import AFTER_SUMMARY, since, summary_message
from clew.core.context.size import ContextPart, estimate_message, estimate_thread
from clew.core.context.thread import window
from clew.core.message import Message
from clew.core.names import counted, format_count
from clew.core.notes import Compaction
from clew.core.session import Session
from clew.core.text import columns, cut, pad, strip_controls
from clew.errors import InvalidInput
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.commands.reports import format_context

LARGEST = 10
"""How many messages `/context detail` lists."""

LIMIT = 200
SAID = 50
"""How many messages are read, and how many columns of each are shown."""

KINDS = {"user": "what you said", "assistant": "answers", "tool": "tool results"}


async def compact(desk: Desk, rest: str) -> Reply:
    """`/compact [WISH]`: replace the older part by a summary that follows the wish."""
    session = desk.session
    made = await desk.runtime.compact(session.id, instructions=rest or None)
    await desk.refresh()
    return Reply(
        text=f"Summarised {counted(made.summarised, 'message')}, kept "
        f"{counted(made.kept, 'message')}: {format_count(made.tokens_before)} → "
        f"~{format_count(made.tokens_after)} tokens.\nEverything stays in the store; "
        "/uncompact takes it back."
    )


async def uncompact(desk: Desk, _rest: str) -> Reply:
    """`/uncompact`: undo the latest compaction."""
    session = desk.session
    if desk.runtime.is_running(session.id):
        raise InvalidInput("A turn is running. Wait for it, or stop it first (Ctrl+C or /stop).")
    await desk.runtime.uncompact(session.id)
    await desk.refresh()
    left = await desk.store.find_compaction(session.id)
    now = "the compaction before it counts again" if left else "the model reads the whole again"
    return Reply(text=f"Took the latest compaction back; {now}.")


async def context(desk: Desk, rest: str) -> Reply:
    """`/context [list|detail]`: the parts of the next request with their sizes."""
    wanted = rest.lower() or "list"
    if wanted not in ("list", "detail"):
        raise InvalidInput("It is /context list, or /context detail.")
    await desk.refresh()
    session = desk.session
    parts = await desk.context.list_parts(session, desk.person, desk.scopes)
    compaction = await desk.store.find_compaction(session.id)
    rows = since(await desk.store.get_messages(session.id, LIMIT), compaction)
    shown = window(rows, LIMIT) if rows else ()
    sizes = _sum_up(parts, shown, compaction)
    total = sum(size for _, size in sizes)
    blocks = [_table(sizes, total), await _total(desk, session, total)]
    if wanted == "detail":
        blocks += _detail(parts, shown, total)
    return Reply(text="\n\n".join(blocks))


def _sum_up(
    parts: Sequence[ContextPart], shown: Sequence[Message], compaction: Compaction | None
) -> list[tuple[str, int]]:
    sizes: dict[str, int] = {}
    for part in parts:
        name = part.name if part.kind == "prompt" else "tools"
        sizes[name] = sizes.get(name, 0) + part.tokens
    if compaction is not None:
        sizes["summary"] = estimate_message(summary_message(compaction))
    for role, name in KINDS.items():
        size = estimate_thread(each for each in shown if each.role == role)
        if size:
            sizes[name] = size
    return list(sizes.items())


async def _total(desk: Desk, session: Session, total: int) -> str:
    size = desk.model.context_window
    share = f" of {format_count(size)} ({total * 100 // size} %)" if size else ""
    line = f"together ~{format_count(total)} tokens{share}"
    if session.context_tokens:
        line += f"; the last request was {await format_context(desk.store, session)}"
    return line


def _detail(parts: Sequence[ContextPart], shown: Sequence[Message], total: int) -> list[str]:
    files = [(part.source, part.tokens) for part in parts if part.source]
    tools = sorted(
        ((part.name, part.tokens) for part in parts if part.kind == "tool"),
        key=lambda each: -each[1],
    )
    largest = sorted(shown, key=estimate_message, reverse=True)[:LARGEST]
    wide = max((len(str(each.seq)) for each in largest), default=0)
    messages = [
        (f"{each.seq:>{wide}} {_described(each)}", estimate_message(each)) for each in largest
    ]
    named = (("files", files), ("tools", tools), ("largest messages", messages))
    return [f"{name}\n{_table(rows, total, indent='  ')}" for name, rows in named if rows]


def _described(message: Message) -> str:
    who = message.tool_name or "tool" if message.role == "tool" else message.role
    said = message.content or " ".join(call.name for call in message.tool_calls)
    said = said.removesuffix(AFTER_SUMMARY)[:400]
    return cut(f"{who}: {' '.join(strip_controls(said).split())}", SAID)


def _table(rows: Sequence[tuple[str, int]], total: int, *, indent: str = "") -> str:
    """Names, sizes, and shares of the whole."""
    if not rows:
        return "nothing yet"
    rows = [(strip_controls(name, keep_newlines=False), size) for name, size in rows]
    width = max(columns(name) for name, _ in rows)
    numbers = [f"~{format_count(size)}" for _, size in rows]
    wide = max(map(len, numbers))
    return "\n".join(
        f"{indent}{pad(name, width)}  {number:>{wide}}  {_share(size, total):>4}"
        for (name, size), number in zip(rows, numbers, strict=True)
    )


def _share(size: int, total: int) -> str:
    share = size * 100 / (total or 1)
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"
