"""clew keeps the thread of every conversation you have with an AI agent.

    store = await clew.open_store("sqlite:///home/me/sessions.db")

    async with clew.local() as client:              # or clew.Client(url, token)
        page = await client.sessions.list(q="login")

The public names are those below; they are loaded when first used, so that a program which needs
one of them does not pay for all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clew.version import __version__

if TYPE_CHECKING:
    from clew.adapters.conversation import Conversation
    from clew.client.client import Client
    from clew.core.changes import AddMessage, AddUsage, EndTurn, StartTurn, UndoTurn
    from clew.core.keys import new_id
    from clew.core.live_events import Committed, Notice, TextDelta, TurnEnded, TurnStarted
    from clew.core.message import Draft, Message, ToolCall
    from clew.core.search.hits import SearchFilter
    from clew.core.session import NewSession, Session, SessionEdit, SessionFilter
    from clew.core.usage import Usage
    from clew.errors import ClewError
    from clew.ports import Store
    from clew.store import open_store
    from clew.wiring.in_process import local

__all__ = [
    "AddMessage",
    "AddUsage",
    "ClewError",
    "Client",
    "Committed",
    "Conversation",
    "Draft",
    "EndTurn",
    "Message",
    "NewSession",
    "Notice",
    "SearchFilter",
    "Session",
    "SessionEdit",
    "SessionFilter",
    "StartTurn",
    "Store",
    "TextDelta",
    "ToolCall",
    "TurnEnded",
    "TurnStarted",
    "UndoTurn",
    "Usage",
    "__version__",
    "local",
    "new_id",
    "open_store",
]

_HOMES = {
    "AddMessage": "clew.core.changes",
    "AddUsage": "clew.core.changes",
    "ClewError": "clew.errors",
    "Client": "clew.client.client",
    "Committed": "clew.core.live_events",
    "Conversation": "clew.adapters.conversation",
    "Draft": "clew.core.message",
    "EndTurn": "clew.core.changes",
    "Message": "clew.core.message",
    "NewSession": "clew.core.session",
    "Notice": "clew.core.live_events",
    "SearchFilter": "clew.core.search.hits",
    "Session": "clew.core.session",
    "SessionEdit": "clew.core.session",
    "SessionFilter": "clew.core.session",
    "StartTurn": "clew.core.changes",
    "Store": "clew.ports",
    "TextDelta": "clew.core.live_events",
    "ToolCall": "clew.core.message",
    "TurnEnded": "clew.core.live_events",
    "TurnStarted": "clew.core.live_events",
    "UndoTurn": "clew.core.changes",
    "Usage": "clew.core.usage",
    "local": "clew.wiring.in_process",
    "new_id": "clew.core.keys",
    "open_store": "clew.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
