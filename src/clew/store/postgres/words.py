"""The words of a message for the search index of PostgreSQL, and a query as a `tsquery`.

Words are split, folded and stemmed here, exactly as SQLite's index does it: PostgreSQL's own parser
and dictionaries depend on the server's locale and would find other messages. Scripts without spaces
are indexed as pairs of characters. It runs no SQL and ranks nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from operator import add
from typing import NamedTuple

from clew.core.search.query import MAX_INDEXED, Query, Term, find_pieces
from clew.core.search.stems import protective_ending, stem, stunting_endings
from clew.core.text import fold

MAX_POSITION = 16_383
MAX_POSITIONS = 256
"""Limits of a tsvector: the highest position of a word, and how many positions it can have."""

_PLACES = tuple(f":{place}" for place in range(1, MAX_POSITIONS + 1))

LONGEST = 500
"""Characters of a word that are indexed: no more than 2,046 bytes fit."""

# The words of a folded text that is ASCII, as `find_pieces` would find them; most texts are.
_ASCII_WORDS = re.compile("[a-z0-9]+")
_SHORT = 64
_MANY = 16_384
"""Stems are remembered of words up to this length (longer ones have none), and so many."""


class Vector(NamedTuple):
    """A message for the index. `partial`: without positions, because there are too many."""

    words: str
    size: int
    partial: bool


def vector_of(content: str) -> Vector:
    """The words of a message, as the index holds them."""
    tokens = tokens_of(content)
    size = len(tokens)
    if size > MAX_POSITIONS and (
        size > MAX_POSITION or max(Counter(tokens).values()) > MAX_POSITIONS
    ):
        return Vector(" ".join(dict.fromkeys(tokens)), size, partial=True)
    # PostgreSQL joins equal words itself: it has to sort them anyway.
    places = chain(_PLACES, map(":%d".__mod__, count(len(_PLACES) + 1)))
    return Vector(" ".join(map(add, tokens, places)), size, partial=False)


def tokens_of(content: str) -> list[str]:
    """The words of a message as they are indexed, in order."""
    folded = fold(content[:MAX_INDEXED])
    if folded.isascii():
        return list(map(_STEMS.__getitem__, _ASCII_WORDS.findall(folded)))
    tokens: list[str] = []
    for piece in find_pieces(folded):
        if piece["run"] is None:
            tokens.append(_stem(piece[0]))
        else:
            tokens += _pairs(piece[0])
    return tokens


class _Stems(dict[str, str]):
    """Stems by word, made when they are first looked up."""

    def __missing__(self, word: str) -> str:
        found = _stem(word)
        if len(word) <= _SHORT:
            if len(self) >= _MANY:
                self.clear()
            self[word] = found
        return found


_STEMS = _Stems()


def _stem(word: str) -> str:
    return stem(word)[:LONGEST]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


# --- queries ----------------------------------------------------------------------------------


class Position(NamedTuple):
    """What may be at one position of a phrase: one of these words, or one that begins so."""

    words: tuple[str, ...]
    beginning: str | None = None

    def fits(self, token: str) -> bool:
        """Whether a token of a message is such a word."""
        if self.beginning is not None and token.startswith(self.beginning):
            return True
        return token in self.words

    def __str__(self) -> str:
        choices = [f"'{word}'" for word in self.words]
        if self.beginning is not None:
            choices.insert(0, f"'{self.beginning}':*")
        return choices[0] if len(choices) == 1 else f"({' | '.join(choices)})"

    def __len__(self) -> int:
        return len(self.words) + (self.beginning is not None)


Phrase = tuple[Position, ...]


class IndexQuery(NamedTuple):
    """A query for the index: each of the wanted phrases, and none of the unwanted ones."""

    wanted: tuple[Phrase, ...]
    unwanted: tuple[Phrase, ...]

    @property
    def has_phrases(self) -> bool:
        """Whether the positions of words matter."""
        return any(len(phrase) > 1 for phrase in (*self.wanted, *self.unwanted))

    def exact(self) -> str:
        """As a tsquery."""
        return _render(self.wanted, self.unwanted, " <-> ")

    def loose(self) -> str:
        """As a tsquery that ignores positions; `fits` then checks them."""
        unwanted = tuple(phrase for phrase in self.unwanted if len(phrase) == 1)
        return _render(self.wanted, unwanted, " & ")

    def fits(self, tokens: Sequence[str]) -> bool:
        """Whether a message with these tokens matches."""
        return all(_occurs(phrase, tokens) for phrase in self.wanted) and not any(
            _occurs(phrase, tokens) for phrase in self.unwanted
        )


def to_index_query(query: Query) -> IndexQuery:
    """A parsed query for the index."""
    return IndexQuery(tuple(map(_phrase, query.positive)), tuple(map(_phrase, query.negated)))


def rarest(phrase: Phrase) -> Position:
    """The word of a phrase by which its frequency is estimated."""
    return max(phrase, key=lambda wanted: max(map(len, wanted.words), default=0))


def _phrase(term: Term) -> Phrase:
    """A term as the tokens that a message would have for it; the last may be a beginning."""
    *first, last = find_pieces(fold(term.text))
    tokens: list[Position] = []
    for piece in first:
        whole = [_stem(piece[0])] if piece["run"] is None else _pairs(piece[0])
        tokens += [Position((token,)) for token in whole]
    if last["run"] is None:
        return (*tokens, _beginning(last[0]) if term.prefix else Position((_stem(last[0]),)))
    # The run may go on in the text: all its pairs, or one character that some token begins with.
    pairs = _pairs(last[0])
    if len(pairs) == 1:
        return (*tokens, Position((), pairs[0]))
    return (*tokens, *(Position((pair,)) for pair in pairs[:-1]))


def _beginning(word: str) -> Position:
    """The stems of words that begin so: those that begin so too, and those that are shorter."""
    kept = stem(word + protective_ending(word))
    shorter = {_stem(word + ending): None for ending in stunting_endings(word, kept)}
    return Position(tuple(shorter), kept[:LONGEST])


def _render(wanted: Sequence[Phrase], unwanted: Sequence[Phrase], joint: str) -> str:
    def one(phrase: Phrase) -> str:
        return f"({joint.join(map(str, phrase))})"

    positive = " & ".join(map(one, wanted))
    if not unwanted:
        return positive
    return f"{positive} & !({' | '.join(map(one, unwanted))})"


def _occurs(phrase: Phrase, tokens: Sequence[str]) -> bool:
    return any(
        all(wanted.fits(tokens[start + at]) for at, wanted in enumerate(phrase))
        for start in range(len(tokens) - len(phrase) + 1)
    )
