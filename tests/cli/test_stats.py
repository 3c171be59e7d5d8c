from __future__ import annotations

import re

from tests.cli.conftest import Home


def test_stats_count(home: Home) -> None:
    home.add("One", "hello", "again")
    home.add("Two", platform="telegram", kind="dm")
    home.clew("archive", "two")
    stats = home.json("stats")
    assert (stats["sessions"], stats["archived"], stats["messages"]) == (1, 1, 2)
    assert stats["platforms"] == {"cli": 1, "telegram": 1}
    assert re.search(r"^messages +2$", home.clew("stats").stdout, re.MULTILINE)


def test_stats_of_an_empty_store(home: Home) -> None:
    result = home.clew("stats")
    assert result.exit_code == 0
    assert "oldest" not in result.stdout


def test_status_says_where_the_store_is_and_what_was_used_last(home: Home) -> None:
    home.add("One", "hello")
    shown = home.clew("status").stdout
    assert f"{home.path}/sessions.db (" in shown
    assert re.search(r"SQLite \d+\.\d+\.\d+, schema \d+", shown)
    assert "One" in shown
    status = home.json("status")
    assert status["store"]["path"] == f"{home.path}/sessions.db"
    assert status["store"]["messages"] == 1
    assert [session["title"] for session in status["recent"]] == ["One"]


def test_status_of_an_empty_store_is_friendly(home: Home) -> None:
    assert "No sessions yet." in home.clew("status").stdout
