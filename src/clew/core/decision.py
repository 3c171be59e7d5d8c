"""What was decided about a message, as it is kept in the `payload` of its inbox row.

It is decided once, before the message is kept; the process that carries it out, this one or the
next, reads it from the row. This is the only module that knows the names in the payload. A row that
another version wrote is read as far as it is understood.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.core.channels.replies import ReplyTo, read_reply_to
from clew.core.delivery import Inbound
from clew.core.session import NewSession


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said in a message, and what is to be done about it.

    `opens`: the session that begins with it; without one it goes to the row's session. `pinned`:
    that session is pinned in the place of the one before it. `may_resume`: its person may go back
    to the one before. `command`: the line of a slash command, which has no turn; `own_key` is then
    the conversation's key on its platform. `from_person`: somebody is there. `attended`: the owner
    answers for tools. `reply_to`: where the answer goes, beside the thread. `platform`: what it is
    shown as, where that is not the channel that it came by.
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
    reply_to: ReplyTo | None = None
    platform: str | None = None


def encode_decision(decision: Decision) -> dict[str, Any]:
    """The payload of an inbox row: what is as usual is left out."""
    payload: dict[str, Any] = msgspec.to_builtins(decision)
    return {"text": decision.text} | payload


def read_decision(row: Inbound) -> Decision:
    """What was decided about a message that is kept.

    `msgspec.ValidationError` if it begins a session that can't be understood.
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
        reply_to=read_reply_to(payload.get("reply_to")),
        platform=None if platform is None else str(platform),
    )


def follows_key(row: Inbound, key: str) -> bool:
    """Whether a message is for whatever session the key leads to when it is carried out."""
    opens = row.payload.get("opens")
    return row.key == key and isinstance(opens, dict) and opens.get("reset_reason") is None
