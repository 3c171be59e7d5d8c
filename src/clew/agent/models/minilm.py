"""all-MiniLM-L6-v2 in numpy: the meaning of a short English text as 384 numbers.

A BERT encoder of six layers; the vector is the mean over the pieces of a text, of length one, so
that the product of two vectors says how near their texts are. It blocks: `embeddings` calls it in a
thread. Where its weights come from is known to `weights`.
"""

from __future__ import annotations

import json
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from clew.errors import ModelUnavailable

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


Array = npt.NDArray[np.float32]

LAYERS: Final = 6
HEADS: Final = 12
DIMENSION: Final = 384
MOST_PIECES: Final = 256
"""Pieces of a text that are read, as the model was trained; some two hundred words."""
MOST_CHARACTERS: Final = 4_000
"""Characters that are looked at: more never fit."""
BATCH: Final = 16
EPSILON: Final = 1e-12


class MiniLM:
    """The model in memory: some 90 MB."""

    def __init__(self, weights: Path, vocabulary: Path) -> None:
        try:
            self._threads = ThreadpoolController()
            self._weights = _read_safetensors(weights)
            self._pieces = WordPiece(vocabulary.read_text(encoding="utf-8").split("\n"))
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise ModelUnavailable(
                f"The embedding model can't be read from {weights.parent}: {error}. "
                "Delete its files there, then run `clew model pull embeddings`."
            ) from error

    def embed(self, texts: Sequence[str]) -> Array:
        """A row of length one for each text."""
        pieces = [self._pieces.encode(each[:MOST_CHARACTERS], MOST_PIECES) for each in texts]
        found = np.empty((len(texts), DIMENSION), dtype=np.float32)
        # Texts of about the same length go together: the shorter ones are filled up.
        order = sorted(range(len(texts)), key=lambda at: len(pieces[at]))
        # Two threads gain little, and wait for each other in a loop where the machine is busy.
        with self._threads.limit(limits=1, user_api="blas"):
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                found[batch] = self._run([pieces[at] for at in batch])
        return found

    def _run(self, batch: Sequence[Sequence[int]]) -> Array:
        length = max(map(len, batch))
        pieces = np.zeros((len(batch), length), dtype=np.int64)
        real = np.zeros((len(batch), length), dtype=np.float32)
        for at, each in enumerate(batch):
            pieces[at, : len(each)] = each
            real[at, : len(each)] = 1.0
        w = self._weights
        state = (
            w["embeddings.word_embeddings.weight"][pieces]
            + w["embeddings.position_embeddings.weight"][:length]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        state = self._normalise(state, "embeddings.LayerNorm")
        hidden = (1.0 - real[:, None, None, :]) * np.float32(-1e9)
        for layer in range(LAYERS):
            state = self._layer(state, hidden, f"encoder.layer.{layer}")
        mean = (state * real[:, :, None]).sum(axis=1) / real.sum(axis=1, keepdims=True)
        return _of_length_one(mean)

    def _layer(self, state: Array, hidden: Array, name: str) -> Array:
        count, length, _ = state.shape

        def heads(part: str) -> Array:
            made = self._dense(state, f"{name}.attention.self.{part}")
            return made.reshape(count, length, HEADS, -1).transpose(0, 2, 1, 3)

        queries, keys, values = heads("query"), heads("key"), heads("value")
        scores = queries @ keys.transpose(0, 1, 3, 2) / np.float32(np.sqrt(DIMENSION // HEADS))
        seen = (_softmax(scores + hidden) @ values).transpose(0, 2, 1, 3)
        attended = self._dense(seen.reshape(state.shape), f"{name}.attention.output.dense")
        state = self._normalise(state + attended, f"{name}.attention.output.LayerNorm")
        wide = _gelu(self._dense(state, f"{name}.intermediate.dense"))
        narrow = self._dense(wide, f"{name}.output.dense")
        return self._normalise(state + narrow, f"{name}.output.LayerNorm")

    def _dense(self, state: Array, name: str) -> Array:
        made: Array = state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return made

    def _normalise(self, state: Array, name: str) -> Array:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
        scaled: Array = centred / spread * self._weights[f"{name}.weight"]
        shifted: Array = scaled + self._weights[f"{name}.bias"]
        return shifted


def _softmax(scores: Array) -> Array:
    powers: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def _gelu(x: Array) -> Array:
    """x times the normal distribution; numpy has no `erf`, this one is off by at most 2e-7."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1.0 / (1.0 + np.float32(0.3275911) * z)
    tail = np.full_like(t, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail = tail * t + np.float32(factor)
    erf = np.sign(x) * (1.0 - tail * t * np.exp(-z * z))
    return np.asarray(0.5 * x * (1.0 + erf), dtype=np.float32)


def _of_length_one(rows: Array) -> Array:
    lengths = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    return np.asarray(rows / np.maximum(lengths, np.float32(EPSILON)), dtype=np.float32)


def _read_safetensors(path: Path) -> dict[str, Array]:
    """The tensors of a file: a header of JSON behind its length, then the numbers."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header: dict[str, dict[str, Any]] = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, each in header.items():
        if name != "__metadata__" and each["dtype"] == "F32":
            start, end = each["data_offsets"]
            numbers = np.frombuffer(data, "<f4", (end - start) // 4, 8 + size + start)
            tensors[name] = numbers.reshape(each["shape"])
    return tensors
