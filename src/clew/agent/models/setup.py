"""What the catalogue is built from: plain values that the configuration was turned into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

Kind = Literal["openai", "anthropic", "google", "python"]

LABELS: Final[dict[Kind, str]] = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "google": "Google",
    "python": "A Python factory",
}
KINDS: Final[dict[str, Kind]] = {"anthropic": "anthropic", "google": "google", "openai": "openai"}
"""What a provider is that is named so, if nobody says otherwise."""

KEY_VARIABLES: Final[dict[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GOOGLE_API_KEY",
}
"""The providers that are there without configuration, in the order in which a key of theirs makes
one of their models the default."""

RECOMMENDED: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    "openai": ("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"),
    "google": ("gemini-3.8-flash", "gemini-4-argon", "gemini-3.5-flash-lite"),
}
"""A few of each, the default first. Every other model of theirs can be named too."""


class ProviderSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A place where models are. `api_key` is asked when a model is used; it may raise."""

    name: str
    kind: Kind
    base_url: str | None = None
    api_key: Callable[[], str] | None = None
    key_source: str | None = None
    models: tuple[str, ...] = ()
    factory: str | None = None
    context_window: int | None = None


class ModelsSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the catalogue is told.

    `model_source` says who chose the model. Weights are looked for in all of `weights_dirs` and
    fetched into the first. `aliases` are other names, each of a `provider/model`.
    """

    providers: tuple[ProviderSetup, ...]
    weights_dirs: tuple[Path, ...]
    cache_dir: Path
    model: str | None = None
    model_source: str = "the configuration"
    thinking: str | None = None
    service_tier: str | None = None
    context_window: int | None = None
    aliases: dict[str, str] = {}
