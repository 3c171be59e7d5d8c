"""Porter stems, exactly as FTS5's `porter` makes them, and what they do to beginnings of words.

Written here and not taken from a library: those that were tried start slowly and give other stems
than the index has, and then a snippet would not find what the search found.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final


def stem(word: str) -> str:
    """Return the Porter stem of a folded word, exactly as FTS5's `porter` makes it."""
    if not 3 <= len(word) <= 64 or not word.isascii():
        return word
    return _porter(word)


def _rules(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (rule.partition(":") for rule in text.split())
    return tuple((suffix, replacement) for suffix, _, replacement in pairs)


# Steps 2, 3 and 4 of the algorithm: suffixes, what replaces them, and the measure it takes.
_STEPS: Final = (
    (
        _rules(
            "ational:ate tional:tion enci:ence anci:ance izer:ize logi:log bli:ble alli:al"
            " entli:ent eli:e ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive"
            " fulness:ful ousness:ous aliti:al iviti:ive biliti:ble"
        ),
        1,
    ),
    (_rules("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:"), 1),
    (
        _rules(
            "al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: sion:s tion:t ou: ism: ate:"
            " iti: ous: ive: ize:"
        ),
        2,
    ),
)


@lru_cache(maxsize=16_384)
def _porter(word: str) -> str:
    word = _stem_inflection(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    for rules, least in _STEPS:
        for suffix, replacement in rules:
            if _ends(word, suffix):
                base = word.removesuffix(suffix)
                stemmed = base + replacement
                # Of -sion and -tion, step 4 takes only the `ion`.
                if _measure(stemmed if least == 2 else base) >= least:
                    word = stemmed
                break
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _stem_inflection(word: str) -> str:
    """Step 1: plurals, past tenses and participles."""
    if _ends(word, "sses") or _ends(word, "ies"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if _ends(word, "eed"):
        return word[:-1] if _measure(word[:-3]) else word
    base = word[:-2] if word.endswith("ed") else word.removesuffix("ing")
    if base == word or "v" not in _shape(base):
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base[-2:-1] == base[-1] and base[-1] not in "aeioulsz":
        return base[:-1]
    return base + "e" if _measure(base) == 1 and _is_short(base) else base


def _ends(word: str, suffix: str) -> bool:
    return len(word) > len(suffix) and word.endswith(suffix)


def _shape(word: str) -> str:
    """Return a `v` for each vowel and a `c` for each consonant."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _is_short(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def protective_ending(word: str) -> str:
    def kept(ending: str) -> int:
        stemmed = stem(word + ending)
        return len(stemmed) if word.startswith(stemmed) else -1

    return max(("", "ness", "ed", "s"), key=kept)


def stunting_endings(word: str, kept: str) -> Iterator[str]:
    seen: set[str] = set()
    for ending in _ENDINGS:
        for there in range(len(ending) or 1):
            if word.endswith(ending[:there]):
                stemmed = stem(word + ending[there:])
                if not stemmed.startswith(kept) and stemmed not in seen:
                    seen.add(stemmed)
                    yield ending[there:]


# Endings whose removal by Porter leaves a stem that is shorter than the word before them.
# fmt: off
_ENDINGS: Final = (
    "", "ing", "ed", "ly", "ation", "ational", "ization", "ion", "ional", "ator", "ative", "ness",
    "ment", "able", "ably", "ity", "ility", "ivity", "ality", "ally", "ful", "ence", "ance", "ive",
    "ate", "ize", "ism", "ous",
)
