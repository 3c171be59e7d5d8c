"""The two files on a real disk, with real processes beside."""

# ruff: noqa: ASYNC240  # nothing else runs on these loops

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.memory import MEMORY_BYTES, AddLine, RemoveText, ReplaceText
from clew.core.models import Personality
from clew.errors import ClewError, InvalidInput, Locked, RecordNotFound, StaleMemory
from clew.memory import MarkdownMemory
from clew.memory.markdown import writing_alone
from clew.testing.clock import FakeClock
from tests.patience import PATIENCE
from tests.sizes import pick

WRITER = Path(__file__).with_name("writer.py")
OWN = Personality(id="coach", name="Coach", memory_scope="per-personality")
SHARED = Personality(id="coach", name="Coach")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def memory(home: Path, clock: FakeClock) -> MarkdownMemory:
    return MarkdownMemory(home, clock)


def all_files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()
    }


# --- reading and writing ----------------------------------------------------------------------


async def test_a_file_that_is_not_there_is_empty_and_reading_makes_nothing(
    memory: MarkdownMemory, home: Path
) -> None:
    file = await memory.read("user")
    assert (file.name, file.text, file.path) == ("user", "", str(home / "USER.md"))
    assert file.etag == hashlib.sha256(b"").hexdigest()
    assert await memory.list_versions("user") == ()
    assert not home.exists()


async def test_what_was_written_is_read_exactly(memory: MarkdownMemory, home: Path) -> None:
    text = "# Ada\r\nlikes\ttea 🫖\n\ufeff\x0b no newline at the end"
    written = await memory.write("user", text, by="owner")
    assert written == await memory.read("user")
    assert written.text == text
    assert written.etag == hashlib.sha256(text.encode()).hexdigest()
    assert (home / "USER.md").read_bytes() == text.encode()
    assert (await memory.read("memory")).text == ""


async def test_an_edit_by_hand_is_read_at_once(memory: MarkdownMemory, home: Path) -> None:
    await memory.write("memory", "one\n", by="owner")
    (home / "MEMORY.md").write_text("two\n", encoding="utf-8")
    assert (await memory.read("memory")).text == "two\n"


async def test_new_files_are_for_their_owner_only(memory: MarkdownMemory, home: Path) -> None:
    await memory.write("memory", "one\n", OWN, by="owner")
    for path in home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def test_a_mode_that_a_person_chose_stays(memory: MarkdownMemory, home: Path) -> None:
    await memory.write("memory", "one\n", by="owner")
    (home / "MEMORY.md").chmod(0o640)
    await memory.write("memory", "two\n", by="owner")
    assert stat.S_IMODE((home / "MEMORY.md").stat().st_mode) == 0o640


async def test_a_linked_file_stays_a_link(
    memory: MarkdownMemory, home: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "notes" / "mine.md"
    elsewhere.parent.mkdir()
    elsewhere.write_text("one\n", encoding="utf-8")
    home.mkdir()
    (home / "MEMORY.md").symlink_to(elsewhere)
    await memory.edit("memory", AddLine("two"), by="owner")
    assert (home / "MEMORY.md").is_symlink()
    assert elsewhere.read_text(encoding="utf-8") == "one\ntwo\n"
    assert list(elsewhere.parent.iterdir()) == [elsewhere]


async def test_edits_change_the_file_as_it_is_now(memory: MarkdownMemory, home: Path) -> None:
    await memory.edit("user", AddLine("Ada likes tea"), by="agent")
    (home / "USER.md").write_text("Ada likes tea\nAda is tall\n", encoding="utf-8")
    await memory.edit("user", ReplaceText("tea", "coffee"), by="agent")
    edited = await memory.edit("user", RemoveText("Ada is tall"), by="agent")
    assert edited.text == "Ada likes coffee\n"


# --- scope ------------------------------------------------------------------------------------


async def test_a_personality_has_files_of_its_own_if_its_scope_says_so(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("memory", "shared\n", SHARED, by="owner")
    await memory.write("memory", "own\n", OWN, by="owner")
    assert (await memory.read("memory")).text == "shared\n"
    assert (await memory.read("memory", SHARED)).text == "shared\n"
    assert (await memory.read("memory", OWN)).path == str(
        home / "personalities" / "coach" / "MEMORY.md"
    )
    assert [each.etag for each in await memory.list_versions("memory", OWN)] == [
        hashlib.sha256(b"own\n").hexdigest()
    ]


@pytest.mark.parametrize("odd", ["..", "../evil", "a/b", "a\\b", ".", "", "x\0", ".hidden"])
async def test_a_personality_can_not_lead_out_of_its_directory(
    memory: MarkdownMemory, home: Path, odd: str
) -> None:
    personality = Personality(id=odd, name="Odd", memory_scope="per-personality")
    with pytest.raises(InvalidInput):
        await memory.write("memory", "x", personality, by="owner")
    assert not home.exists()


# --- refusals ---------------------------------------------------------------------------------


async def test_a_stale_overwrite_is_refused_and_changes_nothing(
    memory: MarkdownMemory, home: Path
) -> None:
    read = await memory.write("memory", "one\n", by="owner")
    await memory.write("memory", "two\n", by="agent", etag=read.etag)
    before = all_files(home)
    with pytest.raises(StaleMemory, match="Read it again"):
        await memory.write("memory", "three\n", by="owner", etag=read.etag)
    assert all_files(home) == before


async def test_an_edit_by_hand_makes_an_etag_stale(memory: MarkdownMemory, home: Path) -> None:
    read = await memory.write("memory", "one\n", by="owner")
    (home / "MEMORY.md").write_text("by hand\n", encoding="utf-8")
    with pytest.raises(StaleMemory):
        await memory.write("memory", "two\n", by="agent", etag=read.etag)


async def test_a_file_that_is_not_utf8_is_an_error_and_stays(
    memory: MarkdownMemory, home: Path
) -> None:
    home.mkdir()
    (home / "USER.md").write_bytes(b"caf\xe9\n")
    with pytest.raises(ClewError, match="not UTF-8"):
        await memory.read("user")
    with pytest.raises(ClewError, match="not UTF-8"):
        await memory.write("user", "new", by="owner")
    assert (home / "USER.md").read_bytes() == b"caf\xe9\n"


async def test_a_directory_in_the_way_is_an_error_in_words(
    memory: MarkdownMemory, home: Path
) -> None:
    (home / "USER.md").mkdir(parents=True)
    with pytest.raises(ClewError, match=r"USER.md is not a file"):
        await memory.read("user")


async def test_a_disk_that_refuses_is_an_error_in_words(memory: MarkdownMemory, home: Path) -> None:
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the directory should be", encoding="utf-8")
    with pytest.raises(ClewError, match=r"can't be written: .*Nothing was changed"):
        await memory.write("user", "new", by="owner")


async def test_half_a_character_is_refused(memory: MarkdownMemory, home: Path) -> None:
    with pytest.raises(InvalidInput, match="half a character"):
        await memory.write("user", "\ud83d", by="owner")
    assert not (home / "USER.md").exists()


def test_whoever_waits_for_the_lock_in_vain_is_told(tmp_path: Path) -> None:
    with (
        writing_alone(tmp_path),
        pytest.raises(Locked, match="Another clew"),
        writing_alone(tmp_path, patience=0.05),
    ):
        pass


# --- history ----------------------------------------------------------------------------------


async def test_versions_say_who_and_when_newest_first(
    memory: MarkdownMemory, clock: FakeClock
) -> None:
    first = clock.now
    await memory.write("memory", "one\n", by="owner")
    clock.advance(1000)
    await memory.write("memory", "one\ntwö\n", by="agent: coach/1.5 %")
    newest, oldest = await memory.list_versions("memory")
    assert (newest.number, newest.at, newest.by) == (1, first + 1000, "agent: coach/1.5 %")
    assert (oldest.number, oldest.at, oldest.by, oldest.size) == (2, first, "owner", 4)
    assert newest.etag == (await memory.read("memory")).etag
    assert newest.size == 9
    assert await memory.get_version("memory", 1) == "one\ntwö\n"
    assert await memory.get_version("memory", 2) == "one\n"


@pytest.mark.parametrize("number", [-1, 0, 2, 10**30])
async def test_a_version_that_is_not_there_is_not_found(
    memory: MarkdownMemory, number: int
) -> None:
    await memory.write("memory", "one\n", by="owner")
    with pytest.raises(RecordNotFound):
        await memory.get_version("memory", number)


async def test_writing_the_same_again_makes_no_version(memory: MarkdownMemory) -> None:
    await memory.write("memory", "one\n", by="owner")
    await memory.write("memory", "one\n", by="agent")
    assert len(await memory.list_versions("memory")) == 1


async def test_an_edit_by_hand_is_kept_before_it_is_written_over(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("memory", "one\n", by="owner")
    (home / "MEMORY.md").write_text("by hand\n", encoding="utf-8")
    os.utime(home / "MEMORY.md", ns=(0, 1_700_000_000_123_456_789))
    await memory.write("memory", "two\n", by="agent")
    versions = await memory.list_versions("memory")
    assert [each.by for each in versions] == ["agent", "hand", "owner"]
    assert versions[1].at == 1_700_000_000_123
    assert await memory.get_version("memory", 2) == "by hand\n"


async def test_an_editor_that_saves_in_the_midst_of_a_write_loses_nothing(home: Path) -> None:
    saved: list[int] = []

    def clock() -> int:  # the time is asked for between reading the file and replacing it
        if len(saved) < 2:
            saved.append(1)
            (home / "MEMORY.md").write_text(f"by hand {len(saved)}\n", encoding="utf-8")
        return 5

    memory = MarkdownMemory(home, clock)
    edited = await memory.edit("memory", AddLine("two"), by="agent")
    assert edited.text == "by hand 2\ntwo\n"
    versions = await memory.list_versions("memory")
    assert [each.by for each in versions] == ["agent", "hand", "hand"]


async def test_an_etag_is_stale_if_an_editor_saves_in_the_midst_of_a_write(home: Path) -> None:
    memory = MarkdownMemory(home, lambda: (home / "USER.md").write_text("by hand\n", "utf-8"))
    etag = (await memory.read("user")).etag
    with pytest.raises(StaleMemory):
        await memory.write("user", "mine\n", by="agent", etag=etag)
    assert (await memory.read("user")).text == "by hand\n"
    assert await memory.list_versions("user") == ()


async def test_a_file_that_was_there_before_clew_is_the_first_version(
    memory: MarkdownMemory, home: Path
) -> None:
    home.mkdir()
    (home / "USER.md").write_text("Ada\n", encoding="utf-8")
    await memory.edit("user", AddLine("tea"), by="agent")
    assert [each.by for each in await memory.list_versions("user")] == ["agent", "hand"]
    assert await memory.get_version("user", 2) == "Ada\n"


async def test_fifty_versions_are_kept(memory: MarkdownMemory, home: Path) -> None:
    for number in range(53):
        await memory.write("user", f"{number}\n", by="owner")
    versions = await memory.list_versions("user")
    assert [each.number for each in versions] == list(range(1, 51))
    assert await memory.get_version("user", 50) == "3\n"
    assert len(list((home / "memory-history" / "USER.md").iterdir())) == 50


async def test_strange_files_in_the_history_are_left_alone(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("user", "1\n", by="owner")
    stranger = home / "memory-history" / "USER.md" / "notes.md"
    stranger.write_text("mine", encoding="utf-8")
    await memory.write("user", "2\n", by="owner")
    assert len(await memory.list_versions("user")) == 2
    assert stranger.exists()


# --- too long ---------------------------------------------------------------------------------


async def test_the_oldest_lines_go_to_the_archive(memory: MarkdownMemory, home: Path) -> None:
    text = "".join(f"line {number:06d} {'x' * 100}\n" for number in range(6000))
    written = await memory.write("memory", text, by="owner")
    assert len(written.text.encode()) <= MEMORY_BYTES
    heading, _, moved = (home / "memory-archive.md").read_text("utf-8").partition("\n")
    assert heading == "<!-- from MEMORY.md, 2026-05-01 12:00:00 UTC -->"
    assert moved + written.text == text


async def test_a_last_line_that_is_too_long_is_refused(memory: MarkdownMemory, home: Path) -> None:
    await memory.write("memory", "one\n", by="owner")
    with pytest.raises(InvalidInput, match="last line alone"):
        await memory.edit("memory", AddLine("x" * MEMORY_BYTES), by="agent")
    assert (await memory.read("memory")).text == "one\n"
    assert not (home / "memory-archive.md").exists()


@settings(max_examples=pick(10, 25), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "memory"]),
            st.text(alphabet="ab\n é", min_size=1).filter(str.strip),
            st.integers(1, 300_000),
        ),
        max_size=6,
    )
)
def test_archive_and_files_together_never_lose_a_line(edits: list[tuple]) -> None:
    async def play(home: Path) -> None:
        memory = MarkdownMemory(home, FakeClock())
        said: dict[str, list[str]] = {"user": [], "memory": []}
        for number, (name, text, length) in enumerate(edits):
            line = f"{number} {text.strip()} {'y' * length}"
            await memory.edit(name, AddLine(line), by="agent")
            said[name] += line.split("\n")
        archive = home / "memory-archive.md"
        archived = archive.read_text("utf-8").splitlines() if archive.exists() else []
        for name, lines in said.items():
            kept = (await memory.read(name)).text.split("\n")[:-1]  # type: ignore[arg-type]
            moved = len(lines) - len(kept)
            assert kept == lines[moved:]
            assert [each for each in archived if each in lines[:moved]] == lines[
                :moved
            ] or moved == 0

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(play(Path(directory)))


# --- other processes --------------------------------------------------------------------------


def start_writer(home: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(home), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_of_two_writers_with_one_etag_one_is_refused(
    memory: MarkdownMemory, home: Path, clock: FakeClock
) -> None:
    read = await memory.write("memory", "one\n", by="owner")
    other = MarkdownMemory(home, clock)
    ends = await asyncio.gather(
        *(
            each.write("memory", f"{each}\n", by="x", etag=read.etag)
            for each in (memory, other) * 4
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(end, StaleMemory) for end in ends) == 7


async def test_two_processes_that_write_at_once_lose_nothing(
    memory: MarkdownMemory, home: Path
) -> None:
    writers = [start_writer(home, name, 20) for name in ("ada", "bob")]
    for writer in writers:
        writer.communicate(timeout=PATIENCE)
        assert writer.returncode == 0
    text = (await memory.read("memory")).text
    for name in ("ada", "bob"):
        told = [line.split()[1] for line in text.splitlines() if line.startswith(name)]
        assert told == [str(number) for number in range(1, 21)]
    versions = await memory.list_versions("memory")
    assert len(versions) == 40
    assert "hand" not in {each.by for each in versions}


async def test_a_killed_writer_leaves_the_old_file_or_the_new_one(
    memory: MarkdownMemory, home: Path
) -> None:
    for kill in range(8):
        writer = start_writer(home, f"w{kill}", 0)
        assert writer.stdout is not None
        # Killed at some moment of the write that comes after so many.
        told = [writer.stdout.readline() for _ in range(3 + kill)]
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.readlines()
        writer.wait(timeout=PATIENCE)
        writer.stdout.close()
        text = (await memory.read("memory")).text
        mine = [line.split()[1] for line in text.splitlines() if line.startswith(f"w{kill} ")]
        acknowledged = len([line for line in told if line.endswith("\n")])
        assert mine == [str(number) for number in range(1, len(mine) + 1)]
        assert len(mine) in (acknowledged, acknowledged + 1)
        assert text.endswith("x\n")
        versions = await memory.list_versions("memory")
        assert await memory.get_version("memory", 1) == text
        assert "hand" not in {each.by for each in versions}
        left = [path.name for path in (home / "memory-history").rglob("*") if path.is_file()]
        assert len(left) == len(versions)
    await memory.write("memory", "new\n", by="owner")
    assert not list(home.glob(".MEMORY.md*"))


def test_a_death_at_any_step_of_a_write_loses_nothing(tmp_path: Path) -> None:
    crashes = subprocess.run(
        [sys.executable, str(WRITER.with_name("crashes.py")), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert crashes.returncode == 0, crashes.stderr
    assert int(crashes.stdout) > 20


async def test_a_crash_before_the_file_was_replaced_leaves_no_version(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("memory", "one\n", by="owner")
    announced = home / "memory-history" / "MEMORY.md" / "next.5.agent.md"
    announced.write_text("two\n", encoding="utf-8")
    assert [each.by for each in await memory.list_versions("memory")] == ["owner"]
    assert not announced.exists()


async def test_a_crash_after_the_file_was_replaced_leaves_the_version(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("memory", "one\n", by="owner")
    (home / "memory-history" / "MEMORY.md" / "next.5.agent.md").write_text("two\n", "utf-8")
    (home / "MEMORY.md").write_text("two\n", encoding="utf-8")
    assert [each.by for each in await memory.list_versions("memory")] == ["agent", "owner"]


async def test_an_edit_by_hand_after_a_crash_loses_neither(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("memory", "one\n", by="owner")
    (home / "memory-history" / "MEMORY.md" / "next.5.agent.md").write_text("two\n", "utf-8")
    (home / "MEMORY.md").write_text("two, by hand\n", encoding="utf-8")
    await memory.write("memory", "three\n", by="agent")
    by = [each.by for each in await memory.list_versions("memory")]
    assert by == ["agent", "hand", "agent", "owner"]


# --- people -----------------------------------------------------------------------------------


async def test_a_person_has_a_user_file_of_their_own_with_its_own_history(
    memory: MarkdownMemory, home: Path
) -> None:
    await memory.write("user", "Ada\n", by="owner")
    for text in ("Bo\n", "Bo likes chess\n"):
        await memory.write("user", text, by="owner", person="telegram:7")
    assert (await memory.read("user")).text == "Ada\n"
    theirs = await memory.read("user", person="telegram:7")
    assert theirs.text == "Bo likes chess\n"
    assert Path(theirs.path).is_relative_to(home / "people")
    assert len(await memory.list_versions("user", person="telegram:7")) == 2
    assert await memory.get_version("user", 2, person="telegram:7") == "Bo\n"
    assert len(await memory.list_versions("user")) == 1
    edited = await memory.edit("user", AddLine("and tea"), by="owner", person="telegram:7")
    assert edited.text == "Bo likes chess\nand tea\n"


@pytest.mark.parametrize("person", ["../../x", "..", "/tmp/x", "a\\..\\b", "x" * 300, "\0"])
async def test_no_person_leads_out_of_the_data_directory(
    memory: MarkdownMemory, home: Path, person: str
) -> None:
    written = await memory.write("user", "x\n", by="owner", person=person)
    assert Path(written.path).parent.parent == home / "people"
    assert [each.name for each in home.parent.iterdir()] == ["home"]


async def test_people_whose_names_differ_in_case_only_have_two_files(
    memory: MarkdownMemory,
) -> None:
    names = ["person:Ann", "person:ann", "person ann"]
    for each in names:
        await memory.write("user", f"{each}\n", by="owner", person=each)
    paths = {(await memory.read("user", person=each)).path.lower() for each in names}
    assert len(paths) == 3
