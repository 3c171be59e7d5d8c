"""The models that can be named here: list them, resolve a name, describe one, open one.

Names are `provider/model`. Nothing heavy is imported until a model is opened: the libraries of the
providers are imported then, in a thread. What a model can do comes from pydantic-ai's profiles and
genai-prices; both take more than a second to import, so the answers are kept in a small file, which
is thrown away when either library is updated. Keys and addresses are in `providers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from clew.agent.models.providers import (
    KEY_VARIABLES,
    RECOMMENDED,
    Kind,
    ModelsSetup,
    Opened,
    ProviderSetup,
    find_problem,
    is_direct,
    open_provider_model,
)
from clew.agent.models.weights import Progress, fetch_weights, find_weights
from clew.core.models import (
    EMBEDDED,
    THINKING,
    LocalServer,
    ModelInfo,
    Thinking,
    clamp_thinking,
    find_alias,
)
from clew.errors import ModelNotFound, ModelUnavailable
from clew.files.durable import make_directory

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from clew.agent.models.engine import Engine

EMBEDDED_WORDS: Final = ("local", "embedded", "smollm2-135m")
ALIASES: Final = {"google-gla": "google", "openai-responses": "openai", "openai-chat": "openai"}
"""pydantic-ai's names of providers, where clew has another."""

TIERS: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("auto", "default", "flex", "priority"),
    "anthropic": ("auto", "default"),
    "google": ("default", "flex", "priority"),
}


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can do, as far as it is known."""

    context_window: int | None = None
    tools: bool = True
    images: bool = True
    thinking: tuple[Thinking, ...] = ("off",)


UNKNOWN: Final = Facts(thinking=THINKING)
"""For a model that a Python factory makes: every setting is passed on to it."""


class Catalogue:
    """`ports.Models`, and opening the models themselves."""

    def __init__(self, setup: ModelsSetup) -> None:
        self._setup = setup
        self._providers = {each.name: each for each in setup.providers}
        self._facts = FactCache(setup.cache_dir / "models.json")
        self._open: dict[str, Opened] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._engine: Engine | None = None
        self._replaced: list[Opened] = []

    def change(self, setup: ModelsSetup) -> None:
        """Use another configuration from now on. Turns that run keep the models that they have."""
        self._setup = setup
        self._providers = {each.name: each for each in setup.providers}
        kept = {EMBEDDED: self._open[EMBEDDED]} if EMBEDDED in self._open else {}
        self._replaced += [each for name, each in self._open.items() if name not in kept]
        self._open = kept

    # --- naming -------------------------------------------------------------------------------

    def list_models(self) -> tuple[ModelInfo, ...]:
        """The embedded model, a few of each provider, and those that were configured."""
        names = [
            f"{provider.name}/{model_id}"
            for provider in self._setup.providers
            for model_id in provider.models or RECOMMENDED.get(provider.name, ())
        ]
        with contextlib.suppress(ModelNotFound):  # get_model says so when it is asked for
            chosen = self.get_model().name
            names += [chosen] if chosen not in (*names, EMBEDDED) else []
        return (self.get_model(EMBEDDED), *map(self.get_model, names))

    def get_model(self, name: str | None = None) -> ModelInfo:
        """A model by what was typed, the default if None. `ModelNotFound` has similar names."""
        if name is None:
            name, _ = self.choose_default()
        alias_of = find_alias(self._setup.aliases, name)
        found = self._resolve((alias_of or name).strip())
        if found is None:
            raise self._unknown(name, alias_of)
        if isinstance(found, str):
            return self._embedded()
        return self._describe(*found)

    def choose_default(self) -> tuple[str, str]:
        """The model that is used when none is named, and why it is that one."""
        if self._setup.model is not None:
            return self._setup.model, self._setup.model_source
        for name in KEY_VARIABLES:
            provider = self._providers.get(name)
            if provider is not None and provider.api_key is not None:
                chosen = (*provider.models, *RECOMMENDED[name])[0]
                return f"{name}/{chosen}", provider.key_source or KEY_VARIABLES[name]
        return EMBEDDED, "no key is set"

    def is_known(self, info: ModelInfo) -> bool:
        """Whether the libraries know the model; a provider may have newer ones."""
        provider = self._providers.get(info.provider)
        if info.embedded or provider is None or provider.kind == "python":
            return True
        model_id = info.name.partition("/")[2]
        if model_id in provider.models or not is_direct(provider):
            return True
        return model_id in list_known(provider.kind)

    def find_similar(self, name: str) -> tuple[str, ...]:
        """Names that are similar to one that was typed."""
        import difflib  # noqa: PLC0415  # only for a suggestion

        known = [EMBEDDED]
        for provider in self._setup.providers:
            ids = {*provider.models, *RECOMMENDED.get(provider.name, ())}
            if provider.kind != "python" and is_direct(provider):
                ids.update(list_known(provider.kind))
            known += [f"{provider.name}/{model_id}" for model_id in sorted(ids)]
        by_id = {each.partition("/")[2]: each for each in reversed(known)}
        near = difflib.get_close_matches(name, [*self._setup.aliases, *known], 3, 0.7)
        near += [by_id[each] for each in difflib.get_close_matches(name, by_id, 3, 0.6)]
        return tuple(dict.fromkeys(near))[:3]

    def _resolve(self, name: str) -> tuple[ProviderSetup, str] | str | None:
        """The provider and the model id; the embedded model is returned by its name."""
        if name.lower() in (EMBEDDED, *EMBEDDED_WORDS) and "local" not in self._providers:
            return EMBEDDED
        if name.lower() in (EMBEDDED, "embedded"):
            return EMBEDDED
        for separator in ("/", ":"):
            prefix, found, model_id = name.partition(separator)
            provider = self._providers.get(ALIASES.get(prefix, prefix))
            if found and model_id and provider is not None:
                return provider, model_id
        return self._resolve_bare(name)

    def _resolve_bare(self, name: str) -> tuple[ProviderSetup, str] | None:
        """A model id without its provider, if only one provider has it."""
        for ids in (
            lambda each: (*each.models, *RECOMMENDED.get(each.name, ())),
            lambda each: list_known(each.kind) if each.name in KEY_VARIABLES else (),
        ):
            found = [each for each in self._setup.providers if name in ids(each)]
            if len(found) == 1:
                return found[0], name
            if len(found) > 1:
                names = " or ".join(f"{each.name}/{name}" for each in found)
                raise ModelNotFound(f'"{name}" could be {names}. Say which.')
        return None

    def _unknown(self, name: str, alias_of: str | None = None) -> ModelNotFound:
        near = self.find_similar(alias_of or name)
        advice = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else f"Say provider/model; the providers are {', '.join(self._providers)}, "
            "and `local` is the embedded model."
        )
        what = f'There is no model "{alias_of or name}"'
        if alias_of is not None:
            what += f', which models.aliases calls "{name}"'
        return ModelNotFound(f"{what}. {advice} `clew model list` shows some.")

    # --- describing ---------------------------------------------------------------------------

    def _describe(self, provider: ProviderSetup, model_id: str) -> ModelInfo:
        direct = is_direct(provider)
        facts = (
            UNKNOWN
            if provider.kind == "python"
            else self._facts.get_facts(provider.kind, model_id, direct=direct)
        )
        window = self._setup.context_window or provider.context_window or facts.context_window
        return ModelInfo(
            name=f"{provider.name}/{model_id}",
            provider=provider.name,
            context_window=window,
            tools=facts.tools,
            images=facts.images,
            thinking=facts.thinking,
            tiers=TIERS.get(provider.kind, ()) if direct else (),
            problem=find_problem(provider),
        )

    def _embedded(self) -> ModelInfo:
        from clew.agent.models.engine import CONTEXT, INSTALL  # noqa: PLC0415  # only for this one

        here = importlib.util.find_spec("xllamacpp") is not None
        return ModelInfo(
            name=EMBEDDED,
            provider="local",
            context_window=CONTEXT,
            embedded=True,
            tools=False,
            problem=None if here else INSTALL,
        )

    async def find_servers(self) -> tuple[LocalServer, ...]:
        """The servers of models that answer on this machine; nothing of them is used."""
        from clew.agent.models.local_servers import find_servers  # noqa: PLC0415  # only at a set-up

        return await find_servers(self._setup.servers)

    # --- the embedded model's weights ---------------------------------------------------------

    def find_weights(self) -> Path | None:
        """Where the embedded model's weights are, None if they have to be fetched first."""
        return find_weights(self._setup.weights_dirs)

    def fetch_weights(self, progress: Progress = lambda _done, _total: None) -> Path:
        """Fetch the weights if they are not here. Blocks; raises `ModelUnavailable`."""
        found = self.find_weights()
        return found or fetch_weights(self._setup.weights_dirs[0], progress)

    # --- using --------------------------------------------------------------------------------

    async def open_model(self, info: ModelInfo) -> Model[Any]:
        """The model, ready to be asked; the same object every time.

        The embedded one is loaded, and its weights are fetched if they are not here. Raises
        `ModelUnavailable`, with what to do, if it can't be used.
        """
        async with self._opening.setdefault(info.name, asyncio.Lock()):
            if info.name not in self._open:
                self._open[info.name] = await asyncio.to_thread(self._make, info)
            return self._open[info.name].model

    def _make(self, info: ModelInfo) -> Opened:
        found = self._resolve(info.name)
        if found is None:
            raise self._unknown(info.name)
        if isinstance(found, str):
            return Opened(self._make_embedded())
        problem = find_problem(found[0])
        if problem is not None:
            raise ModelUnavailable(f"{info.name} can't be used: {problem}")
        return open_provider_model(*found)

    def _make_embedded(self) -> Model[Any]:
        from clew.agent.models.engine import INSTALL, Engine  # noqa: PLC0415  # only for this one

        if importlib.util.find_spec("xllamacpp") is None:
            raise ModelUnavailable(INSTALL)
        self._engine = Engine(self.fetch_weights())
        self._engine.load()
        from clew.agent.models.embedded import EmbeddedModel  # noqa: PLC0415  # a second to import

        return EmbeddedModel(self._engine)

    def get_settings(
        self, info: ModelInfo, *, thinking: str | None = None, service_tier: str | None = None
    ) -> dict[str, Any]:
        """Settings for every request: the session's, else the configured default.

        Both are reduced to what the model can do. The tier `none` means no tier.
        """
        settings: dict[str, Any] = {}
        wanted = thinking or self._setup.thinking
        if wanted is not None and info.thinking != ("off",):
            level = clamp_thinking(wanted, info.thinking)
            settings["thinking"] = False if level == "off" else level
        tier = service_tier or self._setup.service_tier
        if tier in info.tiers:
            settings["service_tier"] = tier
        provider = self._providers.get(info.provider)
        if provider is not None and not info.embedded:
            if provider.kind == "anthropic" or is_direct(provider):
                settings["cache"] = True
            if provider.kind == "openai" and is_direct(provider):
                settings["openai_store"] = False  # the conversation is kept here, not there
        return settings

    async def close(self) -> None:
        """Close connections and free the embedded model's memory."""
        opened, self._open = [*self._open.values(), *self._replaced], {}
        self._replaced = []
        for each in opened:
            if each.client is not None:
                await each.client.aclose()
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await asyncio.to_thread(engine.unload)


class _Known(msgspec.Struct):
    version: str
    facts: dict[str, Facts]


class FactCache:
    """Facts by kind of provider and model id, kept in a file of the cache directory."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Facts] | None = None

    def get_facts(self, kind: Kind, model_id: str, *, direct: bool) -> Facts:
        """The facts of a model. `direct`: at the provider's own address."""
        if self._known is None:
            self._known = self._read()
        key = f"{kind}{'' if direct else '*'}/{model_id}"
        if key not in self._known:
            self._known[key] = look_up(kind, model_id, direct=direct)
            self._write()
        return self._known[key]

    def _read(self) -> dict[str, Facts]:
        try:
            known = msgspec.json.decode(self._file.read_bytes(), type=_Known)
        except (OSError, msgspec.MsgspecError):
            return {}
        return known.facts if known.version == _version() else {}

    def _write(self) -> None:
        # Only a cache: without it the next start is slower.
        known = _Known(version=_version(), facts=self._known or {})
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            make_directory(self._file.parent)
            draft.write_bytes(msgspec.json.encode(known))
            draft.replace(self._file)


def _version() -> str:
    """The installed libraries, by their files: asking for their versions takes longer."""
    parts = []
    for name in ("pydantic_ai", "genai_prices"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        found = Path(spec.origin).stat()
        parts.append(f"{name}:{found.st_mtime_ns}:{found.st_size}")
    return " ".join(parts)


def look_up(kind: Kind, model_id: str, *, direct: bool) -> Facts:
    """Ask the libraries for the facts."""
    profile = _profile(kind, model_id)
    thinks = profile.get("supports_thinking") or profile.get("thinking_always_enabled")
    levels: tuple[Thinking, ...] = ("low", "medium", "high") if thinks else ()
    if not profile.get("thinking_always_enabled"):
        levels = ("off", *levels)
    return Facts(
        context_window=_context_window(kind, model_id) if direct else None,
        tools=profile.get("supports_tools", True),
        images=profile.get("supports_image_input", True),
        thinking=levels,
    )


def list_known(kind: Kind) -> tuple[str, ...]:
    """The ids of a provider's models that pydantic-ai knows."""
    _load()
    from pydantic_ai.models import known_model_names  # noqa: PLC0415  # a second to import

    prefix = f"{kind}:"
    return tuple(
        name.removeprefix(prefix) for name in known_model_names() if name.startswith(prefix)
    )


def _load() -> None:
    """Import the whole library first, and wait for another thread that is importing it.

    Python lets one thread into a part of a package that another is still importing; both fail then.
    """
    importlib.import_module("pydantic_ai")


def _profile(kind: Kind, model_id: str) -> dict[str, Any]:
    # The profiles, not the providers: those would import the provider's own library.
    _load()
    from pydantic_ai.profiles.anthropic import (  # noqa: PLC0415  # a second to import
        anthropic_model_profile,
    )
    from pydantic_ai.profiles.google import google_model_profile  # noqa: PLC0415  # a second to import
    from pydantic_ai.profiles.openai import openai_model_profile  # noqa: PLC0415  # a second to import

    ask: dict[str, Any] = {
        "anthropic": anthropic_model_profile,
        "google": google_model_profile,
        "openai": openai_model_profile,
    }
    return dict(ask[kind](model_id) or {})


def _context_window(kind: Kind, model_id: str) -> int | None:
    from genai_prices import data_snapshot  # noqa: PLC0415  # half a second to import

    try:
        _, model = data_snapshot.get_snapshot().find_provider_model(model_id, None, kind, None)
    except LookupError:
        return None
    return model.context_window
