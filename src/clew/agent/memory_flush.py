"""The memory flush: before a thread is compacted, the model may write down what should last.

It is a silent turn. The model sees the thread as the next turn would, and may only use the memory
tools. What it says and does is never recorded, shown or delivered; only what it writes to the
memory files stays, and its usage is reported to the caller.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from clew.agent.personalities import choose_model
from clew.agent.tool_interface import Toolbox, ToolOutcome, ToolSpec
from clew.core.changes import AddMessage, AddUsage, Change, Recorded
from clew.core.live_events import Signal
from clew.core.message import Draft, Message, ToolCall, number
from clew.core.models import ModelInfo, Personality
from clew.core.notes import Blob
from clew.core.session import OWNER, Session
from clew.core.tokens import Scopes, scopes_of
from clew.core.turn import Approval
from clew.core.usage import Usage
from clew.errors import InvalidInput
from clew.ports import LiveTurn, Personalities

if TYPE_CHECKING:
    from clew.agent.requests import Catalogue

MEMORY_TOOLS: Final = frozenset({"memory_read", "memory_write"})
MOST_REQUESTS: Final = 6
MOST_MESSAGES: Final = 100_000
"""More than any thread has: the messages were chosen before."""

FLUSH_REQUEST: Final = """\
[This is clew, not the user. The older part of this conversation is about to be replaced by a \
summary. If there is anything in it that should still be known in later conversations, and is not \
in the memory files yet, write it there now with memory_write: lasting facts about the user and \
the projects, in short lines, no secrets. Then answer with one word. If there is nothing, answer \
"nothing". Nobody reads your answer.]"""

BuildPrompt = Callable[[LiveTurn, Personality, ModelInfo], Awaitable[str]]


def is_writable(session: Session) -> bool:
    """Whether it may write: the owner's session, not in plan mode, in a writable directory."""
    if session.person != OWNER or session.mode == "plan":
        return False
    return session.cwd is None or os.access(session.cwd, os.W_OK)


class MemoryFlusher:
    """Runs silent turns with the session's model (`runtime.upkeep.compaction`)."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        personalities: Personalities,
        toolbox: Toolbox,
        build_prompt: BuildPrompt,
        get_blob: Callable[[str], Awaitable[Blob]],
        writable: Callable[[Session], bool] = is_writable,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._catalogue = catalogue
        self._personalities = personalities
        self._toolbox = MemoryToolbox(toolbox)
        self._build_prompt = build_prompt
        self._get_blob = get_blob
        self._writable = writable
        self._sleep = sleep
        self._chance = chance

    async def flush(
        self, session: Session, thread: Sequence[Message], *, spend: Callable[[Usage], None]
    ) -> None:
        """Let the model write to its memory, where it can.

        `spend` is called with the usage of each answer. Raises whatever a turn raises: the caller
        goes on without the flush.
        """
        info = choose_model(self._catalogue, self._personalities, session)
        if info.embedded or not info.tools or not await asyncio.to_thread(self._writable, session):
            return
        personality = self._personalities.choose_personality(session)
        turn = SilentTurn(session, thread, spend)
        if not await self._toolbox.list_tools(turn, personality, info):
            return
        await asyncio.to_thread(import_module, "clew.agent.loop")  # a second or two
        from clew.agent.loop import TurnSetup, run_turn  # noqa: PLC0415  # loads pydantic-ai

        setup = TurnSetup(
            info=info,
            model=await self._catalogue.open_model(info),
            settings=self._catalogue.get_settings(
                info,
                thinking=session.thinking or personality.thinking,
                service_tier=session.service_tier,
            ),
            personality=personality,
            toolbox=self._toolbox,
            build_prompt=self._build_prompt,
            get_blob=self._get_blob,
            put_blob=_keep_no_blob,
            context_messages=MOST_MESSAGES,
            max_requests=MOST_REQUESTS,
            sleep=self._sleep,
            chance=self._chance,
        )
        await run_turn(turn, setup)


class SilentTurn:
    """A `LiveTurn` in memory only: it is not recorded, not watched, and asks no questions."""

    def __init__(
        self,
        session: Session,
        thread: Sequence[Message],
        spend: Callable[[Usage], None] = lambda _: None,
        *,
        scopes: Scopes | None = None,
    ) -> None:
        self.id = f"silent-{secrets.token_hex(6)}"
        self.session = session
        self.person = session.person
        self.scopes = scopes or scopes_of(session.person)
        # What a job or a webhook has said is not what the owner wants to be remembered.
        self.writes_memory = session.platform not in ("cron", "webhook")
        self._spend = spend
        self._rows = list(thread)
        self._add(Draft(role="user", content=FLUSH_REQUEST))

    async def get_thread(self, limit: int) -> tuple[Message, ...]:
        """The messages that it was given, and those of this turn."""
        return tuple(self._rows[-limit:])

    async def record(self, *changes: Change) -> Recorded:
        """Keep messages while the turn runs, and report usage; nothing is stored."""
        seqs = []
        for change in changes:
            if isinstance(change, AddMessage):
                seqs.append(self._add(change.draft))
            elif isinstance(change, AddUsage):
                self._spend(change.usage)
        return Recorded(tuple(seqs), tuple(seqs), self._rows[-1].seq, self._rows[-1].at)

    async def finish(self, *changes: Change) -> Recorded:
        """Record the last changes; there is no stored turn to end."""
        return await self.record(*changes)

    async def take_steering(self) -> bool:
        """False: no messages reach a silent turn."""
        return False

    def signal(self, signal: Signal) -> None:
        """Drop the signal: no surface watches a silent turn."""

    async def ask(self, call: ToolCall, request: dict[str, Any]) -> Approval:  # noqa: ARG002  # the port's signature
        """Refuse: a silent turn asks no questions."""
        raise InvalidInput("A silent turn asks no questions, so this was not done.")

    async def set_mode(self, mode: str) -> None:  # noqa: ARG002  # the port's signature
        """Refuse: a silent turn changes no mode."""
        raise InvalidInput("A silent turn can't change the mode.")

    async def allow(self, rule: str, *, always: bool) -> None:  # noqa: ARG002  # the port's signature
        """Refuse: a silent turn adds no rule."""
        raise InvalidInput("A silent turn can't allow anything.")

    async def spawn(self, task: str, *, personality: str | None = None) -> str:  # noqa: ARG002  # the port's signature
        """Refuse: a silent turn starts no sub-agent."""
        raise InvalidInput("A silent turn can't start a sub-agent.")

    def _add(self, draft: Draft) -> int:
        last = self._rows[-1] if self._rows else None
        seq = 1 if last is None else last.seq + 1
        at = 0 if last is None else last.at
        self._rows.append(
            number(draft, row_id=seq, session_id=self.session.id, seq=seq, turn_id=self.id, at=at)
        )
        return seq


class MemoryToolbox:
    """A toolbox that offers only the memory tools."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def list_tools(
        self, turn: LiveTurn, personality: Personality, model: ModelInfo
    ) -> tuple[ToolSpec, ...]:
        """See `Toolbox.list_tools`; nothing if the memory can't be written."""
        offered = await self._toolbox.list_tools(turn, personality, model)
        mine = tuple(spec for spec in offered if spec.name in MEMORY_TOOLS)
        return mine if any(spec.name == "memory_write" for spec in mine) else ()

    async def run(self, call: ToolCall, turn: LiveTurn, personality: Personality) -> ToolOutcome:
        """See `Toolbox.run`."""
        if call.name not in MEMORY_TOOLS:
            words = f"{call.name} is not available: only the memory tools are, in this turn."
            return ToolOutcome(content=words, is_error=True)
        return await self._toolbox.run(call, turn, personality)


async def _keep_no_blob(_data: bytes, _media_type: str) -> str:
    raise InvalidInput("A silent turn keeps no files.")
