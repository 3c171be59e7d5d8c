"""Every agent's history: imported, imported again, extended, cut, rewound, damaged, hostile."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import OWNER, Session, SessionFilter
from clew.ports import Store
from clew.runtime.place.resume import get_meant
from clew.transfer.histories import Brought, follow, import_sources, scan
from clew.transfer.readers.catalogue import get_reader, guess_reader, list_readers
from clew.transfer.readers.reader import Home, Reader
from tests.transfer.samples.every import SAMPLES
from tests.transfer.samples.talk import BEGIN, FIRST, LONGER, OTHER, REWOUND, WHOLE, Sample, Talk
from tests.transfer.threads import record

READERS = list_readers()
LATER = BEGIN + 10**9

every_agent = pytest.mark.parametrize(
    "sample", SAMPLES, ids=lambda each: f"{each.agent}{each.form}"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


def reader_of(sample: Sample) -> Reader:
    return get_reader(sample.agent, READERS)


async def bring(
    store: Store, sample: Sample, path: Path, home: Path, **options: Any
) -> list[Brought]:
    """Import what is there, as the command line does."""
    for each in path.parent.rglob("*"):
        # Not being written any more, as far as its time tells.
        if each.is_file():
            stamp = each.stat().st_mtime_ns
            os.utime(each, ns=(stamp, stamp))
    reader = reader_of(sample)
    sources = list(reader.find(Home(home, {})) if sample.found else reader.open(path))
    now = options.pop("now", int(time.time() * 1000) + 10**9)
    return [each async for each in import_sources(store, reader, sources, now=now, **options)]


async def bring_one(
    store: Store, sample: Sample, path: Path, home: Path, **options: Any
) -> Brought:
    (brought,) = await bring(store, sample, path, home, **options)
    return brought


async def said(store: Store, session_id: str | None) -> list[tuple[str, str]]:
    assert session_id is not None
    return [(each.role, each.content) for each in await store.get_messages(session_id)]


async def sessions(store: Store) -> tuple[Session, ...]:
    return (
        await store.list_sessions(SessionFilter(viewer=OWNER, archived=None), limit=100)
    ).sessions


@every_agent
async def test_a_history_is_imported(store: Store, home: Path, sample: Sample) -> None:
    path = sample.write(home, WHOLE)
    brought = await bring_one(store, sample, path, home)

    assert (brought.outcome, brought.broken, brought.error) == ("created", 0, None)
    session = await store.get_session(brought.session_id or "")
    assert await said(store, session.id) == sample.said(WHOLE)
    assert brought.messages == session.head == len(sample.said(WHOLE))
    assert (session.platform, session.person, session.kind) == (sample.agent, OWNER, "cli")
    assert (session.cwd, session.project, session.model) == (None, None, None)
    if sample.titled:
        assert session.title == WHOLE.title
    assert brought.name == session.name != ""
    if sample.times:
        assert BEGIN <= session.created_at <= session.updated_at < LATER
    if sample.usage:
        assert session.usage.output_tokens == 7 * (4 if sample.tools else 2)
        assert session.usage.input_tokens == 115 * (4 if sample.tools else 2)
    messages = await store.get_messages(session.id)
    calls = {call.id: call.name for each in messages for call in each.tool_calls}
    results = [each for each in messages if each.role == "tool"]
    assert [calls[each.tool_call_id or ""] for each in results] == [
        each.tool_name for each in results
    ]
    turns = await store.list_turns(session.id)
    assert [each.status for each in turns] == ["done", "done"]
    counted = sum(each.usage.output_tokens for each in turns)
    assert counted == (0 if sample.summed else session.usage.output_tokens)


@every_agent
async def test_importing_it_again_changes_nothing(store: Store, home: Path, sample: Sample) -> None:
    path = sample.write(home, WHOLE)
    first = await bring_one(store, sample, path, home)
    before = await sessions(store)
    assert (await bring_one(store, sample, path, home)).outcome == "unchanged"

    os.utime(path, ns=(1, 1))  # the same, but it must be read to know
    again = await bring_one(store, sample, path, home)
    assert (again.outcome, again.messages, again.session_id) == ("unchanged", 0, first.session_id)
    assert await sessions(store) == before


@every_agent
async def test_what_was_added_since_is_added(store: Store, home: Path, sample: Sample) -> None:
    first = await bring_one(store, sample, sample.write(home, WHOLE), home)
    more = await bring_one(store, sample, sample.write(home, LONGER), home)

    assert (more.outcome, more.session_id) == ("extended", first.session_id)
    assert more.messages == len(sample.said(LONGER)) - len(sample.said(WHOLE)) == 2
    assert await said(store, first.session_id) == sample.said(LONGER)
    assert len(await sessions(store)) == 1


@every_agent
async def test_one_that_was_rewound_becomes_a_fork(
    store: Store, home: Path, sample: Sample
) -> None:
    first = await bring_one(store, sample, sample.write(home, WHOLE), home)
    path = sample.write(home, REWOUND)
    fork = await bring_one(store, sample, path, home)

    assert fork.outcome == "forked"
    assert fork.messages == 2
    assert await said(store, first.session_id) == sample.said(WHOLE)
    assert await said(store, fork.session_id) == sample.said(Talk((FIRST, OTHER)))
    child = await store.get_session(fork.session_id or "")
    common = len(sample.said(Talk((FIRST,))))
    assert (child.parent_id, child.forked_at_seq) == (first.session_id, common)
    os.utime(path, ns=(1, 1))
    assert (await bring_one(store, sample, path, home)).outcome == "unchanged"
    assert len(await sessions(store)) == 2


@every_agent
async def test_one_that_was_continued_here_becomes_a_fork(
    store: Store, home: Path, sample: Sample
) -> None:
    first = await bring_one(store, sample, sample.write(home, WHOLE), home)
    mine = Draft(role="user", content="Let us go on here.")
    await record(store, first.session_id or "", AddMessage(mine))
    fork = await bring_one(store, sample, sample.write(home, LONGER), home)

    assert (fork.outcome, fork.messages) == ("forked", 2)
    assert (await said(store, first.session_id))[-1] == ("user", mine.content)
    assert await said(store, fork.session_id) == sample.said(LONGER)


@every_agent
async def test_what_was_thrown_away_stays_away(store: Store, home: Path, sample: Sample) -> None:
    path = sample.write(home, WHOLE)
    first = await bring_one(store, sample, path, home)
    await store.delete_sessions([first.session_id or ""])
    path = sample.write(home, LONGER)
    assert (await bring_one(store, sample, path, home)).outcome == "away"
    await store.purge_sessions([first.session_id or ""])
    assert (await bring_one(store, sample, path, home)).outcome == "away"
    assert await sessions(store) == ()

    again = await bring_one(store, sample, path, home, again=True)
    assert again.outcome == "created"
    assert again.session_id != first.session_id
    assert await said(store, again.session_id) == sample.said(LONGER)
    assert (await bring_one(store, sample, path, home)).outcome == "unchanged"


@every_agent
async def test_a_dry_run_changes_nothing(store: Store, home: Path, sample: Sample) -> None:
    dry = await bring_one(store, sample, sample.write(home, WHOLE), home, dry_run=True)
    assert (dry.outcome, dry.messages) == ("created", len(sample.said(WHOLE)))
    assert await sessions(store) == ()

    await bring_one(store, sample, sample.write(home, WHOLE), home)
    dry = await bring_one(store, sample, sample.write(home, REWOUND), home, dry_run=True)
    assert (dry.outcome, dry.messages) == ("forked", 2)
    assert len(await sessions(store)) == 1


@pytest.mark.parametrize(
    "sample", [each for each in SAMPLES if each.lines], ids=lambda each: f"{each.agent}{each.form}"
)
async def test_a_damaged_line_is_left_out_and_counted(
    store: Store, home: Path, sample: Sample
) -> None:
    path = sample.write(home, WHOLE)
    whole = path.read_bytes().split(b"\n")
    middle = len(whole) // 2
    bad = [b'{"type": "user", "mess', b"\xff\xfe\x00", b"[" * 100_000, b'"text"', b"null"]
    path.write_bytes(b"\n".join([*whole[:middle], *bad, *whole[middle:]]))
    brought = await bring_one(store, sample, path, home)

    assert (brought.outcome, brought.broken) == ("created", len(bad))
    assert await said(store, brought.session_id) == sample.said(WHOLE)


@pytest.mark.parametrize(
    "sample", [each for each in SAMPLES if each.lines], ids=lambda each: f"{each.agent}{each.form}"
)
async def test_a_file_that_is_cut_can_be_imported_whole_later(
    store: Store, home: Path, sample: Sample
) -> None:
    path = sample.write(home, LONGER)
    whole = path.read_bytes()
    expected = sample.said(LONGER)
    now = path.stat().st_mtime_ns // 1_000_000
    for share in range(20, 100, 7):
        path.write_bytes(whole[: len(whole) * share // 100])
        brought = await bring_one(store, sample, path, home, now=now)
        if brought.session_id is not None:
            got = await said(store, brought.session_id)
            assert got == expected[: len(got)], share
    path.write_bytes(whole)
    os.utime(path, ns=(1, 1))
    brought = await bring_one(store, sample, path, home)
    assert await said(store, brought.session_id) == expected
    assert len(await sessions(store)) == 1


@every_agent
async def test_a_scan_counts_without_reading(store: Store, home: Path, sample: Sample) -> None:
    if not sample.found:
        assert await scan(store, [reader_of(sample)], Home(home, {})) == ()
        return
    path = sample.write(home, WHOLE)
    where = Home(home, {})
    (found,) = await scan(store, READERS, where)
    assert (found.agent, found.sessions, found.new) == (sample.agent, 1, 1)
    await bring_one(store, sample, path, home)
    (found,) = await scan(store, READERS, where)
    assert (found.new, found.changed, found.unchanged) == (0, 0, 1)
    sample.write(home, LONGER)
    (found,) = await scan(store, READERS, where)
    assert (found.new, found.changed, found.unchanged) == (0, 1, 0)


@every_agent
async def test_a_path_alone_is_guessed(home: Path, sample: Sample) -> None:
    path = sample.write(home, WHOLE)
    reader = guess_reader(path, READERS)
    assert reader is not None
    assert reader.name == sample.agent


@every_agent
async def test_the_id_that_its_agent_has_finds_it(store: Store, home: Path, sample: Sample) -> None:
    brought = await bring_one(store, sample, sample.write(home, WHOLE), home)
    assert (await get_meant(store, brought.native_id)).id == brought.session_id
    assert (await get_meant(store, brought.native_id, purpose="change")).id == brought.session_id


@pytest.mark.parametrize(
    "sample",
    [each for each in SAMPLES if each.branches],
    ids=lambda each: f"{each.agent}{each.form}",
)
async def test_branches_that_were_left_become_forks(
    store: Store, home: Path, sample: Sample
) -> None:
    path = sample.write(home, REWOUND)
    plain = await bring_one(store, sample, path, home)
    assert (plain.outcome, plain.branches) == ("created", 1)
    assert len(await sessions(store)) == 1

    brought = await bring_one(store, sample, path, home, branches=True)
    assert brought.outcome == "forked"
    threads = [await said(store, each.id) for each in await sessions(store)]
    assert sample.said(WHOLE) in threads
    assert sample.said(Talk((FIRST, OTHER))) in threads
    assert (await bring_one(store, sample, path, home, branches=True)).outcome == "unchanged"
    assert len(await sessions(store)) == 2


class Enough(Exception):
    """Ends a watch."""


@every_agent
async def test_what_is_written_is_followed(store: Store, home: Path, sample: Sample) -> None:
    if not sample.found:
        return
    told: list[Brought] = []
    talks = [WHOLE, LONGER]

    async def pause() -> None:
        if not talks:
            raise Enough
        sample.write(home, talks.pop(0))

    later = int(time.time() * 1000) + 10**9
    with pytest.raises(Enough):
        await follow(
            store,
            [reader_of(sample)],
            Home(home, {}),
            told.append,
            clock=lambda: later,
            pause=pause,
        )
    assert [each.outcome for each in told] == ["created", "extended"]


class OwnReader:
    """A reader of another package: it reads nothing, and says so."""

    name = "own"
    label = "Own"

    def find(self, home: Home) -> Any:
        return iter(())

    def open(self, path: Path) -> Any:
        return iter(())

    def recognises(self, path: Path, first: bytes) -> bool:
        return first.startswith(b"own")

    def read(self, source: Any, reading: Any) -> Any:
        return iter(())


def test_readers_of_other_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "own-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[clew.importers]\nown = tests.transfer.test_histories:OwnReader\n"
        "broken = tests.nothing:Here\ntaken = clew.transfer.readers.codex:Codex\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[str] = []
    names = [each.name for each in list_readers(told.append)]
    assert names[-1] == "own"
    assert names.count("codex") == 1
    assert len(told) == 1
    assert "broken" in told[0]
