"""Files that no tool opens (clew's own), and files that are asked about wherever they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent.tools.conftest import Bench

TOKEN = "clew_secret_of_the_owner"  # no real one


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- clew's own files -------------------------------------------------------------------------


@pytest.fixture
def own(bench: Bench) -> Path:
    """A directory of clew itself, inside the workspace."""
    state = bench.root / "state"
    put(state / "gateway.token", TOKEN)
    bench.make_tools(sealed=(str(state),), opened=str(state / "workspace"))
    return state


async def test_a_directory_of_clew_is_closed_to_every_tool(bench: Bench, own: Path) -> None:
    for path in ("state/gateway.token", "state/../state/gateway.token", str(own), "state/new"):
        for tool, more in (("read_file", {}), ("list_files", {}), ("write_file", {"content": ""})):
            outcome = await bench.call(tool, path=path, **more)
            assert outcome.is_error
            assert "belongs to clew" in outcome.content
    assert TOKEN not in (await bench.call("search_files", pattern="clew_")).content
    assert "gateway.token" not in (await bench.call("list_files", ignored=True)).content


async def test_a_workspace_inside_a_directory_of_clew_opens_nothing(
    bench: Bench, own: Path
) -> None:
    await bench.begin(cwd=str(own))
    for path in ("gateway.token", "."):
        assert "belongs to clew" in (await bench.call("read_file", path=path)).content
    for tool, more in (("list_files", {}), ("search_files", {"pattern": "clew_"})):
        assert "belongs to clew" in (await bench.call(tool, **more)).content


async def test_the_opened_directory_alone_is_a_workspace_there(bench: Bench, own: Path) -> None:
    put(own / "workspace" / "a.txt", "a plain file")
    await bench.begin(cwd=str(own / "workspace"))
    assert "a plain file" in (await bench.call("read_file", path="a.txt")).content
    assert "a.txt" in (await bench.call("search_files", pattern="plain")).content
    assert "belongs to clew" in (await bench.call("read_file", path="../gateway.token")).content


async def test_a_hard_link_to_a_file_of_clew_is_known_by_its_inode(bench: Bench, own: Path) -> None:
    os.link(own / "gateway.token", bench.root / "innocent.txt")
    (own / "workspace").mkdir()
    os.link(own / "gateway.token", own / "workspace" / "b.txt")
    for path in ("innocent.txt", "state/workspace/b.txt"):
        assert "belongs to clew" in (await bench.call("read_file", path=path)).content
    found = await bench.call("search_files", pattern="clew_secret")
    assert found.content == "Nothing found."
    await bench.begin(cwd=str(own / "workspace"))
    assert (await bench.call("search_files", pattern="clew_secret")).content == "Nothing found."


async def test_a_store_file_is_closed_with_the_files_beside_it(bench: Bench) -> None:
    store = put(bench.root / "sessions.db", "SQLite")
    beside = ("sessions.db-wal", "sessions.db.before-0003", "sessions.db.replaced-1")
    for name in beside:
        put(bench.root / name, "SQLite")
    put(bench.root / "sessions.dbx", "another file")
    bench.make_tools(sealed=(str(store),))
    for name in ("sessions.db", *beside):
        assert "belongs to clew" in (await bench.call("read_file", path=name)).content
    assert "another file" in (await bench.call("read_file", path="sessions.dbx")).content
    found = await bench.call("search_files", pattern="SQLite")
    assert found.content == "Nothing found."


# --- files that hold secrets ------------------------------------------------------------------

SECRETS = (
    ".ssh/config", ".ssh/id_rsa", ".aws/credentials", ".gnupg/pubring.kbx", ".netrc", ".env",
    ".env.local", ".envrc", "app/.ENV", "certs/server.pem", "certs/server.key", "id_ed25519",
    ".mozilla/firefox/x/prefs.js", ".config/google-chrome/Default/Preferences", ".pgpass",
    "Library/Application Support/Google/Chrome/Default/History", ".git-credentials",
)  # fmt: skip


@pytest.mark.parametrize("path", SECRETS)
async def test_a_file_that_holds_secrets_is_asked_about_inside_the_workspace_too(
    bench: Bench, path: str
) -> None:
    put(bench.root / path, "hidden")
    # Rules for the tool, or by pattern, are not meant for these.
    bench.make_tools(allow=("read_file", "read_file:**", "*"))
    bench.turn.answers = [("no", "once")]
    outcome = await bench.call("read_file", path=path)
    assert outcome.is_error
    assert "hidden" not in outcome.content
    (asked,) = bench.turn.asked
    assert asked["rule"] == f"read_file={path}"
    assert "secret" in asked["summary"]
    bench.make_tools(allow=(f"read_file={path}",))
    assert "hidden" in (await bench.call("read_file", path=path)).content


async def test_such_a_file_is_known_by_where_it_is_not_by_how_it_is_called(bench: Bench) -> None:
    put(bench.root / ".ssh" / "config", "hidden")
    (bench.root / "link").symlink_to(".ssh/config")
    bench.turn.answers = [("no", "once"), ("no", "once")]
    assert (await bench.call("read_file", path="link")).is_error
    # A workspace below it makes its files no less secret.
    await bench.begin(cwd=str(bench.root / ".ssh"))
    bench.turn.answers = [("no", "once")]
    assert (await bench.call("read_file", path="config")).is_error


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY"])
async def test_a_private_key_under_any_name_is_asked_about(bench: Bench, kind: str) -> None:
    put(bench.root / "notes.txt", f"My key:\n-----BEGIN {kind}-----\nAAAA\n")
    bench.turn.answers = [("no", "once")]
    assert "AAAA" not in (await bench.call("read_file", path="notes.txt")).content
    assert len(bench.turn.asked) == 1
    assert "AAAA" not in (await bench.call("search_files", pattern="AAAA")).content


async def test_ordinary_files_are_still_read_without_a_question(bench: Bench) -> None:
    for path in ("environment.py", "keys.py", "ssh/config", "id_rsa.pub", "docs/netrc.md"):
        put(bench.root / path, "plain")
        assert "plain" in (await bench.call("read_file", path=path)).content


async def test_a_search_leaves_out_what_holds_secrets_and_says_so(bench: Bench) -> None:
    put(bench.root / ".env", "KEY=needle")
    put(bench.root / ".ssh" / "id_rsa", "needle")
    put(bench.root / "a.txt", "needle")
    found = await bench.call("search_files", pattern="needle")
    assert found.content.splitlines()[0] == "a.txt:1: needle"
    assert "2 files that may hold secrets" in found.content
    assert "KEY" not in found.content
    assert ".env" in (await bench.call("list_files")).content
    bench.turn.answers = [("yes", "once")]
    asked_for = await bench.call("search_files", pattern="needle", path=".env")
    assert "KEY=needle" in asked_for.content


async def test_an_edit_of_such_a_file_tells_nothing_before_the_yes(bench: Bench) -> None:
    put(bench.root / ".env", "KEY=1")
    bench.make_tools(allow=("edit_file", "write_file"))
    bench.turn.answers = [("no", "once"), ("no", "once"), ("no", "once")]
    texts = {
        (await bench.call("edit_file", path=".env", old=old, new="x")).content
        for old in ("KEY", "nothing like it")
    }
    assert len(texts) == 1
    assert (await bench.call("write_file", path=".env", content="x")).is_error
