"""Titles that were not typed, after a turn: at once from the prompt, then a model's if it has one.

What a title looks like is in `core.titles`; who asks the model is behind `ports.Agent`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from clew.core.channels.session_choice import GREETING
from clew.core.message import Message
from clew.core.session import Session, SessionFacts
from clew.core.titles import title_from_prompt
from clew.core.usage import Usage
from clew.ports import Agent, Store

FIRST_MESSAGES = 20


class Titler:
    """Gives sessions their titles. `spend` is told what a model's title took."""

    def __init__(self, store: Store, agent: Agent, spend: Callable[[str, Usage], None]) -> None:
        self._store = store
        self._agent = agent
        self._spend = spend
        self._giving: set[str] = set()
        self._asking: set[asyncio.Task[None]] = set()

    async def give(self, session: Session) -> None:
        """A title from the prompt, now; a better one comes when it comes.

        A session that is being given one is left alone: turns may be faster than models.
        """
        if session.id in self._giving:
            return
        self._giving.add(session.id)
        task: asyncio.Task[None] | None = None
        try:
            thread = await self._give_plain(session.id)
            if thread:
                task = asyncio.create_task(self._ask(session, thread))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
                task.add_done_callback(lambda _: self._giving.discard(session.id))
        finally:
            if task is None:
                self._giving.discard(session.id)

    async def _give_plain(self, session_id: str) -> Sequence[Message]:
        """The prompt's title; what a model's would be about, or nothing if none is needed."""
        # How it was when its turn began says nothing: the title may have come meanwhile.
        if (await self._store.get_session(session_id)).title is not None:
            return ()
        thread = await self._store.get_messages(session_id, FIRST_MESSAGES)
        prompt = next((each for each in thread if _is_said(each)), None)
        if prompt is None:
            return ()
        if plain := title_from_prompt(prompt.content):
            await self._store.describe_session(session_id, SessionFacts(title=plain))
        return thread

    async def _ask(self, session: Session, thread: Sequence[Message]) -> None:
        # Whatever goes wrong with a model: there is a title already.
        with contextlib.suppress(Exception):
            better = await self._agent.make_title(session.model, thread)
            if better.usage.api_calls:
                # First: it is paid for even if there is no time left to keep it.
                self._spend(session.id, better.usage)
            if better.text:
                await self._store.describe_session(session.id, SessionFacts(title=better.text))

    async def close(self) -> None:
        """Do not wait for titles that models are still asked for."""
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking)


def _is_said(message: Message) -> bool:
    """Whether a person said it: a title that tells of the greeting would tell nothing."""
    return message.role == "user" and message.content != GREETING
