"""Sending messages to the agent."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from clew.api.fields import _END, WORDS, Key, SessionId, Word
from clew.api.operation import Params, row
from clew.api.sessions import Stopped, StopSession
from clew.core.message import Earlier

MediaType = Annotated[
    str,
    Meta(
        pattern=f"^[a-z]+/[A-Za-z0-9.+-]+{_END}",
        max_length=100,
        extra={WORDS: "a media type, like image/png"},
    ),
]


Platform = Literal["cli", "web"]
"""The platforms that a message over the API may be shown as."""


MAX_TEXT: Final = 10_000_000


MAX_ATTACHMENT: Final = 20_000_000


MAX_INSTRUCTIONS: Final = 100_000


# --- talking ----------------------------------------------------------------------------------
class Upload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that comes with a message; `data` is base64 in JSON. `name` is for people."""

    media_type: MediaType
    data: Annotated[bytes, Meta(min_length=1, max_length=MAX_ATTACHMENT)]
    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class SendChat(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message for a session, or for the session of a key; with neither, for a new session.

    With an `idempotency_key`, sending it twice has the effect of sending it once. `stream` responds
    with events until the message is answered. `attended`: the owner is there to approve tool calls;
    otherwise calls that need approval are denied at once. `platform`: "cli" for a message that the
    owner typed in a terminal, "web" in a browser. `model` is that of a new session; in an older one
    it is used if the session's own is no longer configured. `instructions` are added to the system
    prompt of this turn. `earlier` is what was said elsewhere before it: the model gets it as a
    quote, and it does not become messages.
    """

    text: Annotated[str, Meta(max_length=MAX_TEXT)]
    session: SessionId | None = None
    key: Key | None = None
    attachments: Annotated[tuple[Upload, ...], Meta(max_length=10)] = ()
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    stream: bool = False
    attended: bool = True
    platform: Platform | None = None
    model: Word | None = None
    instructions: Annotated[str, Meta(max_length=MAX_INSTRUCTIONS)] | None = None
    earlier: Annotated[tuple[Earlier, ...], Meta(max_length=1_000)] = ()


# --- talking ----------------------------------------------------------------------------------
class Accepted(msgspec.Struct, frozen=True):
    """A message that was stored: its turn runs now or later. `is_new`: it was not known before.

    A turn may answer several messages at once; `turn_id` is set if the turn has begun.
    """

    session: str
    inbound: str
    is_new: bool = True
    turn_id: str | None = None


# --- the rows of the table ---------------------------------------------------------------------

SEND: Final = row(
    "chat.send", "POST", "chat", "chat", SendChat, Accepted,
    "Send a message. Returns when it is stored; its turn follows.", status=202, answer="events",
    uploads=True,
    who="guest",
    also="`platform` and `model` are the owner's; a guest names keys of their own sessions only",
)  # fmt: skip
ABORT: Final = row(
    "chat.abort", "POST", "sessions/{id}/abort", "chat", StopSession, Stopped,
    "The same as sessions.stop.",
    who="guest",
)  # fmt: skip
ROWS: Final = (
    SEND,
    ABORT,
)
