from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.triggers import ModelNames, read_trigger

MODELS = ModelNames(
    allowed=("anthropic/claude-opus-4-5", "anthropic/claude-sonnet-4-5", "openai/gpt-5.2"),
    aliases={"opus": "anthropic/claude-opus-4-5", "Fast": "openai/gpt-5.2"},
)


@pytest.mark.parametrize(
    ("text", "remainder"),
    [
        ("/new", ""),
        ("/NEW", ""),
        ("/reset", ""),
        ("  /new  ", ""),
        ("/fresh start", "start"),
        ("/new hello [there]\n  you", "hello [there]\n  you"),
        ("/new\n\nhello", "hello"),
        ("/new\thello ", "hello "),
        ("@clewbot /new hello", "hello"),
        ("@ClewBot: /new", ""),
        ("<@clewbot> /new x", "x"),
        ("/new@clewbot x", "x"),
        ("/new /reset", "/reset"),
    ],
)
def test_a_trigger_begins_a_conversation_with_the_rest(text: str, remainder: str) -> None:
    found = read_trigger(text, extra=["/fresh"], mention="clewbot")
    assert (found.triggered, found.remainder, found.model) == (True, remainder, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello /new",
        "/newer",
        "/new!",
        "new",
        "@other /new",
        "/ new",
        "@clewbotty /new",
        "/new@x",
    ],
)
def test_anything_else_is_a_message(text: str) -> None:
    found = read_trigger(text, extra=["/fresh"], mention="clewbot")
    assert (found.triggered, found.remainder) == (False, text)


def test_from_someone_who_may_not_command_it_is_plain_text() -> None:
    found = read_trigger("/new hello", may_command=False)
    assert (found.triggered, found.remainder) == (False, "/new hello")
    assert "owner" in found.why


@pytest.mark.parametrize(
    ("text", "model", "remainder"),
    [
        ("/new opus", "anthropic/claude-opus-4-5", ""),
        ("/new OPUS fix it", "anthropic/claude-opus-4-5", "fix it"),
        ("/new fast\nfix it", "openai/gpt-5.2", "fix it"),
        ("/new anthropic claude-sonnet-4-5 go", "anthropic/claude-sonnet-4-5", "go"),
        ("/new openai/gpt-5.2 go", "openai/gpt-5.2", "go"),
        ("/new gpt-5.2", "openai/gpt-5.2", ""),
        ("/new anthropic", "anthropic/claude-opus-4-5", ""),
        ("/new openai hello", "openai/gpt-5.2", "hello"),
        ("/new anthropic sonnet go", "anthropic/claude-sonnet-4-5", "go"),
        ("/new Anthropic opus\ngo on", "anthropic/claude-opus-4-5", "go on"),
        ("/new anthropic claude go", "anthropic/claude-opus-4-5", "claude go"),
        ("/new anthropic go", "anthropic/claude-opus-4-5", "go"),
        ("/new claude is a name", None, "claude is a name"),
        ("/new naudeso", None, "naudeso"),
        ("/new sonnet write a poem", "anthropic/claude-sonnet-4-5", "write a poem"),
        ("/new claude-sonet-4-5 x", "anthropic/claude-sonnet-4-5", "x"),
        ("/new gpt hello", None, "gpt hello"),
        ("/new write a poem", None, "write a poem"),
        ("/new claude", None, "claude"),
        ("/new anthropic/gone x", None, "anthropic/gone x"),
    ],
)
def test_the_first_words_may_name_a_model(text: str, model: str | None, remainder: str) -> None:
    found = read_trigger(text, models=MODELS)
    assert (found.triggered, found.model, found.remainder) == (True, model, remainder)


def test_without_models_nothing_is_taken_for_one() -> None:
    assert read_trigger("/new opus").remainder == "opus"


@given(st.sampled_from(["/new", "/RESET", "/Fresh"]), st.text(min_size=1))
def test_the_remainder_is_the_text_itself(trigger: str, text: str) -> None:
    found = read_trigger(f"{trigger} {text}", extra=["/fresh"])
    assert found.triggered
    assert found.remainder == text.lstrip()


@given(st.text(), st.text(max_size=10), st.booleans())
def test_any_text_has_an_answer(text: str, mention: str, may: bool) -> None:
    found = read_trigger(text, mention=mention, may_command=may, models=MODELS)
    assert found.triggered or found.remainder == text
    assert found.remainder in text
