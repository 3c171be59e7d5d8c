from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.names import TITLE_COLUMNS, clean_title, title_from_prompt
from clew.core.text import columns, strip_controls


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Fix the login page", "Fix the login page"),
        ("\n\n  Fix it \nplease", "Fix it"),
        ("# A heading\ntext", "A heading"),
        ("> quoted\n", "quoted"),
        ("- **bold** move", "bold move"),
        ("see [the docs](https://example.org/x) now", "see the docs now"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("/plan rebuild the parser", "rebuild the parser"),
        ("\x1b[31mred\x1b[0m alert", "red alert"),
        ("---\nreal words", "real words"),
        ("2 * 3 * 4", "2 * 3 * 4"),
    ],
)
def test_the_first_line_that_says_something_is_the_title(prompt: str, title: str) -> None:
    assert title_from_prompt(prompt) == title


@pytest.mark.parametrize("prompt", ["", "  \n\t", "???", "```"])
def test_a_prompt_without_a_word_gives_no_title(prompt: str) -> None:
    assert title_from_prompt(prompt) is None


def test_a_long_prompt_is_cut_at_a_word() -> None:
    prompt = "Please explain to me how the garbage collector of this runtime works"
    assert title_from_prompt(prompt) == "Please explain to me how the garbage collector of…"
    assert title_from_prompt(f"Once, {prompt}") == "Once, Please explain to me how the garbage…"


def test_one_long_word_is_cut_inside() -> None:
    title = title_from_prompt("a" * 80)
    assert title is not None
    assert title.endswith("…")
    assert columns(title) == TITLE_COLUMNS


@given(st.text())
def test_a_title_is_one_printable_line_that_fits(prompt: str) -> None:
    for title in (title_from_prompt(prompt), clean_title(prompt)):
        if title is not None:
            assert columns(title) <= TITLE_COLUMNS
            assert title == strip_controls(title, keep_newlines=False).strip() != ""


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('"Fixing the login page."', "Fixing the login page"),
        ("Title: Fixing the login", "Fixing the login"),
        ("**Fixing the login**\n\nI hope you like it", "Fixing the login"),
        ("# 「ログインの修正」。", "ログインの修正"),
        ("\n\n", None),
    ],
)
def test_what_models_put_around_a_title_is_taken_off(answer: str, title: str | None) -> None:
    assert clean_title(answer) == title
