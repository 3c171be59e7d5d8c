"""Messages: the durable, numbered, whole rows that a session consists of.

A `Draft` is a message before the store has numbered it. Deltas and progress are live events and
never stored here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from clew.core.usage import Usage

Role = Literal["user", "assistant", "tool", "note"]
"""Who says a message. A `note` is what another program keeps in the thread, and says nothing.

It is numbered like a message, but is not counted as one, shown to the model, or found by a search
that does not ask for notes.
"""

ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "note")


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool the assistant asked for. `arguments` is the JSON text as the provider gave it."""

    id: str
    name: str
    arguments: str = "{}"


class Author(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who said a message on a channel: `<channel>:<id>` as the platform knows them, and their name.

    The name is chosen by that person and can't be trusted. `among`: others speak there too, so the
    model is told who says it.
    """

    id: str
    name: str | None = None
    among: bool = False


class Earlier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a conversation that was held elsewhere: who said it, and what."""

    role: Literal["user", "assistant", "tool"]
    text: Annotated[str, Meta(max_length=10_000_000)]


class Draft(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A whole message that has no number yet.

    `parts` holds what the provider needs back beyond the text (thinking signatures, images), in
    the vocabulary of docs/guides/using-the-store.md; a part that stands for stored bytes names them
    as `{"blob": "<hash>"}`. `at` is for imports; left out,
    the store's clock is used. `external_id` is the id that another program has for the message,
    unique in its session.
    """

    role: Role
    content: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    is_error: bool = False
    model: str | None = None
    usage: Usage | None = None
    at: int | None = None
    author: Author | None = None
    external_id: str | None = None


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A committed message. `seq` orders it in its session; `at` is for people to read.

    `session_id` is the session it was written in: inherited messages of a fork name the older
    session. `id` is the row in this store and means nothing in another.
    """

    id: int
    session_id: str
    seq: int
    turn_id: str | None
    role: Role
    content: str
    parts: tuple[dict[str, Any], ...]
    tool_call_id: str | None
    tool_name: str | None
    tool_calls: tuple[ToolCall, ...]
    is_error: bool
    model: str | None
    usage: Usage | None
    at: int
    author: Author | None = None
    external_id: str | None = None

    @property
    def draft(self) -> Draft:
        """The message without id, session and number: equal for equal messages of two stores."""
        return Draft(
            role=self.role,
            content=self.content,
            parts=self.parts,
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            tool_calls=self.tool_calls,
            is_error=self.is_error,
            model=self.model,
            usage=self.usage,
            at=self.at,
            author=self.author,
            external_id=self.external_id,
        )


def number(
    draft: Draft, *, row_id: int, session_id: str, seq: int, turn_id: str | None, at: int
) -> Message:
    """Make the message from a draft and its place in the store."""
    return Message(
        row_id,
        session_id,
        seq,
        turn_id,
        draft.role,
        draft.content,
        draft.parts,
        draft.tool_call_id,
        draft.tool_name,
        draft.tool_calls,
        draft.is_error,
        draft.model,
        draft.usage,
        at if draft.at is None else draft.at,
        draft.author,
        draft.external_id,
    )


def find_bad_part(parts: object) -> str | None:
    """What is wrong with the shape of a draft's parts; None if nothing is.

    The types that clew knows are read with care, and others pass: they are those of other programs.
    """
    if not isinstance(parts, tuple | list):
        return f"`parts` has to be a tuple of objects, not {type(parts).__name__}."
    for number, part in enumerate(parts):
        if not isinstance(part, dict):
            return f"Part {number} has to be an object (a dict), not {type(part).__name__}."
        for name in ("type", "blob"):
            if name in part and not isinstance(part[name], str):
                return f"`{name}` of part {number} has to be text."
    return None


def blob_hashes(parts: tuple[dict[str, Any], ...]) -> tuple[str, ...]:
    """The hashes of the blobs that a message's parts refer to, each once, in order."""
    named = (part.get("blob") for part in parts)
    return tuple(dict.fromkeys(blob for blob in named if isinstance(blob, str)))
