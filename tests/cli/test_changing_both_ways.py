"""Every changing command, in process and by `--url` at a gateway: same answer, code and effect.

The commands that only read are in `test_both_ways`.
"""

from __future__ import annotations

import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.core.changes import AddMessage
from clew.core.channels.people import NewPairing
from clew.core.message import Draft
from clew.core.session import OWNER, SessionFilter
from clew.ports import Store
from tests.cli.both_ways import WAYS, BothWays, both_ways
from tests.cli.conftest import DAY, Home

ID = r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
SHORT = r"\b[0-9a-f]{8}\b"
MOMENT = r"\b1\d{12}\b"
MADE = (ID, SHORT, MOMENT)
"""What is made anew in each way: ids and times."""


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    scratch = tmp_path_factory.mktemp("changing")
    home = Home(scratch / "home")
    home.script(*["Nothing is new."] * 20)
    with both_ways(home, scratch) as made:
        yield made


def homes(ways: BothWays) -> tuple[Home, Home]:
    return ways.here, ways.gateway.home


def add(ways: BothWays, title: str, *drafts: str, **fields: Any) -> str:
    """The same session here and there."""
    session_id = str(fields.pop("id", None) or uuid.uuid4())
    for home in homes(ways):
        home.add(title, *drafts, id=session_id, **fields)
    return session_id


def follow(ways: BothWays, *commands: list[str], masks: tuple[str, ...] = (MOMENT,)) -> None:
    """Run one command after the other in both ways; then both stores are the same."""
    for command in commands:
        ways.same(*command, masks=masks)
    here, there = (home.store(look) for home in homes(ways))
    assert here == there


async def look(store: Store) -> list[tuple[Any, ...]]:
    """What there is, without what is made anew in each way."""
    found: list[tuple[Any, ...]] = []
    for where in (
        SessionFilter(viewer=OWNER, archived=None),
        SessionFilter(viewer=OWNER, trashed=True),
    ):
        page = await store.list_sessions(where, limit=500)
        found += [
            (each.title, each.pinned, each.archived_at is None, where.trashed, each.head)
            for each in page.sessions
        ]
    return sorted(found, key=str)


# --- sessions -----------------------------------------------------------------------------------


def test_rename(ways: BothWays) -> None:
    one = add(ways, "Rename me", "hello")
    add(ways, "Twin")
    add(ways, "Twin")
    follow(
        ways,
        ["rename", one, "A", "new", "name"],
        ["rename", "a NEW name", "Another", "--json"],
        ["rename", one, "--clear"],
        ["rename", one[:13], "x" * 201],
        ["rename", "nothing at all", "x"],
        ["rename", "Twin", "x"],
        ["rename", "", "x"],
    )


def test_a_part_of_a_title_or_a_key_never_names_what_is_changed(ways: BothWays) -> None:
    add(ways, "Some long title", key="agent:main:hook:titles")
    follow(
        ways,
        ["rename", "long title", "x"],
        ["rename", "agent:main:hook:titles", "x"],
        ["delete", "long title"],
        ["delete", "agent:main:hook:titles"],
    )
    titles = [title for title, *_ in ways.here.store(look)]
    assert "Some long title" in titles


def test_pin_and_archive(ways: BothWays) -> None:
    one, two = add(ways, "Mark one"), add(ways, "Mark two")
    for command in ("pin", "archive"):
        follow(
            ways,
            [command, one, "mark TWO", "nothing like it"],
            [command, "--undo", one],
            [command, two, "--json"],
            [command, "--undo", one, two],
            [command, "nothing like it"],
        )


def test_fork(ways: BothWays) -> None:
    one = add(ways, "Fork me", "first", "second", "third")
    follow(
        ways,
        ["fork", one, "--at", "2"],
        ["fork", one, "--json"],
        ["fork", one, "--at", "9"],
        ["fork", "nothing like it"],
        masks=MADE,
    )


def test_link(ways: BothWays) -> None:
    one, two = add(ways, "Link one"), add(ways, "Link two")
    follow(
        ways,
        ["link", "telegram:4711", one],
        ["link", "telegram:4711", two],
        ["link", "cron:linked", one, "--json"],
        ["link", "telegram:4711", "nothing like it"],
        ["link", "", one],
        ["link", "--undo", "telegram:4711"],
        ["link", "--undo", "telegram:4711"],
        ["link", "--undo", "cron:linked", "--json"],
    )


# --- the trash ----------------------------------------------------------------------------------


def test_delete_and_undo(ways: BothWays) -> None:
    one, two, three = (add(ways, f"Delete {each}") for each in ("one", "two", "three"))
    follow(
        ways,
        ["delete", one],
        ["delete", two, "nothing like it", "delete THREE"],
        ["trash", "list"],
        ["trash", "list", "--json"],
        ["undo"],
        ["undo", "--json"],
        ["delete", one, two, three, "--json"],
        ["trash", "restore", one[:13], "delete two", "nothing like it"],
        ["trash", "restore", three, "--json"],
        ["delete", "nothing like it"],
        ["delete"],
        ["delete", one, "--now"],
        ["trash", "restore", one],
    )


def test_the_trash_is_emptied(ways: BothWays) -> None:
    one, two = add(ways, "Empty one"), add(ways, "Empty two")
    follow(
        ways,
        ["delete", one, two],
        ["trash", "empty"],
        ["trash", "empty", "--older-than", "1d", "--yes"],
        ["trash", "empty", "--older-than", "soon", "--yes"],
        ["trash", "empty", "--yes"],
        ["trash", "list"],
        ["undo"],
    )


def test_everything_is_deleted(ways: BothWays) -> None:
    follow(ways, ["delete", "--all", "--yes"])
    one = add(ways, "The only one")
    follow(
        ways,
        ["delete", "--all"],
        ["delete", "--all", one],
        ["delete", "--all", "--yes"],
        ["undo"],
        ["delete", "--all", "--yes", "--now"],
        ["delete", "--all", "--yes", "--json"],
    )


def test_prune(ways: BothWays) -> None:
    then = int(time.time() * 1000) - 100 * DAY
    for title in ("Old one", "Old two", "Old three"):
        add(ways, title, created_at=then)
        then -= 20 * DAY
    add(ways, "New one")
    follow(
        ways,
        ["prune", "--older-than", "200d"],
        ["prune", "--older-than", "130d", "--dry-run"],
        ["prune", "--older-than", "130d", "--json"],
        ["prune", "--older-than", "110d", "--action", "delete"],
        ["undo"],
        ["prune", "--dry-run"],
        ["prune", "--json"],
        ["prune", "--older-than", "soon"],
    )


# --- memory, personalities, guests --------------------------------------------------------------


def editor(scratch: Path, script: str) -> dict[str, str]:
    program = scratch / "editor.py"
    program.write_text(
        f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{script}\n", encoding="utf-8"
    )
    return {"VISUAL": f"{shlex.quote(sys.executable)} {shlex.quote(str(program))}"}


def test_memory(ways: BothWays, tmp_path: Path) -> None:
    places = tuple(f"{home.path}/" for home in homes(ways))
    masks = (*places, MOMENT, r"\d{4}-\d\d-\d\d \d\d:\d\d", r"owner\b", r"api:[0-9a-f]+")
    for script in ("file.write_text('tea\\n')", "file.write_text('oolong\\n')", ""):
        ways.same("memory", "edit", masks=masks, env=editor(tmp_path, script))
    for command in (
        ["show"],
        ["show", "--store", "memory", "--json"],
        ["show", "--personality", "pirate"],
        ["diff", "2"],
        ["diff", "2", "1", "--json"],
        ["diff", "9"],
        ["restore", "2"],
        ["restore", "1", "--json"],
        ["restore", "9"],
        ["log", "--store", "user"],
        ["search", "oolong"],
        ["search", "nowhere", "--json"],
    ):
        ways.same("memory", *command, masks=masks)
    here, there = (ways.run("memory", "log", "--json", way=way).stdout for way in WAYS)
    sizes = [[each["size"] for each in _decode(text)["versions"]] for text in (here, there)]
    assert sizes == [[4, 7, 4]] * 2
    assert [(home.path / "MEMORY.md").read_text("utf-8") for home in homes(ways)] == ["tea\n"] * 2


def test_an_edit_of_memory_at_a_gateway_overwrites_no_other_and_keeps_what_was_typed(
    ways: BothWays, tmp_path: Path
) -> None:
    path = ways.gateway.home.path / "USER.md"
    path.write_text("before\n", encoding="utf-8")
    theirs = f"pathlib.Path({str(path)!r}).write_text('theirs\\n')"
    env = editor(tmp_path, f"{theirs}\nfile.write_text('mine\\n')")
    edited = ways.run("memory", "edit", "--store", "user", way="at_a_gateway", env=env)
    assert edited.exit_code == 1
    assert "USER.md was changed while you edited it" in edited.stderr
    kept = Path(edited.stderr.partition("Your text is in ")[2].partition(": put")[0])
    assert kept.read_text("utf-8") == "mine\n"
    assert kept.parent != path.parent
    assert path.read_text("utf-8") == "theirs\n"
    kept.unlink()
    path.unlink()


def test_the_path_of_a_memory_file_is_of_this_machine(ways: BothWays) -> None:
    refused = ways.run("memory", "path", way="at_a_gateway")
    assert refused.exit_code == 2
    assert "not at a gateway" in refused.stderr


def test_personalities(ways: BothWays) -> None:
    for command in (["list"], ["list", "--json"], ["show", "coach"], ["show", "pirate"]):
        ways.same("personality", *command)


def test_guests(ways: BothWays) -> None:
    async def ask(store: Store) -> None:
        new = NewPairing(person="telegram:7", channel="telegram", code="ABCDEFGH", name="Ann")
        assert await store.ask_pairing(new, most=9) is not None

    for home in homes(ways):
        home.store(ask)
    masks = (MOMENT, r'"decided_by":"[^"]*"')
    for command in (
        ["list"],
        ["approve", "abcd-efgh"],
        ["approve", "abcd-efgh"],
        ["refuse", "telegram:7", "--json"],
        ["refuse", "nobody"],
        ["list", "--json"],
    ):
        ways.same("pair", *command, masks=masks)


def test_tokens(ways: BothWays) -> None:
    for way in WAYS:
        options = ["--name", "laptop", "--scope", "write", "--expires", "30d"]
        made = _decode(ways.run("token", "create", *options, "--json", way=way).stdout)
        listed = ways.run("token", "list", way=way).stdout
        assert made["token"]["id"] in listed
        assert made["secret"] not in listed
        revoked = ways.run("token", "revoke", made["token"]["id"], way=way)
        assert revoked.stdout == 'The token "laptop" of owner is revoked.\n'
    masks = (r"clew_\S+", r"until \S+ \S+")
    ways.same("token", "create", "--name", "a", "--scope", "read", "--expires", "1d", masks=masks)
    ways.same("token", "create", "--name", "a", "--scope", "admin", "--person", "alice", "--yes")
    ways.same("token", "revoke", "nothing")


# --- jobs and transcripts -----------------------------------------------------------------------


def test_jobs(ways: BothWays) -> None:
    masks = (*MADE, r"\d{4}-\d\d-\d\d \d\d:\d\d", r'"turn_id":"[^"]*"')
    for command in (
        ["list"],
        ["add", "news", "every 2h", "What is new?"],
        ["add", "news", "every 2h", "What is new?"],
        ["add", "weekly", "0 17 * * fri", "Sum up.", "--timezone", "Asia/Tokyo", "--json"],
        ["add", "wrong", "whenever", "x"],
        ["list"],
        ["run", "news"],
        ["run", "news", "--json"],
        ["run", "nothing"],
        ["remove", "NEWS"],
        ["remove", "weekly", "--json"],
        ["remove", "news"],
    ):
        ways.same("cron", *command, masks=masks)


def test_transcripts_are_imported(ways: BothWays, tmp_path: Path) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    session = elsewhere.add("From elsewhere", "one", "two")
    transcript, cut_off = tmp_path / "session.jsonl", tmp_path / "cut.jsonl"
    assert elsewhere.clew("export", session.id, "-o", str(transcript)).exit_code == 0
    cut_off.write_bytes(transcript.read_bytes().rpartition(b"\n{")[0])
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text("nothing\n", encoding="utf-8")
    follow(
        ways,
        ["import", str(transcript), "--dry-run"],
        ["import", str(transcript)],
        ["import", str(transcript), "--json"],
        ["import", str(transcript), "--as-new"],
        ["import", str(cut_off), "--as-new"],
        ["import", str(nothing)],
        ["import", str(tmp_path / "missing.jsonl")],
        ["delete", session.id],
        ["import", str(transcript)],
        masks=MADE,
    )


def test_an_import_goes_on_with_a_session_here_and_not_at_a_gateway(
    ways: BothWays, tmp_path: Path
) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    session = elsewhere.add("Longer elsewhere", "one")
    transcript = tmp_path / "session.jsonl"
    elsewhere.clew("export", session.id, "-o", str(transcript))
    ways.same("import", str(transcript))

    async def go_on(store: Store) -> None:
        lease = await store.acquire_lease(session.id, "test")
        await store.record(session.id, lease.epoch, AddMessage(Draft(role="user", content="two")))
        await store.release_lease(lease)

    elsewhere.store(go_on)
    elsewhere.clew("export", session.id, "-o", str(transcript), "--force")
    here, there = (ways.run("import", str(transcript), way=way) for way in WAYS)
    assert here.stdout == f"Session {session.id} continued with 1 message.\n"
    assert (there.exit_code, there.stdout) == (1, "")
    assert "is already there, and the transcript has more messages" in there.stderr
    assert "--as-new" in there.stderr
    ways.same("delete", session.id, "--now")


def test_a_transcript_that_is_too_long_for_a_gateway_says_where_to_import_it(
    ways: BothWays, tmp_path: Path
) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.truncate(20_000_001)
    result = ways.run("import", str(path), way="at_a_gateway")
    assert result.exit_code == 2
    assert "where its store is" in result.stderr


# --- who may ------------------------------------------------------------------------------------


def test_a_token_that_only_reads_changes_nothing(ways: BothWays) -> None:
    one = add(ways, "Read only")
    there = ways.gateway.home
    secret = there.json("token", "create", "--name", "r", "--scope", "read")["secret"]
    at = ["--url", ways.gateway.url, "--token", secret]
    for command in (
        ["rename", one, "x"],
        ["pin", one],
        ["archive", one],
        ["delete", one],
        ["undo"],
        ["trash", "empty", "--yes"],
        ["prune", "--older-than", "1d"],
        ["fork", one],
        ["link", "telegram:1", one],
        ["memory", "restore", "1"],
        ["pair", "approve", "telegram:1"],
        ["token", "create", "--name", "more", "--scope", "admin", "--yes"],
        ["cron", "add", "more", "@daily", "x"],
        ["import", __file__],
    ):
        refused = ways.caller.clew(*command, *at)
        assert refused.exit_code == 1, command
        assert "needs a token with the scope" in refused.stderr, command
    assert ways.here.store(look) == there.store(look)


def test_a_guest_changes_what_is_theirs(ways: BothWays) -> None:
    owners = add(ways, "Not the guest's")
    theirs = add(ways, "The guest's", person="telegram:5")
    there = ways.gateway.home
    options = ["--name", "g", "--scope", "write", "--person", "telegram:5"]
    secret = there.json("token", "create", *options)["secret"]
    at = ["--url", ways.gateway.url, "--token", secret]
    deleted = ways.caller.clew("delete", theirs, owners, *at)
    assert (deleted.exit_code, deleted.stdout) == (
        1, 'Put "The guest\'s" in the trash. `clew undo` restores.\n'
    )  # fmt: skip
    assert f'Session "{owners}" not found' in deleted.stderr
    assert ways.caller.clew("undo", *at).stdout == 'Restored "The guest\'s".\n'
    for command in (
        ["prune", "--older-than", "1d"],
        ["trash", "empty", "--yes"],
        ["memory", "show"],
    ):
        refused = ways.caller.clew(*command, *at)
        assert refused.exit_code == 1
        assert "Only the owner of this clew may" in refused.stderr


def _decode(text: str) -> Any:
    return msgspec.json.decode(text)
