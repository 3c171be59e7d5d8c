"""The vectors of memory chunks: a cache beside the sessions, which can be made again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from clew.errors import InvalidInput
from clew.store.rows import text
from clew.store.work.transaction import Engine, Transaction

AT_ONCE = 500
"""How many hashes a statement names."""
OTHER_MODELS_MS = 7 * 86_400_000
"""How long the vectors of a model that is no longer used are kept, in case it is chosen again."""

_FIND = """
SELECT hash, vector FROM memory_vectors WHERE source = $1 AND model = $2 AND hash = ANY ($3)
"""
_PUT = """
INSERT INTO memory_vectors (source, model, hash, vector, made_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (source, model, hash)
DO UPDATE SET vector = excluded.vector, made_at = excluded.made_at
"""
_HASHES = "SELECT hash FROM memory_vectors WHERE source = $1 AND model = $2"
_DELETE = "DELETE FROM memory_vectors WHERE source = $1 AND model = $2 AND hash = ANY ($3)"
_DELETE_OTHERS = "DELETE FROM memory_vectors WHERE source = $1 AND model <> $2 AND made_at < $3"


class SharedVectors:
    """`ports.Vectors`."""

    _engine: Engine

    async def find_vectors(
        self, source: str, model: str, hashes: Collection[str]
    ) -> dict[str, bytes]:
        """See `ports.Vectors`."""
        wanted = [text(each) for each in hashes]

        async def work(tx: Transaction) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for start in range(0, len(wanted), AT_ONCE):
                part = wanted[start : start + AT_ONCE]
                rows = await tx.fetch(_FIND, (text(source), text(model), part))
                found.update((each, bytes(vector)) for each, vector in rows)
            return found

        return await self._engine.read(work)

    async def put_vectors(self, source: str, model: str, vectors: Mapping[str, bytes]) -> None:
        """See `ports.Vectors`."""
        if not all(isinstance(each, bytes) for each in vectors.values()):
            raise InvalidInput("A vector is made of bytes.")

        async def work(tx: Transaction) -> None:
            now = await tx.now()
            # In one order, so that two writers of the same rows never wait for each other.
            for each in sorted(vectors):
                row = (text(source), text(model), text(each), vectors[each], now)
                await tx.run(_PUT, row)

        await self._engine.write(work, repeatable=True)

    async def keep_vectors(self, source: str, model: str, hashes: Collection[str]) -> int:
        """See `ports.Vectors`."""
        kept = set(hashes)

        async def work(tx: Transaction) -> int:
            rows = await tx.fetch(_HASHES, (text(source), text(model)))
            gone = sorted(each for (each,) in rows if each not in kept)
            count = 0
            for start in range(0, len(gone), AT_ONCE):
                part = gone[start : start + AT_ONCE]
                count += await tx.run(_DELETE, (text(source), text(model), part))
            before = await tx.now() - OTHER_MODELS_MS
            return count + await tx.run(_DELETE_OTHERS, (text(source), text(model), before))

        return await self._engine.write(work, repeatable=True)
