"""Loads what the preview of a session needs, and draws it away from the screen's own loop."""

from __future__ import annotations

import asyncio

from textual.geometry import Size

from clew.api.sessions import StateView
from clew.client.client import Client
from clew.core.message import Message
from clew.core.names import counted
from clew.core.search import SearchHit
from clew.core.text import cut, strip_controls
from clew.errors import ClewError
from clew.terminal.picker.drawing import PIN, Piece
from clew.terminal.picker.preview import AROUND, MESSAGES, Line, draw_end, draw_hit
from clew.terminal.picker.rows import Row


async def load_preview(
    client: Client,
    row: Row,
    size: Size,
    *,
    hit: SearchHit | None,
    query: str,
    state: StateView | None,
) -> list[Line]:
    """The lines of the pane: what it is, then how it ended or where the words were said."""
    head = draw_head(row, state, size.width)
    height = size.height - len(head)
    try:
        messages = await _load_messages(client, row.id, hit)
    except ClewError as error:
        return [*head, [(cut(strip_controls(str(error)), size.width), "error")]]
    if hit is None:
        body = await asyncio.to_thread(draw_end, messages, size.width, height)
    else:
        body = await asyncio.to_thread(draw_hit, messages, hit.seq, query, size.width, height)
    return [*head, *(body or [[("(no messages)", "dim")]])]


async def _load_messages(
    client: Client, session_id: str, hit: SearchHit | None
) -> tuple[Message, ...]:
    if hit is None:
        return (await client.sessions.messages(session_id, limit=MESSAGES)).messages
    page = await client.sessions.messages(
        session_id,
        after=max(0, hit.seq - AROUND - 1),
        before=hit.seq + AROUND + 1,
        undone=True,
    )
    return page.messages


def draw_head(row: Row, state: StateView | None, width: int) -> list[Line]:
    """Its name, its id, and who has it open."""
    facts = [row.id[:8], counted(row.message_count, "message")]
    if state is not None and state.attachment is not None:
        holder = state.attachment
        where = f" in {holder.terminal}" if holder.terminal else ""
        facts.append(f"open{where}, process {holder.pid} on {holder.host}")
    if row.directory:
        facts.append(row.directory)
    said = strip_controls(" · ".join(facts), keep_newlines=False)
    mark: list[Piece] = [(f"{PIN} ", "pin")] if row.pinned else []
    return [
        [*mark, (cut(row.title, max(1, width - 2)), "user")],
        [(cut(said, width), "dim")],
        [],
    ]
