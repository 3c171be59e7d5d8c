"""Sentences for made-up conversations, out of the word lists in `phrases.toml`.

A `Speech` talks about one topic in one language. Its sentences are made once and then drawn, so a
text costs microseconds; what is said once only (tickets, names, rare words) is added to it. Which
conversations there are, and when, is decided in `corpus`.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from itertools import accumulate
from typing import Any

POOL = 1_000
"""Different sentences that an agent has on one topic; people have half as many."""


def load_phrases() -> dict[str, Any]:
    """The word lists."""
    return tomllib.loads((resources.files("clew.testing") / "phrases.toml").read_text("utf-8"))


class Speech:
    """What people, the agent and its tools say about one topic."""

    def __init__(
        self,
        rng: random.Random,
        *,
        topic: str,
        title: Callable[[], str],
        sentence: Callable[[str], str],
        detail: Callable[[], str],
        code: Sequence[str],
        files: Sequence[str],
        space: str = " ",
    ) -> None:
        self.topic = topic
        self.title = title
        self._random = rng.random
        self._asks = [sentence("user") for _ in range(POOL // 2)]
        self._answers = [sentence("assistant") for _ in range(POOL)]
        self._thoughts = [sentence("thoughts") for _ in range(POOL // 4)]
        self._detail = detail
        self._code = code
        self._files = files
        self._space = space

    def ask(self) -> str:
        """What a person writes: one to three sentences."""
        return self._paragraph(self._asks, 1 + self._number(3) * self._number(2))

    def think(self) -> str:
        """What the agent thinks before it speaks or calls a tool."""
        return self._draw(self._thoughts)

    def answer(self) -> str:
        """What the agent says: Markdown with paragraphs, now and then a list or code."""
        text = self._paragraph(self._answers, 3 + self._number(12))
        match self._number(16):
            case 0 | 1:
                items = [self._draw(self._answers) for _ in range(2 + self._number(4))]
                return text + "\n\n- " + "\n- ".join(items)
            case 2 | 3:
                block = "\n".join(self._draw(self._code) for _ in range(2 + self._number(6)))
                return f"{text}\n\n```python\n{block}\n```\n\n{self._draw(self._answers)}"
            case 4:
                return f"## {self.title()}\n\n{text}\n\n{self._paragraph(self._answers, 4)}"
            case _:
                return text

    def output(self) -> str:
        """What a tool prints: found lines, a text, or a test run."""
        count = 6 + self._number(34)
        match self._number(8):
            case 0 | 1 | 2 | 3:
                lines = (self._draw(self._code) for _ in range(count))
                return "\n".join(f"{self.file()}:{self._number(900)}: {line}" for line in lines)
            case 4 | 5 | 6:
                return self._paragraph(self._answers, count)
            case _:
                return f"{count * 7} passed, {count % 3} failed in {self._random() * 9:.2f}s"

    def file(self) -> str:
        """A file of the project."""
        return self._draw(self._files)

    def _paragraph(self, pool: Sequence[str], count: int) -> str:
        sentences = [self._draw(pool) for _ in range(count)]
        if self._random() < 0.12:
            sentences.append(self._detail())
        return self._space.join(sentences)

    def _draw(self, pool: Sequence[str]) -> str:
        return pool[int(self._random() * len(pool))]

    def _number(self, below: int) -> int:
        return int(self._random() * below)


def english(rng: random.Random, phrases: dict[str, Any], topic: dict[str, Any]) -> Speech:
    """A speech about one of the English topics."""
    things, acts = _common(rng, topic["things"]), _common(rng, topic["acts"])
    adjectives, reasons = _common(rng, phrases["adjectives"]), _common(rng, phrases["reasons"])

    def fill(template: str) -> str:
        return template.format(
            thing=things(),
            other=things(),
            name=things()[4:].replace(" ", "_"),
            other_name=things()[4:].replace(" ", "_"),
            act=acts(),
            act2=acts(),
            adjective=adjectives(),
            reason=reasons(),
            file=rng.choice(topic["files"]),
            number=rng.randrange(2, 100),
            number2=rng.randrange(100, 1000),
        )

    def sentence(kind: str) -> str:
        text = fill(rng.choice(phrases[kind]))
        return text[:1].upper() + text[1:]

    def detail() -> str:
        return str(rng.choice(phrases["details"])).format(
            ticket=f"{topic['name'][:3].upper()}-{rng.randrange(100_000)}",
            person=rng.choice(phrases["people"]),
            commit=f"{rng.getrandbits(28):07x}",
            number=rng.randrange(10_000),
            rare=rng.choice(phrases["rare"]),
        )

    return Speech(
        rng,
        topic=topic["name"],
        title=lambda: f"{acts().capitalize()} {things()}",
        sentence=sentence,
        detail=detail,
        code=[fill(rng.choice(phrases["code"])) for _ in range(POOL // 4)],
        files=topic["files"],
    )


def foreign(rng: random.Random, words: dict[str, Any]) -> Speech:
    """A speech in another language than English."""
    space: str = words["space"]
    thing = _common(rng, words["things"])
    parts = [_common(rng, words["beginnings"]), thing, _common(rng, words["predicates"])]
    ending = _common(rng, words["endings"])

    def sentence(_kind: str) -> str:
        return space.join(part() for part in parts) + ending()

    return Speech(
        rng,
        topic=words["name"],
        title=lambda: str(rng.choice(words["titles"])),
        sentence=sentence,
        detail=lambda: f"({thing()} #{rng.randrange(100_000)})",
        code=[f'print("{thing()}", {number})' for number in range(POOL // 4)],
        files=(f"{words['name']}/notes.md", f"{words['name']}/plan.txt"),
        space=space,
    )


def _common(rng: random.Random, words: Sequence[str]) -> Callable[[], str]:
    """Draw from a list whose first entries are the common ones: the n-th is said 1/n as often."""
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return lambda: rng.choices(words, cum_weights=weights)[0]
