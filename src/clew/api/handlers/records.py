"""Handlers of records: what other programs write into sessions of their own.

A session is a token's own if that token has made it here: its key begins with `store:TOKEN/`, its
origin names the token, and it is neither a fork nor the successor of another session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from clew.api.handlers.parts import Caller, Parts, get_visible, handles, view
from clew.api.records import (
    ADD,
    LONGEST_FACTS,
    MAX_CHANGES,
    MOST_FACTS,
    OPEN,
    PUT,
    AddRecords,
    BlobStored,
    Erase,
    OpenStored,
    PutBlob,
    PutFacts,
    PutMessage,
    PutTitle,
    PutUsage,
    RecordsAdded,
    Spent,
    Stored,
    StoredMessage,
    Undo,
)
from clew.core.changes import (
    AddMessage,
    AddUsage,
    Change,
    DescribeSession,
    EndTurn,
    EraseTurn,
    Recorded,
    StartTurn,
    UndoTurn,
)
from clew.core.channels.speech import INSTRUCTIONS
from clew.core.keys import check_key, new_id
from clew.core.message import Draft, ToolCall
from clew.core.notes import ImportNote
from clew.core.session import NewSession, Session, SessionFacts
from clew.core.text import to_wire
from clew.core.usage import Usage
from clew.errors import Conflict, Forbidden, InvalidInput

PLATFORM: Final = "store"
TOKEN: Final = "token"  # noqa: S105  # the name of a field of a session's origin
FACTS: Final = "facts"
"""Where a session's metadata has the facts of the program."""
EVERYTHING: Final = 2**53 - 1
"""The head of an import that has no end: all that a program writes counts as imported."""
ATTEMPTS: Final = 5
"""How often facts are written again, while others change the session's metadata."""


@handles(OPEN)
async def open_stored(parts: Parts, params: OpenStored, caller: Caller) -> Stored:
    """The session of a key of this token."""
    key = check_key(_prefix(caller) + params.key)
    new = NewSession(
        key=key,
        platform=PLATFORM,
        kind="sdk",
        person=caller.person,
        title=params.title,
        title_by=None if params.title is None else "auto",
        origin={"framework": params.program, "id": params.key, TOKEN: _token(caller)},
    )
    session, is_new = await parts.store.open_session(new)
    _check_own(session, caller)
    if is_new:
        note = ImportNote(
            session_id=session.id,
            agent=PLATFORM,
            native_id=key,
            stamp="",
            head=EVERYTHING,
        )
        # Retention leaves it alone, and `clew -r` goes on with a fork.
        await parts.store.note_import(note)
    return Stored(await view(parts, session), is_new, session.metadata.get(FACTS, {}))


@handles(ADD)
async def add_records(parts: Parts, params: AddRecords, caller: Caller) -> RecordsAdded:
    """Write into a session of this token."""
    for attempt in range(ATTEMPTS):
        session = await get_visible(parts, params.id, caller)
        _check_own(session, caller)
        known = await _find_known(parts, session, params)
        changes = _make_changes(session, params, known)
        try:
            recorded = await parts.store.record(
                session.id, None, *changes, idempotency_key=params.idempotency_key
            )
        except Conflict:
            now = await parts.store.get_session(session.id)
            if attempt == ATTEMPTS - 1 or now.metadata == session.metadata:
                raise
            continue
        return await _describe(parts, session, params, recorded)
    raise AssertionError("the last attempt returns or raises")


@handles(PUT)
async def put_blob(parts: Parts, params: PutBlob, _caller: Caller) -> BlobStored:
    """Store bytes."""
    stored = await parts.store.put_blob(params.data, params.media_type)
    return BlobStored(stored, len(params.data))


def _token(caller: Caller) -> str:
    return caller.token_id or "here"


def _prefix(caller: Caller) -> str:
    return f"{PLATFORM}:{_token(caller)}/"


def _check_own(session: Session, caller: Caller) -> None:
    is_made_here = session.origin.get(TOKEN) == _token(caller) and session.platform == PLATFORM
    is_later = session.forked_at_seq is not None or session.previous_id is not None
    if not is_made_here or is_later or not session.key.startswith(_prefix(caller)):
        raise Forbidden(
            "A token with the scope store writes only into sessions that it has made itself, with "
            "POST /v1/sessions. Nothing was changed."
        )


# --- changes ------------------------------------------------------------------------------------
async def _find_known(parts: Parts, session: Session, params: AddRecords) -> frozenset[str]:
    """The external ids of messages that the session has already: they need no turn."""
    asked = {each.external_id for each in params.changes if isinstance(each, PutMessage)}
    found = [await parts.store.find_message(session.id, each) for each in asked if each is not None]
    return frozenset(each.external_id for each in found if each and each.external_id)


def _make_changes(
    session: Session, params: AddRecords, known: frozenset[str]
) -> tuple[Change, ...]:
    made: list[Change] = []
    turns: dict[str, str] = {}
    """The turns that were begun, by the word of the caller."""
    for each in params.changes:
        match each:
            case PutMessage():
                made += _make_message(each, turns, known)
            case PutTitle(title=title):
                made.append(DescribeSession(SessionFacts(title=title)))
            case PutUsage(usage=usage):
                made.append(AddUsage(usage=_usage_of(usage)))
            case Undo(turn=turn):
                made.append(UndoTurn(turn))
            case Erase(turn=turn):
                made.append(EraseTurn(turn))
            case PutFacts():
                pass
    made += [EndTurn(turn_id=each, status="done") for each in turns.values()]
    return (*made, *_set_facts(session, params))


def _make_message(
    asked: PutMessage, turns: dict[str, str], known: frozenset[str]
) -> Iterable[Change]:
    if any(part.get("type") == INSTRUCTIONS for part in asked.parts):
        raise InvalidInput(f'A part of the type "{INSTRUCTIONS}" is clew\'s own.')
    turn_id = None
    if asked.external_id is None or asked.external_id not in known:
        label = asked.turn
        turn_id = None if label is None else turns.get(label)
        if turn_id is None:
            turn_id = new_id()
            yield StartTurn(turn_id=turn_id, model=asked.model)
            turns[label or f"\0{turn_id}"] = turn_id
    yield AddMessage(_make_draft(asked), turn_id, once=asked.external_id is not None)


def _make_draft(asked: PutMessage) -> Draft:
    fields = {name: getattr(asked, name) for name in Draft.__struct_fields__ if name != "author"}
    fields["tool_calls"] = tuple(
        ToolCall(each.id, each.name, each.arguments) for each in asked.tool_calls
    )
    fields["usage"] = None if asked.usage is None else _usage_of(asked.usage)
    return Draft(**fields)


def _usage_of(spent: Spent) -> Usage:
    return Usage(**msgspec.structs.asdict(spent))


def _set_facts(session: Session, params: AddRecords) -> Iterable[Change]:
    """One change with all facts, refused if others have changed the session meanwhile."""
    asked = [each.facts for each in params.changes if isinstance(each, PutFacts)]
    if not asked:
        return
    facts: dict[str, Any] = dict(session.metadata.get(FACTS, {}))
    for each in asked:
        facts |= each
    facts = {name: value for name, value in facts.items() if value is not None}
    if len(facts) > MOST_FACTS or len(to_wire(facts)) > LONGEST_FACTS:
        raise InvalidInput(
            f"A session can have {MOST_FACTS} facts of {LONGEST_FACTS:,} bytes in all. "
            "Nothing was changed."
        )
    metadata = session.metadata | {FACTS: facts}
    yield DescribeSession(SessionFacts(metadata=metadata), session.metadata)


async def _describe(
    parts: Parts, session: Session, params: AddRecords, recorded: Recorded
) -> RecordsAdded:
    """The messages of a record, with their turns, as they are in the store."""
    asked = [each for each in params.changes if isinstance(each, PutMessage)]
    turns = await _list_turns(parts, session, recorded.seqs)
    added = [
        StoredMessage(seq, turns.get(seq), each.external_id)
        for seq, each in zip(recorded.seqs, asked, strict=False)
    ]
    return RecordsAdded(tuple(added), recorded.head, recorded.repeated)


async def _list_turns(parts: Parts, session: Session, seqs: Sequence[int]) -> dict[int, str | None]:
    """The turns of messages by their numbers; known ones may be far from those just added."""
    turns: dict[int, str | None] = {}
    for seq in sorted(seqs):
        if seq in turns:
            continue
        found = await parts.store.get_messages(
            session.id, MAX_CHANGES, after=seq - 1, before=seq + MAX_CHANGES, undone=True
        )
        turns |= {each.seq: each.turn_id for each in found}
    return turns
