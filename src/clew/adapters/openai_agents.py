"""The Session of the OpenAI Agents SDK, kept in a clew store.

    session = ClewSession("customer-7", "sqlite:///home/me/sessions.db")
    await Runner.run(agent, "Hello", session=session)

Each item is one message: its text, tool call or tool result for people and for search, and the item
itself, as JSON, in its parts. The item is what comes back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from agents.items import TResponseInputItem
from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from clew.adapters.conversation import Conversation
from clew.adapters.framework import FrameworkStore, check_id, part_of
from clew.core.message import Draft, Message, Role, ToolCall
from clew.errors import InvalidInput
from clew.ports import Store

FRAMEWORK: Final = "openai-agents"
PART: Final = "openai_agents_item"


class ClewSession(SessionABC):
    """A session of the OpenAI Agents SDK under the key `openai:<session_id>`.

    `store` is an open store, or the URL of one, which is opened when it is first needed and closed
    by `close`.
    """

    def __init__(
        self,
        session_id: str,
        store: Store | str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = check_id("session", session_id)
        self.session_settings = (
            SessionSettings(**session_settings)
            if isinstance(session_settings, dict)
            else session_settings or SessionSettings()
        )
        self._sessions = FrameworkStore(store, FRAMEWORK)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, oldest first; the limit of the settings holds if none is given."""
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        return [_item_of(each) for each in await (await self._talk()).get(most)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items: all, or none if one of them can't be stored."""
        drafts = [draft_of(cast("Mapping[str, Any]", each)) for each in items]
        await (await self._talk()).add_all(drafts)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back; its text is erased from the store."""
        message = await (await self._talk()).pop()
        return None if message is None else _item_of(message)

    async def clear_session(self) -> None:
        """Put what was said in clew's trash; the session goes on empty."""
        await (await self._talk()).clear()

    async def close(self) -> None:
        """Refuse later calls; closes the store too if this session has opened it."""
        await self._sessions.close()

    async def _talk(self) -> Conversation:
        return Conversation(
            await self._sessions.get(),
            f"openai:{self.session_id}",
            framework=FRAMEWORK,
            native_id=self.session_id,
        )


def draft_of(item: Mapping[str, Any]) -> Draft:
    """An item as a message: what can be read of it, and the item itself."""
    try:
        kept = {"type": PART, "item": json.dumps(item)}
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"An item must be JSON: {error}. Nothing was changed.") from error
    kind = item.get("type")
    call_id = _text(item.get("call_id")) or None
    if kind == "function_call":
        call = ToolCall(call_id or "", _text(item.get("name")), _text(item.get("arguments")))
        return Draft(role="assistant", tool_calls=(call,), parts=(kept,))
    if kind == "function_call_output":
        said = _text(item.get("output"))
        return Draft(role="tool", content=said, tool_call_id=call_id, parts=(kept,))
    role: Role = "user" if item.get("role") in ("user", "system", "developer") else "assistant"
    said = _text(item.get("content") or item.get("summary"))
    return Draft(role=role, content=said, parts=(kept,))


def _text(value: object) -> str:
    """The text of a value: itself, or the texts of a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        return ""
    texts = (each.get("text") or each.get("refusal") for each in value if isinstance(each, Mapping))
    return "\n".join(each for each in texts if isinstance(each, str))


def _item_of(message: Message) -> TResponseInputItem:
    kept = part_of(message, PART)
    if kept is not None:
        return cast("TResponseInputItem", json.loads(kept["item"]))
    # Said in this session by another program, without an item.
    role = "user" if message.role == "user" else "assistant"
    return cast("TResponseInputItem", {"role": role, "content": message.content})
