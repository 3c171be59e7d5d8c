"""WordPiece against what the reference tokenizer of the model gave for the same texts."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.models.minilm import WordPiece, split_words
from clew.agent.models.weights import EMBEDDINGS
from tests.weights import have_embeddings

REFERENCE = {
    "Hello, World!": [101, 7592, 1010, 2088, 999, 102],
    "naïve café — Ångström": [101, 15743, 7668, 1517, 17076, 15687, 102],
    "日本語とChinese漢字": [101, 1864, 1876, 1950, 1666, 17231, 6810, 1904, 100, 102],
    "don't stop 3.14$": [101, 2123, 1005, 1056, 2644, 1017, 1012, 2403, 1002, 102],
    "\u200bzero\u200dwidth": [101, 5717, 9148, 11927, 2232, 102],
    "a\tb\nc\r\nd\x00e\x07f": [101, 1037, 1038, 1039, 13366, 102],
    "İstanbul STRASSE ß": [101, 9960, 2358, 8180, 3366, 1096, 102],
    "🫖 tea": [101, 100, 5572, 102],
    "한국어": [101, 1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 102],
    "unaffable embeddings": [101, 14477, 20961, 3468, 7861, 8270, 4667, 2015, 102],
    "": [101, 102],
    "Klaipėda 10.20.0.1":
        [101, 1047, 19771, 5669, 2050, 2184, 1012, 2322, 1012, 1014, 1012, 1015, 102],
}  # fmt: skip


@cache
def vocabulary() -> list[str]:
    path = have_embeddings().with_name(EMBEDDINGS.files[1].name)
    return path.read_text(encoding="utf-8").split("\n")


@cache
def pieces() -> WordPiece:
    return WordPiece(vocabulary())


@pytest.mark.parametrize("text", REFERENCE, ids=ascii)
def test_the_numbers_are_those_of_the_reference(text: str) -> None:
    assert pieces().encode(text, 256) == REFERENCE[text]


def test_a_text_is_cut_at_the_limit_and_still_ends() -> None:
    numbers = pieces().encode("tea " * 1_000, 16)
    assert numbers == [101, *[5572] * 14, 102]


def test_a_very_long_word_is_unknown() -> None:
    assert pieces().encode("x" * 101, 256) == [101, 100, 102]
    assert pieces().encode("x" * 100, 256) != [101, 100, 102]


def test_marks_of_the_model_in_a_text_are_only_words() -> None:
    assert 103 not in pieces().encode("[MASK] [CLS] [SEP]", 256)


@given(st.text(max_size=300), st.integers(2, 64))
def test_any_text_has_numbers_between_both_marks(text: str, limit: int) -> None:
    numbers = pieces().encode(text, limit)
    assert (numbers[0], numbers[-1]) == (101, 102)
    assert 2 <= len(numbers) <= limit
    assert all(0 <= each < 30_522 for each in numbers)
    assert not {101, 102} & set(numbers[1:-1])


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=200))
def test_the_pieces_of_a_word_spell_it(text: str) -> None:
    """What was cut can be put together again, unless the vocabulary does not have it."""
    for word in split_words(text):
        numbers = pieces().encode(word, 256)[1:-1]
        if 100 not in numbers:
            assert "".join(vocabulary()[each].removeprefix("##") for each in numbers) in (
                word,
                word.removeprefix("##"),
            )


@given(st.text(max_size=200))
def test_case_and_surrounding_spaces_do_not_count(text: str) -> None:
    if text.isascii():
        assert list(split_words(f"  {text.upper()} ")) == list(split_words(text.lower()))
