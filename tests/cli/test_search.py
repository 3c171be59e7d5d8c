from __future__ import annotations

import time
from pathlib import Path

import pytest

from clew.core.message import Draft
from tests.cli.conftest import DAY, Home


@pytest.fixture
def talk(home: Home) -> Home:
    home.add("Login", "the redirect loops on staging", cwd="/srv/api")
    home.add(
        "Trip",
        "a redirect of our plans",
        Draft(role="assistant", content="Then redirect the hotel too."),
        platform="telegram",
        kind="dm",
    )
    return home


def found(home: Home, *args: str) -> list[str]:
    return sorted(hit["title"] for hit in home.json("search", *args)["hits"])


def test_a_hit_says_where_and_what(home: Home) -> None:
    session = home.add("Login", "the redirect loops")
    assert home.clew("search", "redirect").stdout == (
        f"{session.id[:8]}  Login  #1 · user · just now\n  the redirect loops\n"
    )


@pytest.mark.parametrize(
    ("args", "titles"),
    [
        (("redirects",), ["Login", "Trip", "Trip"]),
        (("redirect", "staging"), ["Login"]),
        (("redirect", "-staging"), ["Trip", "Trip"]),
        (("redirect", "-staging", "--role", "user"), ["Trip"]),
        (("redirect", "-a"), ["Login", "Trip"]),
        (("redirect", '-"the redirect"'), ["Trip", "Trip"]),
        (("redirect", "-404", "-n1", "--session", "login"), ["Login"]),
        (('"the redirect"',), ["Login"]),
        (("stag*",), ["Login"]),
        (("redirect", "--platform", "telegram", "--role", "assistant"), ["Trip"]),
        (("redirect", "--session", "login"), ["Login"]),
        (("redirect", "-n", "1", "--session", "login"), ["Login"]),
        (("redirect", "--since", "1h"), ["Login", "Trip", "Trip"]),
        (("--", "redirect", "-staging", "--role"), []),
    ],
)
def test_words_and_filters(talk: Home, args: tuple[str, ...], titles: list[str]) -> None:
    if titles:
        assert found(talk, *args) == titles
    else:
        assert talk.clew("search", *args).exit_code == 1


def test_times_may_be_dates_moments_or_durations(home: Home) -> None:
    now = int(time.time() * 1000)
    old = Draft(role="user", content="redirect", at=1_700_000_000_000)  # 2023-11-14 22:13:20 UTC
    home.add("Old", old, created_at=1_700_000_000_000)
    home.add("New", Draft(role="user", content="redirect", at=now - DAY))
    for args, titles in [
        (("--until", "2023-11-14"), ["Old"]),
        (("--until", "2023-11-13"), []),
        (("--since", "2023-11-14", "--until", "2023-11-14"), ["Old"]),
        (("--since", "2023-11-15"), ["New"]),
        (("--since", "2023-11-14T22:13:20+00:00", "--until", "3d"), ["Old"]),
        (("--since", "3d"), ["New"]),
        (("--since", "1h"), []),
    ]:
        result = home.clew(
            "search", "redirect", *args, "--json", env={"CLEW_SESSION_TIMEZONE": "UTC"}
        )
        assert result.exit_code == (0 if titles else 1), args
        assert [title for title in ("Old", "New") if f'"{title}"' in result.stdout] == titles, args


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("when", ["soon", "2026-13-01", "", "7", "99999-01-01"])
def test_a_time_that_is_none_is_wrong_usage(talk: Home, option: str, when: str) -> None:
    result = talk.clew("search", "x", option, when)
    assert result.exit_code == 2
    assert f"Invalid value for {option}: " in result.stderr


def test_here_means_this_directory(
    talk: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    talk.add("Here", "another redirect", cwd=str(tmp_path))
    assert found(talk, "redirect", "--here") == ["Here"]


def test_nothing_found_is_told_and_ends_with_1(talk: Home) -> None:
    result = talk.clew("search", "unicorn")
    assert (result.exit_code, result.stdout) == (1, "Nothing found.\n")
    result = talk.clew("search", "unicorn", "--json")
    assert (result.exit_code, result.stdout) == (1, '{"hits":[],"cursor":null,"cut":false}\n')


def test_archived_hits_are_marked(talk: Home) -> None:
    talk.clew("archive", "login")
    assert "· archived\n" in talk.clew("search", "staging").stdout


def test_the_cursor_goes_on(talk: Home) -> None:
    page = talk.json("search", "redirect", "-n", "2")
    rest = talk.json("search", "redirect", "-n", "2", "--cursor", page["cursor"])
    assert len(page["hits"]) == 2
    assert len(rest["hits"]) == 1
    assert "and more" in talk.clew("search", "redirect", "-n", "2").stdout


def test_without_words_it_is_wrong_usage(home: Home) -> None:
    assert home.clew("search").exit_code == 2
