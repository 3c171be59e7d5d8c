"""Find the names that match what was typed, best first. Pure: no store, clock or screen.

First all rows that contain every word; each further key only searches what the key before has left.
If those are few, similar names are added: with a typing error, or with letters left out. Scoring is
expensive, so at most `SCORED` rows are scored.

Slow work is a generator that yields every few milliseconds, so that its caller can do other things
in between, or stop.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain, islice
from typing import Final, TypeVar

import msgspec
from rapidfuzz import fuzz

from clew.core.search import query as language
from clew.core.text import fold
from clew.terminal.picker.rows import Row

SCORED: Final = 2_000
"""Rows that are scored at most."""
SHOWN: Final = 200
"""Names that are shown at most; more typing finds the others."""
FEW: Final = 20
"""With fewer exact matches than this, similar names are added."""
NEAR: Final = 50
"""Similar names that are shown at most."""
SHORTEST: Final = 3
"""Letters from which on similar names are searched; with fewer, all names are similar."""
SIMILAR_SCORED: Final = 1_000
"""Similar names that are scored at most."""
PAIRS: Final = 6
"""Pairs of letters by which similar names are found."""
SIMILAR: Final = 75.0
"""How similar each typed word must be to a part of the name, in percent."""

_LOOKED: Final = 8_000
_WEIGHED: Final = 2_000
_RATED: Final = 250
"""Rows between two yields, for searching, counting pairs and rating."""

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in small steps that ends with a value."""


class Typed(msgspec.Struct, frozen=True):
    """What was typed: a name must contain all `words`, and none of `unwanted`."""

    words: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The words in one line."""
        return " ".join(self.words)


class Narrowed(msgspec.Struct, frozen=True):
    """The rows that match, in their order. `seen`: how many were searched."""

    typed: Typed
    rows: list[Row] = []
    seen: int = 0


def read_typed(text: str) -> Typed:
    """Parse what was typed, as a search query; a text of only marks is searched as it is."""
    query = language.parse(text)
    words = tuple(fold(term.text) for term in query.positive)
    unwanted = tuple(fold(term.text) for term in query.negated)
    if not words and not unwanted:
        words = tuple(fold(text[: language.MAX_QUERY]).split())
    return Typed(words, unwanted)


def narrow(rows: Sequence[Row], typed: Typed, before: Narrowed | None = None) -> Steps[Narrowed]:
    """The rows that contain every word, in their order.

    `before` is what was left of the same rows when less was typed, or fewer were there.
    """
    found: list[Row] = []
    known: Sequence[Row] = ()
    seen = 0
    if before is not None and _continues(typed, before.typed) and before.seen <= len(rows):
        known, seen = before.rows, before.seen
    for source, first in ((known, 0), (rows, seen)):
        for start in range(first, len(source), _LOOKED):
            left = list(source[start : start + _LOOKED])
            for word in typed.words:
                left = [row for row in left if word in row.key]
            for word in typed.unwanted:
                left = [row for row in left if word not in row.key]
            found += left
            yield
    return Narrowed(typed, found, len(rows))


def _continues(typed: Typed, before: Typed) -> bool:
    """Whether everything that matches now has matched before."""
    if before.unwanted:
        return before == typed
    return all(any(old in new for new in typed.words) for old in before.words)


def rank(narrowed: Narrowed) -> Steps[list[Row]]:
    """The best matches: by name before by directory, id or prompt, then the newest."""
    candidates = yield from _list_candidates(narrowed)
    words = narrowed.typed.words
    text = narrowed.typed.text
    scores: dict[str, int] = {}
    for start in range(0, len(candidates), _RATED):
        for row in candidates[start : start + _RATED]:
            scores[row.id] = _score(row, text, words)
        yield
    return sorted(candidates, key=lambda row: (-scores[row.id], *_newest_first(row)))[:SHOWN]


def _list_candidates(narrowed: Narrowed) -> Steps[list[Row]]:
    """The rows to score: those whose name or id matches, then others up to `SCORED`."""
    if len(narrowed.rows) <= SCORED:
        return narrowed.rows
    named: list[Row] = []
    text = narrowed.typed.text
    for start in range(0, len(narrowed.rows), _LOOKED):
        left = narrowed.rows[start : start + _LOOKED]
        # Two characters are somewhere in every fourth id, so those that begin with them are named.
        begun = [row for row in left if text and row.id.startswith(text)]
        for word in narrowed.typed.words:
            left = [row for row in left if word in row.name_key]
        named += {row.id: row for row in (*begun, *left)}.values()
        yield
        if len(named) >= SCORED:
            return named[:SCORED]
    known = {row.id for row in named}
    others = (row for row in narrowed.rows if row.id not in known)
    return named + list(islice(others, SCORED - len(named)))


def _score(row: Row, text: str, words: tuple[str, ...]) -> int:
    """Hundreds for where the words are, tens for similarity; equal scores let the newest win."""
    if _has(row.name_key, words):
        begins = row.name_key.startswith(text)
        return 300 + 20 * begins + round(fuzz.ratio(text, row.name_key) / 10)
    if row.id.startswith(text):
        return 250
    directory = row.key.split("\n", 2)[1]
    if _has(directory, words):
        return 200 + round(fuzz.ratio(text, directory) / 10)
    return 100


def _has(key: str, words: tuple[str, ...]) -> bool:
    return all(word in key for word in words)


def _newest_first(row: Row) -> tuple[bool, int]:
    return (not row.pinned, -row.updated_at)


# --- similar names ----------------------------------------------------------------------------
def list_near(rows: Sequence[Row], narrowed: Narrowed) -> Steps[list[Row]]:
    """Rows with a similar name, the most similar first; without exact matches."""
    typed = narrowed.typed
    letters = "".join(typed.words).replace(" ", "")
    if len(letters) < SHORTEST:
        return []
    exact = {row.id for row in narrowed.rows}
    candidates = yield from _list_similar(rows, letters)
    rated: list[tuple[float, Row]] = []
    for start in range(0, len(candidates), _RATED):
        for row in candidates[start : start + _RATED]:
            rating = _rate(row.short_key, typed.words, letters)
            if rating < SIMILAR or row.id in exact:
                continue
            if not any(word in row.key for word in typed.unwanted):
                rated.append((rating, row))
        yield
    rated.sort(key=lambda each: (-round(each[0] / 5), *_newest_first(each[1])))
    return [row for _, row in rated[:NEAR]]


def _list_similar(rows: Sequence[Row], letters: str) -> Steps[list[Row]]:
    """Rows that share enough pairs of letters, or have all letters in order; most pairs first.

    A typing error breaks two or three pairs, so a similar name shares the others.
    """
    pairs = _choose_pairs(letters)
    least = max(1, len(pairs) // 2 - 1)
    initial = f" {letters[0]}"
    by_shared: list[list[Row]] = [[] for _ in range(len(pairs) + 1)]
    for start in range(0, len(rows), _WEIGHED):
        part = rows[start : start + _WEIGHED]
        keys = [row.short_key for row in part]
        # By columns, not by rows: that is three times as fast.
        weights = map(sum, zip(*([pair in key for key in keys] for pair in pairs), strict=True))
        for row, key, shared in zip(part, keys, weights, strict=True):
            if shared >= least or (initial in key and _spread(key, letters) is not None):
                by_shared[shared].append(row)
        yield
    return list(islice(chain.from_iterable(reversed(by_shared)), SIMILAR_SCORED))


def _choose_pairs(letters: str) -> tuple[str, ...]:
    """Pairs of neighbouring letters, spread over the text if there are many."""
    pairs = list(dict.fromkeys(letters[at : at + 2] for at in range(len(letters) - 1)))
    step = max(1.0, len(pairs) / PAIRS)
    return tuple(pairs[int(at * step)] for at in range(min(PAIRS, len(pairs))))


def _spread(key: str, letters: str) -> int | None:
    """The length of the text with all letters in order, from the start of a word; or None."""
    first = at = key.find(f" {letters[0]}") + 1
    if not first:
        return None
    for letter in letters:
        at = key.find(letter, at) + 1
        if not at:
            return None
    return at - first


def _rate(key: str, words: tuple[str, ...], letters: str) -> float:
    """How similar a name is: by its worst word, or by all letters in their order."""
    rating = 100.0
    for word in words:
        if word not in key:
            # Two letters are similar to everything, so they must match.
            likeness = fuzz.partial_ratio(word, key) if len(word) >= SHORTEST else 0.0
            rating = min(rating, likeness)
    spread = _spread(key, letters)
    if spread is not None:
        # Letters were left out: the closer together the others are, the better.
        rating = max(rating, 112.0 - 12 * spread / len(letters))
    return rating
