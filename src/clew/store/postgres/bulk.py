"""A record of many messages, as an import makes them: a few statements instead of one for each.

Messages come with COPY, into a temporary table and before the session is locked: the server waits
without limit for a process that stops in the middle of a COPY, and no other process may have to
wait for that one. Turns that begin and end in the record are written in their last state. The other
changes are applied by `work.record`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from clew.core.changes import (
    AddMessage,
    AddUsage,
    Change,
    EndTurn,
    RedoTurn,
    StartTurn,
    UndoTurn,
)
from clew.core.text import to_json
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput
from clew.store.postgres.connection import Connection
from clew.store.postgres.words import vector_of
from clew.store.rows import NEW_MESSAGE_COLUMNS, Row, optional, text, whole
from clew.store.work.record import check_usage, new_message

MANY = 100
"""Records with more messages than this use a temporary table."""

# The types of the tables without their constraints: those are checked when the rows get there.
_MAKE = f"""
CREATE TEMPORARY TABLE incoming ON COMMIT DROP AS
SELECT seq AS place, {NEW_MESSAGE_COLUMNS}, at, words, size, partial
FROM messages, messages_words WITH NO DATA
"""

_PLACE_MESSAGES = f"""
INSERT INTO messages (id, session_id, seq, {NEW_MESSAGE_COLUMNS}, at)
SELECT ($4::bigint[])[place], $1, $2::bigint + place, {NEW_MESSAGE_COLUMNS},
  coalesce(at, $3::bigint)
FROM pg_temp.incoming ORDER BY place
"""

_PLACE_WORDS = """
INSERT INTO messages_words (message_id, words, size, partial)
SELECT ($1::bigint[])[place], words, size, partial FROM pg_temp.incoming ORDER BY place
"""

_PLACE_TURNS = """
INSERT INTO turns (id, first_seq, status, reply_to, model, input_tokens, output_tokens,
  cache_read_tokens, cache_creation_tokens, cost, api_calls, error, partial, started_at, ended_at,
  session_id)
SELECT given.*, $1 FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
  $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
  $13::text[], $14::text[], $15::bigint[], $16::bigint[]) AS given
ON CONFLICT DO NOTHING RETURNING id
"""


async def stage(connection: Connection, messages: Sequence[AddMessage]) -> bool:
    """Copy the messages into a temporary table; False, and nothing done, if that is not possible.

    It is not for few messages, for ids of other programs, for a value that `record` is going to
    refuse, and where this user may not make temporary tables.
    """
    if len(messages) <= MANY or any(each.draft.external_id is not None for each in messages):
        return False
    try:
        rows = [_row(place, change) for place, change in enumerate(messages, 1)]
    except InvalidInput:
        return False
    ((allowed,),) = await connection.fetch(
        "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
    )
    if not allowed:
        return False
    await connection.execute(_MAKE, prepare=False)
    sql = "COPY pg_temp.incoming FROM STDIN"
    async with connection.cursor() as cursor, cursor.copy(sql) as copy:
        for row, change in zip(rows, messages, strict=True):
            # Words are made here, where the server does not take this process for idle.
            await copy.write_row((*row, *vector_of(change.draft.content)))
    return True


def _row(place: int, change: AddMessage) -> Row:
    bindings, _, _ = new_message(change, 0)
    return (place, *bindings, whole(change.draft.at))


async def place_staged(
    connection: Connection, session_id: str, ids: Sequence[int], *, head: int, now: int
) -> None:
    """Add the messages of the temporary table to the session, which is locked by now."""
    await connection.execute(_PLACE_MESSAGES, (session_id, head, now, list(ids)), prepare=False)
    await connection.execute(_PLACE_WORDS, (list(ids),), prepare=False)


async def place_turns(
    connection: Connection, session_id: str, requested: Sequence[Change], *, head: int, now: int
) -> list[Change]:
    """Write the turns that begin and end in these changes; returns the changes that remain."""
    turns = _whole_turns(requested, head)
    if not turns:
        return list(requested)
    rows = [turn.row(now) for turn in turns.values()]
    columns = [list(column) for column in zip(*rows, strict=True)]
    placed = await connection.fetch(_PLACE_TURNS, (session_id, *columns))
    if len(placed) < len(rows):
        new = {name for (name,) in placed}
        known = next(turn_id for turn_id, row in zip(turns, rows, strict=True) if row[0] not in new)
        raise Conflict(f"There is already a turn {known}.")
    return _without(requested, turns)


def _without(requested: Sequence[Change], turns: Mapping[str, _Turn]) -> list[Change]:
    """The changes without these turns. Their usage still has to be added to the session."""
    rest: list[Change] = []
    spent = Usage()
    for change in requested:
        match change:
            case StartTurn() | EndTurn() if change.turn_id in turns:
                pass
            case AddUsage(turn_id=str(name)) if name in turns:
                spent += change.usage
                if change.context_tokens is not None:
                    rest.append(AddUsage(usage=Usage(), context_tokens=change.context_tokens))
            case _:
                rest.append(change)
    return [*rest, AddUsage(usage=spent)]


class _Turn(msgspec.Struct):
    """A turn as the changes describe it."""

    start: StartTurn
    first_seq: int
    usage: Usage = Usage()
    end: EndTurn | None = None
    plain: bool = True

    def row(self, now: int) -> Row:
        start, end = self.start, self.end
        assert end is not None
        return (
            text(start.turn_id),
            self.first_seq,
            end.status,
            None if start.reply_to is None else to_json(start.reply_to),
            optional(start.model),
            *check_usage(self.usage),
            optional(end.error),
            optional(end.partial),
            now if start.at is None else whole(start.at),
            now if end.at is None else whole(end.at),
        )


def _whole_turns(requested: Sequence[Change], head: int) -> dict[str, _Turn]:
    """Turns that do nothing but begin and end, by id; up to the first that does more.

    Not beyond it, because turns are kept in the order in which they began.
    """
    turns: dict[str, _Turn] = {}
    early: set[str] = set()  # named before they begin: left to `work.record`, which refuses them
    for change in requested:
        match change:
            case AddMessage():
                head += 1
            case StartTurn(turn_id=name) if name not in turns:
                plain = not change.inbound and name not in early
                turns[name] = _Turn(change, head + 1, plain=plain)
            case AddUsage(turn_id=str(name)) if name in turns:
                check_usage(change.usage)
                turns[name].usage += change.usage
            case EndTurn(turn_id=name) if name in turns and turns[name].end is None:
                turns[name].end = change
            case UndoTurn(turn_id=name) | RedoTurn(turn_id=name) if name in turns:
                pass  # it only needs the turn to exist
            case _:
                name = str(getattr(change, "turn_id", ""))
                if name in turns:
                    turns[name].plain = False
                else:
                    early.add(name)
    plain_ones = takewhile(lambda item: item[1].plain and item[1].end is not None, turns.items())
    return dict(plain_ones)
