from __future__ import annotations

import shlex

import pytest

from tests.cli.conftest import Home


def follow(home: Home, said: str) -> None:
    """Do what a message says would undo it."""
    command = shlex.split(said.partition("To undo: ")[2])
    assert command[0] == "clew"
    assert home.clew(*command[1:]).exit_code == 0


def session(home: Home, session_id: str) -> dict[str, object]:
    value: dict[str, object] = home.json("show", session_id)["session"]
    return value


def test_archive_and_back(home: Home) -> None:
    one, two = home.add("One"), home.add("Two")
    said = home.clew("archive", one.id, two.id).stdout
    assert said.startswith("Archived 2 sessions. To undo: clew archive --undo ")
    assert home.json("list") == {"sessions": [], "cursor": None, "archived": 2}
    follow(home, said)
    assert home.json("list")["archived"] == 0


def test_pin_and_back(home: Home) -> None:
    one = home.add("One")
    said = home.clew("pin", one.id).stdout
    assert said == f'Pinned "One". To undo: clew pin --undo {one.id[:8]}\n'
    assert session(home, one.id)["pinned"] is True
    follow(home, said)
    assert session(home, one.id)["pinned"] is False


def test_one_of_several_that_is_unknown_does_not_stop_the_others(home: Home) -> None:
    one = home.add("One")
    result = home.clew("pin", "nope", one.id)
    assert result.exit_code == 1
    assert 'Session "nope" not found' in result.stderr
    assert session(home, one.id)["pinned"] is True


@pytest.mark.parametrize("before", ["Plain", 'It\'s "odd" $HOME', "-n"])
def test_rename_and_back(home: Home, before: str) -> None:
    one = home.add(before)
    said = home.clew("rename", one.id, "A", "new", "name").stdout
    assert said.startswith('Renamed to "A new name". To undo: ')
    assert session(home, one.id)["title"] == "A new name"
    follow(home, said)
    assert session(home, one.id)["title"] == before


def test_a_title_can_be_taken_away_and_the_first_one_undone(home: Home) -> None:
    one = home.add(None, "hello")
    follow(home, home.clew("rename", one.id, "Named").stdout)
    assert session(home, one.id)["title"] is None
    home.clew("rename", one.id, "Named")
    assert home.clew("rename", one.id, "--clear").stdout.startswith("Took the title away.")
    assert session(home, one.id)["title"] is None


@pytest.mark.parametrize("words", [(), (" ",), ("x", "--clear")])
def test_rename_needs_a_title_or_clear(home: Home, words: tuple[str, ...]) -> None:
    one = home.add("One")
    assert home.clew("rename", one.id, *words).exit_code == 2
    assert session(home, one.id)["title"] == "One"


def test_a_title_that_is_too_long_is_refused(home: Home) -> None:
    one = home.add("One")
    result = home.clew("rename", one.id, "x" * 201)
    assert result.exit_code == 2
    assert "200" in result.stderr


def test_fork_at_a_message_and_back(home: Home) -> None:
    one = home.add("One", "first", "second", "third")
    said = home.clew("fork", one.id, "--at", "2").stdout
    assert said.startswith("Forked at message 2 as ")
    fork = home.json("list")["sessions"][0]
    assert (fork["title"], fork["message_count"]) == ("One (fork)", 2)
    follow(home, said)
    assert len(home.json("list")["sessions"]) == 1


@pytest.mark.parametrize("at", ["-1", "4", "x"])
def test_fork_at_a_message_that_is_not_there_is_wrong_usage(home: Home, at: str) -> None:
    one = home.add("One", "first", "second", "third")
    assert home.clew("fork", one.id, "--at", at).exit_code == 2
    assert len(home.json("list")["sessions"]) == 1
