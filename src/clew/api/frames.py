"""The frames of `/v1/live` and of event streams, as values: one definition for both ends.

Over the socket a frame is one JSON text. In an event stream (SSE) `event:` is the frame's type,
`data:` the same JSON, and `id:` the session's seq where the frame has one, so that
`Last-Event-ID` resumes exactly. A message (`Committed`) has a seq and comes exactly once, in
order; everything else is a hint that may be lost.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from clew.api.chat import Accepted
from clew.api.fields import Seq, SessionId
from clew.api.problems import Problem
from clew.api.sessions import ListedSession
from clew.core.live_events import Committed, Event
from clew.core.session import Status
from clew.core.text import to_wire
from clew.core.tokens import Scopes
from clew.core.turn import Approval
from clew.errors import InvalidInput

T = TypeVar("T")


# --- from the client --------------------------------------------------------------------------
class Subscribe(
    msgspec.Struct, frozen=True, tag="subscribe", tag_field="type", forbid_unknown_fields=True
):
    """Follow a session: its messages after a number, or from now on. None: the list of sessions.

    A second one for the same session replaces the first.
    """

    session: SessionId | None = None
    after: Seq | None = None


class Unsubscribe(
    msgspec.Struct, frozen=True, tag="unsubscribe", tag_field="type", forbid_unknown_fields=True
):
    """Stop following a session; does nothing if it is not followed."""

    session: SessionId | None = None


ClientFrame: TypeAlias = Subscribe | Unsubscribe


# --- from the server --------------------------------------------------------------------------
class StateFrame(msgspec.Struct, frozen=True, tag="state", tag_field="type", omit_defaults=True):
    """The first frame: who the caller is, the newest sessions, and the approvals that wait."""

    version: str
    at: int
    person: str
    scopes: Scopes
    sessions: tuple[ListedSession, ...] = ()
    approvals: tuple[Approval, ...] = ()


class SubscribedFrame(msgspec.Struct, frozen=True, tag="subscribed", tag_field="type"):
    """A session is followed from here on: its messages have a seq greater than `after`."""

    session: str | None
    after: int | None = None


class EventFrame(msgspec.Struct, frozen=True, tag="event", tag_field="type", omit_defaults=True):
    """Something happened in a session. `seq` is a message's number; hints have none.

    `inbound` is the message that it answers, in a stream about one message.
    """

    session: str
    event: Event
    seq: int | None = None
    inbound: str | None = None


class GapFrame(msgspec.Struct, frozen=True, tag="gap", tag_field="type"):
    """Hints of this session were lost: the reader was too slow. Messages continue after `after`."""

    session: str
    after: int


HintKind = Literal["changed", "created", "gone", "approval", "turn"]


class HintFrame(msgspec.Struct, frozen=True, tag="hint", tag_field="type", omit_defaults=True):
    """Something without a seq has changed: read it again if you need it.

    `turn` and `approval` are about the session's status; `gone` means that it was deleted.
    """

    session: str
    kind: HintKind
    status: Status | None = None
    title: str | None = None
    revision: int | None = None
    updated_at: int | None = None


class ErrorFrame(msgspec.Struct, frozen=True, tag="error", tag_field="type"):
    """A request failed; the last frame of an event stream."""

    problem: Problem
    session: str | None = None


class AcceptedFrame(msgspec.Struct, frozen=True, tag="accepted", tag_field="type"):
    """The first frame of a chat's stream: the message is stored."""

    accepted: Accepted


class DoneFrame(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The last frame of a chat's stream: the message is answered. A command has no turn."""

    inbound: str
    turn_id: str | None = None


LiveFrame: TypeAlias = StateFrame | SubscribedFrame | EventFrame | GapFrame | HintFrame | ErrorFrame


StreamFrame: TypeAlias = AcceptedFrame | EventFrame | GapFrame | ErrorFrame | DoneFrame


Frame: TypeAlias = LiveFrame | StreamFrame


def event_frame(session_id: str, event: Event, *, inbound: str | None = None) -> EventFrame:
    """An event of a session as a frame."""
    seq = event.message.seq if isinstance(event, Committed) else None
    return EventFrame(session_id, event, seq, inbound)


# --- on the wire ------------------------------------------------------------------------------
_CLIENT: Final[msgspec.json.Decoder[ClientFrame]] = msgspec.json.Decoder(ClientFrame)


_FRAME: Final[msgspec.json.Decoder[Frame]] = msgspec.json.Decoder(Frame)


def read_client_frame(data: str | bytes) -> ClientFrame:
    """Read a client's frame; raises `InvalidInput`."""
    return _decode(_CLIENT, data)


def read_frame(data: str | bytes) -> Frame:
    """Read a server's frame; raises `InvalidInput`."""
    return _decode(_FRAME, data)


def _decode(decoder: msgspec.json.Decoder[T], data: str | bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"A frame that can't be read: {error}.") from error


def to_sse(frame: StreamFrame | LiveFrame) -> bytes:
    """A frame as one event of an event stream."""
    kind = str(frame.__struct_config__.tag)
    seq = frame.seq if isinstance(frame, EventFrame) else None
    number = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (number, kind.encode(), to_wire(frame))


class Ending(NamedTuple):
    """Why a WebSocket is closed: code and reason."""

    code: int
    reason: str


UNAUTHORIZED: Final = 4401
"""The code if the token has expired or was revoked; the reason says which."""


CLOSING: Final = Ending(1012, "clew is closing; come back in a moment")


STALLED: Final = Ending(1013, "what was sent here was not read; come back when you can")


UNREADABLE: Final = Ending(1008, "too many frames that can't be read")


FLOOD: Final = Ending(1008, "too many frames at once")


TOO_LONG: Final = Ending(1009, "a frame that is too long")
