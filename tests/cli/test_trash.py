from __future__ import annotations

import msgspec

from tests.cli.conftest import Home


def titles(home: Home, *args: str) -> list[str]:
    return [session["title"] for session in home.json(*(args or ("list",)))["sessions"]]


def test_delete_puts_in_the_trash_and_says_how_to_undo(home: Home) -> None:
    home.add("Gone")
    result = home.clew("delete", "gone")
    assert result.stdout == 'Put "Gone" in the trash. `clew undo` restores.\n'
    assert titles(home) == []
    assert titles(home, "trash", "list") == ["Gone"]
    assert home.clew("undo").stdout.startswith('Restored "Gone".')
    assert titles(home) == ["Gone"]


def test_unknown_ids_are_reported_and_the_others_still_deleted(home: Home) -> None:
    one, two = home.add("One"), home.add("Two")
    result = home.clew("delete", one.id, "nope", two.id[:8], one.id)
    assert result.exit_code == 1
    assert "Put 2 sessions in the trash" in result.stdout
    assert 'Session "nope" not found' in result.stderr
    assert titles(home) == []


def test_an_ambiguous_id_ends_with_2(home: Home) -> None:
    home.add("Twin")
    home.add("Twin")
    result = home.clew("delete", "twin")
    assert result.exit_code == 2
    assert len(titles(home)) == 2


def test_all_needs_a_yes_where_nobody_can_be_asked(home: Home) -> None:
    home.add("One")
    away = home.add("Archived")
    home.clew("archive", away.id)
    result = home.clew("delete", "--all")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert titles(home) == ["One"]
    assert "Put 2 sessions" in home.clew("delete", "--all", "--yes").stdout
    assert sorted(titles(home, "trash", "list")) == ["Archived", "One"]


def test_ids_and_all_together_or_neither_are_wrong_usage(home: Home) -> None:
    assert home.clew("delete").exit_code == 2
    assert home.clew("delete", "x", "--all").exit_code == 2


def test_now_removes_for_good(home: Home) -> None:
    home.add("Gone")
    assert home.clew("delete", "gone", "--now").stdout == 'Removed "Gone" for good.\n'
    assert titles(home, "trash", "list") == []
    assert home.clew("undo").exit_code == 1


def test_undo_takes_back_one_delete_at_a_time(home: Home) -> None:
    for title in ("One", "Two", "Three"):
        home.add(title)
    home.clew("delete", "one")
    home.clew("delete", "two", "three")
    assert home.clew("undo").stdout == (
        "Restored 2 sessions. `clew undo` again goes further back.\n"
    )
    assert home.clew("undo").stdout == 'Restored "One".\n'
    last = home.clew("undo")
    assert (last.exit_code, last.stdout) == (1, "Nothing to undo: the trash is empty.\n")


def test_restore_takes_beginnings_and_titles(home: Home) -> None:
    one = home.add("One")
    home.add("Two")
    home.clew("delete", "one", "two")
    result = home.clew("trash", "restore", one.id[:8], "TWO", "three")
    assert result.exit_code == 1
    assert "Restored 2 sessions." in result.stdout
    assert "clew trash list" in result.stderr
    assert sorted(titles(home)) == ["One", "Two"]


def test_the_trash_lists_when_something_was_deleted(home: Home) -> None:
    home.add("Old", created_at=1_700_000_000_000)
    home.clew("delete", "old")
    listed = home.clew("trash", "list").stdout
    assert "DELETED" in listed
    assert "just now" in listed


def test_an_empty_trash_says_so(home: Home) -> None:
    assert home.clew("trash", "list").stdout == "The trash is empty.\n"


def test_emptying_asks_and_then_removes(home: Home) -> None:
    home.add("One")
    home.clew("delete", "one")
    assert home.clew("trash", "empty").exit_code == 2
    assert "Removed 0 sessions" in home.clew("trash", "empty", "--yes", "--older-than", "1d").stdout
    assert "Removed 1 session for good." in home.clew("trash", "empty", "--yes").stdout
    assert titles(home, "trash", "list") == []


def test_programs_get_json(home: Home) -> None:
    session = home.add("One")
    deleted = home.json("delete", "one")
    assert deleted == {"deleted": [session.id], "purged": False}
    assert home.json("undo") == {"restored": [session.id]}
    failed = home.clew("delete", "nope", "--json")
    assert failed.exit_code == 1
    assert msgspec.json.decode(failed.stderr)["error"] == "session_not_found"
