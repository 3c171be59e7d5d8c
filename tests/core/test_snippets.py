"""What the search for a snippet's match relies on. The snippets themselves are in `test_query`."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.core.search.hits import beginning_of, snippet
from clew.core.search.query import parse
from clew.core.search.stems import stem
from tests.sizes import pick

ENDINGS = (
    "ational", "tional", "ency", "ancy", "izer", "logy", "bly", "ally", "ently", "ely", "ously",
    "ization", "ation", "ator", "alism", "iveness", "fulness", "ousness", "ality", "ivity",
    "bility", "icate", "ative", "alize", "icity", "ical", "ful", "ness", "al", "ance", "ence",
    "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism",
    "ate", "ity", "ous", "ive", "ize", "ed", "ing", "s", "es", "ies", "eed", "y", "e", "ly",
)  # fmt: skip

words = st.builds(
    lambda start, endings: start + "".join(endings),
    st.text("aeiouybcdlstzrn", min_size=1, max_size=5),
    st.lists(st.sampled_from(ENDINGS), max_size=3),
)


@given(words)
@settings(max_examples=pick(150, 1_000))
@example("sensibility")
@example("hoping")
@example("happily")
@example("its")
def test_a_word_begins_as_its_stem_does(word: str) -> None:
    assert word.startswith(beginning_of(stem(word)))


@given(words, st.lists(words, max_size=5), st.sampled_from(("", "s", "ing", "ed")))
def test_the_first_word_with_the_same_stem_is_marked(
    word: str, others: list[str], ending: str
) -> None:
    said = [*others, word + ending, word]

    found = snippet(". ".join(said).upper(), parse(word), width=10_000)

    first = next(each for each in said if stem(each) == stem(word))
    assert found.text[found.start : found.end].lower() == first


def test_of_two_phrases_that_one_is_marked_that_ends_first() -> None:
    text = "One fine day it is said that the cat is out"

    found = snippet(text, parse('"day it is said that" "it is"'))

    assert found.text[found.start : found.end] == "it is"


def test_a_phrase_is_marked_across_marks_and_lines_but_no_other_word() -> None:
    found = snippet("it was; it isn't;\nIt, however, is. It\n-- IS!", parse('"it is"'))

    assert found.text[found.start : found.end] == "It -- IS"
