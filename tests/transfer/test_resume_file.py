from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.core.session import NewSession
from clew.errors import ClewError, Conflict, Diverged, NotATranscript, NotFound
from clew.ports import Store
from clew.transfer.resume_file import open_transcript, write_back
from tests.transfer.test_round_trip import values
from tests.transfer.threads import bring, export_lines, export_text, make_session, record, said

NOBODY = 65_534


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may read everything, so it is somebody else meanwhile."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def names_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def snapshot(path: Path) -> tuple[bytes, int, int]:
    status = path.stat()
    return path.read_bytes(), status.st_mtime_ns, status.st_ino


# --- a transcript that is there ---------------------------------------------------------------


async def test_a_transcript_is_imported_and_never_written_to(
    store: Store, other: Store, tmp_path: Path
) -> None:
    session = await make_session(store, *said("hello", "hi"))
    path = write(tmp_path / "talk.jsonl", *await export_lines(store, session.id))
    before = snapshot(path)
    opening = await open_transcript(other, path)
    assert opening.session is not None
    assert (opening.session.id, opening.is_new, opening.notes) == (session.id, False, ())
    assert await values(other, session.id) == await values(store, session.id)
    assert snapshot(path) == before


async def test_opening_again_changes_nothing(store: Store, other: Store, tmp_path: Path) -> None:
    session = await make_session(store, *said("hello", "hi"))
    path = write(tmp_path / "talk.jsonl", *await export_lines(store, session.id))
    await open_transcript(other, path)
    longer = await record(other, session.id, *said("more"))
    opening = await open_transcript(other, path)
    assert opening.session == longer
    assert opening.imported is not None
    assert opening.imported.outcome == "unchanged"


async def test_any_file_name_will_do_for_a_transcript(
    store: Store, other: Store, tmp_path: Path
) -> None:
    session = await make_session(store, *said("hello"))
    path = write(tmp_path / "talk.txt", *await export_lines(store, session.id))
    opening = await open_transcript(other, path)
    assert opening.session is not None


async def test_a_bad_line_in_the_middle_is_skipped_counted_and_reported(
    store: Store, other: Store, tmp_path: Path
) -> None:
    session = await make_session(store, *said("one", "two", "three"))
    first, *rest = await export_lines(store, session.id)
    path = write(tmp_path / "talk.jsonl", first, rest[0], b'{"type": "mess\n', *rest[1:])
    opening = await open_transcript(other, path)
    assert opening.session is not None
    assert [each.content for each in await other.get_messages(session.id)] == [
        "one",
        "two",
        "three",
    ]
    assert opening.notes == (f"1 line of {path} could not be read and was left out (line 3).",)
    again = await open_transcript(other, path)
    assert (again.session, again.notes) == (opening.session, opening.notes)


async def test_a_lost_message_is_reported_too(store: Store, other: Store, tmp_path: Path) -> None:
    session = await make_session(store, *said("one", "two", "three"))
    first, one, two, *rest = await export_lines(store, session.id)
    path = write(tmp_path / "talk.jsonl", first, one, b"\xff" + two[1:], *rest)
    opening = await open_transcript(other, path)
    assert [each.content for each in await other.get_messages(session.id)] == ["one", "three"]
    assert len(opening.notes) == 2
    assert "messages are missing" in opening.notes[1]


async def test_a_transcript_that_differs_from_the_store_is_refused(
    store: Store, other: Store, tmp_path: Path
) -> None:
    session = await make_session(store, *said("one"))
    lines = await export_lines(store, session.id)
    await bring(other, lines)
    fields = json.loads(lines[1])
    fields["message"]["content"] = "uno"
    path = write(tmp_path / "talk.jsonl", lines[0], json.dumps(fields).encode() + b"\n", lines[2])
    with pytest.raises(Diverged):
        await open_transcript(other, path)


# --- what is no transcript --------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"hello\n", b'{"a": 1}\n', b"\n", b"\0" * 100])
@pytest.mark.parametrize("name", ["talk.jsonl", "talk.md"])
async def test_a_file_that_is_no_transcript_is_an_error_and_untouched(
    store: Store, tmp_path: Path, content: bytes, name: str
) -> None:
    path = write(tmp_path / name, content)
    before = snapshot(path)
    with pytest.raises(NotATranscript, match=name):
        await open_transcript(store, path)
    assert snapshot(path) == before
    assert (await store.stats()).sessions == 0


async def test_an_empty_file_with_another_ending_is_no_transcript(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(NotATranscript):
        await open_transcript(store, write(tmp_path / "talk.txt"))


async def test_a_missing_file_with_another_ending_is_not_made(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"talk\.txt"):
        await open_transcript(store, tmp_path / "talk.txt")


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [(make_folder, "is a directory"), (os.mkfifo, "not a regular file")],
    ids=["directory", "pipe"],
)
async def test_what_is_no_file_is_a_clear_error(
    store: Store, tmp_path: Path, make: Callable[[Path], None], complaint: str
) -> None:
    make(tmp_path / "talk.jsonl")
    with pytest.raises(ClewError, match=complaint):
        await open_transcript(store, tmp_path / "talk.jsonl")


async def test_a_file_that_may_not_be_read_says_so(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "talk.jsonl", b"secret\n")
    path.chmod(0)
    with (
        without_rights(),
        pytest.raises(ClewError, match=r"can't be read: Permission denied\."),
    ):
        await open_transcript(store, path)


async def test_what_the_system_says_is_shown_as_it_is(store: Store, tmp_path: Path) -> None:
    blocked = write(tmp_path / "file", b"x")
    with pytest.raises(ClewError, match=r"can't be read: Not a directory\."):
        await open_transcript(store, blocked / "talk.jsonl")
    with pytest.raises(ClewError, match=r"can't be read: File name too long\."):
        await open_transcript(store, tmp_path / ("x" * 300 + ".jsonl"))


# --- a transcript that begins -----------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True], ids=["missing", "empty"])
async def test_a_missing_or_empty_transcript_is_a_new_session_written_at_the_end(
    store: Store, other: Store, tmp_path: Path, there: bool
) -> None:
    path = tmp_path / "talk.jsonl"
    if there:
        write(path)
    opening = await open_transcript(store, path)
    assert (opening.session, opening.is_new, opening.path) == (None, True, str(path))
    assert (await store.stats()).sessions == 0
    assert path.exists() == there

    session = await make_session(store, *said("hello", "hi"), transcript_path=opening.path)
    write_back(session.id, opening.path, await export_text(store, session.id, "jsonl"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["one", "talk.jsonl", "two"]  # no draft is left
    again = await open_transcript(other, path)
    assert again.session is not None
    assert again.session.id == session.id


async def test_a_second_export_of_the_same_session_replaces_the_first(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    session = await make_session(store, *said("hello"))
    write_back(session.id, path, await export_text(store, session.id, "jsonl"))
    longer = await record(store, session.id, *said("more"))
    write_back(longer.id, path, await export_text(store, longer.id, "jsonl"))
    assert b"more" in path.read_bytes()


async def test_what_somebody_else_wrote_meanwhile_is_left_alone(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    session = await make_session(store, *said("hello"))
    transcript = await export_text(store, session.id, "jsonl")
    stranger = await store.create_session(NewSession(key="cli:other"))
    for content in ([b"mine\n"], await export_lines(store, stranger.id)):
        write(path, *content)
        before = snapshot(path)
        with pytest.raises(Conflict, match=session.id):
            write_back(session.id, path, transcript)
        assert snapshot(path) == before


async def test_a_link_stays_a_link(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.dat"
    link = tmp_path / "talk.jsonl"
    link.symlink_to(target)
    opening = await open_transcript(store, link)
    assert opening.is_new
    session = await make_session(store, *said("hello"))
    write_back(session.id, link, await export_text(store, session.id, "jsonl"))
    assert link.is_symlink()
    assert target.stat().st_size > 0


async def test_a_new_transcript_needs_its_directory(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no directory"):
        await open_transcript(store, tmp_path / "missing" / "talk.jsonl")
