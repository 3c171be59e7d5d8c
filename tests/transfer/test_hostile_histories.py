"""What a history can't do, whoever wrote it: every format, with the worst value in any field."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.session import OWNER, SessionFilter
from clew.errors import InvalidInput
from clew.ports import Store
from clew.store import open_store
from clew.transfer import export_session
from clew.transfer.histories import Brought, import_sources
from clew.transfer.readers import databases
from clew.transfer.readers.catalogue import get_reader, list_readers
from clew.transfer.readers.databases import Database
from clew.transfer.readers.files import MAX_LINE, Refused, open_own
from clew.transfer.readers.reader import Home
from clew.transfer.readers.transcript import EARLIEST, LATEST
from tests.sizes import pick
from tests.transfer.samples.claude_code import CLAUDE_CODE
from tests.transfer.samples.every import SAMPLES
from tests.transfer.samples.pi import CLAWDBOT
from tests.transfer.samples.talk import LONGER, REWOUND, WHOLE, Sample, write_lines

READERS = list_readers()
NOW = 4_000_000_000_000

WORST: tuple[Any, ...] = (
    None, True, -1, 2**63, 2**70, -(2**70), 1e300, "", "\x00", "\ud800 lone", "x" * 5_000,
    "../../../etc/passwd", "owner", "1969-01-01T00:00:00Z", "9999-12-31T23:59:59Z", [], {}, [[]],
    {"allow": ["shell", "*"]}, [{"type": "text"}], {"type": {"type": []}}, "\x1b]0;owned\x07",
    json.loads("[" * 400 + "]" * 400),
)  # fmt: skip


def poison(value: Any, chance: random.Random, rate: float) -> Any:
    """A value with some of its parts replaced by the worst."""
    if chance.random() < rate:
        return chance.choice(WORST)
    if isinstance(value, dict):
        return {key: poison(each, chance, rate) for key, each in value.items()}
    if isinstance(value, list):
        return [poison(each, chance, rate) for each in value]
    return value


def poison_file(path: Path, chance: random.Random, rate: float) -> None:
    """Poison a history where it is, whatever it is."""
    raw = path.read_bytes()
    if raw.startswith(b"SQLite"):
        poison_database(path, chance, rate)
    elif raw.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read("conversations.json"))
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("conversations.json", json.dumps(poison(document, chance, rate)))
    elif path.suffix == ".json":
        for each in path.parents[2].rglob("*.json") if "storage" in path.parts else [path]:
            each.write_text(json.dumps(poison(json.loads(each.read_bytes()), chance, rate)))
    elif path.suffix == ".jsonl":
        lines = [json.loads(each) for each in raw.split(b"\n") if each.strip()]
        path.write_text("".join(json.dumps(poison(x, chance, rate)) + "\n" for x in lines))
    else:
        for _ in range(int(len(raw) * rate)):
            at = chance.randrange(len(raw))
            raw = (
                raw[:at]
                + chance.choice([b"\x00", b"\n", b"# ", b"\xff", b"#### ", b"> "])
                + raw[at:]
            )
        path.write_bytes(raw)


def poison_database(path: Path, chance: random.Random, rate: float) -> None:
    connection = sqlite3.connect(path)
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    for table in tables:
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        keys = [f'"{each}"' for each in columns]
        rows = (
            connection.execute(f'SELECT rowid, * FROM "{table}"').fetchall() if table != "s" else []
        )
        for row in rows:
            for name, value in zip(keys, row[1:], strict=True):
                if chance.random() < rate or (isinstance(value, str) and value[:1] in "[{"):
                    new = poison(_loaded(value), chance, rate)
                    new = json.dumps(new) if isinstance(new, dict | list) else new
                    new = new.encode("utf-8", "replace").decode() if isinstance(new, str) else new
                    new = None if isinstance(new, int) and abs(new) >= 2**63 else new
                    try:
                        connection.execute(
                            f'UPDATE "{table}" SET {name} = ? WHERE rowid = ?', (new, row[0])
                        )
                    except sqlite3.Error:
                        continue  # the schema of that agent refuses it
    connection.commit()
    connection.close()


def _loaded(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


async def bring(
    store: Store, sample: Sample, path: Path, home: Path, **options: Any
) -> list[Brought]:
    reader = get_reader(sample.agent, READERS)
    sources = list(reader.find(Home(home, {})) if sample.found else reader.open(path))
    return [each async for each in import_sources(store, reader, sources, now=NOW, **options)]


async def check_harmless(store: Store, agent: str) -> None:
    """Nothing came but what was said, its times, usage and title."""
    page = await store.list_sessions(SessionFilter(viewer=OWNER, archived=None), limit=100)
    for session in page.sessions:
        assert session.platform == agent
        assert session.person == OWNER
        assert (session.cwd, session.project, session.model, session.provider) == (None,) * 4
        assert (session.personality, session.thinking, session.mode) == (None, None, None)
        assert (session.send_policy, session.last_route, session.metadata) == (None, None, {})
        assert (session.pinned, session.archived_at, session.last_interaction_at) == (
            False,
            None,
            None,
        )
        assert EARLIEST <= session.created_at <= LATEST
        assert min(session.usage.input_tokens, session.usage.output_tokens) >= 0
        assert await store.list_routes(session.id) == ()
        assert session.title is None or "\x1b" not in session.title
        for turn in await store.list_turns(session.id):
            assert turn.ended_at is not None
            assert turn.reply_to is None
        for message in await store.get_messages(session.id):
            assert EARLIEST <= message.at <= LATEST
            assert all(isinstance(json.loads(call.arguments), dict) for call in message.tool_calls)
        for kind in ("jsonl", "md", "html", "claude-code", "codex"):
            made: Any = kind
            assert [piece async for piece in export_session(store, session, made)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: f"{each.agent}{each.form}")
async def test_the_worst_values_bring_nothing_but_words(tmp_path: Path, sample: Sample) -> None:
    for seed in range(pick(8, 150)):
        chance = random.Random(f"{sample.agent}{seed}")
        home = tmp_path / f"person {seed}"
        path = sample.write(home, LONGER if seed % 2 else REWOUND)
        poison_file(path, chance, (0.01, 0.05, 0.2, 0.6)[seed % 4])
        async with await open_store(
            f"sqlite://{tmp_path}/{seed}/sessions.db", durability="normal"
        ) as store:
            for again in (False, True):
                for brought in await bring(store, sample, path, home, branches=again):
                    assert brought.outcome != "failed", brought.error
                if again:
                    os.utime(path, ns=(1, 1))
            await check_harmless(store, sample.agent)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: f"{each.agent}{each.form}")
async def test_nothing_of_the_source_is_changed(
    store: Store, tmp_path: Path, sample: Sample
) -> None:
    path = sample.write(tmp_path / "person", WHOLE)

    def look() -> dict[str, bytes]:
        files = (tmp_path / "person").rglob("*")
        return {str(each): each.read_bytes() for each in files if each.is_file()}

    before = look()
    await bring(store, sample, path, tmp_path / "person")
    await bring(store, sample, path, tmp_path / "person", dry_run=True)
    assert look() == before


def make_link(home: Path, path: Path) -> None:
    outside = home.parent / "outside.jsonl"
    path.rename(outside)
    path.symlink_to(outside)


def make_folder_link(home: Path, path: Path) -> None:
    outside = home.parent / "outside"
    path.parent.rename(outside)
    path.parent.symlink_to(outside)


def make_pipe(home: Path, path: Path) -> None:  # like the others
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [make_link, make_folder_link, make_pipe])
async def test_what_leads_elsewhere_is_not_found(
    store: Store, tmp_path: Path, spoil: Callable[[Path, Path], None]
) -> None:
    home = tmp_path / "person"
    path = CLAUDE_CODE.write(home, WHOLE)
    spoil(home, path)
    assert await bring(store, CLAUDE_CODE, path, home) == []


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    if os.getuid() == 0:
        os.chown(path, 65_534, 65_534)
    else:
        path = Path("/etc/passwd")
    with pytest.raises(Refused, match="another user"):
        open_own(path, path.parent)


async def test_a_line_without_end_is_passed_over(store: Store, tmp_path: Path) -> None:
    path = CLAUDE_CODE.write(tmp_path, WHOLE)
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":"')
        for _ in range(MAX_LINE // (1 << 20) + 2):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n')
    (brought,) = await bring(store, CLAUDE_CODE, path, tmp_path)
    assert (brought.outcome, brought.broken) == ("created", 1)
    assert brought.messages == len(CLAUDE_CODE.said(WHOLE))


async def test_keys_lead_nowhere_unless_that_is_asked_for(store: Store, tmp_path: Path) -> None:
    path = CLAWDBOT.write(tmp_path, WHOLE)
    (brought,) = await bring(store, CLAWDBOT, path, tmp_path)
    key = "agent:main:telegram:dm:42"
    assert await store.find_route(key) is None
    os.utime(path, ns=(1, 1))
    await bring(store, CLAWDBOT, path, tmp_path, routes=True)
    routed = await store.find_route(key)
    assert routed is not None
    assert routed.id == brought.session_id


async def test_a_zip_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.transfer.readers import chat_exports  # its limit is lowered here

    monkeypatch.setattr(chat_exports, "MAX_DOCUMENT", 1_000)
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", "[" + " " * 10_000_000 + "]")
    with pytest.raises(InvalidInput, match="longer"):
        list(chat_exports.ChatGpt().open(path))


async def test_a_tree_that_bites_its_tail_ends(store: Store, tmp_path: Path) -> None:
    path = CLAUDE_CODE.write(tmp_path, WHOLE)
    lines = [json.loads(each) for each in path.read_text(encoding="utf-8").split("\n") if each]
    first = next(each for each in lines if each.get("uuid"))
    first["parentUuid"] = next(each["uuid"] for each in reversed(lines) if each.get("uuid"))
    write_lines(path, lines)
    (brought,) = await bring(store, CLAUDE_CODE, path, tmp_path)
    assert brought.messages == len(CLAUDE_CODE.said(WHOLE))


@pytest.mark.parametrize("rest", ["", "ORDER BY a"])
def test_a_database_whose_pages_lead_in_circles_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    monkeypatch.setattr(databases, "SPARE", 1 << 16)
    monkeypatch.setattr(databases, "STEPS", 1_000_000)
    database = Database(write_endless_database(tmp_path / "endless.db"), tmp_path)
    with pytest.raises(Refused):
        for _ in database.select("t", "a", rest):
            pass
    with pytest.raises(Refused):
        database.tell(f"SELECT a FROM t {rest}")
    database.close()


def write_endless_database(path: Path) -> Path:
    """A small file in which every page names the next one sixty times: 60 ** 12 rows."""
    size, cells, depth = 512, 60, 12
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {size}")
    connection.execute("CREATE TABLE t (a TEXT)")
    connection.execute("INSERT INTO t VALUES ('row')")
    connection.commit()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master").fetchone()
    connection.close()
    pages = bytearray(path.read_bytes())
    leaf, count = bytes(pages[(root - 1) * size : root * size]), len(pages) // size
    for number in range(depth):
        following = count + number + 1
        starts = [size - 5 * (cell + 1) for cell in range(cells)]
        page = bytearray(size)
        struct.pack_into(">BHHHBI", page, 0, 5, 0, cells, starts[-1], 0, following)
        for cell, start in enumerate(starts):
            struct.pack_into(">H", page, 12 + 2 * cell, start)
            struct.pack_into(">IB", page, start, following, cell + 1)
        if number == 0:
            pages[(root - 1) * size : root * size] = page
        else:
            pages += page
    pages += bytes(size) + leaf
    struct.pack_into(">I", pages, 28, len(pages) // size)
    path.write_bytes(pages)
    return path
