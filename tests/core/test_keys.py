from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.keys import (
    LONGEST,
    Claim,
    CliKey,
    Identity,
    Place,
    candidate_keys,
    check_key,
    choose_cli_key,
    cli_key,
    new_key,
    parse_cli_key,
    qualified_key,
)
from clew.core.text import strip_controls
from clew.errors import InvalidInput

HERE = Place("/srv/api", "/srv/api", "api", Identity(1, 42))
NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=255)
PLAIN, QUALIFIED = list(candidate_keys(HERE))[:2]


# --- spelling ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("basename", "key"),
    [
        ("api", "cli:api"),
        ("my project", "cli:my project"),
        ("日本語.d", "cli:日本語.d"),
        ("", "cli:/"),
        ("a:b", "cli:a%3ab"),
        ("a~b", "cli:a%7eb"),
        ("100%", "cli:100%25"),
        (" edge ", "cli:%20edge%20"),
        ("new\nline\x1b[0m", "cli:new%0aline%1b[0m"),
        ("right\u202eleft", "cli:right%e2%80%aeleft"),
        ("\udcff", "cli:%ed%b3%bf"),
    ],
)
def test_a_key_is_the_name_of_the_directory_spelled_safely(basename: str, key: str) -> None:
    assert cli_key(basename) == key
    assert parse_cli_key(key) == CliKey(basename or "/")


def test_a_qualified_key_has_six_digits_of_the_path() -> None:
    digest = hashlib.sha256(b"/srv/api").hexdigest()
    assert qualified_key("api", "/srv/api") == f"cli:api~{digest[:6]}"
    assert parse_cli_key(f"cli:api~{digest[:6]}") == CliKey("api", digest[:6])


def test_a_new_session_has_the_time_behind_the_key() -> None:
    assert new_key("cli:api", 1_773_484_320_000) == "cli:api:1773484320000"
    assert new_key("work", 5) == "work:5"
    assert parse_cli_key("cli:api~0123ab:5") == CliKey("api", "0123ab", 5)


@pytest.mark.parametrize(
    "key",
    ["", "cli:", "work", "agent:main:main", "cli:a~b", "cli:a:b", "cli:api:fork:5", "cli:%ff"],
)
def test_other_keys_are_not_taken_apart(key: str) -> None:
    assert parse_cli_key(key) is None


@given(NAMES)
def test_a_key_is_one_short_harmless_line_that_tells_its_name(name: str) -> None:
    key = cli_key(name)
    assert strip_controls(key, keep_newlines=False) == key.strip() == key
    assert len(key) <= len("cli:") + LONGEST
    parsed = parse_cli_key(key)
    assert parsed is not None
    assert (parsed.digits, parsed.ms) == (None, None)
    if parsed.whole:
        assert parsed.name == name


@given(NAMES, NAMES)
def test_different_names_have_different_keys(one: str, other: str) -> None:
    assert (cli_key(one) == cli_key(other)) == (one == other)


@given(st.text(min_size=LONGEST + 1, max_size=150), st.text(max_size=5))
def test_long_names_that_begin_alike_have_different_keys(name: str, more: str) -> None:
    assert (cli_key(name) == cli_key(name + more)) == (not more)


@given(NAMES, st.text(min_size=1), st.integers(0, 10**15))
def test_a_qualified_and_timed_key_is_taken_apart_again(name: str, path: str, ms: int) -> None:
    parsed = parse_cli_key(new_key(qualified_key(name, path), ms))
    assert parsed is not None
    assert parsed.ms == ms
    assert len(parsed.digits or "") == 6


def test_a_chosen_key_is_taken_as_it_is() -> None:
    assert check_key(" work:deep ") == "work:deep"


@pytest.mark.parametrize("typed", ["", "  ", "a\nb", "a\x1bb", "x" * 501])
def test_a_chosen_key_that_is_empty_or_unprintable_is_refused(typed: str) -> None:
    with pytest.raises(InvalidInput):
        check_key(typed)


# --- identities -------------------------------------------------------------------------------


def test_a_reused_inode_is_not_the_same_directory_if_the_births_differ() -> None:
    assert Identity(1, 2, 100).is_same(Identity(1, 2, 100))
    assert Identity(1, 2, None).is_same(Identity(1, 2, 100))
    assert not Identity(1, 2, 100).is_same(Identity(1, 2, 200))
    assert not Identity(1, 2).is_same(Identity(2, 2))
    assert not Identity(1, 2).is_same(Identity(1, 3))


# --- choosing ---------------------------------------------------------------------------------


def taken(key: str, directory: str | None, **facts: Identity) -> Claim:
    return Claim(key, True, directory, facts.get("recorded"), facts.get("present"))


OURS = taken(PLAIN, "/srv/api", present=Identity(1, 42))
ALIVE = taken(PLAIN, "/old/api", recorded=Identity(1, 7), present=Identity(1, 7))
MOVED = taken(PLAIN, "/old/api", recorded=Identity(1, 42))
DELETED = taken(PLAIN, "/old/api", recorded=Identity(1, 7))
UNKNOWN = taken(PLAIN, "/old/api")
MOUNTED = taken(PLAIN, "/mnt/api", recorded=Identity(1, 42), present=Identity(1, 42))
LINKED = taken(PLAIN, None)
OWN = taken(QUALIFIED, "/srv/api", present=Identity(1, 42))


@pytest.mark.parametrize(
    ("plain", "qualified", "key", "standing"),
    [
        (Claim(PLAIN), Claim(QUALIFIED), PLAIN, "free"),
        (OURS, Claim(QUALIFIED), PLAIN, "ours"),
        (ALIVE, Claim(QUALIFIED), QUALIFIED, "free"),
        (MOVED, Claim(QUALIFIED), PLAIN, "moved"),
        (DELETED, Claim(QUALIFIED), QUALIFIED, "free"),
        (UNKNOWN, Claim(QUALIFIED), QUALIFIED, "free"),
        (MOUNTED, Claim(QUALIFIED), PLAIN, "ours"),
        (LINKED, Claim(QUALIFIED), PLAIN, "ours"),
        (ALIVE, OWN, QUALIFIED, "ours"),
        (Claim(PLAIN), OWN, QUALIFIED, "ours"),
        (MOVED, OWN, QUALIFIED, "ours"),
    ],
    ids=[
        "nobody has the name",
        "it is ours",
        "another directory has it",
        "the directory moved here",
        "another directory had it and is gone",
        "a gone directory left no proof",
        "the same directory by another path",
        "a session without a directory was linked",
        "a key of its own stays",
        "a key of its own stays when the name is free again",
        "a key of its own stays whoever moves here",
    ],
)
def test_which_key_a_directory_gets(
    plain: Claim, qualified: Claim, key: str, standing: str
) -> None:
    decision = choose_cli_key(HERE, [plain, qualified])
    assert decision is not None
    assert (decision.key, decision.standing) == (key, standing)


def test_no_key_is_left_where_others_have_them_all() -> None:
    assert choose_cli_key(HERE, [ALIVE]) is None
