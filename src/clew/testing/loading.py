"""Fills a store with conversations, through the ports, so that it may be any store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from clew.core.changes import Change
from clew.core.session import SessionEdit
from clew.ports import Store
from clew.testing.clock import FakeClock
from clew.testing.corpus import Conversation, Fork, Turns

RECORD = 200
"""Changes that one record has at most: a longer one would make the others wait."""


async def load(
    store: Store,
    conversations: Iterator[Conversation],
    *,
    at_once: int = 32,
    progress: Callable[[int], None] = lambda _: None,
    clock: FakeClock | None = None,
) -> None:
    """Write conversations, several at once so that they share commits; then their forks.

    `progress` is called with the number of messages after each session. A fork is as old as it
    says where the store goes by `clock`; anywhere else it was made just now.
    """
    forks: list[tuple[str, Fork]] = []

    async def write() -> None:
        for conversation in conversations:
            session_id = await _write(store, conversation)
            progress(conversation.messages)
            if conversation.fork is not None:
                forks.append((session_id, conversation.fork))

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(write())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # what stops one stops all
    clock = clock or FakeClock()
    now = clock.now
    for parent_id, fork in forks:
        clock.now = fork.made_at
        made = await store.fork_session(parent_id, at=fork.at, new_id=fork.id)
        await _write_turns(store, made.id, fork.turns)
        progress(fork.messages)
    clock.now = now


async def _write(store: Store, conversation: Conversation) -> str:
    session = await store.create_session(conversation.new)
    await _write_turns(store, session.id, conversation.turns)
    if conversation.pinned or conversation.archived:
        edit = SessionEdit(pinned=conversation.pinned, archived=conversation.archived)
        await store.edit_session(session.id, edit)
    return session.id


async def _write_turns(store: Store, session_id: str, turns: Turns) -> None:
    lease = await store.acquire_lease(session_id, "corpus")
    changes: list[Change] = []
    for turn in turns:
        changes += turn
        if len(changes) >= RECORD:
            await store.record(session_id, lease.epoch, *changes)
            changes.clear()
    if changes:
        await store.record(session_id, lease.epoch, *changes)
    await store.release_lease(lease)
