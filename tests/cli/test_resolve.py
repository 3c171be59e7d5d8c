from __future__ import annotations

import msgspec
import pytest

from tests.cli.conftest import Home

ONE = "550e8400-e29b-41d4-a716-446655440000"
TWO = "550e8401-e29b-41d4-a716-446655440000"


@pytest.fixture
def two(home: Home) -> Home:
    home.add("Fix the Login", "one", id=ONE, cwd="/srv/api")
    home.add("Plan the trip", "two", id=TWO, cwd="/srv/web")
    return home


@pytest.mark.parametrize(
    "typed",
    [
        ONE,
        ONE.upper(),
        ONE.replace("-", ""),
        "550e8400",
        "550e8400e",
        "fix the login",
        " FIX THE LOGIN ",
    ],
)
def test_a_session_is_found_by_id_beginning_or_title(two: Home, typed: str) -> None:
    assert two.json("show", typed)["session"]["id"] == ONE


def test_an_ambiguous_beginning_shows_the_candidates(two: Home) -> None:
    result = two.clew("show", "55")
    assert result.exit_code == 2
    assert result.stderr == (
        'clew: "55" fits 2 sessions. Type more of the id.\n'
        "  550e8401  just now  Plan the trip  /srv/web\n"
        "  550e8400  just now  Fix the Login  /srv/api\n"
    )


def test_an_ambiguous_beginning_in_json_names_the_candidates(two: Home) -> None:
    result = two.clew("show", "55", "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    error = msgspec.json.decode(result.stderr)
    assert error["error"] == "ambiguous_id"
    assert error["candidates"] == [TWO, ONE]


def test_a_session_is_shown_by_its_key_and_never_changed_by_it(home: Home) -> None:
    session = home.add("Deploys", "done", key="agent:main:hook:deploys")
    assert home.json("show", "agent:main:hook:deploys")["session"]["id"] == session.id
    assert home.clew("delete", "agent:main:hook:deploys").exit_code == 1
    assert home.clew("rename", "agent:main:hook:deploys", "Other").exit_code == 1


def test_a_part_of_a_title_is_not_enough(two: Home) -> None:
    for command in (["show", "login"], ["delete", "login"], ["pin", "login"]):
        result = two.clew(*command)
        assert (result.exit_code, "Fix the Login" in result.stderr) == (1, True)


def test_a_title_that_two_sessions_have_is_ambiguous(two: Home) -> None:
    two.add("Plan the trip")
    assert two.clew("show", "plan the trip").exit_code == 2


def test_more_candidates_than_fit_are_not_counted(home: Home) -> None:
    for number in range(12):
        home.add(f"Session {number}", id=f"550e84{number:02d}-e29b-41d4-a716-446655440000")
    result = home.clew("show", "550e")
    assert "fits more than 10 sessions" in result.stderr
    assert len(result.stderr.splitlines()) == 11


def test_a_mistyped_title_gets_the_nearest_ones(two: Home) -> None:
    result = two.clew("show", "fix the logn")
    assert result.exit_code == 1
    assert result.stderr == (
        'clew: Session "fix the logn" not found. Did you mean "Fix the Login"?\n'
    )


def test_what_is_in_the_trash_is_not_found_but_told(two: Home) -> None:
    two.clew("delete", ONE)
    result = two.clew("show", "550e8400")
    assert result.exit_code == 1
    assert f"It is in the trash: `clew trash restore {ONE}`" in result.stderr
