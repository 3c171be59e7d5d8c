"""What the index holds of a message, and a query as it is asked of it.

Words are split, folded and stemmed here, exactly as SQLite's index does it, and handed over as they
are: PostgreSQL's own parser and dictionaries depend on the server's locale and would find other
messages. Scripts without spaces go in as pairs of characters. Runs no SQL and ranks nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from clew.core.query import MAX_INDEXED, Query, Term, find_pieces
from clew.core.stems import protective_ending, stem, stunting_endings
from clew.core.text import fold

MAX_POSITION = 16_383
MAX_POSITIONS = 256
"""What a tsvector can tell of where a word stands."""

LONGEST = 500
"""Characters of a word that count: no more than 2,046 bytes fit."""

# The words of a folded text that is ASCII, as `find_pieces` would find them; most texts are.
_ASCII_WORDS = re.compile("[a-z0-9]+")
_SHORT = 64
"""Characters of a word whose stem is remembered: more don't have one."""

# What ts_rank makes of a word that a message has so often.
_RANKS = tuple(accumulate(1 / number**2 for number in range(1, MAX_POSITIONS + 1)))
_RANK_UNIT = 0.1 / 1.64493406685


class Vector(NamedTuple):
    """A message for the index. `partial`: without positions, for there would be too many."""

    words: str
    size: int
    partial: bool


def vector_of(content: str) -> Vector:
    """What the index holds of a message."""
    tokens = tokens_of(content)
    if len(tokens) <= MAX_POSITIONS:  # most messages: no counting
        at: dict[str, str] = {}
        for place, token in enumerate(tokens, 1):
            at[token] = f"{at[token]},{place}" if token in at else f"'{token}':{place}"
        return Vector(" ".join(at.values()), len(tokens), partial=False)
    places: dict[str, list[int]] = {}
    for place, token in enumerate(tokens, 1):
        places.setdefault(token, []).append(place)
    if len(tokens) > MAX_POSITION or any(len(each) > MAX_POSITIONS for each in places.values()):
        return Vector(" ".join(f"'{token}'" for token in places), len(tokens), partial=True)
    words = " ".join(f"'{token}':{','.join(map(str, all_))}" for token, all_ in places.items())
    return Vector(words, len(tokens), partial=False)


def tokens_of(content: str) -> list[str]:
    """The words of a message as the index knows them, in order."""
    folded = fold(content[:MAX_INDEXED])
    if folded.isascii():
        words = _ASCII_WORDS.findall(folded)
        return [_short_stem(each) if len(each) <= _SHORT else each[:LONGEST] for each in words]
    tokens: list[str] = []
    for piece in find_pieces(folded):
        if piece["run"] is None:
            tokens.append(_stem(piece[0]))
        else:
            tokens += _pairs(piece[0])
    return tokens


_short_stem = lru_cache(maxsize=16_384)(stem)


def _stem(word: str) -> str:
    return stem(word)[:LONGEST]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


# --- queries ----------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """What may stand at one place: one of these words, or one that begins so."""

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


Phrase = tuple[Wanted, ...]


class Asked(NamedTuple):
    """A query for the index: each of the wanted phrases, and none of the unwanted ones."""

    wanted: tuple[Phrase, ...]
    unwanted: tuple[Phrase, ...]

    @property
    def has_phrases(self) -> bool:
        """Whether it matters where words stand."""
        return any(len(phrase) > 1 for phrase in (*self.wanted, *self.unwanted))

    def exact(self) -> str:
        """As a tsquery."""
        return _render(self.wanted, self.unwanted, " <-> ")

    def loose(self) -> str:
        """As a tsquery that matches wherever the words stand, for `fits` to look closer."""
        unwanted = tuple(phrase for phrase in self.unwanted if len(phrase) == 1)
        return _render(self.wanted, unwanted, " & ")

    def fits(self, tokens: Sequence[str]) -> bool:
        """Whether a message with these tokens matches."""
        return all(_stands(phrase, tokens) for phrase in self.wanted) and not any(
            _stands(phrase, tokens) for phrase in self.unwanted
        )


def asked(query: Query) -> Asked:
    """A parsed query as it is asked of the index."""
    return Asked(tuple(map(_phrase, query.positive)), tuple(map(_phrase, query.negated)))


def rarest(phrase: Phrase) -> Wanted:
    """The word of a phrase by which its frequency is judged."""
    return max(phrase, key=lambda wanted: max(map(len, wanted.words), default=0))


def frequency(rank: float, wanted: Wanted) -> int:
    """How often a message has a word, from what `ts_rank` made of it."""
    share = rank * len(wanted) / _RANK_UNIT
    whole, rest = divmod(share, _RANKS[-1])
    return int(whole) * 2 + bisect_left(_RANKS, rest - 1e-4) + 1


def _phrase(term: Term) -> Phrase:
    """A term as the tokens of a message would be, open at the end."""
    *first, last = find_pieces(fold(term.text))
    tokens: list[Wanted] = []
    for piece in first:
        whole = [_stem(piece[0])] if piece["run"] is None else _pairs(piece[0])
        tokens += [Wanted((token,)) for token in whole]
    if last["run"] is None:
        return (*tokens, _beginning(last[0]) if term.prefix else Wanted((_stem(last[0]),)))
    # The run may go on in the text: all its pairs, or one character that some token begins with.
    pairs = _pairs(last[0])
    if len(pairs) == 1:
        return (*tokens, Wanted((), pairs[0]))
    return (*tokens, *(Wanted((pair,)) for pair in pairs[:-1]))


def _beginning(word: str) -> Wanted:
    """What words that begin so have become: stems that do, and those that fall short of it."""
    kept = stem(word + protective_ending(word))
    shorter = {_stem(word + ending): None for ending in stunting_endings(word, kept)}
    return Wanted(tuple(shorter), kept[:LONGEST])


def _render(wanted: Sequence[Phrase], unwanted: Sequence[Phrase], joint: str) -> str:
    def one(phrase: Phrase) -> str:
        return f"({joint.join(map(str, phrase))})"

    positive = " & ".join(map(one, wanted))
    if not unwanted:
        return positive
    return f"{positive} & !({' | '.join(map(one, unwanted))})"


def _stands(phrase: Phrase, tokens: Sequence[str]) -> bool:
    return any(
        all(wanted.fits(tokens[start + at]) for at, wanted in enumerate(phrase))
        for start in range(len(tokens) - len(phrase) + 1)
    )
