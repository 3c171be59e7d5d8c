from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.redaction import HIDDEN, hide_password

PASSWORDS = st.text(string.punctuation + string.digits + "é", min_size=3)


@given(PASSWORDS, st.sampled_from(["/db", "", ":5432/db?sslmode=require", "/db?host=/run"]))
def test_no_password_is_left_in_a_url(password: str, rest: str) -> None:
    shown = hide_password(f"postgresql://ada:{password}@db.example{rest}")
    assert shown == f"postgresql://ada:{HIDDEN}@db.example{rest}"


def test_passwords_among_the_options_of_a_url_are_hidden_too() -> None:
    url = "postgresql://h/db?user=ada&password=x1&sslmode=require&sslpassword=y2"
    shown = f"postgresql://h/db?user=ada&password={HIDDEN}&sslmode=require&sslpassword={HIDDEN}"
    assert hide_password(url) == shown


@pytest.mark.parametrize(
    "text",
    ["", "sqlite:///home/me/a:b@c.db", "postgresql://ada@h/db", "/home/a:b@c/x.db", "a: b@c"],
)
def test_what_has_no_password_stays_as_it_is(text: str) -> None:
    assert hide_password(text) == text
