"""Text that a disk has changed is found, and told from text that a person has changed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec
import pytest

from clew.core.message import Draft, ToolCall
from clew.core.session import OWNER, NewSession, SessionFilter
from clew.errors import ClewError
from clew.store import open_store
from clew.store.copy import StoreCopy
from clew.store.diagnosis import Diagnosis, Finding
from clew.store.sqlite.backup import back_up, restore
from clew.store.sqlite.copy_side import SqliteSource, SqliteTarget
from clew.store.sqlite.doctor import examine
from clew.store.sqlite.repair import repair_file
from clew.testing.corpus import Corpus, load
from clew.transfer import export_session
from tests.sizes import pick
from tests.store.files import fill, flip, query


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


def findings(diagnosis: Diagnosis) -> dict[str, Finding]:
    return {each.name: each for each in diagnosis.findings}


def test_a_sound_store_has_right_checksums(path: Path) -> None:
    fill(path, "one", "two \0 and \ud83d", "три")
    found = findings(examine(path, now=1, full=True))
    assert (found["checksums"].level, found["checksums"].what) == ("ok", "right for 3 messages")
    assert "checksums" not in findings(examine(path, now=1))


@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 64])
def test_a_flipped_bit_is_found(path: Path, bit: int) -> None:
    session = fill(path, "nothing", "@wordless@")
    flip(path, b"@wordless@", bit=bit)

    found = findings(examine(path, now=1, full=True))

    assert found["checksums"].level == "problem"
    assert f"{session} message 2" in found["checksums"].what
    assert "clew restore" in found["checksums"].advice


def test_a_text_that_is_no_utf_8_any_more_is_found(path: Path) -> None:
    session = fill(path, "nothing", "@wordless@")
    flip(path, b"@wordless@", bit=128)
    found = findings(examine(path, now=1, full=True))
    assert f"{session} message 2" in found["checksums"].what


@pytest.mark.parametrize(
    "text", [b"a tool's name", b"call-id-7", b'{"argument":7}', b"a model's name", b"a part's text"]
)
def test_every_text_of_a_message_is_covered(path: Path, text: bytes) -> None:
    async def work() -> None:
        async with await open_store(str(path)) as store:
            session = await store.create_session(NewSession(key="k"))
            lease = await store.acquire_lease(session.id, "test")
            draft = Draft(
                role="assistant",
                content="said",
                parts=({"type": "thinking", "text": "a part's text"},),
                tool_calls=(ToolCall("1", "shell", '{"argument":7}'.replace('"', "'")),),
                tool_name="a tool's name",
                tool_call_id="call-id-7",
                model="a model's name",
            )
            await store.append(session.id, lease.epoch, draft)

    asyncio.run(work())
    flip(path, text.replace(b'"', b"'"))
    assert findings(examine(path, now=1, full=True))["checksums"].level == "problem"


def test_a_message_that_was_changed_by_hand_is_no_damage(path: Path) -> None:
    fill(path, "one", "two", "three")
    query(path, "UPDATE messages SET content = '@drei@' WHERE seq = 3")
    query(path, "UPDATE sessions SET content_bytes = content_bytes + 1")
    query(path, "UPDATE messages SET cost = 1 WHERE seq = 2")  # what people don't read

    found = findings(examine(path, now=1, full=True))

    assert found["checksums"].level == "ok"
    assert found["changed by hand"].level == "warning"
    assert "message 3" in found["changed by hand"].what
    assert "1 message" in found["changed by hand"].what
    mended = repair_file(path, examine(path, now=1, full=True), now=1)
    assert "kept as they are" in {each.name: each.what for each in mended}["changed by hand"]
    assert "changed by hand" not in findings(examine(path, now=1, full=True))
    flip(path, b"@drei@")
    assert findings(examine(path, now=1, full=True))["checksums"].level == "problem"


def test_a_backup_and_its_restoring_say_what_is_damaged(path: Path, tmp_path: Path) -> None:
    fill(path, "one", "@wordless@")
    backup = tmp_path / "backup.db"
    assert back_up(path, backup, now=1).damaged == 0
    flip(path, b"@wordless@")
    assert back_up(path, backup, now=1, force=True).damaged == 1
    assert restore(path, backup, now=2, replace=True).damaged == 1
    backup.with_name("backup.db.manifest.json").unlink()
    assert restore(path, backup, now=3, replace=True).damaged == 1


def test_a_copy_says_what_is_damaged(path: Path, tmp_path: Path) -> None:
    fill(path, "one", "@wordless@")

    def copy(name: str) -> int:
        target = SqliteTarget(tmp_path / name, now=1)
        copying = StoreCopy(SqliteSource(path, now=1), target, progress=lambda _done, _total: None)
        return asyncio.run(copying.run()).damaged

    assert copy("first.db") == 0
    flip(path, b"@wordless@")
    assert copy("second.db") == 1


def test_an_export_says_what_is_damaged(path: Path) -> None:
    session_id = fill(path, "one", "@wordless@")

    async def export() -> tuple[int, ...]:
        async with await open_store(str(path)) as store:
            fork = await store.fork_session(session_id)
            assert await store.list_damaged(fork.id) == await store.list_damaged(session_id)
            session = await store.get_session(session_id)
            pieces = [each async for each in export_session(store, session, "jsonl")]
            assert len(pieces) == 4
            return await store.list_damaged(session_id)

    assert asyncio.run(export()) == ()
    flip(path, b"@wordless@")
    assert asyncio.run(export()) == (2,)


def texts_of(path: Path) -> dict[tuple[str, int], Draft]:
    """Everything that was said, as clew reads it, without the numbers: no checksum covers them."""

    async def read() -> dict[tuple[str, int], Draft]:
        async with await open_store(str(path)) as store:
            where = SessionFilter(viewer=OWNER, archived=None)
            sessions = (await store.list_sessions(where, limit=100)).sessions
            return {
                (message.session_id, message.seq): msgspec.structs.replace(
                    message.draft, usage=None, at=None, is_error=False
                )
                for session in sessions
                for message in await store.get_messages(session.id)
            }

    return asyncio.run(read())


def test_of_bits_that_flip_anywhere_none_changes_a_text_unnoticed(path: Path) -> None:
    async def make() -> None:
        async with await open_store(str(path)) as store:
            await load(store, Corpus(now=1_790_000_000_000, seed=3).conversations(10, 150))

    asyncio.run(make())
    query(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    data, said = path.read_bytes(), texts_of(path)
    rng, wrong = random.Random(3), 0
    for _ in range(pick(40, 500)):
        for file in path.parent.glob("sessions.db*"):
            file.unlink()
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            now = texts_of(path)
        except (ClewError, UnicodeDecodeError, msgspec.MsgspecError):
            continue  # it can't be read, and so it is noticed
        if any(now[each] != said[each] for each in said.keys() & now.keys()):
            wrong += 1
            assert not examine(path, now=1, full=True).sound
    assert wrong, "nothing was damaged: take another seed"
