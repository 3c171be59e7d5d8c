"""Titles that nobody typed, after a turn: at once from the prompt, then a model's if it has one.

What a title looks like is in `core.titles`; who asks the model is behind `ports.Agent`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from clew.core.message import Message
from clew.core.placing import GREETING
from clew.core.session import Session, SessionFacts
from clew.core.titles import title_from_prompt
from clew.core.usage import Usage
from clew.ports import Agent, Store

FIRST_MESSAGES = 20


class Titler:
    """Gives sessions their titles. `spend` hears what a model's title took."""

    def __init__(self, store: Store, agent: Agent, spend: Callable[[str, Usage], None]) -> None:
        self._store = store
        self._agent = agent
        self._spend = spend
        self._asking: set[asyncio.Task[None]] = set()

    async def give(self, session: Session) -> None:
        """A title from the prompt, now; a better one comes when it comes."""
        thread = await self._store.get_messages(session.id, FIRST_MESSAGES)
        prompt = next((each for each in thread if _is_said(each)), None)
        if prompt is None:
            return
        if plain := title_from_prompt(prompt.content):
            await self._store.describe_session(session.id, SessionFacts(title=plain))
        task = asyncio.create_task(self._ask(session, thread))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, session: Session, thread: Sequence[Message]) -> None:
        # Whatever goes wrong with a model: there is a title already.
        with contextlib.suppress(Exception):
            better = await self._agent.make_title(session.model, thread)
            if better.text:
                await self._store.describe_session(session.id, SessionFacts(title=better.text))
            if better.usage.api_calls:
                self._spend(session.id, better.usage)

    async def close(self) -> None:
        """Nobody waits for a model's title."""
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking)


def _is_said(message: Message) -> bool:
    """Whether a person said it: a title that tells of the greeting would tell nothing."""
    return message.role == "user" and message.content != GREETING
