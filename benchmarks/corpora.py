"""The stores that benchmarks read: made once, kept in a cache, used again while they fit."""

from __future__ import annotations

import hashlib
import shutil
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.floor import copy_store
from clew.store import open_sqlite
from clew.store.sqlite.schema import shipped_migrations
from clew.store.sqlite.store import SqliteStore
from clew.testing.corpus import Blend, Corpus, load

SEED = 7
LONG = 10_000
"""Messages of the one long session that every corpus has."""


class Size(NamedTuple):
    """How big a corpus is, without its long session."""

    blend: Blend
    sessions: int
    messages: int


SIZES = {
    "thousand": Size("english", 1_000, 20_000),
    "million": Size("english", 50_000, 1_000_000),
    "mixed": Size("mixed", 5_000, 100_000),
    "cjk": Size("cjk", 5_000, 100_000),
}


class Kept(msgspec.Struct, frozen=True):
    """A corpus in the cache. `long_id` is its session of 10,000 messages."""

    path: Path
    long_id: str


class Setting:
    """Where a run keeps its files, and whether it is a quick one."""

    def __init__(self, *, cache: Path, scratch: Path, quick: bool) -> None:
        self.quick = quick
        self._cache = cache
        self._scratch = scratch
        self._folders = 0

    def folder(self) -> Path:
        """An empty folder."""
        self._folders += 1
        folder = self._scratch / str(self._folders)
        folder.mkdir(parents=True)
        return folder

    async def corpus(self, name: str) -> Kept:
        """A corpus to read. Who writes takes `copy` of it."""
        folder = self._cache / f"{name}-{_fingerprint(SIZES[name])}"
        kept = Kept(folder / "sessions.db", "10000000-0000-4000-8000-000000000000")
        if not folder.exists():
            unfinished = folder.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            await _build(name, unfinished / "sessions.db", kept.long_id)
            unfinished.rename(folder)
        return kept

    async def copy(self, name: str) -> Kept:
        """A corpus to write to."""
        kept = await self.corpus(name)
        return Kept(copy_store(kept.path, self.folder() / "sessions.db"), kept.long_id)


async def open_at(path: Path, stack: AsyncExitStack, *, durability: str = "full") -> SqliteStore:
    """Open a store for as long as the stack lives."""
    store = await open_sqlite(f"sqlite://{path}", durability=durability)  # type: ignore[arg-type]
    return await stack.enter_async_context(store)


async def _build(name: str, path: Path, long_id: str) -> None:
    size = SIZES[name]
    began = time.monotonic()
    print(f"making the corpus {name!r}: {size.messages:,} messages …", file=sys.stderr, flush=True)
    corpus = Corpus(now=time.time_ns() // 1_000_000, seed=SEED, blend=size.blend)
    long = corpus.conversation(LONG)
    long = msgspec.structs.replace(
        long, new=msgspec.structs.replace(long.new, id=long_id), archived=False
    )
    async with AsyncExitStack() as stack:
        store = await open_at(path, stack, durability="normal")
        await load(store, corpus.conversations(size.sessions, size.messages))
        await load(store, iter([long]))
    print(f"  made in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _fingerprint(size: Size) -> str:
    """Changes with the schema and with the stories, of which a few stand for all."""
    stories = list(Corpus(now=0, seed=SEED, blend=size.blend).conversations(20))
    digest = hashlib.sha256(repr((SEED, LONG, size)).encode() + msgspec.json.encode(stories))
    for step in shipped_migrations():
        digest.update(step.sql.encode())
    return digest.hexdigest()[:12]
