"""Searching the memory by words and meaning: real files, real stores; the model is a fake."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from benchmarks.memory import ENGLISH, measure, read_facts, read_questions
from clew.agent.models.embeddings import LocalEmbedder
from clew.core.chunks import PROMPT_CHARACTERS, PROMPT_CHUNKS
from clew.core.memory import MEMORY_BYTES
from clew.core.models import Personality
from clew.errors import ClewError, ModelUnavailable
from clew.memory import MarkdownMemory
from clew.memory.recall import BATCH, PAUSE_S, FileRecall
from clew.ports import Store
from clew.store import open_store
from tests.patience import PATIENCE
from tests.sizes import pick
from tests.stores import lay_store
from tests.weights import have_embeddings

TOPICS = (("tea", "coffee", "drink"), ("boat", "sail", "sea"), ("key", "door", "lock"))


class Model:
    """An embedder that knows three topics. It may fail, stall, or change its mind."""

    model = "topics"

    def __init__(self, extra: int = 0) -> None:
        self.asked: list[str] = []
        self.failing: str | None = None
        self.stall: asyncio.Event | None = None
        self.extra = extra

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        if self.stall is not None:
            await self.stall.wait()
        if self.failing is not None:
            raise ModelUnavailable(self.failing)
        self.asked += texts
        return [self._vector(each.lower()) for each in texts]

    def _vector(self, text: str) -> bytes:
        numbers = [1.0 if any(word in text for word in topic) else 0.01 for topic in TOPICS]
        numbers += [0.0] * self.extra
        length = sum(each * each for each in numbers) ** 0.5
        return struct.pack(f"<{len(numbers)}f", *(each / length for each in numbers))

    async def close(self) -> None:
        """Nothing is held."""


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    lay_store(tmp_path / "sessions.db")
    async with await open_store(f"sqlite://{tmp_path}/sessions.db") as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def recall(home: Path, store: Store, model: Model, clock: Clock) -> AsyncIterator[FileRecall]:
    made = make(home, store, model, clock)
    yield made
    await made.close()


def make(home: Path, store: Store, model: Model, clock: Clock | None = None) -> FileRecall:
    return FileRecall(
        MarkdownMemory(home),
        vectors=store,
        embedder=model,
        refresh_s=PATIENCE,
        clock=clock or Clock(),
    )


async def found(recall: FileRecall, question: str, **whose: str) -> list[str]:
    recollection = await recall.search(question, **whose)  # type: ignore[arg-type]
    assert recollection.notice is None
    return [each.chunk.text for each in recollection.hits]


FACTS = "# Taste\n- Ada takes milk in her tea\n\n# Home\n- Mrs. H. has a spare one\n- KRW 42B\n"


# --- what is found ----------------------------------------------------------------------------


async def test_meaning_finds_what_words_do_not_and_words_what_meaning_does_not(
    recall: FileRecall, home: Path
) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    assert (await found(recall, "something hot to drink?"))[0] == "Ada takes milk in her tea"
    assert (await found(recall, "whose plate is krw 42b"))[0] == "KRW 42B"
    by_words = FileRecall(MarkdownMemory(home))
    assert await found(by_words, "something hot to drink?") == []
    assert (await found(by_words, "plate krw 42b"))[0] == "KRW 42B"


async def test_a_hit_says_where_it_is_and_why_it_was_found(recall: FileRecall, home: Path) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    recollection = await recall.search("coffee in the tea?")
    best = recollection.hits[0]
    assert (best.chunk.place, best.chunk.file) == ("MEMORY.md › Taste", "memory")
    assert (best.keyword_rank, best.vector_rank, best.given) == (1, 1, True)
    assert best.similarity == pytest.approx(1, abs=0.01)
    assert recollection.model == "topics"
    assert recollection.prompt is not None
    assert "[MEMORY.md › Taste]\nAda takes milk in her tea" in recollection.prompt


async def test_a_prompt_gets_at_most_eight_chunks_and_two_thousand_characters(
    recall: FileRecall, home: Path
) -> None:
    (home / "MEMORY.md").write_text("".join(f"- tea number {n} {'x' * 90}\n" for n in range(99)))
    few = await recall.search("tea", limit=3)
    many = await recall.search("tea", limit=60)
    assert len(few.hits) == 3
    given = [each.given for each in many.hits]
    assert given == [True] * PROMPT_CHUNKS + [False] * (60 - PROMPT_CHUNKS)
    assert few.prompt == many.prompt
    (home / "MEMORY.md").write_text("".join(f"tea {n} {'y ' * 240}\n\n" for n in range(20)))
    long = await recall.search("tea", limit=60)
    assert long.prompt is not None
    assert 1_000 < len(long.prompt) <= PROMPT_CHARACTERS
    assert sum(each.given for each in long.hits) == 3


async def test_both_files_and_what_overflowed_are_searched(recall: FileRecall, home: Path) -> None:
    memory = MarkdownMemory(home)
    (home / "USER.md").write_text("- I sail on Sundays\n")
    filler = "".join(f"- line {number} {'z' * 80}\n" for number in range(6_000))
    await memory.write("memory", f"- the first boat was red\n{filler}", by="agent")
    assert "first boat" not in (await memory.read("memory")).text
    places = {each.chunk.place for each in (await recall.search("boat or sea?")).hits}
    assert {"USER.md", "memory-archive.md"} <= places


async def test_without_a_question_the_newest_lines_are_given(
    recall: FileRecall, home: Path
) -> None:
    (home / "MEMORY.md").write_text("- old\n- new\n")
    assert await found(recall, "  ") == ["new", "old"]
    (home / "MEMORY.md").unlink()
    assert await found(recall, "tea") == []
    assert (await recall.search("tea")).prompt == ""


# --- what is embedded -------------------------------------------------------------------------


async def test_only_what_changed_is_embedded_anew_also_after_an_edit_by_hand(
    recall: FileRecall, home: Path, model: Model
) -> None:
    memory = MarkdownMemory(home)
    await memory.write("memory", FACTS, by="agent")
    await recall.search("tea")
    assert len(model.asked) == 4
    model.asked.clear()
    await recall.search("sea")
    assert model.asked == ["sea"]
    model.asked.clear()
    text = FACTS.replace("KRW 42B", "KRW 43C") + "- the boat leaks\n"
    (home / "MEMORY.md").write_text(text)
    assert (await found(recall, "sea"))[0] == "the boat leaks"
    assert model.asked == ["Home: the boat leaks", "Home: KRW 43C", "sea"]


async def test_vectors_survive_the_process_and_those_of_removed_lines_are_forgotten(
    home: Path, store: Store, model: Model
) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    first = make(home, store, model)
    listed = await first.list_chunks()
    assert (listed.embedded, listed.pending) == ((True,) * 3, False)
    await first.close()
    hashes = [each.hash for each in listed.chunks]
    key = str(home / "MEMORY.md")
    assert len(await store.find_vectors(key, "topics", hashes)) == 3
    again = Model()
    second = make(home, store, again)
    await second.search("tea")
    assert again.asked == ["tea"]
    (home / "MEMORY.md").write_text("- KRW 42B\n")
    await second.search("tea")
    left = await store.find_vectors(key, "topics", hashes)
    assert left == {}
    await second.close()


async def test_a_write_counts_from_the_next_search_on(recall: FileRecall, home: Path) -> None:
    memory = MarkdownMemory(home)
    assert await found(recall, "tea") == []
    await memory.write("memory", "- oolong is her tea\n", by="agent")
    assert await found(recall, "tea") == ["oolong is her tea"]


async def test_a_model_of_the_same_name_with_other_vectors_embeds_all_anew(
    home: Path, store: Store
) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    old = make(home, store, Model())
    await old.search("tea")
    await old.close()
    changed = Model(extra=2)
    recall = make(home, store, changed)
    await recall.search("tea")
    assert (await found(recall, "hot drink"))[0] == "Ada takes milk in her tea"
    assert len(changed.asked) == 5
    await recall.close()


async def test_two_processes_embed_at_once_and_both_find(
    home: Path, store: Store, tmp_path: Path
) -> None:
    (home / "MEMORY.md").write_text("".join(f"- tea {number}\n" for number in range(300)))
    async with await open_store(f"sqlite://{tmp_path}/sessions.db") as other:
        one, two = make(home, store, Model()), make(home, other, Model())
        results = await asyncio.gather(one.search("tea 7"), two.search("tea 7"))
        assert [each.notice for each in results] == [None, None]
        for each in results:
            assert "tea 7" in [hit.chunk.text for hit in each.hits]
        hashes = [each.hash for each in (await one.list_chunks()).chunks]
        key = str(home / "MEMORY.md")
        stored = await other.find_vectors(key, "topics", hashes)
        assert len(stored) == 300
        await one.close()
        await two.close()


async def test_searches_side_by_side_embed_a_file_once(
    recall: FileRecall, home: Path, model: Model
) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    await asyncio.gather(*(recall.search("tea") for _ in range(8)))
    assert sum("milk" in each for each in model.asked) == 1


# --- when the model fails ---------------------------------------------------------------------


async def test_a_model_that_fails_is_told_and_words_are_searched(
    recall: FileRecall, home: Path, model: Model, clock: Clock
) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    model.failing = "The server is down."
    recollection = await recall.search("tea")
    assert recollection.notice == "The memory was searched by words only: The server is down."
    assert [each.chunk.text for each in recollection.hits] == ["Ada takes milk in her tea"]
    assert "milk" in (recollection.prompt or "")
    model.failing = None
    assert (await recall.search("tea")).notice is not None, "it is left alone for a while"
    assert model.asked == []
    clock.now += PAUSE_S
    assert (await found(recall, "hot drink"))[0] == "Ada takes milk in her tea"


async def test_a_model_that_stalls_does_not_hold_up_a_search(
    home: Path, store: Store, model: Model
) -> None:
    (home / "MEMORY.md").write_text(FACTS)
    model.stall = asyncio.Event()
    recall = FileRecall(
        MarkdownMemory(home), vectors=store, embedder=model, refresh_s=0.05, question_s=0.05
    )
    recollection = await recall.search("tea")
    assert "did not answer" in (recollection.notice or "")
    assert recollection.hits[0].chunk.text == "Ada takes milk in her tea"
    await recall.close()


async def test_a_long_file_is_embedded_in_the_background_and_found_by_words_meanwhile(
    home: Path, store: Store, model: Model
) -> None:
    (home / "MEMORY.md").write_text("- old boat\n" + "- filler\n" * 40 + "- new boat\n")
    recall = FileRecall(MarkdownMemory(home), vectors=store, embedder=model, refresh_s=0)
    early = await recall.search("boat")
    assert early.hits[0].chunk.text == "new boat"
    assert "still being read by the embedding model" in (early.notice or "")
    async with asyncio.timeout(PATIENCE):
        while (await recall.search("boat")).notice is not None:  # noqa: ASYNC110  # the file is read each time
            await asyncio.sleep(0)
    await recall.close()


async def test_closing_in_the_middle_keeps_the_batch_that_is_being_embedded(
    home: Path, store: Store, model: Model
) -> None:
    """So a command that runs for a second gets on with a long file each time."""
    (home / "MEMORY.md").write_text("".join(f"- tea {number}\n" for number in range(300)))
    model.stall = asyncio.Event()
    recall = FileRecall(
        MarkdownMemory(home), vectors=store, embedder=model, refresh_s=0.05, question_s=0.05
    )
    assert (await recall.list_chunks()).pending
    asyncio.get_running_loop().call_later(0.05, model.stall.set)
    await recall.close()
    again = FileRecall(MarkdownMemory(home))
    hashes = [each.hash for each in (await again.list_chunks()).chunks]
    kept = await store.find_vectors(str(home / "MEMORY.md"), "topics", hashes)
    assert set(kept) == set(hashes[-BATCH:])


async def test_a_file_that_is_no_text_is_told_and_the_other_one_is_searched(
    recall: FileRecall, home: Path
) -> None:
    (home / "USER.md").write_bytes(b"\xff\xfe tea")
    (home / "MEMORY.md").write_text(FACTS)
    recollection = await recall.search("tea")
    assert "is not UTF-8 text" in (recollection.notice or "")
    assert recollection.hits[0].chunk.text == "Ada takes milk in her tea"
    with pytest.raises(ClewError, match="not UTF-8"):
        await recall.list_chunks()


@pytest.mark.parametrize(
    "text",
    ["x" * 100_000, "tea " * 25_000, "- tea\n" * (MEMORY_BYTES // 6), "# tea\n" * 80_000, "\0\n"],
    ids=["one line", "one line of words", "items", "headings", "a control character"],
)
async def test_the_worst_files_are_searched(recall: FileRecall, home: Path, text: str) -> None:
    (home / "MEMORY.md").write_text(text)
    recollection = await recall.search("tea")
    assert len(recollection.prompt or "") <= PROMPT_CHARACTERS


async def test_a_file_that_changes_all_the_time_is_searched_as_it_was(
    recall: FileRecall, home: Path
) -> None:
    async def change() -> None:
        for number in range(30):
            draft = home / "draft"
            draft.write_text("".join(f"- tea {number} {line}\n" for line in range(50)))
            draft.replace(home / "MEMORY.md")
            await asyncio.sleep(0)

    (home / "MEMORY.md").write_text("- tea\n")
    changing = asyncio.create_task(change())
    while not changing.done():
        texts = [each.chunk.text for each in (await recall.search("tea")).hits]
        assert len({each.split()[1:2][0] if " " in each else "" for each in texts}) == 1
    await changing


# --- whose memory -----------------------------------------------------------------------------


async def test_a_guest_finds_what_is_shared_and_what_is_theirs_only(
    recall: FileRecall, home: Path
) -> None:
    memory = MarkdownMemory(home)
    await memory.write("memory", "- shared tea\n", by="test")
    await memory.write("user", "- the owner's tea\n", by="test")
    await memory.write("user", "- the guest's tea\n", by="test", person="telegram:7")
    (home / "memory-archive.md").write_text("- archived tea\n")
    mine = set(await found(recall, "tea"))
    theirs = set(await found(recall, "tea", person="telegram:7"))
    assert mine == {"shared tea", "the owner's tea", "archived tea"}
    assert theirs == {"shared tea", "the guest's tea"}
    assert set(await found(recall, "tea", person="telegram:8")) == {"shared tea"}


async def test_a_personality_with_files_of_its_own_finds_only_these(
    recall: FileRecall, home: Path
) -> None:
    coach = Personality(id="coach", name="Coach", memory_scope="per-personality")
    memory = MarkdownMemory(home)
    await memory.write("memory", "- shared tea\n", by="test")
    await memory.write("memory", "- the coach's tea\n", coach, by="test")
    texts = [each.chunk.text for each in (await recall.search("tea", coach)).hits]
    assert texts == ["the coach's tea"]


# --- the real model ---------------------------------------------------------------------------


async def test_the_right_fact_is_given_for_ninety_of_a_hundred_questions() -> None:
    """The corpus was written before the search was; the whole table is in the guide."""
    sections = pick(4, None)
    ways, _, _ = await measure(LocalEmbedder([have_embeddings().parent]), sections)
    facts = read_facts(sections)
    asked = [each for each in read_questions() if each.kind in ENGLISH and each.fact in facts]
    _, cut, words, vector = (sum(way.right[kind] for kind in ENGLISH) for way in ways)
    assert len(asked) == pick(25, 100)
    assert vector >= 0.9 * len(asked)
    assert vector > max(words, cut)
    assert all(way.characters <= PROMPT_CHARACTERS for way in ways[1:])
    assert not [each for each in ways[-1].missed if each.kind in {"name", "number"}]
