"""`FileRecall`: the memory files in chunks, found by words and by meaning.

The files are read at every search; only what changed is cut and embedded anew, and vectors are kept
in the store. Embedding a long file takes minutes, so it goes on in the background: a search waits
for it only shortly, and what is not embedded yet is found by its words. A model that fails is left
alone for a while. What of the hits a prompt gets is decided in `core.chunks`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from clew.core.chunks import (
    CANDIDATES,
    Chunk,
    ChunkFile,
    Keywords,
    Recalled,
    Recollection,
    join_ranks,
    split_chunks,
    text_to_embed,
    write_prompt,
)
from clew.core.memory import FILE_NAMES, MEMORY_NAMES, MemoryFile
from clew.core.models import Personality
from clew.core.session import OWNER
from clew.errors import ClewError
from clew.ports import Embedder, Memory, Vectors

BATCH: Final = 32
"""Chunks that are embedded and stored together."""
REFRESH_S: Final = 3.0
"""How long a search waits for chunks that are being embedded."""
QUESTION_S: Final = 10.0
"""How long a search waits for the vector of its question."""
PAUSE_S: Final = 60.0
"""How long a model that failed is not asked again."""
QUESTION_CHARACTERS: Final = 2_000
MOST_INDEXES: Final = 8
"""Indexes that are kept in memory: one for each person and personality."""


class Source(NamedTuple):
    """A file as it was read, in chunks."""

    key: str
    etag: str
    chunks: tuple[Chunk, ...]


class Index:
    """The chunks of some sources, with the vectors that are there."""

    def __init__(self, sources: Sequence[Source], vectors: dict[str, bytes]) -> None:
        self.sources = tuple(sources)
        self.chunks = tuple(chunk for source in sources for chunk in source.chunks)
        self.keywords = Keywords(self.chunks)
        wanted = {each.hash for each in self.chunks}
        self.vectors = {key: vector for key, vector in vectors.items() if key in wanted}
        self.filling: asyncio.Task[None] | None = None
        self._matrix: tuple[int, int, list[int], Any] | None = None

    @property
    def missing(self) -> int:
        """How many chunks have no vector."""
        return sum(each.hash not in self.vectors for each in self.chunks)

    def rank_near(self, question: bytes) -> list[tuple[int, float]]:
        """The positions of the nearest chunks with the cosines of the angles, nearest first."""
        import numpy as np  # noqa: PLC0415  # only in vector mode

        wanted = len(question)
        known = self._matrix
        if known is None or known[:2] != (len(self.vectors), wanted):
            # Vectors of another length are of another model under the same name.
            at = [
                position
                for position, each in enumerate(self.chunks)
                if len(self.vectors.get(each.hash, b"")) == wanted
            ]
            data = b"".join(self.vectors[self.chunks[position].hash] for position in at)
            matrix = np.frombuffer(data, "<f4").reshape(len(at), wanted // 4)
            known = self._matrix = (len(self.vectors), wanted, at, matrix)
        _, _, at, matrix = known
        nearness = matrix @ np.frombuffer(question, "<f4")
        order = np.argsort(-nearness, kind="stable")[:CANDIDATES]
        return [(at[each], float(nearness[each])) for each in order]


class FileRecall:
    """`ports.Recall` over the memory files. Without an embedder it knows words only."""

    def __init__(
        self,
        memory: Memory,
        *,
        vectors: Vectors | None = None,
        embedder: Embedder | None = None,
        refresh_s: float = REFRESH_S,
        question_s: float = QUESTION_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """An embedder needs `vectors`, where its work is kept."""
        self._memory = memory
        self._vectors = vectors
        self._embedder = embedder
        self._refresh_s = refresh_s
        self._question_s = question_s
        self._clock = clock
        self._indexes: OrderedDict[tuple[str, ...], Index] = OrderedDict()
        self._failure: tuple[str, float] | None = None
        self._length: int | None = None
        self._refreshing = asyncio.Lock()

    @property
    def model(self) -> str | None:
        """See `ports.Recall`."""
        return None if self._embedder is None else self._embedder.model

    async def close(self) -> None:
        """Stop embedding; what is embedded is stored."""
        tasks = [each.filling for each in self._indexes.values() if each.filling is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._embedder is not None:
            await self._embedder.close()

    async def search(
        self,
        question: str,
        personality: Personality | None = None,
        *,
        person: str = OWNER,
        limit: int = 8,
    ) -> Recollection:
        """See `ports.Recall`."""
        index, problems = await self._refresh(personality, person)
        asked = _shorten(question)
        near: list[tuple[int, float]] = []
        if self._embedder is not None and asked and index.chunks:
            near, notice = await self._find_near(index, asked)
            problems += notice
        words = await asyncio.to_thread(index.keywords.rank, asked)
        ranked = join_ranks(words, [at for at, _ in near])
        if not asked:
            # Nothing was asked with words: the newest lines are the best guess.
            ranked = [(at, 0.0) for at in range(len(index.chunks) - 1, -1, -1)]
        prompt, given = write_prompt(index.chunks[at] for at, _ in ranked)
        by_words = {at: rank for rank, at in enumerate(words[:CANDIDATES], 1)}
        by_meaning = {at: (rank, cosine) for rank, (at, cosine) in enumerate(near, 1)}
        hits = tuple(
            Recalled(
                chunk=index.chunks[at],
                score=round(score, 6),
                keyword_rank=by_words.get(at),
                vector_rank=by_meaning[at][0] if at in by_meaning else None,
                similarity=round(by_meaning[at][1], 4) if at in by_meaning else None,
                given=self._embedder is not None and place in given,
            )
            for place, (at, score) in enumerate(ranked[:limit])
        )
        return Recollection(
            hits=hits,
            prompt=None if self._embedder is None else prompt,
            model=self.model,
            notice=" ".join(problems) or None,
        )

    async def list_chunks(
        self, personality: Personality | None = None, *, person: str = OWNER
    ) -> tuple[tuple[Chunk, bool], ...]:
        """See `ports.Recall`."""
        index, problems = await self._refresh(personality, person)
        if problems:
            raise ClewError(" ".join(problems))
        if self._embedder is not None and self._is_willing():
            await self._fill(index)
        return tuple((each, each.hash in index.vectors) for each in index.chunks)

    # --- reading ------------------------------------------------------------------------------

    async def _refresh(
        self, personality: Personality | None, person: str
    ) -> tuple[Index, list[str]]:
        """The index of a person's files as they are now, and what could not be read."""
        files: list[tuple[ChunkFile, str, MemoryFile]] = []
        problems: list[str] = []
        for name in MEMORY_NAMES:
            try:
                found = await self._memory.read(name, personality, person=person)
            except ClewError as error:
                problems.append(str(error))
                continue
            files.append((name, FILE_NAMES[name], found))
        if person == OWNER:
            # It has lines of the owner's USER.md in it.
            archive = await self._memory.read_archive(personality)
            files.append(("archive", "memory-archive.md", archive))
        async with self._refreshing:
            return await self._find_index(files), problems

    async def _find_index(self, files: Sequence[tuple[ChunkFile, str, MemoryFile]]) -> Index:
        key = tuple(found.path for _, _, found in files)
        known = self._indexes.get(key)
        etags = [found.etag for _, _, found in files]
        if known is None or [each.etag for each in known.sources] != etags:
            index = await asyncio.to_thread(_build, files, known)
            if known is not None and known.filling is not None:
                known.filling.cancel()
            known = self._indexes[key] = index
        self._indexes.move_to_end(key)
        while len(self._indexes) > MOST_INDEXES:
            _, oldest = self._indexes.popitem(last=False)
            if oldest.filling is not None:
                oldest.filling.cancel()
        return known

    # --- embedding ----------------------------------------------------------------------------

    def _is_willing(self) -> bool:
        return self._failure is None or self._clock() >= self._failure[1]

    async def _find_near(
        self, index: Index, question: str
    ) -> tuple[list[tuple[int, float]], list[str]]:
        """The nearest chunks by meaning, and what the person should know about it."""
        if self._is_willing():
            await self._fill(index)
        vector = await self._embed_question(question) if self._is_willing() else None
        if vector is None:
            reason = self._failure[0] if self._failure is not None else "it did not answer"
            return [], [f"The memory was searched by words only: {reason}"]
        near = await asyncio.to_thread(index.rank_near, vector)
        missing = index.missing
        if not missing:
            return near, []
        done = len(index.chunks) - missing
        told = (
            f"The memory is still being read by the embedding model ({done} of "
            f"{len(index.chunks)} parts); the rest is searched by words."
        )
        return near, [told]

    async def _embed_question(self, question: str) -> bytes | None:
        assert self._embedder is not None  # noqa: S101  # only called in vector mode
        try:
            async with asyncio.timeout(self._question_s):
                (vector,) = await self._embedder.embed([question])
        except TimeoutError:
            self._fail(f"{self._embedder.model} did not answer within {self._question_s:.0f} s.")
            return None
        except ClewError as error:
            self._fail(str(error))
            return None
        if len(vector) != self._length:
            # Stored vectors of another length are of another model under the same name.
            self._length = len(vector)
            for each in self._indexes.values():
                each.vectors = self._keep_fitting(each.vectors)
                each.filling = None if each.missing else each.filling
        return vector

    def _keep_fitting(self, found: dict[str, bytes]) -> dict[str, bytes]:
        if self._length is None:
            return found
        return {key: each for key, each in found.items() if len(each) == self._length}

    def _fail(self, reason: str) -> None:
        self._failure = (reason, self._clock() + PAUSE_S)

    async def _fill(self, index: Index) -> None:
        """Embed what is missing in the background, and wait a moment for it."""
        if index.filling is None:
            index.filling = asyncio.create_task(self._embed_missing(index))
        await asyncio.wait({index.filling}, timeout=self._refresh_s)
        if index.filling.done() and index.missing:
            index.filling = None  # it failed: the next search tries again

    async def _embed_missing(self, index: Index) -> None:
        for source in index.sources:
            try:
                await self._embed_source(index, source)
            except ClewError as error:
                self._fail(str(error))
                return
        self._failure = None

    async def _embed_source(self, index: Index, source: Source) -> None:
        assert self._embedder is not None  # noqa: S101  # only called in vector mode
        assert self._vectors is not None  # noqa: S101  # given with the embedder
        model = self._embedder.model
        # The newest lines are at the end, and are asked about most.
        texts = {each.hash: text_to_embed(each.place, each.text) for each in source.chunks[::-1]}
        hashes = [each for each in texts if each not in index.vectors]
        found = await self._vectors.find_vectors(source.key, model, hashes)
        index.vectors.update(self._keep_fitting(found))
        for batch in _batches([each for each in hashes if each not in index.vectors]):
            # Another process may have embedded them meanwhile.
            found = self._keep_fitting(await self._vectors.find_vectors(source.key, model, batch))
            wanted = [each for each in batch if each not in found]
            if wanted:
                made = await self._embedder.embed([texts[each] for each in wanted])
                found |= dict(zip(wanted, made, strict=True))
                fresh = {each: found[each] for each in wanted}
                await self._vectors.put_vectors(source.key, model, fresh)
            index.vectors.update(found)
        await self._vectors.keep_vectors(source.key, model, texts)


def _build(files: Iterable[tuple[ChunkFile, str, MemoryFile]], known: Index | None) -> Index:
    sources = [
        Source(found.path, found.etag, split_chunks(found.text, file, title))
        for file, title, found in files
    ]
    return Index(sources, {} if known is None else known.vectors)


def _batches(hashes: Sequence[str]) -> Iterable[Sequence[str]]:
    return (hashes[at : at + BATCH] for at in range(0, len(hashes), BATCH))


def _shorten(question: str) -> str:
    """The beginning and the end of a long message: what is asked is in one of them."""
    question = question.strip()
    if len(question) <= QUESTION_CHARACTERS:
        return question
    half = QUESTION_CHARACTERS // 2
    return f"{question[:half]}\n{question[-half:]}"
