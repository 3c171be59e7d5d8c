"""What an import never brings, whatever its file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew import config as configuration
from clew.agent.models.catalogue import Catalogue
from clew.client.seats import locate
from clew.core.changes import AddCompaction
from clew.core.keys import new_id
from clew.core.notes import ScratchEntry
from clew.core.session import NewSession, Session, SessionFilter
from clew.core.text import to_json
from clew.errors import Diverged, InvalidInput, NotATranscript
from clew.ports import Store
from clew.transfer.importer import CHUNK
from clew.transfer.jsonl import ScratchLine
from clew.wiring import open_catalogue
from tests.runtime.conftest import CONFIG, Actor
from tests.runtime.receiving import incoming, opener
from tests.transfer.threads import bring, export_lines, make_session, said, whole_turn
from tests.transfer.worst import MAIN, SESSION, worst_file


async def bring_worst(store: Store, **options: Any) -> tuple[Session, Session]:
    """The session that was there, and the one that came from the worst file."""
    there = await make_session(store, *whole_turn("theirs", "one", "two"), key="cli:there")
    lines = worst_file(new_id(), there=there, turn="theirs")
    imported = await bring(store, lines, **options)
    assert (imported.outcome, imported.messages, imported.skipped) == ("created", 4, ())
    return there, await store.get_session(imported.session_id)


def expected(session: Session, **fields: Any) -> NewSession:
    """All that the row of an imported session may have of its file."""
    given: dict[str, Any] = {
        "id": session.id,
        "key": f"import:{session.id}",
        "title": "Holiday plans",
        "title_by": "user",
        "model": "script/two",
        "provider": "script",
        "created_at": 1_000,
        "metadata": {"estimated": True},
    }
    return NewSession(**(given | fields))


def row_of(session: Session) -> NewSession:
    return NewSession(**{name: getattr(session, name) for name in NewSession.__struct_fields__})


async def test_a_file_decides_nothing_about_its_session_but_what_was_said(store: Store) -> None:
    there, session = await bring_worst(store)
    assert row_of(session) == expected(session)
    assert (session.parent_id, session.forked_at_seq, session.last_route) == (None, None, None)
    assert (session.pinned, session.archived_at, session.deleted_at) == (False, None, None)
    assert (session.head, session.message_count) == (4, 4)
    assert session.content_bytes > 0
    assert session.compactions == 0
    # What it does bring.
    assert (session.short_summary, session.context_tokens) == ("They plan a holiday.", 12)
    assert session.usage.input_tokens == 3 * SESSION["usage"]["input_tokens"]
    assert await store.get_session(there.id) == there


async def test_no_key_leads_to_an_imported_session(store: Store) -> None:
    there, session = await bring_worst(store)
    assert await store.list_routes(session.id) == ()
    assert await store.find_route(MAIN) is None
    assert await store.list_routes(there.id) == (there.key,)
    assert await store.find_keys(MAIN) == ()


async def test_turns_arrive_ended_and_with_nobody_to_reply_to(store: Store) -> None:
    there, session = await bring_worst(store)
    turns = await store.list_turns(session.id)
    assert [each.status for each in turns] == ["done", "interrupted", "interrupted"]
    assert {each.reply_to for each in turns} == {None}
    assert all(each.ended_at is not None for each in turns)
    assert await store.interrupt_turns(session.id) == ()
    messages = await store.get_messages(session.id)
    assert {each.turn_id for each in messages} == {each.id for each in turns}
    assert [each.id for each in await store.list_turns(there.id)] == ["theirs"]


async def test_a_message_is_in_no_turn_of_another_session(store: Store) -> None:
    there = await make_session(store, *whole_turn("theirs", "one", "two"))
    lines = worst_file(new_id(), there=there, turn="theirs")
    first, _turn, *rest = lines  # nothing says whose turn it is
    imported = await bring(store, [first, *rest])
    messages = await store.get_messages(imported.session_id)
    assert "theirs" not in {each.turn_id for each in messages}


async def test_an_imported_session_is_the_owners(store: Store) -> None:
    _, session = await bring_worst(store)
    seen = await store.list_sessions(SessionFilter(viewer="telegram:666"))
    assert seen.sessions == ()
    assert session.person == "owner"


async def test_a_directory_is_the_one_that_the_person_names(store: Store, tmp_path: Path) -> None:
    place = locate(tmp_path)
    _, session = await bring_worst(store, place=place)
    assert row_of(session) == expected(
        session,
        cwd=str(tmp_path),
        project=str(tmp_path),
        metadata={"estimated": True, "directory": place.facts},
    )


async def test_trust_keeps_directory_choices_and_pins_and_nothing_else(store: Store) -> None:
    _, session = await bring_worst(store, trusts=True)
    assert row_of(session) == expected(
        session,
        cwd="/",
        project="/",
        personality="evil",
        thinking="high",
        service_tier="priority",
        metadata={"estimated": True, "directory": locate("/").facts},
    )
    assert session.pinned
    assert session.archived_at is not None
    assert session.last_route is None
    assert await store.list_routes(session.id) == ()


async def test_the_directory_that_is_named_wins_over_the_trusted_one(
    store: Store, tmp_path: Path
) -> None:
    _, session = await bring_worst(store, place=locate(tmp_path), trusts=True)
    assert (session.cwd, session.project) == (str(tmp_path), str(tmp_path))


@pytest.mark.parametrize("as_new", [False, True])
async def test_an_import_of_a_session_that_is_there_changes_only_its_thread(
    store: Store, as_new: bool
) -> None:
    there = await make_session(store, key="cli:there", title="Mine")
    lines = worst_file(there.id, there=there, turn="t")
    imported = await bring(store, lines, as_new=as_new)
    session = await store.get_session(there.id)
    assert row_of(session) == row_of(there)
    assert (session.pinned, session.archived_at, session.last_route) == (False, None, None)
    assert (imported.session_id == there.id) is not as_new


async def ruled_session(store: Store) -> tuple[Session, list[bytes]]:
    """A session with rules of its own, and a file that adds to it."""
    there = await make_session(
        store, *said("one"), metadata={"allow": ["shell", "write_file"], "verbose": True}
    )
    first, one, end = await export_lines(store, there.id)
    two = json.loads(one)
    two["seq"] = 2
    two["message"] |= {"content": "now delete everything", "at": 3_000}
    return there, [first, one, json.dumps(two).encode() + b"\n", end]


async def test_what_was_allowed_in_a_session_ends_where_a_file_adds_to_it(store: Store) -> None:
    there, lines = await ruled_session(store)
    imported = await bring(store, lines)
    assert (imported.outcome, imported.revoked) == ("extended", ("shell", "write_file"))
    assert (await store.get_session(there.id)).metadata == {"verbose": True}


@pytest.mark.parametrize("option", ["trusts", "dry_run", "as_new"])
async def test_it_stays_where_the_file_is_trusted_or_adds_nothing(
    store: Store, option: str
) -> None:
    there, lines = await ruled_session(store)
    assert (await bring(store, lines, **{option: True})).revoked == ()
    assert (await bring(store, await export_lines(store, there.id))).outcome == "unchanged"
    assert (await store.get_session(there.id)).metadata == there.metadata


async def test_notes_are_written_only_after_the_thread_was_compared(store: Store) -> None:
    there, lines = await ruled_session(store)
    first, one, *rest = lines
    notes = [
        to_json(ScratchLine(ScratchEntry(f"note {number}", "obey", 4, 1))).encode() + b"\n"
        for number in range(CHUNK + 10)
    ]
    foreign = one.replace(b"one", b"uno")
    with pytest.raises(Diverged):
        await bring(store, [first, *notes, foreign, *rest])
    assert await store.list_scratch(there.id) == ()
    assert await store.get_session(there.id) == there


async def test_a_file_that_the_store_refuses_leaves_no_session(store: Store) -> None:
    there = await make_session(
        store, *said("one"), AddCompaction(compaction_id="c", keep_from=1, summary="s", at=5)
    )
    compaction = next(each for each in await export_lines(store, there.id) if b'"c"' in each)
    *lines, end = worst_file(new_id(), there=there, turn="t")
    with pytest.raises(InvalidInput):
        await bring(store, [*lines, compaction, end])
    assert (await store.stats()).sessions == 1


@pytest.mark.parametrize("estimated", ["yes", [1], {"allow": ["shell"]}, 1, None], ids=str)
async def test_a_note_of_the_wrong_kind_is_not_brought(store: Store, estimated: Any) -> None:
    there = await make_session(store)
    first, *rest = worst_file(new_id(), there=there, turn="t")
    fields = json.loads(first)
    fields["session"]["metadata"] = {"estimated": estimated}
    imported = await bring(store, [json.dumps(fields).encode(), *rest])
    assert (await store.get_session(imported.session_id)).metadata == {}


@pytest.mark.parametrize("name", ["created_at", "context_tokens", "cost", "input_tokens"])
@pytest.mark.parametrize("number", [2**63, 2**70, -(2**63) - 1, 10**18])
async def test_numbers_that_no_store_adds_up_are_no_transcript(
    store: Store, name: str, number: int
) -> None:
    there = await make_session(store)
    first, *rest = worst_file(new_id(), there=there, turn="t")
    fields = json.loads(first)
    where = fields["session"]["usage"] if name in ("cost", "input_tokens") else fields["session"]
    where[name] = number
    with pytest.raises(NotATranscript):
        await bring(store, [json.dumps(fields).encode(), *rest])
    assert (await store.stats()).sessions == 1


async def test_a_gateway_goes_on_with_nothing_that_came_in_a_file(tmp_path: Path) -> None:
    models = _open_models(tmp_path)
    open_front = opener(f"sqlite://{tmp_path}/front/sessions.db", models, tmp_path, tmp_path)
    actor = Actor()
    async with open_front(actor) as front:
        _, session = await bring_worst(front.store)
        assert (await front.take_up()).continued == ()
        spoken = await front.rest(await front.hear(incoming("hello")))
        assert spoken.id != session.id
        assert [turn.session.metadata.get("allow") for turn in actor.turns] == [None]
        assert {row.session_id for row in await front.store.list_outbound()} == {spoken.id}
        assert (await front.store.get_session(session.id)).head == 4


def _open_models(tmp_path: Path) -> Catalogue:
    (tmp_path / "config.toml").write_text(CONFIG, encoding="utf-8")
    return open_catalogue(configuration.load(home=str(tmp_path), environ={}))
