from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from clew.core.changes import (
    AddCompaction,
    AddMessage,
    AddUsage,
    EndTurn,
    StartTurn,
    UndoCompaction,
    UndoTurn,
    WriteScratch,
    WriteTodos,
)
from clew.core.message import Draft
from clew.core.notes import Todo
from clew.core.session import SessionEdit
from clew.core.usage import Usage
from clew.errors import Conflict, Diverged, InvalidInput, NotATranscript
from clew.ports import Store
from clew.transfer import import_transcript
from clew.transfer.importer import CHUNK, Chunks
from tests.transfer.test_round_trip import values
from tests.transfer.threads import (
    bring,
    export_lines,
    make_session,
    record,
    said,
    whole_turn,
)

SPENT = Usage(10, 20, 3, 4, 5_000, 1)


async def texts(store: Store, session_id: str, **options: Any) -> list[str]:
    return [each.content for each in await store.get_messages(session_id, **options)]


def changed(line: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(line) | fields).encode() + b"\n"


# --- what is no transcript --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"hello\n", "not a clew transcript"),
        (b"\xff\xfe\x00", "not a clew transcript"),
        (b"[1, 2]\n", "not a clew transcript"),
        (b'{"type": "session"}\n', "not a clew transcript"),
        (b"[" * 100_000, "not a clew transcript"),
        (b'{"type":"session","format":"clew","version":2}', "version 2"),
        (b'{"type":"session","format":"clew","version":1,"session":{}}', "damaged"),
    ],
)
async def test_what_is_no_transcript_changes_nothing(
    store: Store, first: bytes, complaint: str
) -> None:
    with pytest.raises(NotATranscript, match=complaint):
        await bring(store, [first, b"more\n"])
    assert (await store.stats()).sessions == 0


async def test_an_id_that_is_none_is_refused(store: Store, other: Store) -> None:
    session = await make_session(store, *said("hello"))
    first, *rest = await export_lines(store, session.id)
    fields = json.loads(first)
    with pytest.raises(InvalidInput):
        await bring(other, [changed(first, session=fields["session"] | {"id": "../etc"}), *rest])
    assert (await other.stats()).sessions == 0


# --- what is already there --------------------------------------------------------------------


async def test_the_rest_of_a_longer_transcript_is_added(store: Store, other: Store) -> None:
    session = await make_session(store, *whole_turn("t1", "one", "two"), AddUsage(usage=SPENT))
    await bring(other, await export_lines(store, session.id))
    await record(
        store,
        session.id,
        *whole_turn("t2", "three", "four", start=3_000),
        AddUsage(usage=SPENT, turn_id="t2"),
        UndoTurn("t1", 4_000),
        AddCompaction(compaction_id="c", keep_from=3, summary="short", at=5_000),
        WriteScratch("note", "text", 6_000),
        WriteTodos((Todo("write"),)),
    )
    imported = await bring(other, await export_lines(store, session.id))
    assert (imported.outcome, imported.messages) == ("extended", 2)
    assert await values(other, session.id) == await values(store, session.id)


async def test_a_shorter_transcript_changes_nothing(store: Store) -> None:
    session = await make_session(store, *said("one"))
    lines = await export_lines(store, session.id)
    await record(store, session.id, *said("two", "three", start=3_000))
    before = await values(store, session.id, times=True)
    assert (await bring(store, lines)).outcome == "unchanged"
    assert await values(store, session.id, times=True) == before


@pytest.mark.parametrize("place", [1, 3, 4])
async def test_a_transcript_that_differs_is_refused_and_changes_nothing(
    store: Store, place: int
) -> None:
    session = await make_session(store, *said("one", "two", "three", "four"))
    lines = await export_lines(store, session.id)
    message = json.loads(lines[place])
    lines[place] = changed(lines[place], message=message["message"] | {"content": "other"})
    lines.insert(-1, changed(lines[-2], seq=5))
    before = await values(store, session.id, times=True)
    with pytest.raises(Diverged) as caught:
        await bring(store, lines)
    assert caught.value.seq == place
    assert await values(store, session.id, times=True) == before


async def test_a_diverged_transcript_can_come_in_as_a_session_of_its_own(store: Store) -> None:
    session = await make_session(
        store,
        *whole_turn("t1", "one", "two"),
        AddCompaction(compaction_id="c", keep_from=1, summary="s", at=5),
        UndoCompaction("c", 6),
        UndoTurn("t1", 7),
        title="Mine",
    )
    lines = await export_lines(store, session.id)
    first = await bring(store, lines, as_new=True)
    second = await bring(store, lines, as_new=True)
    assert len({session.id, first.session_id, second.session_id}) == 3
    for each in (first.session_id, second.session_id):
        assert await texts(store, each, undone=True) == ["one", "two"]
        assert await texts(store, each) == []
        assert (await store.get_session(each)).title == "Mine"
    routed = await store.find_route("cli:test")
    assert routed is not None
    assert routed.id == session.id


async def test_a_session_in_the_trash_is_not_brought_back_by_an_import(store: Store) -> None:
    session = await make_session(store, *said("one"))
    lines = await export_lines(store, session.id)
    await store.delete_sessions([session.id])
    with pytest.raises(Conflict, match="clew trash restore"):
        await bring(store, lines)


async def test_a_session_that_is_busy_is_left_alone_unless_nothing_is_to_do(store: Store) -> None:
    session = await make_session(store, *said("one"))
    lines = await export_lines(store, session.id)
    lease = await store.acquire_lease(session.id, "a turn")
    assert (await bring(store, lines)).outcome == "unchanged"
    assert await store.find_lease(session.id) == lease


async def test_a_title_that_was_changed_here_stays(store: Store, other: Store) -> None:
    session = await make_session(store, *said("one"), title="Theirs")
    await bring(other, await export_lines(store, session.id))
    await other.edit_session(session.id, SessionEdit(title="Mine"))
    await record(store, session.id, *said("two", start=3_000))
    await bring(other, await export_lines(store, session.id))
    assert (await other.get_session(session.id)).title == "Mine"


async def test_a_turn_that_went_on_since_stays_interrupted_and_brings_its_messages(
    store: Store, other: Store
) -> None:
    start = StartTurn(turn_id="t", at=1)
    session = await make_session(
        store, start, *said("go", turn="t"), AddUsage(usage=SPENT, turn_id="t")
    )
    await bring(other, await export_lines(store, session.id))
    assert (await other.get_turn("t")).status == "interrupted"
    await record(
        store,
        session.id,
        AddMessage(Draft(role="assistant", content="gone", at=9), "t"),
        AddUsage(usage=SPENT, turn_id="t"),
        EndTurn(turn_id="t", status="done", at=10),
    )
    await bring(other, await export_lines(store, session.id))
    assert await texts(other, session.id) == ["go", "gone"]
    assert (await other.get_session(session.id)).usage == SPENT + SPENT
    assert (await other.get_turn("t")).status == "interrupted"


# --- forks ------------------------------------------------------------------------------------


async def test_a_fork_comes_out_with_its_whole_thread(store: Store, other: Store) -> None:
    session = await make_session(
        store,
        *whole_turn("t1", "one", "two"),
        *whole_turn("t2", "three", "four", start=3_000),
        AddUsage(usage=SPENT, turn_id="t2"),
    )
    fork = await store.fork_session(session.id)
    await record(store, fork.id, UndoTurn("t1", 9), *whole_turn("t3", "five", start=9_000))
    lines = await export_lines(store, fork.id)
    imported = await bring(other, lines)
    assert imported.messages == 5
    assert await texts(other, fork.id) == ["three", "four", "five"]
    assert await texts(other, fork.id, undone=True) == ["one", "two", "three", "four", "five"]
    assert (await other.get_session(fork.id)).usage == Usage()
    assert (await bring(other, lines)).outcome == "unchanged"
    # Beside its parent, the inherited turns need names of their own.
    beside = await bring(store, lines, as_new=True)
    assert await texts(store, beside.session_id) == ["three", "four", "five"]


async def test_a_fork_and_its_parent_can_both_be_imported(store: Store, other: Store) -> None:
    session = await make_session(store, *whole_turn("t1", "one", "two"))
    fork = await store.fork_session(session.id)
    await record(store, fork.id, *whole_turn("t2", "three", start=9_000), UndoTurn("t1", 9))
    for each in (session.id, fork.id):
        lines = await export_lines(store, each)
        assert (await bring(other, lines)).outcome == "created"
        assert (await bring(other, lines)).outcome == "unchanged"
    assert await texts(other, session.id) == ["one", "two"]
    assert await texts(other, fork.id) == ["three"]


async def test_a_fork_whose_parent_is_gone_is_exported_all_the_same(
    store: Store, other: Store
) -> None:
    session = await make_session(store, *whole_turn("t1", "one"), *whole_turn("t2", "two"))
    await record(store, session.id, UndoTurn("t1", 5))
    fork = await store.fork_session(session.id)
    await store.delete_sessions([session.id])
    await store.purge_sessions([session.id])
    await bring(other, await export_lines(store, fork.id))
    assert await texts(other, fork.id) == ["two"]
    assert await texts(other, fork.id, undone=True) == ["one", "two"]


async def test_the_export_of_a_fork_can_be_continued_in_its_own_store(store: Store) -> None:
    session = await make_session(store, *whole_turn("t1", "one"))
    fork = await store.fork_session(session.id)
    lines = await export_lines(store, fork.id)
    assert (await bring(store, lines)).outcome == "unchanged"
    more = changed(lines[2], seq=2, turn_id=None)
    lines[-1:] = [more, changed(lines[-1], lines=4, messages=2)]
    imported = await bring(store, lines)
    assert (imported.outcome, imported.messages, imported.whole) == ("extended", 1, True)
    assert await texts(store, fork.id) == ["one", "one"]
    assert await texts(store, session.id) == ["one"]


# --- damaged and cut files --------------------------------------------------------------------


async def test_lines_that_can_not_be_read_are_skipped_and_counted(
    store: Store, other: Store
) -> None:
    session = await make_session(
        store,
        *said("one", "two", "three", "four"),
        AddCompaction(compaction_id="c", keep_from=4, summary="s", at=1),
    )
    lines = await export_lines(store, session.id)
    lines[2] = lines[2][:20] + b"\n"
    lines.insert(3, b'{"type":"novelty"}\n')
    imported = await bring(other, lines)
    assert imported.skipped == (3, 4)
    assert not imported.whole
    assert await texts(other, session.id) == ["one", "three", "four"]
    compaction = await other.find_compaction(session.id)
    assert compaction is not None
    assert compaction.keep_from == 3  # the same message, one place earlier
    again = await bring(other, lines)
    assert (again.outcome, again.skipped) == ("unchanged", (3, 4))


async def test_lines_that_come_twice_count_once(store: Store, other: Store) -> None:
    session = await make_session(
        store,
        *whole_turn("t1", "one"),
        AddCompaction(compaction_id="c", keep_from=1, summary="s", at=1),
    )
    lines = await export_lines(store, session.id)
    kinds = [json.loads(line)["type"] for line in lines]
    for kind in ("turn", "compaction"):
        lines.insert(len(lines) - 1, lines[kinds.index(kind)])
    await bring(other, lines)
    assert await values(other, session.id) == await values(store, session.id)


@pytest.mark.parametrize("chunk", [1, 2, 200])
async def test_a_cut_file_brings_what_it_has_and_the_whole_one_the_rest(
    store: Store, other: Store, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.transfer.importer.CHUNK", chunk)
    blob = await store.put_blob(b"picture", "image/png")
    session = await make_session(
        store,
        *whole_turn("t1", "one", "two"),
        AddUsage(usage=SPENT, turn_id="t1"),
        AddCompaction(compaction_id="c", keep_from=2, summary="s", at=5),
        AddMessage(Draft(role="user", content="look", parts=({"blob": blob},), at=7)),
        *whole_turn("t2", "three", "four", start=3_000),
        AddUsage(usage=SPENT, turn_id="t2"),
        UndoTurn("t2", 8),
        WriteScratch("note", "text", 6_000),
        WriteTodos((Todo("write", "done"),)),
    )
    await store.edit_session(session.id, SessionEdit(pinned=True, archived=True))
    lines = await export_lines(store, session.id)
    for length in range(1, len(lines)):
        cut = [*lines[:length], lines[length][:-5]]
        assert not (await bring(other, cut)).whole
    assert (await bring(other, lines)).whole
    await bring(other, lines)
    assert await values(other, session.id) == await values(store, session.id)


async def test_an_import_that_breaks_off_can_be_done_again(store: Store, other: Store) -> None:
    session = await make_session(store, *said(*(f"message {n}" for n in range(CHUNK + 100))))
    lines = await export_lines(store, session.id)

    def broken() -> Iterator[bytes]:
        yield from lines[: CHUNK + 50]
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011  # it is ours
        await import_transcript(other, broken())
    assert (await other.get_session(session.id)).head == CHUNK
    assert await other.find_lease(session.id) is None
    assert (await bring(other, lines)).outcome == "extended"
    assert await values(other, session.id) == await values(store, session.id)


async def test_a_session_that_moves_on_meanwhile_is_not_written_to(store: Store) -> None:
    session = await make_session(store, *said("one"))
    chunks = Chunks(store, session.id, head=session.head, dry_run=False)
    await record(store, session.id, *said("quicker", start=3_000))
    chunks.add(*said("late"))
    with pytest.raises(Conflict, match="changed meanwhile"):
        await chunks.flush()
    assert await texts(store, session.id) == ["one", "quicker"]
    assert await store.find_lease(session.id) is None


async def test_a_blob_that_is_lost_does_not_take_its_message_along(
    store: Store, other: Store
) -> None:
    blob = await store.put_blob(b"picture", "image/png")
    part = {"blob": blob, "media_type": "image/png"}
    session = await make_session(
        store, AddMessage(Draft(role="user", content="look", parts=(part,), at=1))
    )
    lines = await export_lines(store, session.id)
    lines[1] = lines[1].replace(b"cGljdHVyZQ==", b"cGljdHVyZB==")
    imported = await bring(other, lines)
    assert imported.skipped == (2,)
    (message,) = await other.get_messages(session.id)
    assert message.parts == ({"lost_blob": blob, "media_type": "image/png"},)
    assert (await bring(other, lines)).outcome == "unchanged"


# --- trying it out ----------------------------------------------------------------------------


async def test_a_dry_run_tells_and_changes_nothing(store: Store, other: Store) -> None:
    blob = await store.put_blob(b"picture", "image/png")
    session = await make_session(
        store,
        *whole_turn("t1", "one"),
        AddMessage(Draft(role="user", parts=({"blob": blob},), at=1)),
    )
    lines = await export_lines(store, session.id)
    told = await bring(other, lines, dry_run=True)
    assert (told.outcome, told.messages, told.whole) == ("created", 2, True)
    assert (await other.stats()).sessions == 0
    await bring(other, lines)
    assert (await bring(other, lines, dry_run=True)).outcome == "unchanged"


async def test_an_import_tells_how_far_it_is(store: Store, other: Store) -> None:
    session = await make_session(store, *said("one", "two"))
    lines = await export_lines(store, session.id)
    steps: list[int] = []
    await bring(other, lines, advance=steps.append)
    assert sum(steps) == sum(map(len, lines))
