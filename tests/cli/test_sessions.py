from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from clew.core.changes import StartTurn
from clew.core.session import NewSession
from clew.ports import Store
from clew.testing.contract.turns import ask
from tests.cli.conftest import DAY, Home


def test_an_empty_list_says_how_to_get_something_to_look_at(home: Home) -> None:
    result = home.clew("list")
    assert result.exit_code == 0
    assert (
        result.stdout == "No sessions yet. `clew` begins one; `clew demo` makes some to look at.\n"
    )


def test_a_list_shows_id_time_count_and_title(home: Home) -> None:
    session = home.add("Fix the login", "hello", "again")
    result = home.clew("list")
    assert result.stdout == (
        "ID        UPDATED   MESSAGES  TITLE\n"
        f"{session.id[:8]}  just now         2  Fix the login\n"
    )


def test_a_session_without_a_title_goes_by_how_it_began(home: Home) -> None:
    home.add(None, "How do I\nexit vim?")
    assert "How do I\n" in home.clew("list").stdout


def test_what_could_drive_a_terminal_is_stripped(home: Home) -> None:
    home.add("\x1b]0;owned\x07\x1b[2JTitle\u202e")
    listed = home.clew("list").stdout
    assert listed.endswith("  Title\n")
    assert "\x1b" not in listed


def test_a_fork_without_a_title_is_told_from_its_parent(home: Home) -> None:
    untitled, titled = home.add(None, "How do I exit vim?"), home.add("Title", "hello")
    for session in (untitled, titled):
        home.clew("fork", session.id)
    listed = home.clew("list").stdout
    for name in ("How do I exit vim?", "Title"):
        assert listed.count(f"  {name}\n") == 1
        assert listed.count(f"  {name} (fork)\n") == 1
    home.clew("rename", "Title (fork)", "Another way")
    assert "  Another way\n" in home.clew("list").stdout


def test_the_platform_is_shown_where_there_are_several(home: Home) -> None:
    home.add("One")
    assert "PLATFORM" not in home.clew("list").stdout
    home.add("Two", platform="telegram", kind="dm")
    assert "telegram" in home.clew("list").stdout


def test_pinned_sessions_come_first_and_are_marked(home: Home) -> None:
    old = home.add("Old", created_at=1_700_000_000_000)
    home.add("New")
    home.clew("pin", old.id)
    assert home.clew("list").stdout.splitlines()[1].endswith("★ Old")


def test_a_list_says_what_goes_on_where_anything_does(home: Home) -> None:
    titles = ("Asks", "Works", "Was cut off", "Is open", "Is quiet")
    made = {title: home.add(title, "hello").id for title in titles}

    async def look(store: Store) -> tuple[str, dict[str, Any]]:
        for title in titles[:3]:
            lease = await store.acquire_lease(made[title], store.identity)
            await store.record(made[title], lease.epoch, StartTurn(turn_id=title))
            if title == "Asks":
                question = ask(title, "a", store_time() + DAY)
                await store.record(made[title], lease.epoch, question)
            if title == "Was cut off":
                await store.release_lease(lease)
        await store.attach(made["Is open"])
        listed = await asyncio.to_thread(home.clew, "list")
        return listed.stdout, await asyncio.to_thread(home.json, "list")

    shown, page = home.store(look)

    heading, *rows = shown.splitlines()
    assert heading.split() == ["ID", "UPDATED", "MESSAGES", "STATUS", "TITLE"]
    assert [row[heading.index("STATUS") :] for row in reversed(rows)] == [
        "waiting      Asks",
        "running      Works",
        "interrupted  Was cut off",
        "open         Is open",
        "             Is quiet",
    ]
    assert {each["title"]: each["status"] for each in page["sessions"]} == dict(
        zip(titles, ("waiting", "running", "interrupted", "open", None), strict=True)
    )


def store_time() -> int:
    return time.time_ns() // 1_000_000


def test_twenty_by_default_and_a_hint_that_there_are_more(home: Home) -> None:
    for number in range(21):
        home.add(f"Session {number}")
    default = home.clew("list").stdout
    assert default.count("Session ") == 20
    assert "clew list --all" in default
    assert home.clew("list", "-n", "3").stdout.count("Session ") == 3
    assert home.clew("list", "-n", "0").stdout.count("Session ") == 0


@pytest.mark.parametrize("command", [("list", "--all"), ("list", "-n", "1500"), ("sessions",)])
def test_more_than_a_page_can_be_listed(home: Home, command: tuple[str, ...]) -> None:
    async def fill(store: Store) -> None:
        for number in range(510):
            await store.create_session(NewSession(key=f"cli:{number}", title=f"Session {number}"))

    home.store(fill)
    listed = home.clew(*command).stdout
    assert listed.count("Session ") == 510
    assert "more" not in listed


def test_archived_sessions_are_counted_at_the_end(home: Home) -> None:
    home.add("Here")
    away = home.add("Away")
    home.clew("archive", away.id)
    listed = home.clew("list").stdout
    assert "Away" not in listed
    assert listed.endswith("\n+ 1 archived\n")
    archived = home.clew("list", "--archived").stdout
    assert "Away" in archived
    assert "Here" not in archived
    assert "+ " not in archived


def test_filters_narrow_the_list(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home.add("Mine", cwd=str(tmp_path))
    home.add("Theirs", cwd="/elsewhere", platform="telegram", kind="dm")
    home.add("Old", cwd="/elsewhere", created_at=int(time.time() * 1000) - 2 * DAY)
    for args, titles in [
        (("--here",), {"Mine"}),
        (("--platform", "telegram"), {"Theirs"}),
        (("--active", "60"), {"Mine", "Theirs"}),
        (("--active", "60", "--platform", "cli"), {"Mine"}),
        (("--platform", "fax"), set()),
    ]:
        listed = home.json("list", *args)["sessions"]
        assert {session["title"] for session in listed} == titles, args
    assert home.clew("list", "--platform", "fax").stdout == "No sessions like that.\n"


def test_here_in_a_directory_that_is_gone_is_an_error(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = home.clew("list", "--here")
    assert result.exit_code == 2
    assert "This directory is gone" in result.stderr


@pytest.mark.parametrize(
    "args",
    [("--active", "0"), ("--active", "-5"), ("--active", "soon"), ("-n", "-1"), ("--cursor", "x")],
)
def test_numbers_and_cursors_that_make_no_sense_are_wrong_usage(
    home: Home, args: tuple[str, ...]
) -> None:
    assert home.clew("list", *args).exit_code == 2


def test_json_has_the_whole_session_its_short_id_and_the_cursor(home: Home) -> None:
    first, second = home.add("First"), home.add("Second")
    page = home.json("list", "-n", "1")
    assert page["archived"] == 0
    assert page["sessions"][0]["id"] == second.id
    assert page["sessions"][0]["short_id"] == second.id[:8]
    assert page["sessions"][0]["message_count"] == 0
    rest = home.json("list", "--cursor", page["cursor"])
    assert [session["id"] for session in rest["sessions"]] == [first.id]
    assert rest["cursor"] is None


def test_json_may_be_asked_for_before_or_after_the_command(home: Home) -> None:
    home.add("One")
    assert home.clew("--json", "list").stdout == home.clew("list", "--json").stdout


def test_json_survives_text_that_is_no_utf8(home: Home) -> None:
    home.add("lone \ud800 surrogate", "and \x9b a control")
    session = home.json("list")["sessions"][0]
    assert session["title"] == "lone \ufffd surrogate"
    assert session["preview"] == "and \x9b a control"
    assert "\x9b" not in home.clew("list", "--json").stdout
