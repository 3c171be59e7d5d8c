"""WordPiece: a text as the numbers that a BERT model was trained with.

`minilm` runs the model. What is done to a text follows BERT's uncased tokenizer: control characters
go, accents and case too, punctuation and Chinese characters stand alone; then each word is cut into
the longest pieces that the vocabulary has.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

UNKNOWN: Final = "[UNK]"
_CONTROLS: Final = ("Cc", "Cf", "Co", "Cs")
LONGEST_WORD: Final = 100
"""Characters. A longer word is unknown, as the model was trained."""

# The blocks that BERT calls Chinese; kana and Hangul are none of them.
_CHINESE: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """The pieces of a vocabulary: one to a line, numbered from 0."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._start, self._end = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._unknown = self._numbers[UNKNOWN]

    def encode(self, text: str, limit: int) -> list[int]:
        """The numbers of a text between the marks of start and end, at most `limit` in all."""
        numbers = [self._start]
        for word in split_words(text):
            numbers += self._cut(word)
            if len(numbers) >= limit:
                break
        return [*numbers[: limit - 1], self._end]

    def _cut(self, word: str) -> list[int]:
        """The longest pieces of a word, from its beginning; unknown if one of them is."""
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        numbers, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                number = self._numbers.get(piece)
                if number is not None:
                    numbers.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return numbers


def split_words(text: str) -> Iterator[str]:
    """The words of a text in small letters without accents; each punctuation mark is a word."""
    spaced = "".join(map(_clean, text))
    bare = "".join(
        each for each in unicodedata.normalize("NFD", spaced) if unicodedata.category(each) != "Mn"
    )
    for word in bare.lower().split():
        start = 0
        for at, character in enumerate(word):
            if _is_punctuation(character):
                if start < at:
                    yield word[start:at]
                yield character
                start = at + 1
        if start < len(word):
            yield word[start:]


def _clean(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in _CONTROLS:
        return ""
    if character.isspace():
        return " "
    code = ord(character)
    if code >= 0x3400 and any(first <= code <= last for first, last in _CHINESE):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return not character.isalnum() and character.isprintable() and character != " "
    return unicodedata.category(character)[0] == "P"
