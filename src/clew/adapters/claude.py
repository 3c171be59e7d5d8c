"""The session store of the Claude Agent SDK, kept in a clew store.

    store = ClewSessionStore("sqlite:///home/me/sessions.db")
    options = ClaudeAgentOptions(session_store=store)

A session of the SDK is a session with the key `claude:<project>/<session>`, one of its sub-agents a
session of its own below it. Each entry is one message, or a note if nobody says anything in it; the
entry itself is kept beside it and comes back exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import quote

from claude_agent_sdk import SessionStore, fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from clew.adapters.framework import FrameworkStore, check_id, part_of, turn_of
from clew.core.changes import AddMessage, Change, DescribeSession
from clew.core.message import Draft, Role, ToolCall
from clew.core.session import MAX_TITLE, Session, SessionFacts
from clew.core.text import to_json
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput
from clew.ports import Store

FRAMEWORK: Final = "claude-agent-sdk"
PART: Final = "claude_entry"

SUMMARY: Final = "claude_summary"
COUNTED: Final = "claude_counted"
"""In the metadata: the SDK's summary, and the answer whose usage was counted last."""


class ClewSessionStore(SessionStore):
    """A `session_store` for `ClaudeAgentOptions`.

    `store` is an open store, or the URL of one, which is opened when it is first needed and closed
    by `close`.
    """

    def __init__(self, store: Store | str) -> None:
        self._sessions = FrameworkStore(store, FRAMEWORK)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add entries in one commit with the summary; one whose `uuid` is there is passed over."""
        if not entries:
            return
        store = await self._sessions.get()
        session = await self._begin(key)
        while True:
            spoken = _Spoken(session.metadata.get(COUNTED))
            adds = [each for entry in entries for each in spoken.messages_of(entry)]
            changes: list[Change] = turn_of(*adds)
            if not key.get("subpath"):
                changes.append(_summarised(session, key, entries, spoken.counted))
            try:
                await store.record(session.id, None, *changes)
            except Conflict:
                # Another process has added entries: their summary goes into this one.
                session = await store.get_session(session.id)
            else:
                return

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries, in the order in which they were added; None if there never were any."""
        session = await self._sessions.find(_key_of(key))
        if session is None:
            return None
        messages = await (await self._sessions.get()).get_messages(session.id, notes=True)
        kept = (part_of(each, PART) for each in messages)
        entries = [json.loads(each["entry"]) for each in kept if each is not None]
        return cast("list[SessionStoreEntry]", entries) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, without those of sub-agents."""
        return [
            {"session_id": session.origin["id"], "mtime": session.updated_at}
            for session in await self._main_sessions(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of the sessions of a project, without reading their entries."""
        return [
            {
                "session_id": session.origin["id"],
                "mtime": session.updated_at,
                "data": session.metadata.get(SUMMARY, {}),
            }
            for session in await self._main_sessions(project_key)
        ]

    async def delete(self, key: SessionKey) -> None:
        """Put a session in clew's trash, with those of its sub-agents; or only one of those."""
        name = _key_of(key)
        found = await self._sessions.find(name)
        gone = [] if found is None else [found]
        if not key.get("subpath"):
            gone += [each async for each in self._sessions.list_sessions(f"{name}/")]
        await self._sessions.delete(gone)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The sub-agents of a session that have entries."""
        name = f"{_key_of(cast('SessionKey', key))}/"
        sessions = [each async for each in self._sessions.list_sessions(name)]
        return [each.key.removeprefix(name) for each in sessions]

    async def close(self) -> None:
        """Refuse later calls; closes the store too if it was opened here."""
        await self._sessions.close()

    async def _begin(self, key: SessionKey) -> Session:
        main = cast("SessionKey", {**key, "subpath": ""})
        if not key.get("subpath"):
            return await self._sessions.begin(_key_of(key), key["session_id"])
        parent = await self._sessions.find(_key_of(main))
        return await self._sessions.begin(
            _key_of(key),
            f"{key['session_id']}/{key['subpath']}",
            kind="subagent",
            parent_id=None if parent is None else parent.id,
        )

    async def _main_sessions(self, project_key: str) -> list[Session]:
        prefix = f"claude:{quote(project_key, safe='')}/"
        found = [each async for each in self._sessions.list_sessions(prefix)]
        return [each for each in found if each.kind != "subagent" and each.head]


class _Spoken:
    """What people read of entries. An answer is several entries, each with its whole usage."""

    def __init__(self, counted: str | None) -> None:
        self.counted = counted

    def messages_of(self, entry: SessionStoreEntry) -> Iterator[AddMessage]:
        """The messages of an entry; the first has the entry itself."""
        given = cast("dict[str, Any]", entry)
        try:
            kept = {"type": PART, "entry": json.dumps(given)}
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"An entry must be JSON: {error}. Nothing was changed.") from error
        uuid = given.get("uuid")
        first, *rest = self._drafts(given)
        name = f"uuid/{uuid}" if isinstance(uuid, str) and uuid else None
        yield _add(first, name, (kept,))
        for number, draft in enumerate(rest, 1):
            yield _add(draft, name and f"{name}/{number}", ())

    def _drafts(self, entry: Mapping[str, Any]) -> list[Draft]:
        message = entry.get("message")
        if not isinstance(message, Mapping) or entry.get("isMeta") is True:
            return [Draft(role="note")]
        blocks = _blocks(message.get("content"))
        if entry.get("type") == "assistant":
            return [self._answer(message, blocks)]
        if entry.get("type") != "user":
            return [Draft(role="note")]
        drafts = [
            Draft(
                role="tool",
                content=_text(_blocks(each.get("content"))),
                tool_call_id=_string(each.get("tool_use_id")),
                is_error=each.get("is_error") is True,
            )
            for each in blocks
            if each.get("type") == "tool_result"
        ]
        said = _text(blocks)
        if said or not drafts:
            drafts.append(Draft(role="user", content=said))
        return drafts

    def _answer(self, message: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]]) -> Draft:
        calls = tuple(
            ToolCall(
                _string(each.get("id")) or "", _string(each.get("name")) or "tool",
                to_json(each.get("input") or {}),
            )
            for each in blocks
            if each.get("type") == "tool_use"
        )  # fmt: skip
        usage = None
        if message.get("id") is None or message.get("id") != self.counted:
            usage = _usage_of(message.get("usage"))
            self.counted = _string(message.get("id")) if usage else self.counted
        role: Role = "assistant"
        model = _string(message.get("model"))
        return Draft(role=role, content=_text(blocks), tool_calls=calls, model=model, usage=usage)


def _add(draft: Draft, name: str | None, parts: tuple[dict[str, Any], ...]) -> AddMessage:
    named = Draft(
        role=draft.role,
        content=draft.content,
        parts=parts,
        tool_call_id=draft.tool_call_id,
        tool_calls=draft.tool_calls,
        is_error=draft.is_error,
        model=draft.model,
        usage=draft.usage,
        external_id=name,
    )
    return AddMessage(named, once=name is not None)


def _summarised(
    session: Session, key: SessionKey, entries: list[SessionStoreEntry], counted: str | None
) -> DescribeSession:
    """The change of the summary by these entries, and of what people see of it."""
    data = session.metadata.get(SUMMARY)
    before = cast(
        "SessionSummaryEntry", {"session_id": key["session_id"], "mtime": 0, "data": data}
    )
    after = fold_session_summary(before if data is not None else None, key, entries)["data"]
    metadata = {**session.metadata, SUMMARY: after, COUNTED: counted}
    origin = {"directory": after["cwd"]} if after.get("cwd") else {}
    title = after.get("custom_title") or after.get("ai_title")
    facts = (
        SessionFacts(metadata=metadata, origin=origin, title=title[:MAX_TITLE])
        if title
        else SessionFacts(metadata=metadata, origin=origin)
    )
    return DescribeSession(facts, session.metadata)


def _key_of(key: SessionKey) -> str:
    project = quote(key["project_key"], safe="")
    session = quote(check_id("session", key["session_id"]), safe="")
    subpath = key.get("subpath")
    return f"claude:{project}/{session}{f'/{subpath}' if subpath else ''}"


def _blocks(content: object) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [each for each in content if isinstance(each, Mapping)]


def _text(blocks: Sequence[Mapping[str, Any]]) -> str:
    texts = (each.get("text") for each in blocks if each.get("type") == "text")
    return "\n\n".join(each for each in texts if isinstance(each, str))


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage_of(given: object) -> Usage | None:
    if not isinstance(given, Mapping):
        return None
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    counts = [given.get(name) for name in names]
    read, written, cached, made = [
        min(each, 10**12) if isinstance(each, int) and each > 0 else 0 for each in counts
    ]
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cache_read_tokens=cached,
        cache_creation_tokens=made,
        cost=None,
        api_calls=1,
    )
