"""What a search asks for and what it finds: filter, hits, their rank, and the snippet of each.

A snippet is the line of a message that shows why it was found, with the match marked. The language
of the query is in `core.search.query`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from os.path import commonprefix
from typing import NamedTuple

import msgspec

from clew.core.message import Author, Role
from clew.core.search.query import FOLDING, MAX_INDEXED, SPACELESS, Query, Term, find_pieces
from clew.core.search.stems import stem, stunting_endings
from clew.core.text import fold, strip_controls

DAY_MS = 86_400_000
HALF_LIFE_DAYS = 30
RECENCY = 0.5

K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6


class SearchFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look. A search always has a viewer. Times are milliseconds UTC, both inclusive.

    `session` means its whole thread, inherited messages too.
    """

    viewer: str
    session: str | None = None
    platform: str | None = None
    agent: str | None = None
    kind: str | None = None
    person: str | None = None
    cwd: str | None = None
    project: str | None = None
    role: Role | None = None
    since: int | None = None
    until: int | None = None


class SearchHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that matches. `score` is higher for better.

    `session_id` is the session to open for it: where it was written or, if that one is deleted, a
    fork that still has it.
    """

    session_id: str
    seq: int
    role: Role
    at: int
    snippet: Snippet
    score: float
    title: str | None
    preview: str | None
    platform: str
    cwd: str | None
    archived: bool = False
    author: Author | None = None


class SearchPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hits, best first. `cut`: there were more matches than the search looked at."""

    hits: tuple[SearchHit, ...]
    cursor: str | None = None
    cut: bool = False


def with_recency(score: float, at: int, now: int) -> float:
    """A bm25 score with a bonus for new messages, of up to 50 %."""
    days = max(0, now - at) / DAY_MS
    return score * (1 + RECENCY * math.exp2(-days / HALF_LIFE_DAYS))


def idf(documents: int, containing: float) -> float:
    """The weight of a word that this many documents contain; always positive."""
    return max(LEAST_IDF, math.log((documents - containing + 0.5) / (containing + 0.5)))


def bm25(frequency: float, length: int, average_length: float, weight: float) -> float:
    """One term's share of a document's score."""
    norm = K1 * (1 - B + B * length / max(average_length, 1.0))
    return weight * frequency * (K1 + 1) / (frequency + norm)


class Snippet(msgspec.Struct, frozen=True):
    """One line of a message; `text[start:end]` is the match."""

    text: str
    start: int = 0
    end: int = 0


def snippet(content: str, query: Query, *, width: int = 120) -> Snippet:
    """Return one line of at most `width` characters around the first match of a positive term.

    A phrase is preferred to a word. If the match is beyond `MAX_INDEXED`, the snippet is the
    beginning of the content, with nothing marked.
    """
    text = content[:MAX_INDEXED]
    phrases, words = _patterns(query)
    part: _Part | None = None
    if text.isascii() and (found := _find_plain(phrases or words, text.lower())):
        if quick := _plain_window(text, *found, width):
            return quick
        part = _plain_part(text, *found, width)
    if part is None:
        text = " ".join(strip_controls(text).split())
        part = _Part(text, *(_find(phrases, text) or _find(words, text) or (0, 0)))
    return _window(part, width=width, more=len(content) > MAX_INDEXED)


class _Part(NamedTuple):
    """Text on one line, the position of the match, and whether there is more text around it."""

    text: str
    start: int
    end: int
    earlier: bool = False
    later: bool = False


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _plain_window(text: str, start: int, end: int, width: int) -> Snippet | None:
    """Return the snippet of a match in the middle of a plain line: a fast path for most texts.

    Gives the same as `_plain_part` and `_window`, in a third of the time.
    """
    room = width - 2
    first = max(0, start - (room - (end - start)) // 3)
    last = first + room
    if len(text.rstrip()) <= max(width, last) or end > last or _CONTROL.search(text, 0, last):
        return None
    base = max(0, first - 1)
    near = text[base : last + 1]
    if not near.isprintable():
        near = near.replace("\n", " ").replace("\t", " ")
    if "  " in near or text[0] <= " ":
        return None
    start, end, first, last = start - base, end - base, first - base, last - base
    if first and (gap := near.find(" ", first, min(start, first + room // 6))) >= 0:
        first = gap + 1
    if (gap := near.rfind(" ", max(end, last - room // 6), last)) >= 0:
        last = gap
    before = "…" if first or base else ""
    shift = len(before) - first
    return Snippet(f"{before}{near[first:last]}…", start + shift, end + shift)


def _plain_part(text: str, start: int, end: int, width: int) -> _Part | None:
    """Return the part of a plain text that a window of this width may need."""
    first, last = max(0, start - width), end + 2 * width
    shown = text[:last]
    left, match, right = text[first:start], text[start:end], text[end:last]
    if not shown.isprintable() or "  " in shown:
        if shown != strip_controls(shown):
            return None  # stripping may join words, so that there are other words than before
        left, match, right = _close_gaps(left), _close_gaps(match), _close_gaps(right)
    left, right = left.lstrip(), right.rstrip()
    earlier = first > 0 and not text[:first].isspace()
    later = last < len(text) and not text[last:].isspace()
    # A third of the window is before the match: more at the end of the text, less at its start.
    goes_on = len(right) >= width - min(len(left), width // 3)
    if (later and not goes_on) or (earlier and len(left) <= (width // 3 if goes_on else width)):
        return None  # much of it is space
    return _Part(left + match + right, len(left), len(left) + len(match), earlier, later)


_GAP = re.compile(r" *[\n\t][ \n\t]*|  +")


def _close_gaps(text: str) -> str:
    """Return plain text on one line, with a space for every gap."""
    if text.isprintable() and "  " not in text:
        return text
    return _GAP.sub(" ", text)


class _Atom(NamedTuple):
    """A folded word, or one character of a run, and where it is."""

    word: str
    start: int
    end: int
    glued: bool
    """Whether it continues a run."""


@cache
def _atom() -> re.Pattern[str]:
    return re.compile(
        rf"""
          [\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?                # one Hangul syllable
        | [{SPACELESS}{FOLDING}][\u3099\u309a\uff9e\uff9f]?           # one kana with its voice
        | (?: (?: [^\W_{SPACELESS}{FOLDING}] | [\ue000-\uf8ff] ) [\u0300-\u036f]* )+
        """,
        re.VERBOSE,
    )


def _atoms(text: str) -> Iterator[_Atom]:
    run_end = -1
    for match in _atom().finditer(text):
        start, end = match.span()
        for word, is_run in _fold_character(match[0]) if end - start < 4 else _fold_word(match[0]):
            yield _Atom(word, start, end, is_run and run_end >= start)
            if is_run:
                run_end = end


def _fold_word(text: str) -> list[tuple[str, bool]]:
    if text.isascii():
        return [(text.lower(), False)]
    folded: list[tuple[str, bool]] = []
    for piece in find_pieces(fold(text)):
        is_run = piece["run"] is not None
        folded += [(part, is_run) for part in (piece[0] if is_run else [piece[0]])]
    return folded


_fold_character = lru_cache(maxsize=8192)(_fold_word)


class _Wanted(NamedTuple):
    """A condition on an atom; `glued` is None if it doesn't matter."""

    word: str
    glued: bool | None
    prefix: bool
    stems: frozenset[str]
    plain: re.Pattern[str]
    """A quick pattern that finds all words of a plain text that may match, and few others."""

    def fits(self, atom: _Atom) -> bool:
        return (self.glued is None or self.glued == atom.glued) and self.fits_word(atom.word)

    def fits_word(self, word: str) -> bool:
        if word == self.word or (self.prefix and word.startswith(self.word)):
            return True
        return word[0] == self.word[0] and stem(word) in self.stems


_Pattern = tuple[_Wanted, ...]


@lru_cache(maxsize=64)
def _patterns(query: Query) -> tuple[list[_Pattern], list[_Pattern]]:
    """Return the patterns of the positive terms: the phrases, and the words."""
    patterns = [_pattern(term) for term in query.positive]
    phrases = [pattern for pattern in patterns if len(pattern) > 1]
    return phrases, [pattern for pattern in patterns if len(pattern) == 1]


def _pattern(term: Term) -> _Pattern:
    """Return the pattern of a term, atom by atom."""
    atoms = list(_atoms(term.text))
    pattern: list[_Wanted] = []
    for index, atom in enumerate(atoms):
        prefix = term.prefix and index == len(atoms) - 1
        endings = stunting_endings(atom.word, atom.word) if prefix else ("",)
        stems = frozenset(stem(atom.word + ending) for ending in endings)
        glued = atom.glued if index else None
        pattern.append(_Wanted(atom.word, glued, prefix, stems, _plain_words(atom.word, stems)))
    return tuple(pattern)


def _find(patterns: list[_Pattern], text: str) -> tuple[int, int] | None:
    """Return the position of the match, of any pattern, that ends first."""
    if not patterns:
        return None
    if text.isascii():  # nothing but ASCII is left after stripping
        return _find_plain(patterns, text.lower())
    atoms: list[_Atom] = []
    for atom in _atoms(text):
        atoms.append(atom)
        for pattern in patterns:
            newest = atoms[-len(pattern) :]
            if len(newest) == len(pattern) and all(map(_Wanted.fits, pattern, newest)):
                return newest[0].start, atom.end
    return None


_PLAIN_WORD = re.compile("[a-z0-9]+")


def _plain_words(word: str, stems: frozenset[str]) -> re.Pattern[str]:
    beginnings = [word, *map(beginning_of, stems)]
    # `commonprefix` of characters, not of paths. A fixed prefix makes the expression quick.
    beginning = re.escape(commonprefix(beginnings) or word[0])  # noqa: RUF071
    return re.compile(f"{beginning}(?<![a-z0-9]{beginning})[a-z0-9]*")


def beginning_of(stem: str) -> str:
    """Return the beginning of all words with this stem: stemming may change the last letter."""
    return stem[:-1] if stem[-1] in "eil" else stem


def _find_plain(patterns: list[_Pattern], text: str) -> tuple[int, int] | None:
    """Do the same in plain lower-case text, looking only at words with the wanted beginning."""
    found: tuple[int, int] | None = None
    for first, *others in patterns:
        last = len(text) + 1 if found is None else found[1]
        for match in first.plain.finditer(text, 0, last):
            if first.fits_word(match[0]):
                end = _end_of(others, text, match.end())
                if end is not None:
                    found = (match.start(), end) if end < last else found
                    break
    return found


def _end_of(wanted: list[_Wanted], text: str, end: int) -> int | None:
    """Return where the wanted words end if they follow here in a plain text."""
    for each in wanted:
        match = _PLAIN_WORD.search(text, end)
        if match is None or each.glued or not each.fits_word(match[0]):
            return None
        end = match.end()
    return end


def _window(part: _Part, *, width: int, more: bool) -> Snippet:
    text, start, end, earlier, later = part
    later = later or more
    if len(text) <= width and not earlier and not later:
        return Snippet(text, start, end)
    room = max(1, width - 2)  # for an ellipsis on each side
    end = min(end, start + room)
    first = max(0, min(start - (room - (end - start)) // 3, len(text) - room))
    last = min(len(text), first + room)
    if first and (gap := text.find(" ", first, min(start, first + room // 6))) >= 0:
        first = gap + 1
    if last < len(text) and (gap := text.rfind(" ", max(end, last - room // 6), last)) >= 0:
        last = gap
    before = "…" if first else ""
    after = "…" if later or last < len(text) else ""
    shift = len(before) - first if end else 0
    return Snippet(before + text[first:last] + after, start + shift, end + shift)
