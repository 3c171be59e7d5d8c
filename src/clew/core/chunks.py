"""Memory in pieces: cutting a file into chunks, ranking them by words, and joining two rankings.

Pure. `memory.recall` reads the files, has the chunks embedded and asks here for the ranks; what a
chunk means is known to a model (`ports.Embedder`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from clew.core.search.hits import bm25, idf
from clew.core.search.query import find_pieces
from clew.core.search.stems import stem
from clew.core.text import fold, strip_controls

ChunkFile = Literal["user", "memory", "archive"]
"""The two memory files, and the archive of what no longer fitted into them."""

PROMPT_CHUNKS: Final = 8
PROMPT_CHARACTERS: Final = 2_000
"""What of the memory a prompt gets at most in vector mode, the places and the heading included."""
CHUNK_CHARACTERS: Final = 500
"""The longest chunk: four of them fit into a prompt."""
MOST_CHUNKS: Final = 10_000
"""Chunks of a file that are searched; the last ones, as the newest lines are at the end."""
PLACE_CHARACTERS: Final = 120
UNDER: Final = " › "  # noqa: RUF001  # as people draw a way through headings
CANDIDATES: Final = 50
"""How far down each ranking is looked at."""
EVEN: Final = 10
"""The constant of reciprocal rank fusion. Small, so that the first of either ranking is found:
a name or a number is often known to one of them only."""

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_ITEM: Final = re.compile(r" ?(?:[-*+]|\d{1,9}[.)])[ \t]+")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n")
_FIGURES: Final = re.compile(r"\d+(?:[.,:]\d+)+")
_STOP: Final = """
a about again all am an and any anything are as at be been by can did do does for from had has have
how i in is it its know me my of on or our remind tell that the their them they this to us was we
were what when where which who whom whose why will with you your
"""
"""Words of questions that say nothing about their subject."""


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a memory file. `place` names it: the file, then its headings.

    `hash` identifies what is embedded: the text with its headings.
    """

    file: ChunkFile
    place: str
    text: str
    hash: str


class Recalled(msgspec.Struct, frozen=True):
    """A chunk that was found. The ranks say why: 1 is the best, None is not found that way.

    `similarity` is the cosine of its vector and the question's. `given`: it is among what a prompt
    gets for this question.
    """

    chunk: Chunk
    score: float
    keyword_rank: int | None = None
    vector_rank: int | None = None
    similarity: float | None = None
    given: bool = False


class Recollection(msgspec.Struct, frozen=True):
    """What was found for a question, best first.

    `prompt` is what a turn with this question gets, None if a turn gets the whole files. `notice`
    says why only words were compared although meanings should have been.
    """

    hits: tuple[Recalled, ...]
    prompt: str | None = None
    model: str | None = None
    notice: str | None = None


# --- cutting ----------------------------------------------------------------------------------


def split_chunks(text: str, file: ChunkFile, title: str) -> tuple[Chunk, ...]:
    """The paragraphs and list items of a Markdown file, each with its headings; the last ones.

    A heading with nothing below it is a chunk too. A long paragraph is several.
    """
    found: list[Chunk] = []
    for headings, piece in _pieces(strip_controls(_COMMENT.sub("", text))):
        place = UNDER.join((title, *headings))
        if len(place) > PLACE_CHARACTERS:
            place = f"{place[: PLACE_CHARACTERS - 1]}…"
        for part in _parts(piece):
            digest = hashlib.sha256(text_to_embed(place, part).encode()).hexdigest()
            found.append(Chunk(file, place, part, digest))
    return tuple(found[-MOST_CHUNKS:])


def text_to_embed(place: str, text: str) -> str:
    """What is embedded of a chunk: its text below its headings, so that these count too."""
    headings = place.partition(UNDER)[2]
    return f"{headings}: {text}" if headings else text


def _pieces(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The headings above each paragraph or list item, and its text."""
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""
    bare = False  # a heading without anything below it so far

    def take() -> Iterator[tuple[tuple[str, ...], str]]:
        piece = "\n".join(lines).strip()
        lines.clear()
        if piece:
            yield tuple(name for _, name in headings), piece

    for line in text.split("\n"):
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is not None:
            yield from take()
            if bare and headings and headings[-1][0] >= len(heading[1]):
                yield tuple(name for _, name in headings[:-1]), headings[-1][1]
            while headings and headings[-1][0] >= len(heading[1]):
                headings.pop()
            bare = bool(heading[2])
            if bare:
                headings.append((len(heading[1]), heading[2]))
            continue
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if not fence and not line.strip():
            yield from take()
            continue
        bare = bare and not line.strip()
        item = None if fence else _ITEM.match(line)
        if item is not None:
            yield from take()
        lines.append(line if item is None else line[item.end() :])
    yield from take()
    if bare and headings:
        yield tuple(name for _, name in headings[:-1]), headings[-1][1]


def _parts(piece: str) -> Iterator[str]:
    """A piece in parts of bounded length: cut after a sentence, else a word, else anywhere."""
    if len(piece) <= CHUNK_CHARACTERS:
        yield piece
        return
    part = ""
    for sentence in _SENTENCE.split(piece):
        for words in _cut_long(sentence):
            if part and len(part) + 1 + len(words) > CHUNK_CHARACTERS:
                yield part
                part = ""
            part = f"{part} {words}" if part else words
    if part.strip():
        yield part


def _cut_long(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > CHUNK_CHARACTERS:
        end = text.rfind(" ", start + 1, start + CHUNK_CHARACTERS)
        end = end if end > start else start + CHUNK_CHARACTERS
        yield text[start:end].strip()
        start = end
    if text[start:].strip():
        yield text[start:].strip()


# --- by words ---------------------------------------------------------------------------------


class Keywords:
    """The words of chunks, for ranking them with BM25."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._lengths: list[int] = []
        self._found: dict[str, list[tuple[int, int]]] = {}
        for at, chunk in enumerate(chunks):
            words = Counter(list_words(f"{chunk.place}\n{chunk.text}"))
            self._lengths.append(words.total())
            for word, times in words.items():
                self._found.setdefault(word, []).append((at, times))
        self._average = sum(self._lengths) / max(len(self._lengths), 1)

    def rank(self, question: str) -> list[int]:
        """The positions of the chunks that share a word with the question, best first."""
        words = set(list_words(question))
        wanted = {each for each in words if each not in _STOPPED} or words
        scores: dict[int, float] = {}
        for word in wanted:
            places = self._found.get(word, [])
            weight = idf(len(self._lengths), len(places))
            for at, times in places:
                share = bm25(times, self._lengths[at], self._average, weight)
                scores[at] = scores.get(at, 0.0) + share
        return sorted(scores, key=lambda at: (-scores[at], -at))


def list_words(text: str) -> list[str]:
    """The stems of a text, pairs of characters where words have no spaces, and figures whole."""
    folded = fold(text)
    words = [each[0].translate(_NO_MARKS) for each in _FIGURES.finditer(folded)]
    for piece in find_pieces(folded):
        run = piece["run"]
        if run is None:
            words.append(_stem(piece[0]))
        else:
            words += [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
    return words


_NO_MARKS: Final = str.maketrans("", "", ".,:")
_stem = lru_cache(maxsize=65_536)(stem)
_STOPPED: Final = frozenset(map(stem, _STOP.split()))


# --- joining and choosing ---------------------------------------------------------------------


def join_ranks(*rankings: Sequence[int]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion: positions with their scores, best first.

    A position that several rankings have near their top comes before one that a single one has.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, at in enumerate(ranking[:CANDIDATES], 1):
            scores[at] = scores.get(at, 0.0) + 1 / (EVEN + rank)
    return sorted(scores.items(), key=lambda each: (-each[1], -each[0]))


HEADING: Final = (
    "# Memory: what fits this message\n"
    "The files say more: memory_read reads them, and the person can edit them."
)


def write_prompt(chunks: Iterable[Chunk]) -> tuple[str, frozenset[int]]:
    """The part of a prompt with the first chunks that fit, and which of them these are.

    At most `PROMPT_CHUNKS`, and `PROMPT_CHARACTERS` in all; empty without a chunk.
    """
    lines, room = [HEADING], PROMPT_CHARACTERS - len(HEADING)
    given: set[int] = set()
    for at, chunk in enumerate(chunks):
        line = f"\n[{chunk.place}]\n{chunk.text}"
        if len(given) < PROMPT_CHUNKS and len(line) <= room - 1:
            lines.append(line)
            room -= len(line) + 1
            given.add(at)
    return ("\n".join(lines) if given else ""), frozenset(given)
