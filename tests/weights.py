"""The weights of both models for tests: fetched once per machine, into the user's own cache."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from clew.agent.models.weights import EMBEDDINGS, fetch_weights
from clew.config import shared_cache_dir


@cache
def have_weights() -> Path:
    """Where the weights are, after fetching them if this machine has none."""
    return fetch_weights(shared_cache_dir() / "models")


@cache
def have_embeddings() -> Path:
    """The same for the embedding model."""
    return fetch_weights(shared_cache_dir() / "models", weights=EMBEDDINGS)
