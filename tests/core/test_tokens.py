"""Scopes: a set, what each includes, and what a turn may do with them."""

from __future__ import annotations

from itertools import combinations

import pytest

from clew.core.tokens import (
    MEANINGS,
    OWNERS,
    PRESETS,
    SCOPES,
    Scope,
    Scopes,
    check_answer,
    covers,
    describe_scopes,
    has_own_tools,
    make_scopes,
    read_scopes,
    scopes_of,
    write_scopes,
)
from clew.errors import Forbidden, InvalidInput

EVERY_SET: list[Scopes] = [
    each for size in range(1, len(SCOPES) + 1) for each in combinations(SCOPES, size)
]


@pytest.mark.parametrize(
    ("scope", "others"),
    [
        ("read", ()),
        ("chat", ("read",)),
        ("write", ("read", "chat")),
        ("approve", ("read",)),
        ("store", ("read",)),
        ("admin", ("read", "chat", "write", "approve", "store")),
    ],
)
def test_a_scope_reaches_itself_and_what_it_includes(scope: Scope, others: Scopes) -> None:
    reached = {each for each in SCOPES if covers((scope,), each)}
    assert reached == {scope, *others}


@pytest.mark.parametrize("given", EVERY_SET)
def test_a_set_reaches_what_its_scopes_reach_and_no_more(given: Scopes) -> None:
    made = make_scopes(given)
    for each in SCOPES:
        assert covers(made, each) == any(covers((one,), each) for one in given)
    assert read_scopes(write_scopes(made)) == made == make_scopes(reversed(given))


def test_equal_sets_are_equal_however_they_are_written() -> None:
    assert read_scopes("approve, WRITE ,read,chat") == read_scopes("write,approve")
    assert read_scopes("admin,read,chat") == ("admin",)


@pytest.mark.parametrize("text", ["", ",", "root", "read,", "read write", "admin,all"])
def test_what_is_no_scope_is_told(text: str) -> None:
    with pytest.raises(InvalidInput, match="There are: read, chat"):
        read_scopes(text)


def test_no_scope_is_no_set() -> None:
    with pytest.raises(InvalidInput, match="needs a scope"):
        make_scopes(())
    assert not any(covers((), each) for each in SCOPES)


@pytest.mark.parametrize(
    ("person", "scopes", "expected"),
    [
        ("owner", ("admin",), True),
        ("owner", ("write",), True),
        ("owner", ("write", "approve"), True),
        ("owner", ("chat",), False),
        ("owner", ("chat", "approve"), False),
        ("owner", ("read", "store"), False),
        ("telegram:5", ("write",), False),
        ("telegram:5", ("admin",), False),
    ],
)
def test_the_owners_tools_are_the_owners_and_need_write(
    person: str, scopes: Scopes, *, expected: bool
) -> None:
    assert has_own_tools(person, scopes) is expected


def test_without_a_token_the_owner_may_all_and_others_talk() -> None:
    assert scopes_of("owner") == ("admin",)
    assert scopes_of("telegram:5") == ("chat",)


def test_always_is_the_admins() -> None:
    for scopes in (("approve",), ("write", "approve")):
        check_answer(scopes, "once")
        check_answer(scopes, "session")
        with pytest.raises(Forbidden, match="scope admin"):
            check_answer(scopes, "always")
    check_answer(("admin",), "always")
    with pytest.raises(Forbidden, match="scope approve"):
        check_answer(("write",), "once")


def test_what_a_token_may_do_is_said_in_a_sentence() -> None:
    said = describe_scopes(PRESETS["terminal"])
    assert said == f"It {MEANINGS['write']}; it {MEANINGS['approve']}."
    assert set(OWNERS) == {"approve", "store", "admin"}
