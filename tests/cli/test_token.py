"""`clew token`."""

from __future__ import annotations

import pytest

from clew.core.tokens import MEANINGS, SCOPES, Scope, Token, describe_scopes, digest_of
from clew.ports import Store
from tests.cli.conftest import DAY, Home
from tests.cli.screens import Terminal


def find(home: Home, secret: str) -> Token:
    async def look(store: Store) -> Token | None:
        return await store.find_token(digest_of(secret))

    found = home.store(look)
    assert found is not None
    return found


def test_a_token_is_shown_once_and_only_its_digest_is_kept(home: Home) -> None:
    made = home.clew("token", "create", "--name", "laptop", "--scope", "write", "--expires", "30d")
    assert made.exit_code == 0, made.stderr
    secret = made.stdout.strip()
    assert "shown only once" in made.stderr
    token = find(home, secret)
    assert (token.name, token.scopes, token.person) == ("laptop", ("write",), "owner")
    assert token.expires_at == pytest.approx(token.created_at + 30 * DAY, abs=60_000)
    assert secret not in home.clew("token", "list").stdout
    assert secret.encode() not in (home.path / "sessions.db").read_bytes()


def test_a_token_without_an_end_is_good_until_it_is_revoked(home: Home) -> None:
    made = home.json("token", "create", "--name", "forever", "--scope", "read")
    assert "expires_at" not in made["token"]
    revoked = home.clew("token", "revoke", made["token"]["id"])
    assert revoked.exit_code == 0
    assert "is revoked" in revoked.stdout
    assert find(home, made["secret"]).revoked_at is not None
    assert "revoked" in home.clew("token", "list").stdout


def test_a_token_can_be_somebody_else_s(home: Home) -> None:
    made = home.json("token", "create", "--name", "a", "--scope", "chat", "--person", "alice")
    assert made["token"]["person"] == "alice"


@pytest.mark.parametrize("scope", ["approve", "store", "admin", "read,approve"])
def test_what_answers_for_the_owner_is_the_owner_s(home: Home, scope: str) -> None:
    options = ["--name", "a", "--scope", scope, "--person", "alice", "--yes"]
    result = home.clew("token", "create", *options)
    assert result.exit_code == 2
    assert "Only the owner" in result.stderr


def test_several_scopes_are_a_set(home: Home) -> None:
    made = home.json("token", "create", "--name", "a", "--scope", "Approve, write,read")
    assert made["token"]["scopes"] == ["write", "approve"]
    assert "write,approve" in home.clew("token", "list").stdout


def test_a_token_for_a_terminal_writes_and_approves(home: Home) -> None:
    made = home.clew("token", "create", "--name", "laptop", "--for", "terminal")
    assert made.exit_code == 0, made.stderr
    assert find(home, made.stdout.strip()).scopes == ("write", "approve")
    assert describe_scopes(("write", "approve")) in made.stderr


@pytest.mark.parametrize("scope", SCOPES)
def test_what_a_token_may_do_is_told_when_it_is_made_and_in_the_help(
    home: Home, scope: Scope
) -> None:
    made = home.clew("token", "create", "--name", "a", "--scope", scope, "--yes")
    assert MEANINGS[scope] in made.stderr
    assert MEANINGS[scope] in home.clew("token", "create", "--help").stdout


def test_a_token_that_may_do_everything_is_asked_about(home: Home) -> None:
    command = ("token", "create", "--name", "a", "--scope", "admin")
    result = home.clew(*command)
    assert result.exit_code == 2
    assert "use --yes" in result.stderr
    for answer, code in (("n", 1), ("", 1), ("y", 0)):
        terminal = Terminal(home, *command)
        assert "does everything" in terminal.wait_for("[y/N]")
        terminal.type(f"{answer}\n")
        assert terminal.finish() == code
    assert len(home.json("token", "list")["tokens"]) == 1


def test_a_token_that_may_less_is_made_without_a_question(home: Home) -> None:
    for scope in ("write,approve", "store", "chat"):
        made = home.clew("token", "create", "--name", "a", "--scope", scope)
        assert made.exit_code == 0, made.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["create", "--name", "a"],
        ["create", "--scope", "read"],
        ["create", "--name", "a", "--scope", "root"],
        ["create", "--name", "a", "--scope", ""],
        ["create", "--name", "a", "--scope", "read,"],
        ["create", "--name", "a", "--scope", "read", "--for", "terminal"],
        ["create", "--name", "a", "--for", "root"],
        ["create", "--name", "a", "--scope", "read", "--expires", "soon"],
        ["create", "--name", "", "--scope", "read"],
        ["create", "--name", "a" * 500, "--scope", "read"],
        ["revoke"],
        ["revoke", "../x"],
    ],
)
def test_what_is_no_token_is_wrong_usage(home: Home, args: list[str]) -> None:
    assert home.clew("token", *args).exit_code == 2


def test_a_token_that_is_not_there_can_t_be_revoked(home: Home) -> None:
    result = home.clew("token", "revoke", "nothing")
    assert result.exit_code == 1
    assert "nothing" in result.stderr


def test_without_tokens_the_list_says_how_to_make_one(home: Home) -> None:
    assert "clew token create" in home.clew("token", "list").stdout
