"""The decision about a message, as it is stored in the `payload` of its inbox row.

The decision is made once, before the message is stored; the process that carries it out, this one
or a later one, reads it from the row. Only this module knows the field names of the payload.
Unknown fields, from rows that another version wrote, are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.channels.replies import API, ReplyTo, read_reply_to
from clew.core.delivery import Inbound
from clew.core.message import Author
from clew.core.session import NewSession
from clew.core.tokens import SCOPES, Scopes, scopes_of


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of a message, and how to handle it.

    `opens`: the new session that begins with it; without one it goes to the row's session.
    `pinned`: the new session is pinned, and the previous one no longer. `may_resume`: the person
    may go back to the previous session. `command`: the line of a slash command, which has no turn;
    `own_key` is then the conversation's key on its platform. `from_person`: a person wrote it.
    `attended`: the owner is there to approve tool calls. `memory`: its turn may write memory, if
    the person may. `reply_to`: where the answer goes, besides
    the thread. `platform`: shown in place of the channel that the message came by.
    `scopes`: those of the token that it came with; None without a token. `author`: who wrote it on
    a channel.
    """

    text: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    opens: NewSession | None = None
    pinned: bool = False
    may_resume: bool = False
    command: str | None = None
    own_key: str = ""
    from_person: bool = True
    attended: bool = True
    memory: bool = True
    reply_to: ReplyTo | None = None
    platform: str | None = None
    scopes: Scopes | None = None
    author: Author | None = None

    def find_scopes(self, person: str) -> Scopes:
        """The scopes that the turn of this person has: they decide its tools."""
        return scopes_of(person) if self.scopes is None else self.scopes


def encode_decision(decision: Decision) -> dict[str, Any]:
    """The payload of an inbox row; default values are left out."""
    payload: dict[str, Any] = msgspec.to_builtins(decision)
    return {"text": decision.text} | payload


def read_decision(row: Inbound) -> Decision:
    """Read the decision about a stored message.

    `msgspec.ValidationError` if the session that it begins can't be read.
    """
    payload = row.payload
    opens, command, platform = (payload.get(name) for name in ("opens", "command", "platform"))
    return Decision(
        text=str(payload.get("text", "")),
        parts=tuple(payload.get("parts", ())),
        opens=None if opens is None else msgspec.convert(opens, NewSession),
        pinned=bool(payload.get("pinned")),
        may_resume=bool(payload.get("may_resume")),
        command=None if command is None else str(command),
        own_key=str(payload.get("own_key", "")),
        from_person=payload.get("from_person") is not False,
        attended=payload.get("attended") is not False,
        memory=payload.get("memory") is not False,
        reply_to=read_reply_to(payload.get("reply_to")),
        platform=None if platform is None else str(platform),
        scopes=_read_scopes(row),
        author=_read_author(payload.get("author")),
    )


def _read_author(told: object) -> Author | None:
    try:
        return None if told is None else msgspec.convert(told, Author)
    except msgspec.ValidationError:
        return None


def _read_scopes(row: Inbound) -> Scopes | None:
    """The scopes in a row; a caller whose scopes are not known has no more than `chat`."""
    told = row.payload.get("scopes")
    if told is None and row.channel != API:
        return None
    return tuple(each for each in SCOPES if each in told) if isinstance(told, list) else ("chat",)


def follows_key(row: Inbound, key: str) -> bool:
    """Whether the message goes to the session that the key leads to when it is carried out."""
    opens = row.payload.get("opens")
    return row.key == key and isinstance(opens, dict) and opens.get("reset_reason") is None
