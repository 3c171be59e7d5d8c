"""A life in which something is said while a turn runs: for `turns steering`.

The turn asks for a tool, and what was said meanwhile goes into it before its next step. Whatever
happens, each message is in the thread once, or waits in the inbox once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.processes.talker import Ledger, Post, World
from clew.clock import host_clock
from clew.core.changes import AddMessage
from clew.core.channels.incoming import message_for
from clew.core.message import Draft, Message, ToolCall
from clew.core.names import Title
from clew.core.session import NewSession
from clew.ports import LiveTurn, Store
from clew.runtime.hooks import Hooks
from clew.runtime.recovery import recover
from clew.runtime.runtime import Runtime
from clew.store import open_store

KEY = "cli:steered"
SAID = ("one", "two", "three")
"""The first begins a turn, the others come while it runs."""


class SteeredWorld(World, frozen=True):
    """A store, and nothing else."""

    def make(self) -> None:
        """Before the first life."""
        self.home.mkdir(parents=True, exist_ok=True)


class Worker:
    """`ports.Agent`: uses a tool, and says what is missing while it runs."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.meanwhile: Any = None

    async def warm(self, model: str | None = None) -> None:
        """There is nothing to load."""

    async def run(self, turn: LiveTurn) -> None:
        """One step with a tool, what was said meanwhile, and an answer."""
        call = ToolCall(id=f"call-{turn.id}", name="look")
        asked = Draft(role="assistant", tool_calls=(call,))
        seen = Draft(role="tool", content="seen", tool_call_id=call.id, tool_name="look")
        await turn.record(AddMessage(asked, turn.id, from_person=False))
        if self.meanwhile is not None:
            await self.meanwhile()
        await turn.record(AddMessage(seen, turn.id, from_person=False))
        await turn.take_steering()
        answer = Draft(role="assistant", content="done")
        await turn.finish(AddMessage(answer, turn.id, from_person=False))

    async def make_title(self, model: str | None, thread: Sequence[Message]) -> Title:  # noqa: ARG002  # the port's signature
        """None."""
        return Title(None)


async def prepare(world: Any, _ledger: Ledger, post: Post) -> None:
    """Make the store and the session."""
    async with await open_store(f"sqlite://{world.home}/sessions.db") as store:
        await store.open_session(NewSession(key=KEY, title="Steered"))
    post("finished", "", 0)


async def live(world: Any, ledger: Ledger, post: Post) -> None:
    """Find out what the last life left, go on, and say what was not acknowledged before."""
    async with await open_store(f"sqlite://{world.home}/sessions.db") as store:
        session, _ = await store.open_session(NewSession(key=KEY, title="Steered"))
        worker = Worker(store)
        runtime = Runtime(store, worker, hooks=Hooks({}, clock=host_clock), remember_rule=_forget)
        left = await recover(store, session.id)
        for problem in await _check(store, session.id, ledger):
            post("problem", problem, 0)
        for inbound in left.unanswered:
            await (await runtime.take_up(inbound)).turn
        missing = [text for text in SAID if text not in await _heard(store, session.id)]

        async def say(text: str) -> Any:
            message = message_for(session, text, channel="cli")
            ticket = await runtime.accept(message, queue="steer")
            post("accepted", text, 0)
            return ticket

        async def meanwhile() -> None:
            worker.meanwhile = None
            tickets.extend([await say(text) for text in missing[1:]])

        tickets: list[Any] = []
        if missing:
            worker.meanwhile = meanwhile
            tickets.append(await say(missing[0]))
            await tickets[0].turn
            turns = {(await ticket.turn).id for ticket in tickets}
            if len(turns) != 1:
                post("problem", f"what was said meanwhile had turns of its own: {turns}", 0)
        await runtime.close()
        ledger.accepted.update(SAID)
        for problem in await _check(store, session.id, ledger):
            post("problem", problem, 0)
        if await store.list_inbound(session.id):
            post("problem", "something is left in the inbox", 0)
    post("finished", "", 0)


async def _forget(_rule: str) -> None:
    """Nothing is allowed for ever here."""


async def _check(store: Store, session_id: str, ledger: Ledger) -> list[str]:
    """Each acknowledged message is there, and none is there twice."""
    heard = await _heard(store, session_id)
    lost = [text for text in ledger.accepted if not heard[text]]
    twice = [text for text, count in heard.items() if count > 1]
    return [*(f"{text} is lost" for text in lost), *(f"{text} is there twice" for text in twice)]


async def _heard(store: Store, session_id: str) -> Counter[str]:
    """How often each thing is in the thread, or waits in the inbox."""
    thread = await store.get_messages(session_id)
    waiting = await store.list_inbound(session_id)
    return Counter(
        [
            *(message.content for message in thread if message.role == "user"),
            *(str(inbound.payload["text"]) for inbound in waiting),
        ]
    )
