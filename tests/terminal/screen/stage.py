"""A stage for the transcript: messages out of nothing, and an app that shows just them."""

from __future__ import annotations

from typing import Any

import msgspec
from textual.app import App, ComposeResult
from textual.widgets import Input

from clew.api.sessions import MessagePage
from clew.core.message import Message, Role
from clew.core.session import Session
from clew.core.turn import Turn, TurnStatus
from clew.core.usage import Usage
from clew.terminal.screen.transcript import Transcript


def say(seq: int, role: Role, content: str = "", **more: Any) -> Message:
    """A committed message."""
    known: dict[str, Any] = {
        "parts": (),
        "tool_call_id": None,
        "tool_name": None,
        "tool_calls": (),
        "is_error": False,
        **more,
    }
    return Message(
        id=seq,
        session_id="s",
        seq=seq,
        turn_id=None,
        role=role,
        content=content,
        model=None,
        usage=None,
        at=0,
        **known,
    )


def talk(count: int) -> list[Message]:
    """Questions and answers, each with its number."""
    return [
        say(seq, "user", f"question {seq}")
        if seq % 2
        else say(seq, "assistant", f"**answer** {seq}\n\nin two paragraphs")
        for seq in range(1, count + 1)
    ]


def session(count: int) -> Session:
    """A session of so many messages."""
    fields: dict[str, Any] = dict.fromkeys(field.name for field in msgspec.structs.fields(Session))
    return Session(**{**fields, "id": "s", "message_count": count, "head": count})


def turn(status: TurnStatus, error: str | None = None) -> Turn:
    """A turn that is over."""
    return Turn("t", "s", status, None, None, Usage(), error, None, 0, 1)


class Stage(App[None]):
    """A transcript over an input, with messages to load."""

    CSS = "Transcript { height: 1fr; }"

    def __init__(self, messages: list[Message] | None = None, *, verbose: bool = False) -> None:
        super().__init__()
        self.messages = messages or []
        self.verbose = verbose
        self.loads: list[tuple[int | None, int]] = []
        self.copied: list[str] = []

    def compose(self) -> ComposeResult:
        """The transcript, and somewhere to type."""
        yield Transcript(self.load, verbose=lambda: self.verbose)
        yield Input()

    async def load(self, before: int | None, limit: int) -> MessagePage:
        """As the API would."""
        self.loads.append((before, limit))
        found = [each for each in self.messages if before is None or each.seq < before]
        return MessagePage(tuple(found[-limit:]), len(self.messages))

    def on_transcript_copied(self, event: Transcript.Copied) -> None:
        """The clipboard."""
        self.copied.append(event.text)

    @property
    def transcript(self) -> Transcript:
        """The widget."""
        return self.query_one(Transcript)

    @property
    def seen(self) -> list[str]:
        """The lines that are seen, without the blanks at their ends."""
        widget = self.transcript
        return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]

    @property
    def picture(self) -> str:
        """All that is seen."""
        return "\n".join(self.seen)

    async def open(self) -> None:
        """Open the session with these messages."""
        await self.transcript.open(session(len(self.messages)))
