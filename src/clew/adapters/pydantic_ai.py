"""The conversations of pydantic-ai, kept in a clew store.

    store = ClewConversationStore("sqlite:///home/me/sessions.db")
    conversation = await store.load("7") or Conversation(conversation_id="7")
    result = await agent.run("Hello", conversation=conversation)
    await store.save(result)

A conversation is a session. Each entry of its log is a turn: what people read of its message, with
the entry itself beside it. The record is in the session's metadata, written in the same commit and
only over the revision that it replaces. Entries of branches that were left are undone turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from clew.adapters.framework import FrameworkStore, check_id, part_of, turn_of
from clew.core.changes import AddMessage, Change, DescribeSession, RedoTurn, UndoTurn
from clew.core.message import Draft, Message, ToolCall
from clew.core.session import Session, SessionFacts
from clew.core.text import cut
from clew.core.usage import Usage
from clew.errors import Conflict
from clew.ports import Store

FRAMEWORK: Final = "pydantic-ai"
PART: Final = "pydantic_ai_entry"
RECORD: Final = "pydantic_ai_record"
"""In a session's metadata: the record of its conversation."""

CLOSED: Final = "pydantic_ai_closed"
"""In the metadata of a session that is on its way to the trash."""

PAGE: Final = 200
"""Messages that are read at once."""

MOST_PLACES: Final = 10_000

_RECORDS: Final = TypeAdapter(ConversationRecord)


class ClewConversationStore(ConversationStore):
    """The conversation `<id>` is the session with the key `pydantic-ai:<id>`.

    `store` is an open store, or the URL of one, which is opened when it is first needed and closed
    by `close`. `delete` puts the session in clew's trash; forks keep what they share.
    """

    def __init__(self, store: Store | str) -> None:
        self._sessions = FrameworkStore(store, FRAMEWORK)
        self._places: dict[str, str] = {}  # by entry: a session that has it

    async def close(self) -> None:
        """Refuse later calls; closes the store too if it was opened here."""
        await self._sessions.close()

    # --- reading --------------------------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """See `ConversationStore`."""
        session = await self._sessions.find(_key(conversation_id))
        return None if session is None else self._record_of(session, conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """See `ConversationStore`. It reads the row of every conversation, and no message."""
        records = [
            record
            async for session in self._sessions.list_sessions()
            if (record := self._record_of(session, None)) is not None
            if scope is None or record.scope == scope
        ]
        records.sort(key=lambda each: each.updated_at, reverse=True)
        return records[:limit]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """See `ConversationStore`."""
        _, message = await self._find(entry_id)
        return _entry_of(message)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """See `ConversationStore`."""
        if head_id is None or limit == 0:
            return []
        session, head = await self._find(head_id)
        entries: list[ConversationEntry] = []
        wanted: str | None = head_id
        store = await self._sessions.get()
        before = head.seq + 1
        while wanted is not None and (limit is None or len(entries) < limit):
            size = PAGE if limit is None else min(PAGE, 2 * (limit - len(entries)) + 8)
            page = await store.get_messages(
                session.id, size, before=before, undone=True, notes=True
            )
            if not page:
                raise LookupError(wanted)
            before = page[0].seq
            for message in reversed(page):
                if message.external_id != _name(wanted):
                    continue
                entry = _entry_of(message)
                entries.append(entry)
                wanted = entry.parent_id
                if wanted is None or len(entries) == limit:
                    break
        entries.reverse()
        return entries

    # --- writing --------------------------------------------------------------------------------

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """See `ConversationStore`. All of it is one commit."""
        conversation_id = record.conversation_id
        session = await self._sessions.find(_key(conversation_id))
        stored = None if session is None else self._record_of(session, conversation_id)
        if (stored.revision if stored is not None else None) != expected_revision:
            raise ConversationConflict(conversation_id)
        session = await self._session_for(session, record, new_entries)
        metadata = {**session.metadata, RECORD: _RECORDS.dump_python(record, mode="json")}
        changes: list[Change] = []
        for entry in new_entries:
            changes += turn_of(*_messages_of(entry), turn_id=_turn(session, entry.id))
        first = new_entries[0].parent_id if new_entries else record.head_id
        before = stored.head_id if stored is not None else None
        if first != before:
            changes += await self._marks(session, first)
        changes.append(DescribeSession(SessionFacts(metadata=metadata), session.metadata))
        try:
            await (await self._sessions.get()).record(session.id, None, *changes)
        except Conflict as conflict:
            raise ConversationConflict(conversation_id) from conflict
        if session.forked_at_seq is not None and stored is None:
            await (await self._sessions.get()).set_route(_key(conversation_id), session.id)
        self._note(session, record, [each.id for each in new_entries])

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """See `ConversationStore`. Put the session in the trash."""
        session = await self._sessions.find(_key(conversation_id))
        stored = None if session is None else self._record_of(session, conversation_id)
        if session is None or stored is None or stored.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        # A save that is under way loses against this, and does not write into the trash.
        closed = DescribeSession(SessionFacts(metadata={CLOSED: True}), session.metadata)
        try:
            await (await self._sessions.get()).record(session.id, None, closed)
        except Conflict as conflict:
            raise ConversationConflict(conversation_id) from conflict
        await self._sessions.delete([session])

    async def _session_for(
        self,
        session: Session | None,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
    ) -> Session:
        """The session to write to: the given one, a new one, or a fork with the older entries."""
        conversation_id = record.conversation_id
        oldest = new_entries[0].parent_id if new_entries else record.head_id
        if session is not None and self._record_of(session, conversation_id) is not None:
            if oldest is not None:
                store = await self._sessions.get()
                if await store.find_message(session.id, _name(oldest)) is None:
                    raise ConversationConflict(conversation_id)
            return session
        if session is not None and session.metadata.get(CLOSED):
            await self._sessions.delete([session])
        if oldest is None:
            begun = await self._sessions.begin(_key(conversation_id), conversation_id)
            if self._record_of(begun, conversation_id) is not None:
                raise ConversationConflict(conversation_id)  # another save was quicker
            return begun
        try:
            source, message = await self._find(oldest)
        except LookupError as error:
            raise ConversationConflict(conversation_id) from error
        last = await self._last_of(source, message)
        return await self._sessions.fork(
            source, _key(conversation_id), conversation_id, at=last, routed=False
        )

    async def _last_of(self, session: Session, message: Message) -> int:
        """The number of the last message of an entry: its turn has no others."""
        store = await self._sessions.get()
        after = await store.get_messages(
            session.id, after=message.seq, before=message.seq + PAGE, undone=True, notes=True
        )
        same = [each.seq for each in after if each.turn_id == message.turn_id]
        return max(same, default=message.seq)

    async def _marks(self, session: Session, head_id: str | None) -> list[Change]:
        """The changes after which the thread shows the history up to this entry, and no other."""
        store = await self._sessions.get()
        every = await store.get_messages(session.id, undone=True, notes=True)
        shown = {each.seq for each in await store.get_messages(session.id, notes=True)}
        parents: dict[str, str | None] = {}
        turns: dict[str, tuple[str, bool]] = {}
        for message in every:
            if part_of(message, PART) is None or message.turn_id is None:
                continue
            entry = _entry_of(message)
            parents[entry.id] = entry.parent_id
            turns[entry.id] = message.turn_id, message.seq in shown
        chain = set()
        at = head_id
        while at is not None and at in parents:
            chain.add(at)
            at = parents[at]
        return [
            RedoTurn(turn) if entry in chain else UndoTurn(turn)
            for entry, (turn, is_shown) in turns.items()
            if (entry in chain) != is_shown
        ]

    async def _find(self, entry_id: str) -> tuple[Session, Message]:
        """A session outside the trash that has an entry, and its message; `LookupError` if none."""
        store = await self._sessions.get()
        known = self._places.get(entry_id)
        if known is not None:
            session = await store.get_session(known)
            message = await store.find_message(known, _name(entry_id))
            if message is not None and session.deleted_at is None:
                return session, message
        async for session in self._sessions.list_sessions():
            message = await store.find_message(session.id, _name(entry_id))
            if message is not None:
                self._remember(session.id, entry_id)
                return session, message
        raise KeyError(entry_id)

    def _record_of(
        self, session: Session, conversation_id: str | None
    ) -> ConversationRecord | None:
        """The record that a session has; None if it is another conversation's."""
        given = session.metadata.get(RECORD)
        if given is None:
            return None
        record = _RECORDS.validate_python(given)
        if record.conversation_id != (conversation_id or session.origin.get("id")):
            return None  # a fork that is not written yet has its parent's
        self._note(session, record)
        return record

    def _note(
        self, session: Session, record: ConversationRecord, entries: Sequence[str] = ()
    ) -> None:
        for each in (record.head_id, *record.branches, *entries):
            if each is not None:
                self._remember(session.id, each)

    def _remember(self, session_id: str, entry_id: str) -> None:
        self._places[entry_id] = session_id
        if len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]


def _key(conversation_id: str) -> str:
    return f"{FRAMEWORK}:{check_id('conversation', conversation_id)}"


def _name(entry_id: str) -> str:
    return f"e/{entry_id}"


def _turn(session: Session, entry_id: str) -> str:
    return f"{session.id}/{entry_id}"


def _entry_of(message: Message) -> ConversationEntry:
    part = part_of(message, PART)
    assert part is not None  # noqa: S101  # only such messages have these ids
    (stored,) = ModelMessagesTypeAdapter.validate_json(part["message"])
    return ConversationEntry(id=part["id"], parent_id=part["parent"], message=stored)


def _messages_of(entry: ConversationEntry) -> Iterator[AddMessage]:
    """What people read of an entry; the first message has the entry itself."""
    stored = ModelMessagesTypeAdapter.dump_json([entry.message]).decode()
    part = {"type": PART, "id": entry.id, "parent": entry.parent_id, "message": stored}
    message = entry.message
    drafts = [_answer(message)] if isinstance(message, ModelResponse) else _said(message)
    for number, fields in enumerate(drafts or [{"role": "note"}]):
        if number == 0:
            fields |= {"external_id": _name(entry.id), "parts": (part,)}
        yield AddMessage(Draft(**fields))


def _said(request: ModelRequest) -> list[dict[str, Any]]:
    """What a request says, in its order. Instructions are not said by anybody."""
    drafts: list[dict[str, Any]] = []
    for part in request.parts:
        if isinstance(part, UserPromptPart):
            drafts.append({"role": "user", "content": _text(part.content)})
        elif isinstance(part, ToolReturnPart | RetryPromptPart):
            if part.tool_name is None:
                continue
            if isinstance(part, RetryPromptPart):
                content, is_error = part.model_response(), True
            else:
                content, is_error = part.model_response_str(), part.outcome != "success"
            drafts.append({
                "role": "tool",
                "content": content,
                "tool_call_id": part.tool_call_id,
                "tool_name": part.tool_name,
                "is_error": is_error,
            })  # fmt: skip
    return drafts


def _answer(response: ModelResponse) -> dict[str, Any]:
    calls = tuple(
        ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str())
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    used = response.usage
    cached = used.cache_read_tokens + used.cache_write_tokens
    return {
        "role": "assistant",
        "content": "".join(each.content for each in response.parts if isinstance(each, TextPart)),
        "tool_calls": calls,
        "model": response.model_name and cut(response.model_name, 200),
        "usage": Usage(
            input_tokens=max(0, used.input_tokens - cached),
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_creation_tokens=used.cache_write_tokens,
            cost=None,
            api_calls=1,
        ),
    }


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = (each if isinstance(each, str) else getattr(each, "content", None) for each in content)
    return "\n\n".join(each for each in texts if isinstance(each, str))
