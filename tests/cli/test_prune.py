from __future__ import annotations

import time

import pytest

from tests.cli.conftest import DAY, Home


@pytest.fixture
def old(home: Home) -> Home:
    """One session of today, two of 100 days ago of which one is pinned."""
    then = int(time.time() * 1000) - 100 * DAY
    home.add("Old", created_at=then)
    home.add("Pinned", created_at=then)
    home.add("New")
    home.clew("pin", "pinned")
    return home


def titles(home: Home, *args: str) -> list[str]:
    return sorted(session["title"] for session in home.json("list", *args)["sessions"])


def test_a_dry_run_shows_and_changes_nothing(old: Home) -> None:
    result = old.clew("prune", "--older-than", "90d", "--dry-run")
    assert "  Old\n" in result.stdout
    assert "This would archive 1 old session. Nothing was changed." in result.stdout
    assert titles(old) == ["New", "Old", "Pinned"]


def test_old_sessions_are_archived(old: Home) -> None:
    assert "Archived 1 old session." in old.clew("prune", "--older-than", "90d").stdout
    assert titles(old) == ["New", "Pinned"]
    assert titles(old, "--archived") == ["Old"]


def test_they_can_be_deleted_instead(old: Home) -> None:
    result = old.clew("prune", "--older-than", "90d", "--action", "delete")
    assert "Put 1 old session in the trash. `clew undo` restores." in result.stdout
    assert titles(old) == ["New", "Pinned"]
    old.clew("undo")
    assert titles(old) == ["New", "Old", "Pinned"]


def test_without_an_age_it_does_what_is_configured(old: Home) -> None:
    kept = old.clew("prune", env={"CLEW_SESSION_RETENTION_DAYS": "200"})
    assert kept.stdout == "Nothing to put away.\n"
    assert old.clew("prune", "--dry-run").stdout.endswith("Nothing was changed.\n")
    deleted = old.clew("prune", env={"CLEW_SESSION_RETENTION_ACTION": "delete"})
    assert "Put 1 old session in the trash" in deleted.stdout


@pytest.mark.parametrize("age", ["90", "soon", "-1d", ""])
def test_an_age_that_is_none_is_wrong_usage(old: Home, age: str) -> None:
    assert old.clew("prune", "--older-than", age).exit_code == 2
    assert titles(old) == ["New", "Old", "Pinned"]
