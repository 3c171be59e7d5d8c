"""The providers of models: how each is set up, what is wrong with a setup, and opening a model.

To add a provider, add its kind here. Importing this module imports no provider's library.

Retries are done by the agent's loop, where they can be seen and stopped, so the clients have none.
Keys and addresses are given outright: nothing is picked up from the environment behind the
configuration. OpenAI itself is asked through its Responses interface, which returns its reasoning
encrypted, to be sent again with the next request (Chat Completions drops it between turns). Servers
that only speak like OpenAI get Chat Completions, which is what they have in common.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from clew.errors import InvalidConfig, ModelUnavailable

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

Kind = Literal["openai", "anthropic", "google", "python"]

LABELS: Final[dict[Kind, str]] = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "google": "Google",
    "python": "A Python factory",
}
KINDS: Final[dict[str, Kind]] = {"anthropic": "anthropic", "google": "google", "openai": "openai"}
"""The kind of a provider with this name, unless the configuration says another."""

KEY_VARIABLES: Final[dict[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GOOGLE_API_KEY",
}
"""The providers that exist without configuration, in the order in which a key makes one of their
models the default.
"""

RECOMMENDED: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    "openai": ("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"),
    "google": ("gemini-3.8-flash", "gemini-4-argon", "gemini-3.5-flash-lite"),
}
"""A few models of each, the default first. Every other model can be named too."""

READ_TIMEOUT: Final = 3600
"""Seconds without a byte. `models.stall_timeout` ends a silence before."""
CONNECT_TIMEOUT: Final = 10
OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"


class ProviderSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of models. `api_key` is called when a model is used; it may raise."""

    name: str
    kind: Kind
    base_url: str | None = None
    api_key: Callable[[], str] | None = None
    key_source: str | None = None
    models: tuple[str, ...] = ()
    factory: str | None = None
    context_window: int | None = None


class ModelsSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the catalogue is built from.

    `model_source` says where the default model was chosen. Weights are looked for in all of
    `weights_dirs` and fetched into the first. `aliases` are other names, each of a
    `provider/model`.
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
    servers: tuple[str, ...] = ()


def find_problem(provider: ProviderSetup) -> str | None:
    """Why a provider's models can't be used, and what to do; None if nothing is known to be wrong.

    A wrong key or a server that is down shows only when it is asked.
    """
    if provider.kind == "python":
        if provider.factory is None:
            return f'providers.{provider.name}.factory is not set: "module:function".'
    elif provider.base_url is not None and provider.base_url.startswith("/"):
        return f"providers.{provider.name}.base_url is a path, not an address."
    if provider.api_key is None:
        return _missing_key(provider)
    try:
        provider.api_key()
    except (InvalidConfig, OSError) as error:
        return str(error)
    return None


def _missing_key(provider: ProviderSetup) -> str | None:
    """What to say if the key is missing; None for a private server, which may need none."""
    name, variable = provider.name, KEY_VARIABLES.get(provider.name)
    if provider.kind == "python" or (provider.kind == "openai" and provider.base_url):
        return None
    if provider.kind == "openai" and variable is None:
        return f"Set its address: `clew config set providers.{name}.base_url http://…/v1`."
    needs = f"{LABELS[provider.kind]} needs a key"
    config = f"`clew config set providers.{name}.api_key env:NAME`"
    return f"{needs}: set {variable}. Or {config}." if variable else f"{needs}: {config}."


class Opened(NamedTuple):
    """A model, and the connections that it uses; close them with it."""

    model: Model[Any]
    client: httpx2.AsyncClient | None = None


def open_provider_model(provider: ProviderSetup, model_id: str) -> Opened:
    """The model, ready to be asked. Blocks while libraries are imported."""
    if provider.kind == "python":
        return Opened(_open_python(provider, model_id))
    client = _client()
    match provider.kind:
        case "anthropic":
            return Opened(_open_anthropic(provider, model_id, client), client)
        case "google":
            return Opened(_open_google(provider, model_id, client), client)
    if is_direct(provider):
        return Opened(_open_openai(provider, model_id, client), client)
    return Opened(_open_compatible(provider, model_id, client), client)


def is_direct(provider: ProviderSetup) -> bool:
    """Whether it is the provider's own address, so that everything it offers can be used."""
    return provider.kind != "python" and provider.base_url is None


def _client() -> httpx2.AsyncClient:
    import httpx2  # noqa: PLC0415  # comes with pydantic-ai
    from pydantic_ai.models import create_async_httpx2_client  # noqa: PLC0415  # a second to import

    timeout = httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
    return create_async_httpx2_client(timeout=timeout)


def _key(provider: ProviderSetup) -> str:
    # Servers that need no key refuse an empty one.
    return provider.api_key() if provider.api_key is not None else "no-key"


def _open_anthropic(provider: ProviderSetup, model_id: str, http: httpx2.AsyncClient) -> Model[Any]:
    from anthropic import AsyncAnthropic  # noqa: PLC0415  # over a second to import
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415  # over a second to import
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415  # over a second to import

    client = AsyncAnthropic(
        api_key=_key(provider),
        base_url=provider.base_url or ANTHROPIC_URL,
        max_retries=0,
        http_client=http,
    )
    return AnthropicModel(model_id, provider=AnthropicProvider(anthropic_client=client))


def _open_openai(provider: ProviderSetup, model_id: str, http: httpx2.AsyncClient) -> Model[Any]:
    from openai import AsyncOpenAI  # noqa: PLC0415  # most of a second to import
    from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415  # most of a second to import
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415  # most of a second to import

    client = AsyncOpenAI(
        api_key=_key(provider), base_url=OPENAI_URL, max_retries=0, http_client=http
    )
    return OpenAIResponsesModel(model_id, provider=OpenAIProvider(openai_client=client))


def _open_compatible(
    provider: ProviderSetup, model_id: str, http: httpx2.AsyncClient
) -> Model[Any]:
    from openai import AsyncOpenAI  # noqa: PLC0415  # most of a second to import
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415  # most of a second to import
    from pydantic_ai.providers.openai_compatible import (  # noqa: PLC0415  # most of a second to import
        OpenAICompatibleProvider,
    )

    client = AsyncOpenAI(
        api_key=_key(provider), base_url=provider.base_url, max_retries=0, http_client=http
    )
    return OpenAIChatModel(
        model_id, provider=OpenAICompatibleProvider(provider.name, openai_client=client)
    )


def _open_google(provider: ProviderSetup, model_id: str, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415  # seconds to import
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415  # seconds to import

    return GoogleModel(
        model_id,
        provider=GoogleProvider(
            api_key=_key(provider), base_url=provider.base_url, http_client=http
        ),
    )


def _open_python(provider: ProviderSetup, model_id: str) -> Model[Any]:
    """Open a model with a function of the person's own code."""
    module, _, name = (provider.factory or "").partition(":")
    where = f"providers.{provider.name}.factory"
    try:
        factory = importlib.import_module(module)
        for part in name.split("."):
            factory = getattr(factory, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelUnavailable(
            f"{where} names {provider.factory}, which can't be imported: {error}."
        ) from error
    options: dict[str, Any] = {}
    if provider.base_url is not None:
        options["base_url"] = provider.base_url
    if provider.api_key is not None:
        options["api_key"] = provider.api_key()
    from pydantic_ai.models import Model  # noqa: PLC0415  # a second to import

    made = factory(model_id, **options)  # type: ignore[operator]  # fails if it is not a function
    if not isinstance(made, Model):
        raise ModelUnavailable(
            f"{where}: {provider.factory} gave a {type(made).__name__}, not a pydantic-ai Model."
        )
    return made
