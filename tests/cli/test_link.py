"""`clew link`: a key that leads to a session, and back."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.conftest import Home


def follow(home: Home, said: str) -> None:
    """Do what a message says would undo it."""
    command = shlex.split(said.partition("To undo: ")[2])
    assert home.clew(*command[1:]).exit_code == 0


def test_a_key_leads_to_the_session_and_back(home: Home) -> None:
    one, two = home.add("One"), home.add("Two")
    said = home.clew("link", "telegram:42", one.id).stdout
    assert said == 'telegram:42 leads to "One" now. To undo: clew link --undo telegram:42\n'

    again = home.clew("link", "telegram:42", "Two").stdout
    assert again.endswith(f"To undo: clew link telegram:42 {one.id[:8]}\n")
    assert home.json("explain", "resume", "telegram:42")["session"]["id"] == two.id

    follow(home, again)
    assert home.json("explain", "resume", "telegram:42")["session"]["id"] == one.id
    follow(home, said)
    assert home.clew("link", "--undo", "telegram:42").exit_code == 2


def test_a_short_key_gets_its_agent(home: Home) -> None:
    one = home.add("One")
    value = home.json("link", "cron:backup", one.id)

    assert value["key"] == "agent:main:cron:backup"
    assert value["session"]["id"] == one.id


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["telegram:42"], 2),
        (["telegram:42", "One", "--undo"], 2),
        (["telegram:42", "nobody"], 1),
        (["", "One"], 2),
        (["--undo", "telegram:42"], 2),
    ],
)
def test_what_can_not_be_linked_is_said(home: Home, given: list[str], code: int) -> None:
    home.add("One")
    result = home.clew("link", *given)

    assert result.exit_code == code
    assert result.stderr
