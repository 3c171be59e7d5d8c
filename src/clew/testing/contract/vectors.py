"""`ports.Vectors`: the vectors of memory chunks."""

from __future__ import annotations

import asyncio

import pytest

from clew.errors import InvalidInput
from clew.ports import Store
from clew.testing.clock import DAY, FakeClock
from clew.testing.contract.case import Contract

FILE = "/home/ada/MEMORY.md"


class VectorsContract(Contract):
    """What chunks of the memory mean."""

    async def test_vectors_are_found_by_file_model_and_hash(
        self, store: Store, other: Store
    ) -> None:
        await store.put_vectors(FILE, "small", {"a": b"\0\1\2\xff", "b": b""})
        await store.put_vectors(FILE, "large", {"a": b"other"})
        await store.put_vectors("/else", "small", {"c": b"c"})

        found = await other.find_vectors(FILE, "small", ["a", "b", "c", "never"])

        assert found == {"a": b"\0\1\2\xff", "b": b""}
        assert await other.find_vectors(FILE, "large", ("a", "b")) == {"a": b"other"}
        assert await other.find_vectors(FILE, "small", []) == {}

    async def test_a_vector_is_written_over_an_older_one(self, store: Store) -> None:
        await store.put_vectors(FILE, "small", {"a": b"old", "b": b"b"})
        await store.put_vectors(FILE, "small", {"a": b"new"})
        assert await store.find_vectors(FILE, "small", ["a", "b"]) == {"a": b"new", "b": b"b"}

    async def test_thousands_are_put_found_and_forgotten(self, store: Store) -> None:
        many = {f"{number:064x}": bytes([number % 256]) * 8 for number in range(1_200)}
        await store.put_vectors(FILE, "small", many)
        assert await store.find_vectors(FILE, "small", many) == many
        kept = list(many)[:3]
        assert await store.keep_vectors(FILE, "small", kept) == 1_197
        assert set(await store.find_vectors(FILE, "small", many)) == set(kept)
        assert await store.keep_vectors(FILE, "small", kept) == 0

    async def test_forgetting_spares_other_files_and_other_models_of_this_week(
        self, store: Store, clock: FakeClock
    ) -> None:
        await store.put_vectors(FILE, "old", {"a": b"a"})
        clock.advance(6 * DAY)
        await store.put_vectors(FILE, "recent", {"a": b"a"})
        await store.put_vectors("/else", "small", {"a": b"a"})
        await store.put_vectors(FILE, "small", {"a": b"a", "b": b"b"})
        clock.advance(2 * DAY)

        assert await store.keep_vectors(FILE, "small", {"b"}) == 2

        assert await store.find_vectors(FILE, "small", ["a", "b"]) == {"b": b"b"}
        assert await store.find_vectors(FILE, "old", ["a"]) == {}
        assert await store.find_vectors(FILE, "recent", ["a"]) == {"a": b"a"}
        assert await store.find_vectors("/else", "small", ["a"]) == {"a": b"a"}

    async def test_two_processes_put_the_same_vectors_at_once(
        self, store: Store, other: Store
    ) -> None:
        there = {f"{number}": b"v" * 16 for number in range(100)}
        back = dict(reversed(there.items()))
        for _ in range(5):
            await asyncio.gather(
                store.put_vectors(FILE, "small", there), other.put_vectors(FILE, "small", back)
            )
        assert await store.find_vectors(FILE, "small", there) == there

    async def test_a_vector_is_made_of_bytes(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            await store.put_vectors(FILE, "small", {"a": "text"})  # type: ignore[dict-item]
        assert await store.find_vectors(FILE, "small", ["a"]) == {}
