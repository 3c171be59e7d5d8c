from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.chunks import (
    CHUNK_CHARACTERS,
    MOST_CHUNKS,
    PROMPT_CHARACTERS,
    PROMPT_CHUNKS,
    Chunk,
    Keywords,
    join_ranks,
    split_chunks,
    write_prompt,
)

FILE = """\
Before any heading.

# Home
- The spare key is with Mrs. Halvorsen.
- The boiler
  loses pressure.
  - top up to 1.5 bar

## Heating ##
Radiators are bled
in October.

```
# no heading
- no item

still the same piece
```
# Empty
# Work
1. first
2) second
"""


def pieces(text: str) -> list[tuple[str, str]]:
    return [(each.place, each.text) for each in split_chunks(text, "memory", "MEMORY.md")]


def test_a_chunk_is_a_paragraph_or_a_list_item_below_its_headings() -> None:
    assert pieces(FILE) == [
        ("MEMORY.md", "Before any heading."),
        ("MEMORY.md › Home", "The spare key is with Mrs. Halvorsen."),
        ("MEMORY.md › Home", "The boiler\n  loses pressure.\n  - top up to 1.5 bar"),
        ("MEMORY.md › Home › Heating", "Radiators are bled\nin October."),
        ("MEMORY.md › Home › Heating", "```\n# no heading\n- no item\n\nstill the same piece\n```"),
        ("MEMORY.md", "Empty"),
        ("MEMORY.md › Work", "first"),
        ("MEMORY.md › Work", "second"),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "<!-- from USER.md -->\n", "# \n", "- \n"])
def test_nothing_gives_no_chunk(text: str) -> None:
    assert not any(each.strip(" -") for _, each in pieces(text))


def test_the_hash_changes_with_the_text_and_with_its_headings() -> None:
    texts = ("# A\n- tea", "# A\n- coffee", "# B\n- tea", "- tea")
    assert len({split_chunks(each, "memory", "MEMORY.md")[0].hash for each in texts}) == 4
    moved = split_chunks("# Z\nmore\n\n# A\n- tea\n", "memory", "MEMORY.md")
    assert moved[1].hash == split_chunks(texts[0], "memory", "MEMORY.md")[0].hash


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 20_000, "One. " * 20_000, "ß\n" * 9_000])
def test_a_huge_line_becomes_chunks_that_fit(text: str) -> None:
    found = pieces(text)
    assert all(0 < len(each) <= CHUNK_CHARACTERS for _, each in found)
    assert sum(len(each) for _, each in found) > 0.7 * len(text.strip())


def test_of_a_file_with_very_many_lines_the_last_ones_are_searched() -> None:
    found = pieces("".join(f"- line {number}\n" for number in range(MOST_CHUNKS + 5)))
    assert len(found) == MOST_CHUNKS
    assert (found[0][1], found[-1][1]) == ("line 5", f"line {MOST_CHUNKS + 4}")


LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["# A", "## B", "###### C", "- ", "* item", "```", "~~~~", "", "  - x"]),
        st.text(alphabet="ab .!?\n", max_size=1_500),
    ),
    max_size=12,
).map("\n".join)


@given(LINES)
def test_any_text_becomes_chunks_that_can_be_stored_and_fit_a_prompt(text: str) -> None:
    found = split_chunks(text, "memory", "MEMORY.md")
    for each in found:
        each.text.encode()
        assert each.text.strip()
        assert len(each.text) <= CHUNK_CHARACTERS
        assert each.place.startswith("MEMORY.md")
        assert len(each.hash) == 64
    prompt, given_ = write_prompt(found)
    assert len(prompt) <= PROMPT_CHARACTERS
    assert len(given_) == min(len(given_), PROMPT_CHUNKS)
    assert bool(prompt) == bool(found)
    Keywords(found).rank(text)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=120), st.text(min_size=1, max_size=500))))
def test_a_prompt_never_exceeds_its_limits(chunks: list[tuple[str, str]]) -> None:
    prompt, given_ = write_prompt(Chunk("memory", place, text, "") for place, text in chunks)
    assert len(prompt) <= PROMPT_CHARACTERS
    assert len(given_) <= PROMPT_CHUNKS
    for at in given_:
        place, text = chunks[at]
        assert f"[{place}]\n{text}" in prompt


def test_words_find_names_numbers_and_other_forms_of_a_word() -> None:
    lines = [
        "Teodora Vasquez-Lin introduced us", "the petition has 1,612 names", "router at 10.20.0.1",
        "bicycles are stolen here", "Klaipėda took nine days", "日本語を勉強する", "nothing",
    ]  # fmt: skip
    index = Keywords(split_chunks("\n\n".join(lines), "memory", "MEMORY.md"))
    for question, at in (
        ("who is teodora?", 0), ("1612", 1), ("what is 1,612", 1), ("10.20.0.1?", 2),
        ("Where was my bicycle stolen?", 3), ("klaipeda", 4), ("日本語", 5),
    ):  # fmt: skip
        assert index.rank(question)[:1] == [at], question
    assert index.rank("elephant") == []
    assert index.rank("") == []


def test_what_both_rankings_have_comes_first_and_the_first_of_either_is_not_lost() -> None:
    joined = [at for at, _ in join_ranks([1, 2, 3, 4, 5, 6, 7, 8, 9], [20, 3, 21, 22, 23])]
    assert joined[0] == 3
    assert {1, 20} <= set(joined[:3])
    assert join_ranks([], []) == []
