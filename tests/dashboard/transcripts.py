"""What the tests of the session's page have in common: long sessions, scenes, what a page shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from playwright.async_api import Page

from clew.core.changes import AddMessage, Change
from clew.core.live_events import TextDelta
from clew.core.message import Draft, ToolCall
from clew.core.session import Session
from clew.ports import LiveTurn
from clew.runtime.lane.lease import hold
from tests.dashboard.conftest import Gateway
from tests.runtime.conftest import saying

BATCH = 500


async def record(gateway: Gateway, session: Session, *changes: Change) -> None:
    """Write into a session, as a turn would."""
    async with hold(gateway.store, session.id, "test") as lease:
        for start in range(0, len(changes), BATCH):
            await gateway.store.record(session.id, lease.epoch, *changes[start : start + BATCH])


def talk(count: int) -> Sequence[Change]:
    """So many messages by turns, each with its number."""
    return [
        AddMessage(
            Draft(role="user", content=f"question number {each}")
            if each % 2
            else Draft(role="assistant", content=f"answer **number {each}**\n\n- one\n- two")
        )
        for each in range(1, count + 1)
    ]


class Stream:
    """A scene that says one piece after the other, when it is told to."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._said = ""

    def say(self, text: str) -> None:
        self._pieces.put_nowait(text)

    def end(self) -> None:
        self._pieces.put_nowait(None)

    async def __call__(self, turn: LiveTurn) -> None:
        self.began.set()
        while (piece := await self._pieces.get()) is not None:
            self._said += piece
            turn.signal(TextDelta(piece))
        await turn.finish(
            AddMessage(Draft(role="assistant", content=self._said), turn.id, from_person=False)
        )


class Asking:
    """A scene that asks before it runs a command, and says what the answer was."""

    def __init__(self, command: str = "rm -r build", **request: object) -> None:
        self.request = {
            "summary": f"Run: {command}",
            "detail": command,
            "rule": f"shell={command}",
            "cwd": "/work",
            **request,
        }
        self.call = ToolCall("call_1", "shell", f'{{"command": "{command}"}}')

    async def __call__(self, turn: LiveTurn) -> None:
        asked = Draft(role="assistant", tool_calls=(self.call,))
        await turn.record(AddMessage(asked, turn.id, from_person=False))
        answer = await turn.ask(self.call, self.request)
        told = f"{answer.decision} {answer.scope} {answer.reason or ''}".strip()
        result = Draft(
            role="tool",
            content=told,
            tool_call_id=self.call.id,
            tool_name=self.call.name,
            is_error=answer.decision != "yes",
        )
        await turn.record(AddMessage(result, turn.id, from_person=False))
        await saying(f"I was told: {told}")(turn)


async def write(page: Page, text: str) -> None:
    """Type a message and send it with Enter."""
    await page.get_by_label("Message", exact=True).fill(text)
    await page.get_by_label("Message", exact=True).press("Enter")


async def numbers(page: Page) -> list[int]:
    """The numbers of the messages in the document, from the top."""
    found: list[int] = await page.evaluate(
        "[...document.querySelectorAll('.messages > .message')].map((each) => +each.dataset.seq)"
    )
    return found
