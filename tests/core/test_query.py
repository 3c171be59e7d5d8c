from __future__ import annotations

import json
import sys

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.search.hits import Snippet, snippet
from clew.core.search.query import (
    MAX_INDEXED,
    MAX_TERMS,
    SPACELESS_GLOB,
    Query,
    Term,
    parse,
    spaceless_expression,
    spaceless_tokens,
    words_expression,
)
from clew.core.search.stems import stem
from clew.core.text import encode_text, fold
from tests.sizes import pick

STEP = pick(16, 1)
"""Of the characters beyond the first 65,536, one in so many is looked at."""

ANY = st.text(st.characters(), max_size=60)
SYNTAX = st.lists(
    st.sampled_from(
        [
            "AND",
            "OR",
            "NOT",
            "NEAR",
            "NEAR(",
            '"',
            '""',
            "'",
            "*",
            "^",
            "-",
            "+",
            "(",
            ")",
            ":",
            ",",
            "{",
            "}",
            " ",
            "\n",
            "\0",
            "\ud800",
            "\ufff9",
            "\u0301",
            "a",
            "be",
            "x*",
            "content",
            "日",
            "本語",
            "ก",
            "“",
            "🤔",
        ]
    ),
    max_size=20,
).map("".join)


class Index:
    """Both indexes as the store has them, in memory."""

    def __init__(self) -> None:
        self.db = apsw.Connection(":memory:")
        self.db.execute(
            "CREATE VIRTUAL TABLE words USING fts5(content,"
            " tokenize='porter unicode61 remove_diacritics 2');"
            "CREATE VIRTUAL TABLE spaceless USING fts5(tokens, tokenize='porter ascii',"
            " content='', contentless_delete=1, prefix='1')"
        )

    def fill(self, *contents: str) -> Index:
        self.db.execute("DELETE FROM words; DELETE FROM spaceless")
        for rowid, content in enumerate(contents):
            stored = encode_text(content)
            self.db.execute("INSERT INTO words(rowid, content) VALUES (?, ?)", (rowid, stored))
            tokens = spaceless_tokens(stored)
            if tokens is not None:
                self.db.execute(
                    "INSERT INTO spaceless(rowid, tokens) VALUES (?, ?)", (rowid, tokens)
                )
        return self

    def find_words(self, query: Query) -> set[int]:
        return self._find("words", words_expression(query))

    def find_spaceless(self, query: Query) -> set[int]:
        return self._find("spaceless", spaceless_expression(query))

    def find(self, text: str, *, typing: bool = False) -> set[int]:
        query = parse(text, typing=typing)
        return self.find_words(query) | self.find_spaceless(query)

    def _find(self, table: str, expression: str | None) -> set[int]:
        if expression is None:
            return set()
        rows = self.db.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ?", (expression,))
        return {row[0] for row in rows}


INDEX = Index()


# --- parsing


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("one two", [Term("one"), Term("two")]),
        ('"exact phrase" -not', [Term("exact phrase", phrase=True), Term("not", negated=True)]),
        ('-"not this" that', [Term("not this", phrase=True, negated=True), Term("that")]),
        ("“smart quotes”", [Term("smart quotes", phrase=True)]),
        ('open "to the end', [Term("open"), Term("to the end", phrase=True)]),
        ('glued"quotes here"', [Term("glued"), Term("quotes here", phrase=True)]),
        (
            "pre* b* foo-b* 日*",
            [Term("pre", prefix=True), Term("b"), Term("foo-b"), Term("日", prefix=True)],
        ),
        ("--resume foo-bar it's", [Term("--resume"), Term("foo-bar"), Term("it's")]),
        ('  !? "" "..." - -- * ** 👍 _ ', []),
    ],
)
def test_a_query_is_words_phrases_exclusions_and_beginnings(text: str, terms: list[Term]) -> None:
    assert parse(text).terms == tuple(terms)


@pytest.mark.parametrize(
    ("text", "last_is_prefix"),
    [
        ("one tw", True),
        ("one tw ", False),
        ("t", False),
        ("本", True),
        ("one -tw", False),
        ('"one tw', False),
        ("one tw!", True),
        ("foo-b", False),
    ],
)
def test_while_typing_the_last_word_is_a_beginning(text: str, last_is_prefix: bool) -> None:
    assert parse(text, typing=True).terms[-1].prefix is last_is_prefix
    assert not any(term.prefix for term in parse(text).terms)


@pytest.mark.parametrize(
    "text", ["", " ", "!!!", "-word", '-"a phrase" -b', '"', "*", "\0", "\ud800"]
)
def test_nothing_asked_for_is_nothing_found(text: str) -> None:
    query = parse(text, typing=True)
    assert query.is_empty
    assert words_expression(query) is None
    assert spaceless_expression(query) is None


def test_a_pasted_megabyte_is_a_short_query() -> None:
    query = parse("ab " * 400_000)
    assert len(query.terms) == MAX_TERMS
    assert len(parse("日本" * 500_000).terms[0].text) <= 1_000
    assert len(spaceless_expression(parse("日本" * 500_000)) or "") < 10_000


# --- expressions


@given(st.one_of(ANY, SYNTAX), st.booleans())
@example("NEAR(a b)", False)
@example('a" OR "b', False)
@example("\u19b0", False)  # a letter to Python, but not to SQLite
def test_no_text_at_all_is_an_error_for_fts5(text: str, typing: bool) -> None:
    INDEX.fill("a be content", "日本語 a")
    INDEX.find(text, typing=typing)


@given(st.lists(st.sampled_from(["red", "green", "blue", "foo-bar", "日本", "ก"]), max_size=4))
@example(["\udfff", "red"])
def test_a_message_is_found_by_its_words_whatever_stands_between(words: list[str]) -> None:
    INDEX.fill("\0".join(words), "\ud800".join(words))
    for word in words:
        if any(map(str.isalnum, word)):
            assert INDEX.find(word) == {0, 1}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("hello", {0, 1}),
        ("hello world", {0}),
        ("world hello", {0}),
        ('"hello world"', {0}),
        ('"world hello"', set()),
        ("hello -world", {1}),
        ("hello -world -there", set()),
        ('hello -"hello there"', {0}),
        ("CAFE", {2}),
        ("café", {2}),
        ("foo-bar", {2}),
        ("running", {3}),
        ("run*", {3}),
        ("hello -wor*", {1}),
        ("OR", set()),
        ("hello !!!", {0, 1}),
        ("-hello", set()),
    ],
)
def test_all_words_must_match_and_no_unwanted_one(text: str, found: set[int]) -> None:
    INDEX.fill("Hello, world", "hello there", "CAFÉ foo bar", "he runs")
    assert INDEX.find(text) == found


TRICKY_WORDS = (
    "running organization generation generating status analysis basis this being used databases"
    " happily happiness relational conditional possibly visibility transitions representative"
    " wrapped committee controlling polymorphism sensitivity international validators widely bees"
    " need succeeded dying flies https classes assess business news configuration authentication"
)
TRICKY = TRICKY_WORDS.split()


@pytest.mark.parametrize("word", TRICKY)
def test_a_word_is_found_by_each_of_its_beginnings(word: str) -> None:
    INDEX.fill(word, f"{word}を")
    for length in range(2, len(word) + 1):
        assert INDEX.find(f"{word[:length]}*") == {0, 1}, word[:length]
        assert INDEX.find(word[:length], typing=True) == {0, 1}, word[:length]


@pytest.mark.parametrize(
    ("text", "others"),
    [("bas*", "back bug ban"), ("thes*", "then them"), ("being*", "bet beta"), ("used*", "usual")],
)
def test_a_beginning_is_not_shortened_to_its_stem(text: str, others: str) -> None:
    INDEX.fill(others, f"{others}を")
    assert INDEX.find(text) == set()


# --- scripts without spaces

MIXED = st.lists(
    st.sampled_from(
        [
            *"日本語한국ไทยがカタｶﾞ々ー",
            "ကို",
            "ខ្មែ",
            "ລາວ",
            "ㄅㄆ",
            "𠀀",
            "㍿",
            "Python",
            "é1",
            " ",
            "。",
            "\n",
        ]
    ),
    min_size=1,
    max_size=14,
).map("".join)
RUN = st.text("日本語中", min_size=1, max_size=8)


@given(MIXED, st.data())
def test_every_substring_is_found_inside_mixed_text(content: str, data: st.DataObject) -> None:
    folded = fold(content)
    INDEX.fill(content)
    start = data.draw(st.integers(0, len(folded) - 1))
    end = data.draw(st.integers(start + 1, len(folded)))
    wanted = folded[start:end]

    def inside_a_word(at: int) -> bool:
        return 0 < at < len(folded) and folded[at - 1 : at + 1].encode().isalnum()

    if spaceless_tokens(content) is None or not any(map(spaceless_tokens, wanted)):
        return
    if inside_a_word(start) or inside_a_word(end):
        return
    query = Query((Term(wanted, phrase=True),))
    assert INDEX.find_spaceless(query) == {0}


@given(RUN, RUN)
def test_in_one_run_only_substrings_are_found(content: str, wanted: str) -> None:
    INDEX.fill(content)
    assert bool(INDEX.find_spaceless(parse(wanted))) is (wanted in content)
    assert bool(INDEX.find_spaceless(parse(f"-{wanted} {content}"))) is (wanted not in content)


@pytest.mark.parametrize(
    ("content", "text", "found"),
    [
        ("日本語", "本", True),
        ("日本語", "日語", False),
        ("Pythonを使う", "python", True),
        ("Pythonを使う", "pyth*", True),
        ("Pythonを使う", "PythonをX", False),
        ("毎日使うPython", "使うPython", True),
        ("ｶﾀｶﾅ", "カタ", True),
        ("が", "か", False),
        ("東京 runs", "東京 running", True),
        ("東京 runs", "大阪 running", False),
        ("東京都と京都", '"都と"', True),
        ("ภาษาไทย", "ษา", True),
        ("한국어를 배워요", "국어", True),
        ("東京、大阪", '"東京大阪"', False),
        ("plain english", "english", True),
    ],
)
def test_searching_works_from_one_character(content: str, text: str, found: bool) -> None:
    assert INDEX.fill(content).find(text) == ({0} if found else set())


def test_only_the_beginning_of_a_very_long_message_is_indexed() -> None:
    assert spaceless_tokens("a" * MAX_INDEXED + "日本") is None
    assert spaceless_tokens("日" + " " * MAX_INDEXED + "本") == "日"


@pytest.mark.parametrize("content", ["", "ascii", "naïve Ω ё", "。「」、・", "한국어"[:0], "हिन्दी"])
def test_other_messages_need_no_place_in_the_companion(content: str) -> None:
    assert spaceless_tokens(content) is None


def test_the_glob_lets_in_every_character_that_the_companion_wants() -> None:
    codes = (*range(1, 0xD800), *range(0xE000, 0x10000), *range(0x10000, sys.maxunicode, STEP))
    wanted = [each for each in map(chr, codes) if spaceless_tokens(each) is not None]
    assert len(wanted) > 30_000
    missed = """SELECT value FROM json_each(?1)
                WHERE NOT (value GLOB ?2 AND 'a' || value || 'b' GLOB ?2)"""
    assert INDEX.db.execute(missed, (json.dumps(wanted), SPACELESS_GLOB)).fetchall() == []


def test_the_glob_keeps_out_what_the_companion_has_no_use_for() -> None:
    for content in (
        "plain",
        "naïve Ω ё ½ ①",
        "👍🤔",
        "“”…—",
        "हिन्दी",
        "עברית",
        "。、「」",
        "ｆｕｌｌ",
    ):
        assert INDEX.db.execute("SELECT ? GLOB ?", (content, SPACELESS_GLOB)).get == 0


@given(MIXED)
def test_the_glob_lets_in_every_message_that_the_companion_wants(content: str) -> None:
    let_in = INDEX.db.execute("SELECT ? GLOB ?", (content, SPACELESS_GLOB)).get == 1
    assert let_in or spaceless_tokens(content) is None


# --- stems

PARTS = (
    "a e i o u y b c s t l z x w ed ing er ness ation al ly li ful es ies eed at bl iz ou ion ive"
    " ll tt"
)


@given(st.lists(st.sampled_from(PARTS.split()), min_size=1, max_size=7).map("".join))
@example("possibly")
@example("ontology")
@example("a" * 70 + "ing")
def test_stems_are_those_of_fts5(word: str) -> None:
    porter = INDEX.db.fts5_tokenizer("porter", ["unicode61"])
    assert porter(word.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False) == [
        (stem(word),)
    ]


# --- snippets


def marked(found: Snippet) -> str:
    return found.text[found.start : found.end]


@pytest.mark.parametrize(
    ("content", "text", "match"),
    [
        ("nothing but a Needle here", "needle", "Needle"),
        ("he runs fast", "running", "runs"),
        ("the organization", "organiz*", "organization"),
        ("a generation", "generat*", "generation"),
        ("at the CAFÉ", "cafe", "CAFÉ"),
        ("at the cafe\u0301s", "café", "cafe\u0301s"),
        ("Pythonを使う", "python", "Python"),
        ("毎日Pythonを使う", "使", "使"),
        ("毎日Pythonを使う", "pythonを", "Pythonを"),
        ("日 本 日本", "日本", "日本"),
        ("半角ｶﾞﾗｽです", "ガラ", "ｶﾞﾗ"),
        ("\u1112\u1161\u11ab글", "한", "\u1112\u1161\u11ab"),
        ("旧㍿です", "株式", "㍿"),
        ("one two, one three", '"one three"', "one three"),
        ("one two, one  \n three", 'two "one three"', "one three"),
        ("second first", "first second", "second"),
        ("foo_bar foo-bar", "foo-bar", "foo_bar"),
        ("runtime run", "run", "run"),
        ("he runtime run", "runt*", "runtime"),
        ("not this but that", "that -this", "that"),
        ("absent", "missing", ""),
        ("\x1b[1mbold\x1b[0m\u202e text", "bold", "bold"),
        ("", "word", ""),
    ],
)
def test_a_snippet_marks_exactly_what_matched(content: str, text: str, match: str) -> None:
    assert marked(snippet(content, parse(text))) == match


def test_a_snippet_is_one_line_around_the_match_with_cut_ends() -> None:
    content = "start " + "word " * 100 + "\n\n needle \t" + "more " * 100
    found = snippet(content, parse("needle"), width=60)
    assert found.text.startswith("…word ")
    assert found.text.endswith(" more…")
    assert " needle more" in found.text
    assert len(found.text) <= 60
    assert marked(found) == "needle"


def test_a_short_message_is_its_own_snippet() -> None:
    assert snippet(" a\tneedle\n", parse("needle")) == Snippet("a needle", 2, 8)


def test_what_matches_beyond_the_bound_shows_the_beginning_unmarked() -> None:
    found = snippet("start " + "x" * 10_000_000 + " needle", parse("needle"), width=20)
    assert found.text.startswith("start xxx")
    assert found.text.endswith("…")
    assert (found.start, found.end) == (0, 0)


@given(
    st.one_of(ANY, SYNTAX, MIXED), st.one_of(ANY, SYNTAX, MIXED), st.integers(1, 80), st.booleans()
)
def test_any_snippet_fits_and_is_safe_to_print(
    content: str, text: str, width: int, typing: bool
) -> None:
    found = snippet(content, parse(text, typing=typing), width=width)
    assert len(found.text) <= max(width, 3)
    assert 0 <= found.start <= found.end <= len(found.text)
    assert not set(found.text) & {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e"}


@given(st.lists(st.sampled_from([*TRICKY, "日本", "Pythonを", "¿", "CAFÉ"]), min_size=1), st.data())
def test_what_an_index_finds_has_a_mark(words: list[str], data: st.DataObject) -> None:
    content = " ".join(words)
    INDEX.fill(content)
    word = data.draw(st.sampled_from(words))
    text = word[: data.draw(st.integers(1, len(word)))] + data.draw(st.sampled_from(["", "*"]))
    if INDEX.find(text):
        assert marked(snippet(content, parse(text)))


ASCII = st.text(st.sampled_from("runig sRUN-_.'1\n"), max_size=60)


@given(
    ASCII, st.sampled_from(["run", "runs", "running", "r*", "ru*", "sing", "1", "run sing", "g"])
)
def test_a_snippet_marks_the_same_in_plain_text_and_in_any_other(content: str, words: str) -> None:
    query = parse(words)
    plain, other = snippet(content, query), snippet(f"{content} é", query)
    assert (plain.start, plain.end) == (other.start, other.end)
