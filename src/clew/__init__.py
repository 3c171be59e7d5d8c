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
    from clew.core.message import Draft, Message, ToolCall
    from clew.core.search.hits import SearchFilter
    from clew.core.session import NewSession, Session, SessionEdit, SessionFilter
    from clew.core.usage import Usage
    from clew.errors import ClewError
    from clew.ports import Store
    from clew.store import open_store
    from clew.wiring.in_process import local

__all__ = [
    "ClewError",
    "Client",
    "Conversation",
    "Draft",
    "Message",
    "NewSession",
    "SearchFilter",
    "Session",
    "SessionEdit",
    "SessionFilter",
    "Store",
    "ToolCall",
    "Usage",
    "__version__",
    "local",
    "open_store",
]

_HOMES = {
    "ClewError": "clew.errors",
    "Client": "clew.client.client",
    "Conversation": "clew.adapters.conversation",
    "Draft": "clew.core.message",
    "Message": "clew.core.message",
    "NewSession": "clew.core.session",
    "SearchFilter": "clew.core.search.hits",
    "Session": "clew.core.session",
    "SessionEdit": "clew.core.session",
    "SessionFilter": "clew.core.session",
    "Store": "clew.ports",
    "ToolCall": "clew.core.message",
    "Usage": "clew.core.usage",
    "local": "clew.wiring.in_process",
    "open_store": "clew.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
