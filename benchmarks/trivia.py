"""How often the embedded model answers easy questions right, by system prompt and sampling.

    python -m benchmarks.trivia                   every combination: 20 questions, 2 seeds
    python -m benchmarks.trivia --test P/S P/S    these combinations: 100 other questions, 5 seeds
    python -m benchmarks.trivia --test --now      only what clew uses

An answer is right if one of the question's accepted words stands in it. The questions are in
`trivia.toml`. Prints one row for each combination, the best first.
"""

from __future__ import annotations

import re
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from clew.agent.models.embedded import SAMPLING
from clew.agent.models.engine import Engine
from clew.agent.models.weights import find_weights
from clew.agent.system_prompt import EMBEDDED_SOUL
from clew.config import load
from clew.wiring.embeddings import weights_dirs

PROMPTS = {
    "clew's": EMBEDDED_SOUL,
    "trained": "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    "trained, clew": "You are a helpful AI assistant named clew",
    "before": "You are clew, a friendly assistant.\nAnswer briefly and truthfully.",
    "trained, brief": (
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face. "
        "Answer briefly and truthfully."
    ),
}
PENALTIES = {"repeat_penalty": 1.1, "dry_multiplier": 0.8}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "clew's": SAMPLING,
    "0.2": {"temperature": 0.2, "top_p": 0.9},
    "0.2, penalties": {"temperature": 0.2, "top_p": 0.9, **PENALTIES},
    "0": {"temperature": 0.0},
    "0, penalties": {"temperature": 0.0, **PENALTIES},
    "0.2, against loops": {"temperature": 0.2, "top_p": 0.9, "dry_multiplier": 0.8},
}
LONGEST = 40


class Score(NamedTuple):
    """How many answers of a combination were right."""

    right: int
    asked: int
    prompt: str
    sampling: str


def ask(engine: Engine, prompt: str, question: str, options: dict[str, Any]) -> str:
    """One answer."""
    pieces: list[str] = []
    ended = threading.Event()

    def hear(chunk: dict[str, Any]) -> None:
        pieces.extend(
            choice.get("delta", {}).get("content") or "" for choice in chunk.get("choices", ())
        )

    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    engine.start(messages, options, on_chunk=hear, on_end=lambda _: ended.set())
    ended.wait()
    return "".join(pieces)


def is_right(answer: str, accepted: list[str]) -> bool:
    """Whether one of the accepted words stands in an answer. A symbol is case-sensitive."""
    for word in accepted:
        flags = 0 if len(word) <= 2 and word.isalpha() else re.IGNORECASE
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", answer, flags):
            return True
    return False


def measure(
    engine: Engine, prompt: str, sampling: str, rows: list[list[str]], seeds: int, *, shows: bool
) -> Score:
    """The score of one combination."""
    right = 0
    for seed in range(1, seeds + 1):
        for question, *accepted in rows:
            options = {**SAMPLINGS[sampling], "max_tokens": LONGEST, "seed": seed}
            answer = ask(engine, PROMPTS[prompt], question, options)
            right += is_right(answer, accepted)
            if shows:
                print(f"{is_right(answer, accepted)!s:5} {question} {answer!r}")
    return Score(right, seeds * len(rows), prompt, sampling)


def main() -> None:
    """Measure and print."""
    rows = tomllib.loads(Path(__file__).with_name("trivia.toml").read_text("utf-8"))
    weights = find_weights(weights_dirs(load()))
    if weights is None:
        sys.exit("`clew model pull` first")
    engine = Engine(weights)
    words = sys.argv[1:]
    chosen = [tuple(word.split("/")) for word in words if "/" in word]
    if "--now" in words:
        chosen = [("clew's", "clew's")]
    combinations = chosen or [(p, s) for p in PROMPTS for s in SAMPLINGS]
    questions, seeds = (rows["test"], 5) if "--test" in words else (rows["tuning"], 2)
    scores = []
    for prompt, sampling in combinations:
        score = measure(engine, prompt, sampling, questions, seeds, shows="--show" in words)
        print(f"{score.right:4} of {score.asked}  {prompt} / {sampling}", flush=True)
        scores.append(score)
    print("\nbest first:")
    for score in sorted(scores, reverse=True):
        print(f"{score.right:4} of {score.asked}  {score.prompt} / {score.sampling}")


if __name__ == "__main__":
    main()
