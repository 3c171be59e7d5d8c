"""Vector memory against whole files and words alone: is the right fact among what a turn gets?

500 English facts in one file, 100 questions (60 paraphrases, 20 names, 20 numbers), 20 in German.
The corpus was written before anything was tuned, and nothing was tuned with it.
`python -m benchmarks.memory` prints the table of the guide.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from clew.agent.models.embeddings import LocalEmbedder
from clew.agent.models.weights import EMBEDDINGS, fetch_weights
from clew.agent.system_prompt import MAX_MEMORY, keep_tail
from clew.config import shared_cache_dir
from clew.core.chunks import PROMPT_CHARACTERS, PROMPT_CHUNKS, write_prompt
from clew.memory import MarkdownMemory
from clew.memory.recall import FileRecall
from clew.ports import Embedder
from clew.store import open_store

CORPUS: Final = Path(__file__).parent.parent / "tests" / "memory" / "corpus"
ENGLISH: Final = ("paraphrase", "name", "number")
KINDS: Final = (*ENGLISH, "german")


class Question(NamedTuple):
    """A question, and a text that only the right fact has."""

    kind: str
    text: str
    fact: str


class Way(NamedTuple):
    """A way to choose, which questions it answered, and the characters that a turn got at most."""

    name: str
    right: Counter[str]
    characters: int
    missed: tuple[Question, ...]


def read_questions() -> list[Question]:
    """The questions of the corpus."""
    lines = (CORPUS / "questions.tsv").read_text(encoding="utf-8").splitlines()
    return [Question(*line.split("\t")) for line in lines]


def read_facts(sections: int | None = None) -> str:
    """The facts of the corpus, or of its first sections."""
    text = (CORPUS / "facts.md").read_text(encoding="utf-8")
    return text if sections is None else "\n# ".join(text.split("\n# ")[:sections])


async def measure(
    embedder: Embedder | None = None, sections: int | None = None
) -> tuple[list[Way], int, float]:
    """The ways, how many questions there were, and milliseconds for one.

    With `sections`, only these and what is asked about them.
    """
    facts = read_facts(sections)
    questions = [each for each in read_questions() if each.fact in facts]
    if embedder is None:
        weights = fetch_weights(shared_cache_dir() / "models", weights=EMBEDDINGS)
        embedder = LocalEmbedder([weights.parent])
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "MEMORY.md").write_text(facts, encoding="utf-8")
        async with await open_store(f"sqlite://{home}/sessions.db") as store:
            by_words = FileRecall(MarkdownMemory(home))
            both = FileRecall(MarkdownMemory(home), vectors=store, embedder=embedder, refresh_s=600)
            await both.search("ready?")
            whole = keep_tail(facts.strip(), MAX_MEMORY)
            cut = keep_tail(facts.strip(), PROMPT_CHARACTERS)
            texts: dict[str, list[str]] = {"vector": [], "words": []}
            began = time.perf_counter()
            for each in questions:
                texts["vector"].append((await both.search(each.text)).prompt or "")
            took = (time.perf_counter() - began) / len(questions)
            for each in questions:
                found = await by_words.search(each.text, limit=100)
                texts["words"].append(write_prompt(hit.chunk for hit in found.hits)[0])
            await both.close()
    ways = [
        _judge("whole file, cut at 20,000", questions, [whole] * len(questions)),
        _judge("whole file, cut at 2,000", questions, [cut] * len(questions)),
        _judge("words alone", questions, texts["words"]),
        _judge("words and meaning (vector)", questions, texts["vector"]),
    ]
    return ways, len(questions), took * 1000


def _judge(name: str, questions: list[Question], texts: list[str]) -> Way:
    right: Counter[str] = Counter()
    missed = []
    for question, text in zip(questions, texts, strict=True):
        if question.fact in text:
            right[question.kind] += 1
        else:
            missed.append(question)
    return Way(name, right, max(map(len, texts)), tuple(missed))


def main() -> None:
    """Print the table, and what the last way missed."""
    ways, count, took = asyncio.run(measure())
    asked = Counter(each.kind for each in read_questions())
    print(f"{count} questions; at most {PROMPT_CHUNKS} chunks, {PROMPT_CHARACTERS} characters\n")
    heads = [f"{kind} ({asked[kind]})" for kind in KINDS]
    print(f"| what a turn gets | characters | {' | '.join(heads)} | English (100) |")
    print(f"|---|---{'|---' * (len(KINDS) + 1)}|")
    for way in ways:
        cells = [str(way.right[kind]) for kind in KINDS]
        total = sum(way.right[kind] for kind in ENGLISH)
        print(f"| {way.name} | {way.characters:,} | {' | '.join(cells)} | {total} |")
    print(f"\n{took:.0f} ms for a question, embedding included.")
    if "--missed" in sys.argv:
        for each in ways[-1].missed:
            print(f"missed ({each.kind}): {each.text} [{each.fact}]")


if __name__ == "__main__":
    main()
