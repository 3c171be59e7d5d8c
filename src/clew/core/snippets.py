"""The line of a message that shows why it was found, with the match marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from clew.core.query import FOLDING, MAX_INDEXED, SPACELESS, Query, Term, find_pieces
from clew.core.stems import stem, stunting_endings
from clew.core.text import fold, strip_controls


class Snippet(msgspec.Struct, frozen=True):
    """One line out of a message; `text[start:end]` is what matched."""

    text: str
    start: int = 0
    end: int = 0


def snippet(content: str, query: Query, *, width: int = 120) -> Snippet:
    """Return one line of at most `width` characters around the first match of a positive term.

    A phrase is preferred to a word. What matches only beyond `MAX_INDEXED` gives the beginning of
    the content, with nothing marked.
    """
    text = " ".join(strip_controls(content[:MAX_INDEXED]).split())
    patterns = [_pattern(term) for term in query.positive]
    phrases = [pattern for pattern in patterns if len(pattern) > 1]
    words = [pattern for pattern in patterns if len(pattern) == 1]
    start, end = _find(phrases, text) or _find(words, text) or (0, 0)
    return _window(text, start, end, width=width, more=len(content) > MAX_INDEXED)


class _Atom(NamedTuple):
    """A folded word, or one character of a run, and where it stands."""

    word: str
    start: int
    end: int
    glued: bool
    """Whether it goes on a run."""


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
    """What an atom has to be to match; `glued` is None where it doesn't matter."""

    word: str
    glued: bool | None
    prefix: bool
    stems: frozenset[str]

    def fits(self, atom: _Atom) -> bool:
        if self.glued is not None and self.glued != atom.glued:
            return False
        if atom.word == self.word or (self.prefix and atom.word.startswith(self.word)):
            return True
        return atom.word[0] == self.word[0] and stem(atom.word) in self.stems


def _pattern(term: Term) -> list[_Wanted]:
    """Return what a term wants, last atom first."""
    atoms = list(_atoms(term.text))
    pattern: list[_Wanted] = []
    for index, atom in enumerate(atoms):
        prefix = term.prefix and index == len(atoms) - 1
        endings = stunting_endings(atom.word, atom.word) if prefix else ("",)
        stems = frozenset(stem(atom.word + ending) for ending in endings)
        pattern.append(_Wanted(atom.word, atom.glued if index else None, prefix, stems))
    return pattern[::-1]


def _find(patterns: list[list[_Wanted]], text: str) -> tuple[int, int] | None:
    """Return where the first match of any pattern stands."""
    if not patterns:
        return None
    if text.isascii() and all(len(pattern) == 1 for pattern in patterns):
        return _find_word([pattern[0] for pattern in patterns], text)
    atoms: list[_Atom] = []
    for atom in _atoms(text):
        atoms.append(atom)
        for pattern in patterns:
            if len(pattern) <= len(atoms) and all(map(_Wanted.fits, pattern, reversed(atoms))):
                return atoms[-len(pattern)].start, atom.end
    return None


def _find_word(wanted: list[_Wanted], text: str) -> tuple[int, int] | None:
    """Do the same for plain words in plain text, looking only at those with the right initial."""
    initials = "".join({each.word[0] for each in wanted if each.word.isascii()})
    if not initials:
        return None
    word = rf"(?<![A-Za-z0-9])[{initials}{initials.upper()}][A-Za-z0-9]*"
    for match in re.finditer(word, text):
        atom = _Atom(match[0].lower(), *match.span(), False)
        if any(each.fits(atom) for each in wanted):
            return match.span()
    return None


def _window(text: str, start: int, end: int, *, width: int, more: bool) -> Snippet:
    if len(text) <= width and not more:
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
    after = "…" if more or last < len(text) else ""
    shift = len(before) - first if end else 0
    return Snippet(before + text[first:last] + after, start + shift, end + shift)
