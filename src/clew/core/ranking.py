"""How a search ranks: bm25, and a little for being recent. Pure numbers."""

from __future__ import annotations

import math

DAY_MS = 86_400_000
HALF_LIFE_DAYS = 30
RECENCY = 0.5

K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6


def with_recency(score: float, at: int, now: int) -> float:
    """A bm25 score, up to half as much again for a message of this moment."""
    days = max(0, now - at) / DAY_MS
    return score * (1 + RECENCY * math.exp2(-days / HALF_LIFE_DAYS))


def idf(documents: int, containing: float) -> float:
    """What a word is worth that this many documents contain; never below a little."""
    return max(LEAST_IDF, math.log((documents - containing + 0.5) / (containing + 0.5)))


def bm25(frequency: float, length: int, average_length: float, weight: float) -> float:
    """One term's share of a document's score."""
    norm = K1 * (1 - B + B * length / max(average_length, 1.0))
    return weight * frequency * (K1 + 1) / (frequency + norm)
