from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.core.context.size import (
    IMAGE_TOKENS,
    estimate_message,
    estimate_text,
    estimate_tool,
)
from tests.core.test_thread import IMAGE, assistant, user


def test_four_plain_characters_are_a_token() -> None:
    assert estimate_text("") == 0
    assert estimate_text("abcd") == 1
    assert estimate_text("abcde") == 2
    assert estimate_text("x" * 4000) == 1000


def test_a_chinese_character_is_a_token_and_other_scripts_lie_between() -> None:
    assert estimate_text("使" * 30) == 30
    assert 10 < estimate_text("я" * 30) < 30
    assert estimate_text("使" * 30 + "x" * 40) == 40


@given(st.text(), st.text())
def test_a_longer_text_is_never_estimated_shorter(one: str, two: str) -> None:
    both = estimate_text(one + two)
    assert max(estimate_text(one), estimate_text(two)) <= both
    assert both <= estimate_text(one) + estimate_text(two)


def test_half_a_character_can_be_estimated() -> None:
    assert estimate_text("\ud800abc") > 0


def test_calls_pictures_and_thoughts_count() -> None:
    bare = estimate_message(assistant("hi"))
    assert estimate_message(assistant("hi", calls=["a"])) > bare
    assert estimate_message(user("hi", parts=(IMAGE,))) == bare + IMAGE_TOKENS
    thought = {"type": "thinking", "thinking": "x" * 400}
    assert estimate_message(assistant("hi", parts=(thought,))) == bare + 100


def test_a_tool_costs_what_its_description_and_schema_take() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert estimate_tool("read", "x" * 400, schema) > 100
